/*
 * .kaged/project.yaml: the agents of a project and, for each, the plugins that it uses. A stranger
 * may have written it. It is read whole or not at all; all that is wrong is reported at once.
 *
 *   project_read, project_load   the file, checked by itself
 *   project_resolve              each agent's plugins, hooks, tools and configuration, from the
 *                                file, the installed plugins and the operator's defaults
 *   project_view, project_words  the resolved project as JSON and for people
 *   project_diff                 what changed from one resolved project to another
 *   project_tools_json           the tools of an agent, as the APIs of models take them
 *   project_set_config           one setting changed in the file, all else left alone
 *
 * Nothing here runs a plugin or talks to one. Resolving may take a while (schemas are checked): a
 * program with a loop does it on a worker.
 */
#ifndef KAGED_PROJECT_H
#define KAGED_PROJECT_H

#include "base/problems.h"
#include "config/local.h"
#include "manifest/manifest.h"

#define PROJECT_FILE "project.yaml" /* in the folder .kaged of the project's root */
#define PROJECT_DIR  ".kaged"

#define PROJECT_FILE_BYTES_MAX   262144
#define PROJECT_PROMPT_BYTES_MAX 65536
#define PROJECT_DEPTH_MAX        8 /* agents in a path: the primary is 1 */
#define PROJECT_AGENTS_MAX       64
#define PROJECT_DECLARATIONS_MAX 256                /* of plugins, by all agents together */
#define PROJECT_CONFIG_BYTES_MAX ((size_t)16 << 20) /* of all resolved configurations in memory */
#define PROJECT_TOOLS_ADVISED    128                /* of an agent; some models take no more */

/* -- what can be wrong ------------------------------------------------------------------------- */

/* One row of problems.def is the whole truth about one problem. */
enum project_code {
#define PROJECT_PROBLEM(symbol, code, severity, meaning) PROJECT_##symbol,
#include "project/problems.def"
#undef PROJECT_PROBLEM
    PROJECT_CODE_COUNT
};
extern const struct kg_problem_row project_rows[PROJECT_CODE_COUNT];
/* The first error, as kg_problems_fail tells it: KG_E_INVALID_PROJECT. */
int project_problems_fail(const struct kg_problems *problems, const char *path, struct kg_err *err);

/* -- the file ---------------------------------------------------------------------------------- */

enum project_isolation { PROJECT_ISOLATION_AGENT, PROJECT_ISOLATION_PROJECT };
extern const char *const project_isolation_names[]; /* "agent", "project" */

enum project_strategy {
    PROJECT_STRATEGY_UNSET,
    PROJECT_STRATEGY_DROP,
    PROJECT_STRATEGY_SUMMARIZE,
    PROJECT_STRATEGY_DELEGATE,
    PROJECT_STRATEGY_CHECKPOINT,
};
extern const char *const project_strategy_names[]; /* NULL for the first; ended by NULL */

/* plugins.NAME of an agent, as it is written. */
struct project_declaration {
    const char *name;               /* the agent's word for it; not the plugin's own name */
    const struct kg_member *member; /* the whole of it, with its place */
    const char *package;            /* NULL if absent, like all that follow */
    const char *version;            /* a range */
    const char *source;
    const struct kg_node *hooks;
    const struct kg_node *isolation_node;
    enum project_isolation isolation;
    const struct kg_node *config; /* an object */
    /* The primary's declaration, which this one inherits from; NULL: from none. */
    const struct project_declaration *base;
};

/* An entry of `tools:`. */
struct project_switch {
    const char *tool;
    const struct kg_member *member;
    bool enabled;
};

struct project_compaction {
    const struct kg_node *node;     /* NULL: nothing is said */
    double threshold;               /* 0: not said */
    enum project_strategy strategy; /* delegate, if only a plugin is named */
    const char *delegate;           /* the agent's word for a plugin; NULL: none */
    int64_t keep_recent;            /* turns; negative: not said */
    const char *summary_model;      /* NULL: not said */
};

#define PROJECT_NO_PARENT SIZE_MAX

