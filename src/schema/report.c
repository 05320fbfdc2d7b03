/*
 * What is wrong, said to the author of the instance: where it stands, which keyword minds, and a
 * short sentence. Texts of the instance and of the schema are cut and escaped before anyone reads
 * them.
 */
#include "schema/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define CHOICES_SHOWN 8
#define KEYS_COMPARED 1000 /* for a suggestion */

/* -- places ------------------------------------------------------------------------------------ */

/* "/a~1b" */
static void put_pointer_token(struct kg_str key, struct kg_buf *ret_text)
{
    kg_buf_char(ret_text, '/');
    for (size_t i = 0; i < key.length; i++) {
        if (key.data[i] == '~')
            kg_buf_text(ret_text, "~0");
        else if (key.data[i] == '/')
            kg_buf_text(ret_text, "~1");
        else
            kg_buf_char(ret_text, key.data[i]);
    }
}

void schema_step_text(struct schema_step step, struct kg_buf *ret_text)
{
    if (step.keyword != SCHEMA_KEYWORD_COUNT)
        put_pointer_token(kg_str(schema_keywords[step.keyword].name), ret_text);
    if (step.key.data != NULL)
        put_pointer_token(step.key, ret_text);
    if (step.position != SCHEMA_NONE)
        kg_buf_printf(ret_text, "/%u", step.position);
}

void schema_place_text(const struct schema *schema, uint32_t number, enum schema_keyword keyword,
                       struct kg_buf *ret_text)
{
    uint32_t chain[SCHEMA_DEPTH_MAX];
    size_t count = 0;
    if (number >= schema->count) {
        kg_buf_char(ret_text, '#');
    } else {
        for (; schema->places[number].parent != SCHEMA_NONE && count < SCHEMA_DEPTH_MAX;
             number = schema->places[number].parent)
            chain[count++] = number;
        kg_buf_str(ret_text, schema->places[number].origin);
    }
    while (count > 0)
        schema_step_text(schema->places[chain[--count]].step, ret_text);
    schema_step_text((struct schema_step){keyword, KG_STR_NULL, SCHEMA_NONE}, ret_text);
}

static void schema_report_path_text(const struct schema_path *path, struct kg_buf *ret_text)
{
    if (path == NULL)
        return;
    schema_report_path_text(path->up, ret_text);
    if (path->member != NULL)
        put_pointer_token(path->member->key, ret_text);
    else
        kg_buf_printf(ret_text, "/%u", path->item);
}

/* -- errors ------------------------------------------------------------------------------------ */

const char *schema_show(struct kg_str text, char shown[SCHEMA_SHOWN_MAX])
{
    kg_auto(kg_buf_free) struct kg_buf escaped = {0};
    size_t keep = text.length < SCHEMA_SHOWN_MAX ? text.length : SCHEMA_SHOWN_MAX;
    while (keep > 0 && keep < text.length && ((unsigned char)text.data[keep] & 0xC0) == 0x80)
        keep--;
    kg_buf_escaped(&escaped, (struct kg_str){text.data, keep});
    bool cut = keep < text.length || escaped.length >= SCHEMA_SHOWN_MAX;
    size_t room = SCHEMA_SHOWN_MAX - 1 - (cut ? 3 : 0);
    size_t length = escaped.length < room ? escaped.length : room;
    length = kg_utf8_valid((struct kg_str){escaped.data, length});
    snprintf(shown, SCHEMA_SHOWN_MAX, "%.*s%s", (int)length, escaped.data ? escaped.data : "",
             cut ? "..." : "");
    return shown;
}

/* The next free error, or NULL when there are enough. */
static struct schema_error *next_error(struct schema_report *report)
{
    if (report->count == SCHEMA_ERRORS_MAX) {
        report->truncated = true;
        return NULL;
    }
    if (report->arena == NULL) {
        report->arena = kg_arena_new();
        report->errors = kg_arena_alloc(report->arena, SCHEMA_ERRORS_MAX * sizeof(*report->errors));
    }
    return &report->errors[report->count++];
}

static struct kg_str schema_report_finish(struct schema_report *report, const struct kg_buf *buf)
{
    return kg_arena_str(report->arena, kg_buf_view(buf));
}

static void schema_report_own_add(struct schema_run *run, const struct schema_subschema *subschema,
                                  enum schema_keyword keyword, uint32_t line, uint32_t column,
                                  const char *sentence)
{
    struct schema_error *error = next_error(run->report);
    if (error == NULL) {
        run->work = 0; /* nothing more is wanted */
        return;
    }
    kg_auto(kg_buf_free) struct kg_buf where = {0};
    kg_auto(kg_buf_free) struct kg_buf place = {0};
    kg_auto(kg_buf_free) struct kg_buf message = {0};
    char shown[SCHEMA_SHOWN_MAX];
    schema_report_path_text(run->path, &where);
    schema_place_text(run->schema, (uint32_t)(subschema - run->schema->subschemas), keyword,
                      &place);
    if (run->name != NULL)
        kg_buf_printf(&message, "the property name \"%s\" ", schema_show(*run->name, shown));
    kg_buf_text(&message, sentence);
    error->instance_path = schema_report_finish(run->report, &where);
    error->schema_path = schema_report_finish(run->report, &place);
    error->message = schema_report_finish(run->report, &message);
    error->line = line;
    error->column = column;
}

