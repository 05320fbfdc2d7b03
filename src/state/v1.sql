-- The first schema: one signed head of the audit log, and the operator's choices.

CREATE TABLE audit_head (
    id          INTEGER PRIMARY KEY CHECK (id = 1), -- there is one log, so there is one row
    first_block INTEGER NOT NULL,
    first_prev  BLOB NOT NULL CHECK (length(first_prev) = 32),
    block       INTEGER NOT NULL,
    events      INTEGER NOT NULL,
    hash        BLOB NOT NULL CHECK (length(hash) = 32),
    signature   BLOB NOT NULL CHECK (length(signature) = 64)
) STRICT;

CREATE TABLE plugin_choice (
    plugin  TEXT PRIMARY KEY,
    enabled INTEGER NOT NULL CHECK (enabled IN (0, 1))
) STRICT, WITHOUT ROWID;