struct project_agent {
    const char *path; /* "primary", "primary.subagents.researcher" */
    size_t parent;    /* its index; PROJECT_NO_PARENT for the primary */
    unsigned depth;   /* 1 for the primary */
    const struct kg_node *node;
    const char *model;       /* NULL if absent */
    const char *prompt;      /* the text; NULL if there is none, or its file was not read */
    const char *prompt_file; /* relative to the root; NULL if it stands in the file itself */
    const char *description; /* for the agent above it; NULL if absent */
    bool delegates;          /* its model may hand work to its subagents */
    struct project_declaration *declarations; /* owned, in order */
    size_t declaration_count;
    struct project_switch *switches; /* owned */
    size_t switch_count;
    struct project_compaction compaction;
};

/* Texts and nodes live in `doc`. */
struct project {
    struct kg_doc *doc; /* owned */
    const char *name;
    struct project_agent *agents; /* owned; the primary first, parents before their children */
    size_t agent_count;
};

/* NULL if there is an error among the problems; warnings alone do not fail. Reads no prompts. */
struct project *project_read(struct kg_str text, struct kg_problems *problems);
void project_free(struct project *project);

/* Where a project is: its root, and the file below it. Both owned. */
struct project_location {
    char *root; /* absolute */
    char *file; /* relative to the root; "": it has none */
    char *path; /* of the file: root and file */
};
/* path: the project's root, its .kaged, or the file itself. */
int project_locate(const char *path, struct project_location *ret_location, struct kg_err *err);
/* path: a folder that is a project without a file. */
int project_locate_folder(const char *path, struct project_location *ret_location,
                          struct kg_err *err);
/* Either: a folder without a .kaged has no file. */
int project_locate_any(const char *path, struct project_location *ret_location, struct kg_err *err);
void project_location_free(struct project_location *location); /* also for kg_auto */
/*
 * Reads the file and the prompts that it names. None of them may be reached by a link that leads
 * out of the root. A file that cannot be read is a problem, too.
 */
struct project *project_load(const struct project_location *location, struct kg_problems *problems);

/* -- the resolved project ---------------------------------------------------------------------- */

/* Where a value of the configuration comes from; a later one goes over an earlier one. */
enum project_origin {
    PROJECT_ORIGIN_SCHEMA,   /* the default of the plugin's config_schema */
    PROJECT_ORIGIN_OPERATOR, /* `config` of local.toml */
    PROJECT_ORIGIN_PRIMARY,  /* the primary's declaration, under isolation: project */
    PROJECT_ORIGIN_AGENT,    /* the agent's own declaration */
};
extern const char *const project_origin_names[]; /* "schema", "operator", "primary", "agent" */

struct project_setting {
    const char *key;
    const struct kg_node *value;
    enum project_origin origin;
    bool sensitive; /* its schema says "sensitive": true; views hide it */
};

/* A secret that the plugin's system_config_schema names; its value is never here. */
struct project_secret {
    const char *key;
    bool required, set;
};

struct project_tool {
    const char *name;      /* "memory-markdown.recall" */
    const char *wire_name; /* as models call it: "memory-markdown__recall" */
    const char *description;
    const char *parameters; /* JSON Schema; NULL: anything goes */
};

/* The tool by which an agent hands work to one of its subagents. */
struct project_handoff {
    struct project_tool tool; /* "agent.researcher", "agent__researcher" */
    const char *agent;        /* the subagent's path */
    bool enabled;
};

/* An installed plugin, as it was when the project was resolved. */
struct project_plugin {
    const char *package, *name, *version;
    struct project_tool *tools;
    size_t tool_count;
};

enum project_state {
    PROJECT_READY,
    PROJECT_NOT_INSTALLED,
    PROJECT_WRONG_VERSION,
    PROJECT_REFUSED, /* another plugin of the agent is in its way */
    PROJECT_MISCONFIGURED,
};
extern const char *const project_state_names[]; /* "ready", "not_installed", ... */

