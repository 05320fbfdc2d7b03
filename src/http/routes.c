/* Every route, one row each. Its handler reads a checked request, asks, and writes the answer. */
#include "http/internal.h"

static const struct http_parameter plugin_query[] = {
    {"cage", "boolean", "true: also what its cage lets it see and do, in words"},
    {NULL, NULL, NULL},
};

static const struct http_parameter uninstall_query[] = {
    {"force", "boolean", "true: also while sessions use it"},
    {"keep_storage", "boolean", "true: its database is kept, moved aside"},
    {NULL, NULL, NULL},
};

static const struct http_parameter storage_query[] = {
    {"sql", "string", "one statement that only reads: its rows are the answer"},
    {NULL, NULL, NULL},
};

static const struct http_parameter logs_query[] = {
    {"lines", "count", "how many of the last lines"},
    {"after", "count", "only what came after this cursor"},
    {"wait_ms", "count", "with after: wait so long for something to come"},
    {NULL, NULL, NULL},
};

static const struct http_parameter trace_query[] = {
    {"of", "trace",
     "live: as it happens, which is what goes without saying; recorded: what the recorder has; "
     "crash: what it had when the plugin last died"},
    {NULL, NULL, NULL},
};

static const struct http_parameter audit_query_parameters[] = {
    {"plugin", "string", "only events of this plugin"},
    {"event", "string", "only this event; plugin.hook.* takes all that start so"},
    {"since", "time", "only from this time on: RFC 3339, a date, or a span like 15m"},
    {"after", "string", "only events after the one with this id"},
    {"limit", "count", "how many at most"},
    {"wait_ms", "count", "wait so long for an event to come"},
    {NULL, NULL, NULL},
};

static const struct http_parameter call_headers[] = {
    {"kaged-timeout-ms", "positive", "the caller's own deadline"},
    {NULL, NULL, NULL},
};

static const struct http_parameter events_query[] = {
    {"plugin", "string", "only events of this plugin"},
    {"event", "string",
     "only this notification, new state or audit event; a last * takes all that start so"},
    {"type", "event_type", "only notification, state or audit"},
    {NULL, NULL, NULL},
};

static const struct http_parameter unload_query[] = {
    {"force", "boolean", "true: also while sessions are in it"},
    {NULL, NULL, NULL},
};

static const struct http_parameter agent_query[] = {
    {"tools", "tools_dialect", "openai or anthropic: also its tools as that API takes them"},
    {NULL, NULL, NULL},
};

static const struct http_parameter knob_query[] = {
    {"project", "string", "as an agent of this project has it"},
    {"agent", "string", "that agent, by its path; the primary without it"},
    {NULL, NULL, NULL},
};

static const struct http_parameter launch_query[] = {
    {"token", "string", "the one-time token of a launch URL"},
    {NULL, NULL, NULL},
};

static const struct http_parameter sessions_query[] = {
    {"state", "session_state", "only sessions that are active, idle, stopped or closed"},
    {"before", "string", "only sessions that are older than the one with this id"},
    {"limit", "count", "how many at most"},
    {NULL, NULL, NULL},
};

static const struct http_parameter entries_query[] = {
    {"agent", "string", "only entries of this agent"},
    {"after", "count", "only entries with a larger seq"},
    {"limit", "count", "how many at most"},
    {NULL, NULL, NULL},
};

static const struct http_parameter context_query[] = {
    {"agent", "string", "of this agent, instead of the one that is spoken to"},
    {"tools", "tools_dialect", "also its tools, as openai or anthropic take them"},
    {NULL, NULL, NULL},
};

static const struct http_parameter tool_query[] = {
    {"agent", "string", "for this agent, instead of the one that is spoken to"},
    {NULL, NULL, NULL},
};

static const struct http_parameter secret_query[] = {
    {"force", "boolean", "true: also while it is used"},
    {NULL, NULL, NULL},
};

#define ANY_BODY    SIZE_MAX
#define TOKEN_BODY  ((size_t)4096)
#define SOURCE_BODY ((size_t)4096)

