-- Sessions: what was said, in its order, and which of it a model still sees. Nothing is deleted: an
-- entry that a compaction left out is superseded, and an undone compaction supersedes itself.

CREATE TABLE session (
    number       INTEGER PRIMARY KEY, -- what the other tables name it by
    id           TEXT NOT NULL UNIQUE,
    project_id   TEXT NOT NULL,
    workdir      TEXT NOT NULL,
    seat         TEXT NOT NULL,       -- the agent that is spoken to
    state        TEXT NOT NULL CHECK (state IN ('active', 'idle', 'stopped', 'closed')),
    operator_id  TEXT NOT NULL,
    created_ms   INTEGER NOT NULL,
    updated_ms   INTEGER NOT NULL,
    parent       TEXT,                -- of a fork: the session that it was made of,
    parent_entry TEXT,                -- and the entry at which
    entries      INTEGER NOT NULL     -- how many there are, which is the last one's seq
) STRICT;
CREATE INDEX session_by_project ON session (project_id, id);

-- Apart from the entries: forks share it, and a walk over entries does not drag it along.
CREATE TABLE session_content (
    number INTEGER PRIMARY KEY,
    bytes  BLOB NOT NULL
) STRICT;

CREATE TABLE session_entry (
    session    INTEGER NOT NULL,
    seq        INTEGER NOT NULL, -- 1, 2, 3, ... in the order they came
    id         TEXT NOT NULL,
    agent      TEXT NOT NULL,
    kind       TEXT NOT NULL,
    role       TEXT NOT NULL,
    source     TEXT,             -- the plugin whose text it is
    parent     TEXT,             -- of a result its call, of what a compaction made its mark
    rank       INTEGER NOT NULL, -- the order in an agent's context
    superseded INTEGER,          -- the seq of the mark that left it out
    pinned     INTEGER NOT NULL CHECK (pinned IN (0, 1)),
    created_ms INTEGER NOT NULL,
    tokens     INTEGER NOT NULL, -- 0: never in a context
    bytes      INTEGER NOT NULL,
    content    INTEGER NOT NULL, -- session_content.number
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX session_entry_by_id ON session_entry (session, id);
CREATE INDEX session_entry_live ON session_entry (session, agent, rank) WHERE superseded IS NULL;
CREATE UNIQUE INDEX session_entry_result ON session_entry (session, parent) WHERE kind = 'tool_result';
CREATE INDEX session_entry_made ON session_entry (session, parent)
    WHERE parent IS NOT NULL AND kind <> 'tool_result';
CREATE INDEX session_entry_mark ON session_entry (session, agent, seq)
    WHERE kind IN ('compaction', 'checkpoint');

-- What an agent's context amounts to, so that nobody has to add it up.
CREATE TABLE session_agent (
    session    INTEGER NOT NULL,
    path       TEXT NOT NULL,
    entries    INTEGER NOT NULL, -- in its context
    tokens     INTEGER NOT NULL, -- estimated, of them
    generation INTEGER NOT NULL, -- grows when the context is rewritten
    PRIMARY KEY (session, path)
) STRICT, WITHOUT ROWID;
