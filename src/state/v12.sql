-- What plugins asked of people in sessions, and what became of it; answers themselves are not kept.

CREATE TABLE question (
    id TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    agent TEXT,
    plugin TEXT NOT NULL,
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    schema TEXT, -- NULL: it is not a form
    url TEXT,
    asked_ms INTEGER NOT NULL,
    deadline_ms INTEGER NOT NULL,
    state TEXT NOT NULL, -- open, accept, decline, cancel
    answered_by TEXT,
    ended_ms INTEGER NOT NULL -- 0: it is open
) WITHOUT ROWID;
CREATE INDEX question_by_session ON question (session, id);
