/*
 * What a text of local.toml stands for: ${VAR}, ${secret:NAME}, ${file:PATH}, all replaced by one
 * function. What cannot be a name may be a secret, which no message may repeat.
 */
#include "config/local_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#define VARIABLE_MAX 128

#define fail_at LOCAL_FAIL_AT

/* -- names ------------------------------------------------------------------------------------- */

static bool references_is_variable(struct kg_str name)
{
    bool good = name.length > 0 && name.length < VARIABLE_MAX && !kg_is_digit(name.data[0]);
    for (size_t i = 0; good && i < name.length; i++)
        good = kg_is_letter_or_digit(name.data[i]) || name.data[i] == '_';
    return good;
}

bool local_is_secret_name(struct kg_str name)
{
    bool good = name.length > 0 && name.length <= LOCAL_SECRET_NAME_MAX && name.data[0] != '-' &&
                name.data[0] != '.';
    for (size_t i = 0; good && i < name.length; i++)
        good = kg_is_letter_or_digit(name.data[i]) || memchr("_-.", name.data[i], 3) != NULL;
    return good;
}

static bool references_is_path(struct kg_str name)
{
    return name.length > 1 && name.length < PATH_MAX && name.data[0] == '/' &&
           kg_str_is_plain(name);
}

static const struct {
    const char *prefix;
    bool (*fits)(struct kg_str name);
    const char *what;
} kinds[LOCAL_REFERENCE_KINDS] = {
    [LOCAL_SECRET] = {"secret:", local_is_secret_name, "the name of a secret"},
    [LOCAL_FILE] = {"file:", references_is_path, "an absolute path"},
};

/* -- one text ---------------------------------------------------------------------------------- */

/* Where in the document we are, and what was not found so far. */
struct replacing {
    const struct local_lookup *lookup;
    struct kg_builder *builder;
    struct kg_str key;             /* of the value */
    struct kg_str section, table;  /* that it is in */
    struct local_problem *problem; /* of that table; NULL: there is none yet */
};

static int find_in_environment(void *data, const struct local_reference *reference,
                               struct kg_buf *ret_value, struct kg_err *err)
{
    (void)data, (void)ret_value;
    return kg_fail(err, KG_E_NOT_FOUND, "%s%.*s cannot be looked up here",
                   kinds[reference->kind].prefix, KG_STR_ARG(reference->name));
}

const struct local_lookup local_environment = {.find = find_in_environment};

static int references_put_variable(const struct replacing *at, const struct kg_node *node,
                                   struct kg_str name, struct kg_buf *out, struct kg_err *err)
{
    if (!references_is_variable(name))
        return fail_at(err, node, "%.*s: \"${\" without the name of a variable and \"}\"",
                       KG_STR_CUT(at->key, KG_CUT_NAME));
    kg_auto(kg_free) char *variable = kg_str_dup(name);
    const char *value = getenv(variable);
    if (value == NULL) {
        fail_at(err, node, "%.*s needs the environment variable %s, which is not set",
                KG_STR_CUT(at->key, KG_CUT_NAME), variable);
        return kg_hint(err, "set %s where the daemon is started", variable);
    }
    kg_buf_text(out, value);
    return 0;
}

/* The tables of these have somebody whose problem it is; what others name must be there. */
static bool has_user(const struct replacing *at)
{
    return at->table.length > 0 &&
           (kg_str_is(at->section, "plugins") || kg_str_is(at->section, "providers") ||
            kg_str_is(at->section, "grants") || kg_str_is(at->section, "system_plugins") ||
            kg_str_is(at->section, "services"));
}

static int references_put_found(struct replacing *at, const struct kg_node *node,
                                const struct local_reference *reference, struct kg_buf *out,
                                struct kg_err *err)
{
    struct kg_err found = {0};
    if (at->lookup->find(at->lookup->data, reference, out, &found) == 0)
        return 0;
    kg_wrap(&found, -EINVAL, "%u:%u: %.*s", node->line, node->column,
            KG_STR_CUT(at->key, KG_CUT_NAME));
    if (!has_user(at)) {
        if (err != NULL)
            *err = found;
        return -EINVAL;
    }
    if (at->problem == NULL) {
        at->problem = kg_arena_alloc(kg_builder_arena(at->builder), sizeof(*at->problem));
        *at->problem = (struct local_problem){
            .section = kg_arena_str(kg_builder_arena(at->builder), at->section),
            .table = kg_arena_str(kg_builder_arena(at->builder), at->table),
            .err = found};
    }
    kg_buf_printf(out, "${%s%.*s}", kinds[reference->kind].prefix, KG_STR_ARG(reference->name));
    return 0;
}

/* inside: what stands between the braces. */
static int references_put_reference(struct replacing *at, const struct kg_node *node,
                                    struct kg_str inside, struct kg_buf *out, struct kg_err *err)
{
    for (int kind = 0; kind < LOCAL_REFERENCE_KINDS; kind++) {
        if (!kg_str_starts(inside, kinds[kind].prefix))
            continue;
        struct kg_str name = kg_str_from(inside, strlen(kinds[kind].prefix));
        if (!kinds[kind].fits(name))
            return fail_at(err, node, "%.*s: \"${%s\" without %s and \"}\"",
                           KG_STR_CUT(at->key, KG_CUT_NAME), kinds[kind].prefix, kinds[kind].what);
        if (kg_str_is(at->section, "secrets"))
            return fail_at(err, node, "%.*s: [secrets] can name variables only",
                           KG_STR_CUT(at->key, KG_CUT_NAME));
        const struct local_reference reference = {kind, name, at->section, at->table};
        return references_put_found(at, node, &reference, out, err);
    }
    return references_put_variable(at, node, inside, out, err);
}

