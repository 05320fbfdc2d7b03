-- What MCP clients called, bounded in size and age.

CREATE TABLE mcp_call (
    id          INTEGER PRIMARY KEY,
    at_ms       INTEGER NOT NULL,  -- wall clock, of its end
    client      TEXT NOT NULL,     -- what it says it is
    owner       TEXT NOT NULL,     -- by which door and credential it came
    operator_id TEXT,
    project     TEXT,
    plugin      TEXT NOT NULL,
    tool        TEXT NOT NULL,
    bytes_in    INTEGER NOT NULL,
    bytes_out   INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL,
    outcome     TEXT NOT NULL,
    arguments   TEXT,              -- as they may be shown; NULL: they are not kept
    result      TEXT,              -- the same, cut
    size        INTEGER NOT NULL   -- of all of it
) STRICT;
CREATE INDEX mcp_call_at ON mcp_call (at_ms);
