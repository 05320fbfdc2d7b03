-- What lets somebody in over TCP: API tokens and browsers' sessions. Only the hash of a secret is kept.

CREATE TABLE credential (
    id          TEXT PRIMARY KEY,
    kind        TEXT NOT NULL CHECK (kind IN ('token', 'session')),
    hash        BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    name        TEXT NOT NULL,    -- the operator's word for a token; of a session empty
    scopes      TEXT NOT NULL,    -- separated by commas
    operator_id TEXT NOT NULL,    -- for whom it speaks
    created_ms  INTEGER NOT NULL,
    expires_ms  INTEGER NOT NULL  -- 0: never
) STRICT, WITHOUT ROWID;