void schema_report_add(struct schema_run *run, const struct schema_subschema *subschema,
                       enum schema_keyword keyword, const struct kg_node *node, const char *format,
                       ...)
{
    if (run->report == NULL)
        return;
    char sentence[512];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    schema_report_own_add(run, subschema, keyword, node->line, node->column, sentence);
}

/* -- sentences that take some making ----------------------------------------------------------- */

/* The known key that the name may have been meant to be, shown, or NULL. */
static const char *suggestion(struct kg_str name, const struct schema_keys *known,
                              char shown[SCHEMA_SHOWN_MAX])
{
    size_t count = known == NULL ? 0 : known->count;
    if (count > KEYS_COMPARED)
        count = KEYS_COMPARED;
    char **names = kg_list_new(count);
    for (size_t i = 0; i < count; i++)
        names[i] = kg_str_dup(known->keys[i].name);
    const char *nearest = kg_str_nearest(name, (const char *const *)names, count);
    if (nearest != NULL)
        nearest = schema_show(kg_str(nearest), shown);
    kg_list_free(names);
    return nearest;
}

void schema_report_member(struct schema_run *run, const struct schema_subschema *subschema,
                          enum schema_keyword keyword, const struct kg_member *member,
                          const struct schema_keys *known)
{
    if (run->report == NULL)
        return;
    char sentence[512];
    char name[SCHEMA_SHOWN_MAX];
    char near[SCHEMA_SHOWN_MAX];
    const char *meant = suggestion(member->key, known, near);
    snprintf(sentence, sizeof(sentence), "has the unknown property \"%s\"%s%s%s",
             schema_show(member->key, name), meant ? "; did you mean \"" : "", meant ? meant : "",
             meant ? "\"?" : "");
    schema_report_own_add(run, subschema, keyword, member->key_line, member->key_column, sentence);
}

static const char *const type_phrases[] = {"null",     "a boolean", "a number",  "a string",
                                           "an array", "an object", "an integer"};

/* "a string, an integer or null" */
static void put_types(struct kg_buf *out, uint8_t types)
{
    if (types & SCHEMA_INTEGERS)
        types &= (uint8_t) ~(1 << KG_NUMBER);
    for (int bit = 6; bit >= 0; bit--) {
        if (!(types & 1 << bit))
            continue;
        types &= (uint8_t) ~(1 << bit);
        kg_buf_text(out, type_phrases[bit]);
        bool last_but_one = types != 0 && (types & (types - 1)) == 0;
        kg_buf_text(out, types == 0 ? "" : last_but_one ? " or " : ", ");
    }
}

void schema_report_type(struct schema_run *run, const struct schema_subschema *subschema,
                        const struct kg_node *node)
{
    if (run->report == NULL)
        return;
    if (subschema->types == 0) {
        schema_report_add(run, subschema, SCHEMA_KEYWORD_COUNT, node, "is not allowed");
        return;
    }
    kg_auto(kg_buf_free) struct kg_buf types = {0};
    put_types(&types, subschema->types);
    char shown[SCHEMA_SHOWN_MAX];
    bool fraction = node->type == KG_NUMBER && (subschema->types & SCHEMA_INTEGERS);
    const char *found = fraction ? schema_show(node->text, shown) : kg_type_names[node->type];
    schema_report_add(run, subschema, SCHEMA_K_TYPE, node, "must be %s, not %s",
                      kg_buf_terminate(&types), found);
}

void schema_report_choices(struct schema_run *run, const struct schema_subschema *subschema,
                           enum schema_keyword keyword, const struct kg_node *node, uint32_t first,
                           uint32_t count)
{
    if (run->report == NULL)
        return;
    kg_auto(kg_buf_free) struct kg_buf choices = {0};
    for (uint32_t i = 0; i < count && i < CHOICES_SHOWN; i++) {
        kg_auto(kg_buf_free) struct kg_buf value = {0};
        struct kg_json_writer writer = kg_json_writer(&value);
        char shown[SCHEMA_SHOWN_MAX];
        kg_json_node(&writer, schema_value(run->schema, first + i));
        kg_buf_printf(&choices, "%s%s", i > 0 ? ", " : "", schema_show(kg_buf_view(&value), shown));
    }
    if (count > CHOICES_SHOWN)
        kg_buf_printf(&choices, " and %u more", count - CHOICES_SHOWN);
    schema_report_add(run, subschema, keyword, node, "must be %s%s", count > 1 ? "one of " : "",
                      count ? kg_buf_terminate(&choices) : "nothing: its enum is empty");
}

void schema_report_free(struct schema_report *report)
{
    kg_arena_free(report->arena);
    *report = (struct schema_report){0};
}
