-- What MCP clients may use: profiles, which name tools by patterns, and the operator's own marks of tools that
-- only read; and tokens that are confined to a profile.

CREATE TABLE mcp_setting (
    kind  TEXT NOT NULL,         -- profile or mark
    name  TEXT NOT NULL,         -- of the profile; of the tool: PLUGIN.TOOL
    value TEXT NOT NULL,         -- JSON
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

ALTER TABLE credential ADD COLUMN profile TEXT; -- NULL: it is not confined
