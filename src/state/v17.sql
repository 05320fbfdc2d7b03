-- Models that an org's orchestrators may use: one of the operator's, or a provider that the org brings.

CREATE TABLE llm_config (
    id         TEXT PRIMARY KEY,
    org        TEXT NOT NULL,
    name       TEXT NOT NULL,
    value      TEXT NOT NULL,         -- JSON: what it is, without its key
    box        TEXT,                  -- its key, sealed; NULL: it has none
    created_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX llm_config_name ON llm_config (org, name);
