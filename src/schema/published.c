/*
 * Checks against schemas that kaged publishes and embeds. The checker's errors become problems with
 * the stable codes of a table, by keyword and by place.
 */
#include "schema/schema.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define HINT_MAX 96

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the first use of each */

static struct schema *schema_published_compile(const struct schema_published *published)
{
    struct kg_err err;
    const struct schema_options options = {.draft = SCHEMA_DRAFT_2020_12, .formats = true};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(published->json, &err);
    struct schema *schema = doc ? schema_compile(doc->root, &options, &err) : NULL;
    if (schema == NULL) {
        kg_log(KG_ERROR_LEVEL, "the published schema of %s: %s", published->what, err.message);
        abort(); /* it is ours, and every build tests it */
    }
    return schema;
}

static const struct schema *compiled(struct schema_published *published)
{
    pthread_mutex_lock(&lock);
    if (published->schema == NULL)
        published->schema = schema_published_compile(published);
    const struct schema *schema = published->schema;
    pthread_mutex_unlock(&lock);
    return schema;
}

/* -- places ------------------------------------------------------------------------------------ */

static struct kg_str schema_published_next_segment(struct kg_str *path)
{
    const char *start = path->data + 1; /* behind the slash */
    size_t rest = path->length - 1;
    const char *slash = memchr(start, '/', rest);
    struct kg_str segment = {start, slash ? (size_t)(slash - start) : rest};
    *path = (struct kg_str){start + segment.length, rest - segment.length};
    return segment;
}

static size_t segments(struct kg_str path)
{
    size_t count = 0;
    for (size_t i = 0; i < path.length; i++)
        count += path.data[i] == '/';
    return count;
}

static bool place_fits(const char *pattern, struct kg_str path)
{
    struct kg_str rest = kg_str(pattern);
    if (kg_str_starts(rest, "**")) {
        rest = (struct kg_str){rest.data + 2, rest.length - 2};
        for (size_t more = segments(path); more > segments(rest); more--)
            schema_published_next_segment(&path);
    }
    while (rest.length > 0 && path.length > 0) {
        struct kg_str wanted = schema_published_next_segment(&rest),
                      segment = schema_published_next_segment(&path);
        if (!kg_str_is(wanted, "*") && !kg_str_equal(wanted, segment))
            return false;
    }
    return rest.length == 0 && path.length == 0;
}

static struct kg_str keyword_of(struct kg_str schema_path)
{
    size_t start = schema_path.length;
    while (start > 0 && schema_path.data[start - 1] != '/')
        start--;
    return (struct kg_str){schema_path.data + start, schema_path.length - start};
}

static const struct schema_code *schema_published_code_of(const struct schema_code *code,
                                                          const struct schema_error *error)
{
    struct kg_str keyword = keyword_of(error->schema_path);
    while ((code->place != NULL && !place_fits(code->place, error->instance_path)) ||
           (code->keyword != NULL && !kg_str_is(keyword, code->keyword)))
        code++;
    return code;
}

/* The value that a path leads to; NULL if a key on the way has a character that paths escape. */
static const struct kg_node *node_at(const struct kg_node *node, struct kg_str path)
{
    while (path.length > 0 && node != NULL) {
        struct kg_str segment = schema_published_next_segment(&path);
        const struct kg_member *member = kg_node_member(node, segment);
        int64_t index = 0;
        if (node->type == KG_ARRAY && kg_str_to_int(segment, &index) && index < node->count)
            node = &node->items[index];
        else
            node = member ? &member->value : NULL;
    }
    return node;
}

/* -- problems ---------------------------------------------------------------------------------- */

static size_t word_count(const char *const *words)
{
    size_t count = 0;
    while (words != NULL && words[count] != NULL)
        count++;
    return count;
}

/* What to do, for the author: the nearest of the values that are allowed, or how to write it. */
static const char *hint_of(const struct schema_code *code, const struct schema_error *error,
                           const struct kg_node *root, char text[HINT_MAX])
{
    const struct kg_node *node = node_at(root, error->instance_path);
    if (node == NULL)
        return code->hint;
    if ((node->type == KG_NUMBER || node->type == KG_BOOL) &&
        kg_str_starts(error->message, "must be a string, not"))
        return "put quotes around it";
    const char *nearest = node->type == KG_STRING
                              ? kg_str_nearest(node->text, code->words, word_count(code->words))
                              : NULL;
    if (nearest == NULL)
        return code->hint;
    snprintf(text, HINT_MAX, "did you mean %s?", nearest);
    return text;
}

static void add_error(const struct schema_published *published, const struct schema_error *error,
                      const struct kg_node *root, struct kg_problems *problems)
{
    const struct schema_code *code = schema_published_code_of(published->codes, error);
    struct kg_str place = error->instance_path;
    struct kg_str sentence = code->sentence ? kg_str(code->sentence) : error->message;
    char text[HINT_MAX];
    const char *hint = hint_of(code, error, root, text);
    if (place.length > 0)
        kg_problems_add(
            problems, code->row, error->line, error->column, hint, "%.*s: %.*s",
            KG_STR_CUT(((struct kg_str){place.data + 1, place.length - 1}), KG_CUT_WORD),
            KG_STR_CUT(sentence, KG_ERR_MESSAGE_MAX));
    else
        kg_problems_add(problems, code->row, error->line, error->column, hint, "%s %.*s",
                        published->what, KG_STR_CUT(sentence, KG_ERR_MESSAGE_MAX));
}

static bool has_nul(struct kg_str text)
{
    return text.length > 0 && memchr(text.data, '\0', text.length) != NULL;
}

/* A NUL would cut short what an operator reads, and what a program is given. */
static void find_nul(const struct kg_problem_row *row, const struct kg_node *node,
                     struct kg_problems *problems)
{
    bool is_map = node->type == KG_OBJECT;
    if (node->type == KG_STRING && has_nul(node->text))
        kg_problems_add(problems, row, node->line, node->column, NULL, "the text contains a NUL");
    for (uint32_t i = 0; (is_map || node->type == KG_ARRAY) && i < node->count; i++) {
        const struct kg_member *member = is_map ? &node->members[i] : NULL;
        if (is_map && has_nul(member->key))
            kg_problems_add(problems, row, member->key_line, member->key_column, NULL,
                            "the key contains a NUL");
        find_nul(row, is_map ? &member->value : &node->items[i], problems);
    }
}

static const struct kg_problem_row *last_row(const struct schema_code *code)
{
    while (code->place != NULL || code->keyword != NULL)
        code++;
    return code->row;
}

void schema_published_check(struct schema_published *published, const struct kg_node *root,
                            struct kg_problems *problems)
{
    kg_auto(schema_report_free) struct schema_report report = {0};
    find_nul(last_row(published->codes), root, problems);
    if (schema_check(compiled(published), root, &report))
        return;
    for (size_t i = 0; i < report.count; i++)
        add_error(published, &report.errors[i], root, problems);
}
