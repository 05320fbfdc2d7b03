/*
 * kaged-plugin.yaml: what a plugin says that it is, needs and offers. Hostile until checked. A
 * manifest is read whole or not at all; all that is wrong with it is reported at once, each with
 * its place.
 */
#ifndef KAGED_MANIFEST_H
#define KAGED_MANIFEST_H

#include "base/problems.h"
#include "manifest/capability.h"
#include "schema/schema.h"

#define MANIFEST_FILE "kaged-plugin.yaml"

/* -- what can be wrong ------------------------------------------------------------------------- */

/* One row of problems.def is the whole truth about one problem. */
enum manifest_code {
#define MANIFEST_PROBLEM(symbol, code, severity, meaning) MANIFEST_##symbol,
#include "manifest/problems.def"
#undef MANIFEST_PROBLEM
    MANIFEST_CODE_COUNT
};
extern const struct kg_problem_row manifest_rows[MANIFEST_CODE_COUNT];
/* The first error, as kg_problems_fail tells it. */
int manifest_problems_fail(const struct kg_problems *problems, const char *path,
                           struct kg_err *err);

/* -- the manifest ------------------------------------------------------------------------------ */

enum manifest_role { MANIFEST_OBSERVER = 1, MANIFEST_COMPACTOR = 2 }; /* bits */

enum manifest_hook {
    MANIFEST_ON_SESSION_START,
    MANIFEST_ON_SESSION_IDLE,
    MANIFEST_PRE_COMPACT,
    MANIFEST_POST_COMPACT,
    MANIFEST_HOOK_COUNT
};
extern const char *const manifest_hook_names[MANIFEST_HOOK_COUNT + 1]; /* ended by NULL */

/* Whom a process of it serves: all that call it, one project, or one conversation. */
enum manifest_process {
    MANIFEST_SHARED,
    MANIFEST_PROJECT,
    MANIFEST_SESSION,
    MANIFEST_PROCESS_COUNT
};
extern const char *const manifest_process_names[MANIFEST_PROCESS_COUNT + 1]; /* ended by NULL */

struct manifest_method {
    const char *name;
    uint64_t timeout_ms;   /* 0: the daemon's */
    struct schema *params; /* owned; NULL: anything goes */
    struct schema *result;
};

struct manifest_tool {
    const char *name; /* without the plugin's prefix */
    const char *description;
    uint64_t timeout_ms;                   /* 0: the daemon's */
    struct schema *parameters;             /* owned; NULL: anything goes */
    const struct kg_node *parameters_node; /* as declared; NULL if it was not */
    struct schema *output;                 /* of an MCP tool's structuredContent; owned; or NULL */
    const struct kg_node *node;            /* all that was declared of it */
};

struct manifest_knob {
    const char *name;
    const char *type;
    const char *field;          /* of config_schema */
    const struct kg_node *node; /* the whole declaration */
};

/* Which way of being a plugin it is; the host has a row for each. */
enum manifest_tier {
    MANIFEST_CAGED,    /* a program that speaks kaged's own protocol */
    MANIFEST_MCP,      /* an MCP server */
    MANIFEST_SCRIPT,   /* made for a script, and not read */
    MANIFEST_PACKAGE,  /* made for a package in Python, and not read */
    MANIFEST_PACKAGED, /* of a package that has a manifest, with what was granted to it alone */
    MANIFEST_TIER_COUNT
};

/* Texts and nodes live in `doc`. Lists of texts are owned, NULL-ended, never NULL. */
struct manifest {
    uint32_t references;      /* that manifest_keep gave */
    struct kg_doc *doc;       /* owned */
    struct kg_doc *tools_doc; /* of learned tools; owned; NULL: none */
    const char *name;
    const char *package; /* the name, if it was not given */
    char *shown; /* owned; what its tools are called by instead of its name; NULL: by that */
    bool is_mcp; /* it speaks MCP, and its tools are those that were approved */
    enum manifest_tier tier;
    const char *version;
    int64_t kaged_api;
    const char *description;
    const char *author, *license, *homepage; /* NULL if absent */
    char **command;                          /* of one somewhere else: kaged-remote and its url */
    const char *url;     /* of an MCP server somewhere else; NULL: it is a program */
    char **headers;      /* "Name: value", that go with each request there */
    char **env;          /* "NAME=value" */
    char **capabilities; /* in canonical form */
    struct capability_set capability_set;
    unsigned roles; /* bits of enum manifest_role */
    bool hooks[MANIFEST_HOOK_COUNT];
    struct manifest_method *methods; /* owned, like the arrays that follow */
    size_t method_count;
    char **method_names;
    struct manifest_tool *tools;
    size_t tool_count;
    struct manifest_knob *knobs;
    size_t knob_count;
    char **notifications;
    struct schema *config_schema; /* NULL if absent, like the next */
    struct schema *system_config_schema;
    const struct kg_node *config_schema_node, *system_config_schema_node;
    enum manifest_process process; /* as declared, or else what its offers come to */
    bool first_use;                /* the same; it need not run before it is used */
    int64_t idle_after_sec;        /* 0 if absent, like the three below */
    int64_t shutdown_timeout_sec;
    int64_t health_interval_sec;
    int64_t hook_timeout_sec;
};

