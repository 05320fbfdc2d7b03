-- Branches: a conversation, which its public id names, stands on one row of session and can move to another.
-- The row that it left has an id of its own since, and keeps whose it was. What was moved can be redone.

ALTER TABLE session ADD COLUMN branch TEXT NOT NULL DEFAULT ''; -- names the row for good
ALTER TABLE session ADD COLUMN left_by TEXT;                    -- the conversation that left it; NULL: none
UPDATE session SET branch = 'br_' || substr(id, 5);
CREATE UNIQUE INDEX session_by_branch ON session (branch);

CREATE TABLE session_move (
    number      INTEGER PRIMARY KEY,
    session     TEXT NOT NULL,    -- the conversation
    act         TEXT NOT NULL,    -- undo, redo, rewind, fork or switch
    from_branch TEXT NOT NULL,
    to_branch   TEXT NOT NULL,
    entry       TEXT,             -- the last of what the new branch was made with
    snapshot    TEXT,             -- the files as they were before; NULL: they were left alone
    redone      INTEGER NOT NULL, -- whether it was taken back since
    at_ms       INTEGER NOT NULL
) STRICT;
CREATE INDEX session_move_of ON session_move (session, number);

-- Files of sessions' folders at some moment; where they are is known to src/snapshot.
CREATE TABLE session_snapshot (
    id       TEXT PRIMARY KEY,
    session  TEXT NOT NULL,       -- the conversation
    entry    TEXT NOT NULL,       -- its last one then; "": it had none
    folder   TEXT NOT NULL,
    way      TEXT NOT NULL,       -- git or copy
    tree     TEXT NOT NULL,       -- what the helper knows it by
    files    INTEGER NOT NULL,
    bytes    INTEGER NOT NULL,
    left_out TEXT NOT NULL,       -- JSON: paths that are not in it, and why
    at_ms    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX session_snapshot_of ON session_snapshot (session, id);