/* In order: method, pattern, permission, body, query, handler, summary. */
const struct http_route http_routes[] = {
    {"GET", "/healthz", "", 0, NULL, http_handle_health, "Whether the daemon answers",
     .operation = "health", .answer = "Health"},
    {"GET", "/metrics", "plugins:read", 0, NULL, http_handle_metrics,
     "Figures of the daemon and its plugins, for Prometheus", .operation = "metrics",
     .answer = "text/plain"},
    {"GET", "/api/v1/status", "plugins:read", 0, NULL, http_handle_status, "The daemon's state",
     .operation = "status", .answer = "Status"},
    {"GET", "/api/v1/openapi.json", "any", 0, NULL, http_handle_openapi,
     "This API as an OpenAPI document", .operation = "openapi", .answer = "OpenApi"},
    {"POST", "/api/v1/reload", "admin", 0, NULL, http_handle_reload, "Read the configuration again",
     .operation = "reload", .answer = "Reload"},
    {"POST", "/api/v1/stop", "admin", 0, NULL, http_handle_stop, "Stop the daemon",
     .operation = "stop", .answer = "Stopping", .status = 202, .at_once = true},
    {"GET", "/api/v1/plugins", "plugins:read", 0, NULL, http_handle_plugins, "All plugins",
     .operation = "plugin_list", .answer = "PluginList"},
    {"GET", "/api/v1/plugins/{name}", "plugins:read", 0, plugin_query, http_reply_plugin,
     "One plugin with its state and its last exit", .operation = "plugin_status",
     .answer = "Plugin"},
    {"POST", "/api/v1/plugins", "plugins:write", SOURCE_BODY, NULL, http_handle_plugin_install,
     "Fetch a plugin, and offer it for consent", .operation = "plugin_install", .answer = "Consent",
     .status = 202, .body = "Source"},
    {"POST", "/api/v1/dev", "admin", SOURCE_BODY, NULL, http_handle_dev,
     "Run a plugin from its author's folder while he changes it: what happens, one object a line",
     .operation = "plugin_dev", .answer = "application/x-ndjson", .body = "DevWanted"},
    {"DELETE", "/api/v1/plugins/{name}", "plugins:write", 0, uninstall_query,
     http_handle_plugin_uninstall, "Stop a plugin and remove it", .operation = "plugin_uninstall",
     .answer = "Uninstalled"},
    {"POST", "/api/v1/plugins/{name}/upgrade", "plugins:write", SOURCE_BODY, NULL,
     http_handle_plugin_upgrade, "Fetch another version of a plugin, and offer it for consent",
     .operation = "plugin_upgrade", .answer = "Consent", .status = 202, .body = "Source"},
    {"POST", "/api/v1/plugins/{name}/approve", "plugins:write", 0, NULL, http_handle_plugin_approve,
     "Offer the files of a plugin, as they are, for consent", .operation = "plugin_approve",
     .answer = "Consent", .status = 202},
    {"POST", "/api/v1/plugins/{name}/promote", "plugins:write", 0, NULL, http_handle_plugin_promote,
     "Make a plugin available to every project", .operation = "plugin_promote", .answer = "Plugin"},
    {"POST", "/api/v1/plugins/{name}/enable", "plugins:write", 0, NULL, http_handle_enable,
     "Enable and start a plugin", .operation = "plugin_enable", .answer = "Plugin"},
    {"POST", "/api/v1/plugins/{name}/disable", "plugins:write", 0, NULL, http_handle_disable,
     "Stop and disable a plugin", .operation = "plugin_disable", .answer = "Plugin"},
    {"POST", "/api/v1/plugins/{name}/restart", "plugins:write", 0, NULL, http_handle_restart,
     "Restart a plugin", .operation = "plugin_restart", .answer = "Plugin"},
    {"POST", "/api/v1/plugins/{name}/reload", "plugins:write", 0, NULL, http_handle_plugin_reload,
     "Read a plugin's manifest and configuration again", .operation = "plugin_reload",
     .answer = "PluginReload"},
    {"POST", "/api/v1/plugins/{name}/grant", "admin", ANY_BODY, NULL, http_handle_grant,
     "Grant a plugin what its manifest does not declare, or open what was closed",
     .operation = "plugin_grant", .answer = "Granted", .body = "GrantWanted"},
    {"POST", "/api/v1/plugins/{name}/revoke", "admin", ANY_BODY, NULL, http_handle_revoke,
     "Take from a plugin what it was granted, or close what its manifest declares",
     .operation = "plugin_revoke", .answer = "Granted", .body = "GrantWanted"},
    {"GET", "/api/v1/plugins/{name}/logs", "plugins:read", 0, logs_query, http_handle_logs,
     "What a plugin wrote on stderr", .operation = "plugin_logs", .answer = "Logs"},
    {"GET", "/api/v1/plugins/{name}/tools", "plugins:read", 0, NULL, http_handle_tools,
     "The tools that a plugin declares", .operation = "plugin_tools", .answer = "Tools"},
    {"POST", "/api/v1/plugins/{name}/tools", "plugins:write", SOURCE_BODY, NULL,
     http_handle_tools_decide, "Approve the tools of a server, or switch one off or on",
     .operation = "plugin_tools_decide", .answer = "Tools", .body = "ToolsDecision"},
    {"GET", "/api/v1/plugins/{name}/knobs", "plugins:read", 0, knob_query, http_handle_knobs,
     "The knobs that a plugin declares, with their values", .operation = "plugin_knobs",
     .answer = "Knobs"},
    {"PUT", "/api/v1/plugins/{name}/knobs/{knob}", "projects:write", ANY_BODY, knob_query,
     http_handle_knob_write, "Turn a knob for an agent: its project's file is changed",
     .operation = "plugin_knob_write", .answer = "KnobWritten", .body = "KnobWanted"},
    {"GET", "/api/v1/plugins/{name}/schema", "plugins:read", 0, NULL, http_handle_schema,
     "The schemas that a plugin declares, of its configuration and its methods",
     .operation = "plugin_schema", .answer = "DeclaredSchemas"},
    {"GET", "/api/v1/plugins/{name}/storage", "plugins:read", 0, storage_query, http_handle_storage,
     "What a plugin has stored", .operation = "plugin_storage", .answer = "StorageAnswer"},
    {"POST", "/api/v1/plugins/{name}/storage/export", "admin", 0, NULL, http_handle_storage_export,
     "Copy a plugin's database to a file in the state folder", .operation = "plugin_storage_export",
     .answer = "StorageExport"},
    {"POST", "/api/v1/plugins/{name}/storage/reset", "plugins:write", 0, NULL,
     http_handle_storage_reset, "Start with an empty database after one was damaged",
     .operation = "plugin_storage_reset", .answer = "Storage"},
    {"GET", "/api/v1/plugins/{name}/why", "plugins:read", 0, NULL, http_handle_why,
     "What a plugin was refused, and what would allow it", .operation = "plugin_why",
     .answer = "Refusals"},
    {"GET", "/api/v1/plugins/{name}/trace", "admin", 0, trace_query, http_handle_trace,
     "What is said with a plugin, one record a line; secrets are redacted",
     .operation = "plugin_trace", .answer = "application/x-ndjson"},
    {"POST", "/api/v1/plugins/{name}/trace", "admin", SOURCE_BODY, NULL, http_handle_trace_switch,
     "Switch the recorder of a plugin on or off", .operation = "plugin_trace_switch",
     .answer = "TraceRecorder", .body = "TraceSwitch"},
    {"GET", "/api/v1/plugins/{name}/call/{method}", "plugins:call", 0, NULL,
     http_handle_call_by_query, "Call a method, parameters in the query",
     .operation = "plugin_call_by_query", .answer = "Result", .headers = call_headers,
     .any_query = true},
    {"POST", "/api/v1/plugins/{name}/call/{method}", "plugins:call", ANY_BODY, NULL,
     http_handle_call, "Call a method, parameters in the body", .operation = "plugin_call",
     .answer = "Result", .body = "Params", .passes_body = true, .headers = call_headers},
    {"GET", "/", "", 0, launch_query, http_handle_root,
     "With a launch token: a session for the browser", .operation = "root", .answer = "text/plain"},
    {"GET", "/auth/launch", "", 0, launch_query, http_handle_launch,
     "A session for the browser, as a cookie", .operation = "launch", .answer = "text/plain",
     .status = 303},
    {"POST", "/api/v1/launch", "admin", 0, NULL, http_handle_launch_make,
     "The launch URL that waits to be used, or a new one", .operation = "launch_make",
     .answer = "Launch", .status = 201},
    {"GET", "/api/v1/session", "any", 0, NULL, http_handle_session,
     "Who asks, what he may do, and his CSRF token", .operation = "session", .answer = "Session"},
    {"DELETE", "/api/v1/session", "any", 0, NULL, http_handle_session_end, "Log out",
     .operation = "session_end", .status = 204},
    {"GET", "/api/v1/tokens", "admin", 0, NULL, http_handle_tokens, "All API tokens",
     .operation = "token_list", .answer = "TokenList"},
    {"POST", "/api/v1/tokens", "admin", TOKEN_BODY, NULL, http_handle_token_create,
     "Make an API token of {name, scopes, expires}; its text is in this answer only",
     .operation = "token_create", .answer = "TokenMade", .body = "TokenWanted", .status = 201},
    {"DELETE", "/api/v1/tokens/{id}", "admin", 0, NULL, http_handle_token_revoke,
     "Revoke an API token, by its id or name", .operation = "token_revoke", .answer = "Token"},
    {"GET", "/api/v1/secrets", "admin", 0, NULL, http_handle_secrets,
     "All secrets, with who uses them; no values", .operation = "secret_list",
     .answer = "SecretList"},
    {"GET", "/api/v1/secrets/{secret}", "admin", 0, NULL, http_handle_secret,
     "One secret, with who uses it; not its value", .operation = "secret_show", .answer = "Secret"},
    {"PUT", "/api/v1/secrets/{secret}", "admin", ANY_BODY, NULL, http_handle_secret_set,
     "Set a secret, which cannot be read back; plugins that use it are told",
     .operation = "secret_set", .answer = "Secret", .body = "SecretWanted"},
    {"DELETE", "/api/v1/secrets/{secret}", "admin", 0, secret_query, http_handle_secret_remove,
     "Remove a secret", .operation = "secret_remove", .answer = "SecretRemoved"},
    {"POST", "/api/v1/secrets/rotate", "admin", 0, NULL, http_handle_secrets_rotate,
     "Seal all secrets with a new key", .operation = "secret_rotate", .answer = "SecretList"},
    {"GET", "/api/v1/consents", "plugins:read", 0, NULL, http_handle_consents,
     "What waits for the operator's word, and what was answered", .operation = "consent_list",
     .answer = "ConsentList"},
    {"GET", "/api/v1/consents/{id}", "plugins:read", 0, NULL, http_handle_consent,
     "One consent, with what is offered", .operation = "consent_show", .answer = "Consent"},
    {"POST", "/api/v1/consents/{id}/approve", "consents:write", SOURCE_BODY, NULL,
     http_handle_consent_approve, "Let it be fetched; or, with its hash, take what was shown",
     .operation = "consent_approve", .answer = "Consent", .status = 202, .body = "Approval"},
    {"POST", "/api/v1/consents/{id}/decline", "consents:write", 0, NULL,
     http_handle_consent_decline, "Say no", .operation = "consent_decline", .answer = "Consent"},
    {"GET", "/api/v1/projects", "projects:read", 0, NULL, http_handle_projects,
     "All projects that are loaded", .operation = "project_list", .answer = "ProjectList"},
    {"POST", "/api/v1/projects", "projects:write", SOURCE_BODY, NULL, http_handle_project_load,
     "Load a project, or read it again", .operation = "project_load", .answer = "Project",
     .body = "ProjectWanted"},
    {"GET", "/api/v1/projects/{id}", "projects:read", 0, NULL, http_handle_project,
     "One project with all that its agents have", .operation = "project_show", .answer = "Project"},
    {"DELETE", "/api/v1/projects/{id}", "projects:write", 0, unload_query,
     http_handle_project_unload, "Forget a project; its files stay", .operation = "project_unload",
     .answer = "Unloaded"},
    {"POST", "/api/v1/projects/{id}/reload", "projects:write", 0, NULL, http_handle_project_reload,
     "Read a project's file again, and say what changed", .operation = "project_reload",
     .answer = "Project"},
    {"GET", "/api/v1/projects/{id}/agents", "projects:read", 0, NULL, http_handle_agents,
     "The agents of a project", .operation = "agent_list", .answer = "AgentList"},
    {"GET", "/api/v1/projects/{id}/agents/{path}", "projects:read", 0, agent_query,
     http_handle_agent, "One agent with its plugins, tools and settings", .operation = "agent_show",
     .answer = "Agent"},
    {"POST", "/api/v1/projects/{id}/sessions", "sessions:write", ANY_BODY, NULL,
     http_handle_session_create, "Begin a session", .operation = "session_create",
     .answer = "AgentSession", .body = "SessionWanted", .status = 201},
    {"GET", "/api/v1/projects/{id}/sessions", "sessions:read", 0, sessions_query,
     http_handle_sessions, "The sessions of a project, the newest first",
     .operation = "project_sessions", .answer = "AgentSessions"},
    {"GET", "/api/v1/sessions", "sessions:read", 0, sessions_query, http_handle_sessions,
     "All sessions, the newest first", .operation = "session_list", .answer = "AgentSessions"},
    {"GET", "/api/v1/sessions/{id}", "sessions:read", 0, NULL, http_handle_session_show,
     "One session", .operation = "session_show", .answer = "AgentSession"},
    {"DELETE", "/api/v1/sessions/{id}", "sessions:write", 0, NULL, http_handle_session_close,
     "Close a session; what was said stays", .operation = "session_close",
     .answer = "AgentSession"},
    {"GET", "/api/v1/sessions/{id}/entries", "sessions:read", 0, entries_query,
     http_handle_session_entries, "What was said, in its order", .operation = "session_entries",
     .answer = "SessionEntries"},
    {"GET", "/api/v1/sessions/{id}/context", "sessions:read", 0, context_query,
     http_handle_session_context, "What the model of an agent would be sent",
     .operation = "session_context", .answer = "SessionContext"},
    {"POST", "/api/v1/sessions/{id}/messages", "sessions:write", ANY_BODY, NULL,
     http_handle_session_messages, "Add messages, without asking a model",
     .operation = "session_messages", .answer = "SessionAdded", .body = "SessionMessages"},
    {"POST", "/api/v1/sessions/{id}/tools/{tool}", "sessions:write", ANY_BODY, tool_query,
     http_handle_session_tool, "Call a tool, its arguments in the body; call and result are kept",
     .operation = "session_tool", .answer = "SessionTool", .body = "Params", .passes_body = true},
    {"POST", "/api/v1/sessions/{id}/idle", "sessions:write", 0, NULL, http_handle_session_idle,
     "Tell the plugins that the session is idle", .operation = "session_idle",
     .answer = "SessionIdle"},
    {"POST", "/api/v1/sessions/{id}/compact", "sessions:write", SOURCE_BODY, NULL,
     http_handle_session_compact, "Make the context of an agent smaller",
     .operation = "session_compact", .answer = "SessionCompacted", .body = "SessionCompact"},
    {"POST", "/api/v1/sessions/{id}/undo-compact", "sessions:write", SOURCE_BODY, NULL,
     http_handle_session_undo, "Take the latest compaction of an agent back",
     .operation = "session_undo_compact", .answer = "SessionUndone", .body = "SessionAgent"},
    {"POST", "/api/v1/sessions/{id}/pin", "sessions:write", SOURCE_BODY, NULL,
     http_handle_session_pin, "Keep an entry in its context, whatever is compacted",
     .operation = "session_pin", .answer = "SessionEntry", .body = "SessionPin"},
    {"POST", "/api/v1/sessions/{id}/fork", "sessions:write", SOURCE_BODY, NULL,
     http_handle_session_fork, "Make a session of all up to an entry", .operation = "session_fork",
     .answer = "AgentSession", .body = "SessionFork", .status = 201},
    {"POST", "/api/v1/sessions/{id}/resume", "sessions:write", SOURCE_BODY, NULL,
     http_handle_session_resume, "Let a session go on, maybe with another agent",
     .operation = "session_resume", .answer = "AgentSession", .body = "SessionSeat"},
    {"POST", "/api/v1/sessions/{id}/runs", "sessions:write", ANY_BODY, NULL, http_handle_run,
     "Say something, and have the agent's model answer: events of the turn, one a line",
     .operation = "session_run", .answer = "application/x-ndjson", .body = "SessionRun"},
    {"POST", "/api/v1/sessions/{id}/cancel", "sessions:write", 0, NULL, http_handle_run_cancel,
     "End the turn that runs, if one does", .operation = "session_cancel",
     .answer = "SessionCancelled"},
    {"GET", "/api/v1/audit", "audit:read", 0, audit_query_parameters, http_handle_audit,
     "Events of the audit log", .operation = "audit", .answer = "Audit"},
    {"GET", "/api/v1/events", "plugins:read", 0, events_query, http_handle_events,
     "A WebSocket of events as they happen", .operation = "events", .status = 101},
};
const size_t http_route_count = KG_COUNT(http_routes);