/* "$${" stands for "${" itself. */
static int references_replace_text(struct replacing *at, const struct kg_node *node,
                                   struct kg_buf *out, struct kg_err *err)
{
    struct kg_str text = node->text;
    for (size_t i = 0; i < text.length;) {
        struct kg_str rest = kg_str_from(text, i);
        if (kg_str_starts(rest, "$${")) {
            kg_buf_text(out, "${");
            i += 3;
        } else if (kg_str_starts(rest, "${")) {
            struct kg_str inside = kg_str_from(rest, 2);
            const char *end = memchr(inside.data, '}', inside.length);
            inside.length = end != NULL ? (size_t)(end - inside.data) : 0;
            int result = references_put_reference(at, node, inside, out, err);
            if (result < 0)
                return result;
            i += inside.length + 3;
        } else {
            kg_buf_char(out, text.data[i++]);
        }
    }
    return 0;
}

/* -- the document ------------------------------------------------------------------------------ */

static int copy_value(struct replacing *at, const struct kg_node *node, struct kg_err *err);

static int references_copy_member(struct replacing *at, const struct kg_member *member,
                                  struct kg_err *err)
{
    struct kg_arena *arena = kg_builder_arena(at->builder);
    kg_builder_key(at->builder, kg_arena_str(arena, member->key), member->key_line,
                   member->key_column);
    at->key = member->key;
    return copy_value(at, &member->value, err);
}

static int references_copy_text(struct replacing *at, const struct kg_node *node,
                                struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_node copy = *node;
    int result = references_replace_text(at, node, &text, err);
    copy.text = kg_arena_str(kg_builder_arena(at->builder), kg_buf_view(&text));
    kg_builder_value(at->builder, copy);
    return result;
}

/* Copies a value into the builder, its texts replaced. */
static int copy_value(struct replacing *at, const struct kg_node *node, struct kg_err *err)
{
    struct kg_node copy = *node;
    int result = 0;
    switch (node->type) {
    case KG_STRING:
        return references_copy_text(at, node, err);
    case KG_ARRAY:
        kg_builder_open(at->builder, KG_ARRAY, node->line, node->column);
        for (uint32_t i = 0; i < node->count && result == 0; i++)
            result = copy_value(at, &node->items[i], err);
        kg_builder_close(at->builder);
        return result;
    case KG_OBJECT:
        kg_builder_open(at->builder, KG_OBJECT, node->line, node->column);
        for (uint32_t i = 0; i < node->count && result == 0; i++)
            result = references_copy_member(at, &node->members[i], err);
        kg_builder_close(at->builder);
        return result;
    default:
        copy.text = kg_arena_str(kg_builder_arena(at->builder), node->text);
        kg_builder_value(at->builder, copy);
        return 0;
    }
}

/* Table by table, so that each has its own problem. */
static int copy_section(struct replacing *at, const struct kg_member *member,
                        const struct local_problem **problems, struct kg_err *err)
{
    const struct kg_node *section = &member->value;
    int result = 0;
    at->section = member->key;
    at->table = KG_STR_NULL;
    if (section->type != KG_OBJECT)
        return references_copy_member(at, member, err);
    kg_builder_key(at->builder, kg_arena_str(kg_builder_arena(at->builder), member->key),
                   member->key_line, member->key_column);
    kg_builder_open(at->builder, KG_OBJECT, section->line, section->column);
    for (uint32_t i = 0; i < section->count && result == 0; i++) {
        at->table =
            section->members[i].value.type == KG_OBJECT ? section->members[i].key : KG_STR_NULL;
        at->problem = NULL;
        result = references_copy_member(at, &section->members[i], err);
        if (at->problem != NULL) {
            at->problem->next = *problems;
            *problems = at->problem;
        }
    }
    kg_builder_close(at->builder);
    return result;
}

struct kg_doc *local_replace(const struct kg_doc *doc, const struct local_lookup *lookup,
                             const struct local_problem **ret_problems, struct kg_err *err)
{
    struct replacing at = {.lookup = lookup, .builder = kg_builder_new()};
    const struct kg_node *root = doc->root;
    const struct local_problem *problems = NULL;
    int result = 0;
    kg_builder_open(at.builder, KG_OBJECT, root->line, root->column);
    for (uint32_t i = 0; i < root->count && result == 0; i++)
        result = copy_section(&at, &root->members[i], &problems, err);
    kg_builder_close(at.builder);
    struct kg_doc *copy = kg_builder_finish(at.builder);
    kg_builder_free(at.builder);
    if (result == 0) {
        *ret_problems = problems;
        return copy;
    }
    kg_doc_free(copy);
    return NULL;
}

const struct kg_err *local_problem_of(const struct local *local, const char *section,
                                      struct kg_str table)
{
    const struct local_problem *at = local->problems;
    while (at != NULL && (!kg_str_is(at->section, section) || !kg_str_equal(at->table, table)))
        at = at->next;
    return at ? &at->err : NULL;
}
