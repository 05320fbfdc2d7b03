/* What the files of project/ share. */
#ifndef KAGED_PROJECT_INTERNAL_H
#define KAGED_PROJECT_INTERNAL_H

#include "project/project.h"

#define problem_at(problems, code, node, hint, ...)                                                \
    kg_problems_add(problems, &project_rows[PROJECT_##code], (node)->line, (node)->column, hint,   \
                    __VA_ARGS__)
#define problem_at_key(problems, code, member, hint, ...)                                          \
    kg_problems_add(problems, &project_rows[PROJECT_##code], (member)->key_line,                   \
                    (member)->key_column, hint, __VA_ARGS__)

/* The published schema, against which every file is checked first; see published.c. */
void project_published_check(const struct kg_node *root, struct kg_problems *problems);
/* Every rule that the schema cannot say; fills the project as it goes. See rules.c. */
void project_rules_apply(struct project *project, struct kg_problems *problems);

/* A NUL-ended copy in an arena. */
char *project_keep(struct kg_arena *arena, struct kg_str text);
/* The same of a text that may be NULL. */
const char *project_keep_text(struct kg_arena *arena, const char *text);
/* The member if it is of that type, else NULL. */
/* The agent's own declaration of that name, or NULL. */
const struct project_declaration *project_declaration_find(const struct project_agent *agent,
                                                           struct kg_str name);

/* What counts: the declaration's own, else the one that it inherits; NULL if neither says it. */
const char *project_package(const struct project_declaration *declaration);
const char *project_version(const struct project_declaration *declaration);
const char *project_source(const struct project_declaration *declaration);
const struct kg_node *project_hooks(const struct project_declaration *declaration);

/* Whether it is about a session, and so only ever called for the primary. */
static inline bool project_hook_is_sessions(enum manifest_hook hook)
{
    return hook == MANIFEST_ON_SESSION_START || hook == MANIFEST_ON_SESSION_IDLE;
}

/* -- files below the root ---------------------------------------------------------------------- */

int project_root_open(const char *root, struct kg_err *err);
/* Reads a file below the open root; links may not lead out of it. */
int project_read_below(int root, const char *path, size_t max, struct kg_buf *ret_text,
                       struct kg_err *err);
/* Fails if there is a link in the path, or if it leads out. */
int project_check_plain(int root, const char *path, struct kg_err *err);

/* -- the resolved project ---------------------------------------------------------------------- */

/* A plugin to be installed or upgraded, once for each package, version and source. */
struct project_missing {
    const char *package, *version, *source; /* the last two may be NULL */
    const char *installed;                  /* the version that is there; NULL: none */
};

struct project_resolved {
    struct kg_arena *arena; /* owned; has all but the documents */
    const char *name;
    struct project_plugin **plugins; /* by the order in which they were met */
    size_t plugin_count;
    struct project_resolved_agent *agents;
    size_t agent_count;
    struct project_missing *missing;
    size_t missing_count;
    struct project_finding *findings; /* owned; their texts are in the arena */
    size_t finding_count;
    struct kg_doc **documents; /* owned, each */
    size_t document_count;
    size_t config_bytes; /* of all documents */
};

/* While a project is being resolved. */
struct resolving {
    const struct project *project;
    const struct project_world *world;
    struct kg_problems *problems;
    struct project_resolved *resolved;
    struct kg_map *slow; /* packages whose schema is too much work to check; owned by the caller */
};

/*
 * The configuration that the agent's plugin gets, and its secrets by name. False if it cannot be
 * used, which is in the problems then. See settings.c.
 */
bool project_settings_take(const struct resolving *resolving,
                           const struct project_declaration *declaration,
                           const struct manifest *manifest, struct project_use *use);
#define SENSITIVE_WORK_MAX 200000 /* nodes of a schema that are looked at; then all is hidden */

/* The name that models call a tool by; in the arena. See tools.c. */
const char *project_wire_name(struct kg_arena *arena, const char *name);

extern const char *const project_role_names[]; /* of the lowest bit first */
#define PROJECT_ROLE_COUNT 2
bool project_compaction_is_said(const struct project_compaction *compaction);
void project_put_compaction(const struct project_compaction *compaction,
                            struct kg_json_writer *json);

#endif