/* A plugin as one agent has it. Only one that is ready has hooks, roles and tools. */
struct project_use {
    const char *name; /* the agent's word for it */
    const char *package;
    const char *version, *source;        /* NULL if nothing is asked for */
    const struct project_plugin *plugin; /* NULL: not installed */
    enum project_state state;
    const char *reason; /* why it is not ready; NULL if it is */
    enum project_isolation isolation;
    bool hooks[MANIFEST_HOOK_COUNT]; /* those that are called for this agent */
    unsigned roles;                  /* bits of enum manifest_role */
    bool *tools;                     /* whether each of the plugin's is on; NULL without plugin */
    /* The project's side, defaults put in; an object. NULL: the plugin takes none. */
    const struct kg_node *config;
    struct project_setting *settings; /* its members */
    size_t setting_count;
    struct project_secret *secrets;
    size_t secret_count;
};

struct project_resolved_agent {
    const char *path;
    size_t parent; /* its index; PROJECT_NO_PARENT for the primary */
    const char *model, *prompt, *prompt_file;
    struct project_compaction compaction; /* its node is NULL */
    struct project_use *uses;             /* in the order of the file */
    size_t use_count;
    const char *description;
    bool delegates;
    struct project_handoff *handoffs; /* one for each subagent, if it delegates */
    size_t handoff_count;
};

/* What is wrong with a plugin of an agent, for the audit log, which has an event of that code. */
struct project_finding {
    enum project_code code;
    const char *agent;        /* its path */
    const char *plugin;       /* its own name */
    const char *use;          /* the agent's word for it */
    const char *other;        /* the agent's word for the one that is in its way; NULL: none */
    const char *other_plugin; /* its own name */
    const char *what;         /* the hook or tool; of a configuration, a JSON list of the errors */
};

/* Owns all that it shows; what it was made of may go away. */
struct project_resolved;
const char *project_resolved_name(const struct project_resolved *resolved);
size_t project_resolved_count(const struct project_resolved *resolved); /* of agents */
const struct project_resolved_agent *project_resolved_at(const struct project_resolved *resolved,
                                                         size_t index);
/* NULL if there is none. */
const struct project_resolved_agent *project_resolved_find(const struct project_resolved *resolved,
                                                           struct kg_str path);
/* The same, with KG_E_NOT_FOUND and the nearest path; a project that was not read has no agents. */
const struct project_resolved_agent *
project_agent_find(const struct project_resolved *resolved_or_null, struct kg_str path,
                   struct kg_err *err);
const struct project_finding *project_resolved_findings(const struct project_resolved *resolved,
                                                        size_t *ret_count);
void project_resolved_free(struct project_resolved *resolved);

/* What a project meets. */
struct project_world {
    const struct manifest *const *manifests; /* of the installed plugins */
    size_t manifest_count;
    const struct local *local; /* the operator's; NULL: nothing is said */
};
/*
 * Never fails as a whole: a plugin that cannot be used is there with its reason, and in the
 * problems, whose places are in the project's file.
 */
struct project_resolved *project_resolve(const struct project *project,
                                         const struct project_world *world,
                                         struct kg_problems *problems);

/* The tool of that name that is on for the agent, of a plugin that is ready; else NULL. */
const struct project_tool *project_tool_find(const struct project_resolved_agent *agent,
                                             struct kg_str name,
                                             const struct project_use **ret_use);
/* The same by the name that models call it by. */
const struct project_tool *project_tool_called(const struct project_resolved_agent *agent,
                                               struct kg_str wire_name,
                                               const struct project_use **ret_use);

/* The tool of that name, ours or the models', that hands work to a subagent and is on; or NULL. */
const struct project_handoff *project_handoff_find(const struct project_resolved_agent *agent,
                                                   struct kg_str name);

/* Whether the plugin's config_schema calls that field sensitive: views hide it. */
bool project_hides(const struct manifest *manifest, const char *key);
/*
 * The same of any schema of an object. *work: how many nodes of the schema may still be looked at;
 * when it is used up, nothing may be shown. See sensitive.c.
 */
bool project_is_sensitive(const struct kg_node *schema, struct kg_str key, size_t *work);
/* Whether a schema calls anything sensitive. */
bool project_schema_is_sensitive(const struct kg_node *schema);

/* -- shown ------------------------------------------------------------------------------------- */

/* One object. Values that are sensitive are not in it. problems may be NULL. */
void project_view(const struct project_resolved *resolved, const struct kg_problems *problems,
                  struct kg_json_writer *json);
