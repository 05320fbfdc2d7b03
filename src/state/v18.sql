-- Orchestrators: projects of an org that are kept here and not in a file.

CREATE TABLE orchestrator (
    id         TEXT PRIMARY KEY,
    org        TEXT NOT NULL,
    name       TEXT NOT NULL,
    framework  TEXT NOT NULL,
    mode       TEXT NOT NULL,
    tier       TEXT NOT NULL,
    whoami     TEXT,                  -- what it is told of itself; NULL: nothing
    config     TEXT NOT NULL,         -- JSON: the model, and whatever its owner keeps there
    plugins    TEXT NOT NULL,         -- JSON: pids in order, each with its version, whether it is active, its settings
    deleted    INTEGER NOT NULL CHECK (deleted IN (0, 1)),
    created_by TEXT,
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX orchestrator_name ON orchestrator (org, name) WHERE deleted = 0;
