-- Processes of plugins that failed: they are not started any more until the operator enables them,
-- whatever happens to the daemon meanwhile.

CREATE TABLE plugin_failure (
    process TEXT PRIMARY KEY,     -- the plugin, or plugin@project
    reason  TEXT NOT NULL
) STRICT, WITHOUT ROWID;
