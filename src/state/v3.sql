-- What projects want of the operator: consents to plugins, and the plugins that they may use.

CREATE TABLE consent (
    id          TEXT PRIMARY KEY,
    kind        TEXT NOT NULL,
    state       TEXT NOT NULL,
    project     TEXT NOT NULL,
    plugin      TEXT NOT NULL,
    source      TEXT,             -- NULL: not specified
    base        TEXT,             -- the folder that a relative source starts from
    version     TEXT,             -- NULL: any
    reason      TEXT,             -- of a failure
    answered_by TEXT,
    raised_ms   INTEGER NOT NULL,
    changed_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE activation (
    project     TEXT NOT NULL,
    plugin      TEXT NOT NULL,
    consent     TEXT NOT NULL,    -- the one that was answered with yes
    operator_id TEXT NOT NULL,
    at_ms       INTEGER NOT NULL,
    PRIMARY KEY (project, plugin)
) STRICT, WITHOUT ROWID;
