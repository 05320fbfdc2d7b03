-- The projects that the daemon knows, and those that it knew: activations are of a name in one
-- folder, and do not pass to a project of that name elsewhere.

CREATE TABLE project (
    id          TEXT PRIMARY KEY,
    root        TEXT NOT NULL,
    file        TEXT NOT NULL,    -- below the root
    watched     INTEGER NOT NULL CHECK (watched IN (0, 1)),
    operator_id TEXT,             -- who loaded it; NULL: unknown
    loaded_ms   INTEGER           -- NULL: it was unloaded
) STRICT, WITHOUT ROWID;
