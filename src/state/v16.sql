-- Files of a session's folder that are being put back: who finds a row at the start was stopped meanwhile.

CREATE TABLE session_restore (
    session  TEXT PRIMARY KEY, -- the conversation
    snapshot TEXT NOT NULL,    -- the files as they were before
    at_ms    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