/* NULL if there is an error among the problems; warnings alone do not fail. */
struct manifest *manifest_read(struct kg_str text, struct kg_problems *problems);
/* Reads DIR/kaged-plugin.yaml; a file that cannot be read is a problem, too. */
struct manifest *manifest_load(const char *dir, struct kg_problems *problems);
/*
 * The tools of an MCP server that the operator approved, as it listed them: a JSON list. One that
 * cannot be used is left out with a warning among the problems. Before anybody else has it.
 */
#define MANIFEST_LEARNED_MAX 1024 /* of what a server lists, the first are offered */
void manifest_learn_tools(struct manifest *manifest, struct kg_str tools,
                          struct kg_problems *problems);
/* 1 to 128 of [A-Za-z0-9_.-]. */
bool manifest_mcp_tool_name_is_valid(struct kg_str name);
/* One more that has it, on the same thread; each gives its own back with manifest_free. */
struct manifest *manifest_keep(struct manifest *manifest);
void manifest_free(struct manifest *manifest);

/* -- settings of the type `path`, see reach.c -------------------------------------------------- */

bool manifest_knob_is_path(const struct manifest_knob *knob);
/* Where it points if nobody turns it; empty: nowhere. */
struct kg_str manifest_knob_default(const struct manifest *manifest,
                                    const struct manifest_knob *knob);
/* Whether it may have this value: one that has one of its prefixes. */
bool manifest_knob_allows(const struct manifest_knob *knob, struct kg_str value);

/* All that the plugin may read and write by one: every path below config:/ or project:/ ... */
struct manifest_reach {
    const struct manifest_knob *knob; /* borrowed from the manifest */
    char *prefix;                     /* owned; ... that begins so: one of these two */
};
struct manifest_reaches {
    struct manifest_reach *items; /* owned */
    size_t count;
};
struct manifest_reaches manifest_reaches_of(const struct manifest *manifest);
void manifest_reaches_free(struct manifest_reaches *reaches); /* also for kg_auto */
bool manifest_reach_is_dangerous(const struct manifest_reach *reach, const char **ret_reason);
/* Whether the manifest, whose reaches these are, has it already, be it by a capability. */
bool manifest_reach_is_covered(const struct manifest_reach *reach, const struct manifest *manifest,
                               const struct manifest_reaches *reaches);

const struct manifest_method *manifest_method_find(const struct manifest *manifest,
                                                   struct kg_str name);
const struct manifest_tool *manifest_tool_find(const struct manifest *manifest, struct kg_str name);
/* The same of a name that may be the one on the wire: PLUGIN.TOOL. */
const struct manifest_tool *manifest_tool_called(const struct manifest *manifest,
                                                 struct kg_str method);
/* ^[a-z][a-z0-9-]*$, at most 64 characters. */
bool manifest_name_is_valid(struct kg_str name);
/* NAME or @SCOPE/NAME, as the published schemas have it. */
bool manifest_package_is_valid(struct kg_str package);
/* The plugin's name in its package: the last part, and of @SCOPE/plugin-NAME what follows that. */
struct kg_str manifest_package_name(struct kg_str package);
const char *manifest_name_in(const char *package); /* the same, within a terminated text */
/*
 * What models and MCP clients call it: at most 50 of A-Z, a-z, 0-9, _ and -. The dot becomes "__";
 * a name that is longer, or would be another one's too, is cut and ends in a hash of the whole. One
 * that fits already, as what a model called, stays as it is. See names.c.
 */
#define MANIFEST_MODEL_NAME_MAX 50
void manifest_model_name_put(struct kg_str name, struct kg_buf *out);
/*
 * Whether a project that declares this package can mean that plugin: by its package, by its name,
 * or by any scope and its name where the manifest has none.
 */
bool manifest_is_package(const struct manifest *manifest, const char *declared);
/* Whether built-in tools have it as their namespace: not forbidden, but easy to confuse. */
bool manifest_name_is_builtin(struct kg_str name);

#endif