void project_agent_view(const struct project_resolved_agent *agent, struct kg_json_writer *json);
/* The members of each, into an object that is open. */
void project_view_members(const struct project_resolved *resolved,
                          const struct kg_problems *problems, struct kg_json_writer *json);
void project_agent_view_members(const struct project_resolved_agent *agent,
                                struct kg_json_writer *json);
/* The same for people, without the problems; an agent is read from what those wrote. */
void project_agent_view_words(const struct kg_node *agent, struct kg_buf *out);
void project_words(const struct project_resolved *resolved, struct kg_buf *out);

enum project_change_kind {
    PROJECT_CHANGE_AGENT,
    PROJECT_CHANGE_MODEL,
    PROJECT_CHANGE_PROMPT,
    PROJECT_CHANGE_COMPACTION,
    PROJECT_CHANGE_ORDER, /* of the agent's plugins */
    PROJECT_CHANGE_PLUGIN,
    PROJECT_CHANGE_VERSION,
    PROJECT_CHANGE_STATE,
    PROJECT_CHANGE_ISOLATION,
    PROJECT_CHANGE_HOOK,
    PROJECT_CHANGE_ROLE,
    PROJECT_CHANGE_TOOL,
    PROJECT_CHANGE_CONFIG,
};
extern const char *const project_change_names[]; /* "agent", "model", ... */

/* Texts live in the list. */
struct project_change {
    enum project_change_kind kind;
    const char *agent;  /* its path */
    const char *plugin; /* the agent's word for it; NULL if the change is the agent's */
    const char *what;   /* the hook, tool, key, ...; NULL if the kind says all */
    /* JSON; NULL: it was not there, or is not there any more. A hidden value is null. */
    const char *before, *after;
    bool hidden; /* sensitive */
};
struct project_changes {
    struct kg_arena *arena;       /* owned */
    struct project_change *items; /* owned */
    size_t count;
};
/*
 * What differs, by agent, plugin and kind. Of an agent or plugin that is new or gone nothing else
 * is listed.
 */
struct project_changes *project_diff(const struct project_resolved *before,
                                     const struct project_resolved *after);
void project_changes_free(struct project_changes *changes);
void project_changes_json(const struct project_changes *changes, struct kg_json_writer *json);
void project_changes_view_words(const struct kg_node *changes, struct kg_buf *out);

/* -- the model's side -------------------------------------------------------------------------- */

enum project_dialect {
    PROJECT_OPENAI,
    PROJECT_ANTHROPIC,
    PROJECT_NEUTRAL, /* of model/model.h, which becomes either */
};

/*
 * A JSON array with a definition of each tool that is on. Their names are those of
 * manifest_model_name_put.
 */
void project_tools_json(const struct project_resolved_agent *agent, enum project_dialect dialect,
                        struct kg_json_writer *json);

/* -- editing ----------------------------------------------------------------------------------- */

/*
 * Sets, or with a NULL value removes, the setting that keys lead to, in the config of a plugin that
 * the agent itself declares; `isolation` is the declaration's own. Comments and layout stay.
 * Refused if the file would have an error afterwards, or is reached by a link.
 */
int project_set_config(const struct project_location *location, const char *agent_path,
                       const char *plugin, const char *const *keys, size_t key_count,
                       const struct kg_node *value, struct kg_err *err);
/* The same, in a text. */
int project_edit_config(struct kg_buf *text, const char *agent_path, const char *plugin,
                        const char *const *keys, size_t key_count, const struct kg_node *value,
                        struct kg_err *err);
/*
 * Declares a plugin, by its package, for an agent that does not have it yet: under its own name, at
 * the end of the agent's plugins. Refused as above, and if the file may not be written.
 */
int project_add_plugin(const struct project_location *location, const char *agent_path,
                       const char *package, struct kg_err *err);
/* Names the model of an agent, by its alias. Refused as above. */
int project_set_model(const struct project_location *location, const char *agent_path,
                      const char *alias, struct kg_err *err);
/* Writes a file for a folder that has none, with an agent and comments on what can follow. */
int project_init(const char *folder, struct project_location *ret_location, struct kg_err *err);

#endif
