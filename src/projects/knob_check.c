/*
 * The bounds that a knob declares. A message names the knob, the bound and the value; a value that
 * is sensitive is never in it. Whether a path exists is not asked here: nothing blocks.
 */
#include "projects/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define SHOWN_MAX  80    /* bytes of a value in a message */
#define STEP_SLACK 1e-9L /* of a step: one like 0.1 is not a binary fraction */

/* -- telling ----------------------------------------------------------------------------------- */

char *projects_knob_shown(const struct kg_node *value, bool hidden)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0}, escaped = {0};
    if (hidden)
        return kg_strdup("the value");
    struct kg_json_writer json = kg_json_writer(&text);
    kg_json_node(&json, value);
    kg_buf_json_escaped(&escaped, kg_buf_view(&text));
    if (escaped.length <= SHOWN_MAX)
        return kg_str_dup(kg_buf_view(&escaped));
    size_t length = kg_utf8_valid((struct kg_str){escaped.data, SHOWN_MAX - 3});
    return kg_format("%.*s...", (int)length, escaped.data);
}

static int KG_PRINTF(3, 4) knob_check_refuse(const struct projects_knob_check *check,
                                             struct kg_err *err, const char *format, ...)
{
    kg_auto(kg_free) char *value = projects_knob_shown(check->value, check->hidden);
    char why[512];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    return kg_fail(err, KG_E_INVALID_PARAMS, "knob %s: %s %s", check->knob->name, value, why);
}

static const struct kg_node *knob_check_bound(const struct projects_knob_check *check,
                                              const char *name, enum kg_type type)
{
    const struct kg_node *node = kg_node_get(check->knob->node, name);
    return node != NULL && node->type == type ? node : NULL;
}

static int need_type(const struct projects_knob_check *check, enum kg_type type, const char *what,
                     struct kg_err *err)
{
    return check->value->type == type ? 0 : knob_check_refuse(check, err, "is not %s", what);
}

/* -- numbers ----------------------------------------------------------------------------------- */

/* Wide enough for every integer of 64 bits. */
static long double knob_check_number_of(const struct kg_node *node)
{
    kg_auto(kg_free) char *text = kg_str_dup(node->text);
    return strtold(text, NULL);
}

/* A range of integers has integers as its steps: there nothing is forgiven. */
static bool is_on_step(long double offset, long double step, bool exact)
{
    long double count = offset / step;
    if (count < 0 || count > (long double)INT64_MAX / 2)
        return true; /* past what can be told */
    long double whole = (long double)(int64_t)(count + 0.5L);
    long double rest = count > whole ? count - whole : whole - count;
    return exact ? whole * step == offset : rest <= STEP_SLACK;
}

static int check_bounds(const struct projects_knob_check *check, bool exact, struct kg_err *err)
{
    const struct kg_node *min = knob_check_bound(check, "min", KG_NUMBER);
    const struct kg_node *max = knob_check_bound(check, "max", KG_NUMBER);
    const struct kg_node *step = knob_check_bound(check, "step", KG_NUMBER);
    long double value = knob_check_number_of(check->value);
    if (min != NULL && value < knob_check_number_of(min))
        return knob_check_refuse(check, err, "is less than its min, %.*s",
                                 KG_STR_CUT(min->text, KG_CUT_NAME));
    if (max != NULL && value > knob_check_number_of(max))
        return knob_check_refuse(check, err, "is more than its max, %.*s",
                                 KG_STR_CUT(max->text, KG_CUT_NAME));
    long double start = min ? knob_check_number_of(min) : 0;
    if (step != NULL && knob_check_number_of(step) > 0 &&
        !is_on_step(value - start, knob_check_number_of(step), exact))
        return knob_check_refuse(check, err,
                                 "is not one of its steps, which are %.*s apart, starting at %.*s",
                                 KG_STR_CUT(step->text, KG_CUT_NAME),
                                 KG_STR_CUT(min ? min->text : KG_STR("0"), KG_CUT_NAME));
    return 0;
}

static int check_range(const struct projects_knob_check *check, struct kg_err *err)
{
    int result = need_type(check, KG_NUMBER, "a number", err);
    return result < 0 ? result : check_bounds(check, false, err);
}

static int check_int_range(const struct projects_knob_check *check, struct kg_err *err)
{
    int64_t value;
    if (!kg_node_int(check->value, &value))
        return knob_check_refuse(check, err, "is not a whole number");
    return check_bounds(check, true, err);
}

/* -- words ------------------------------------------------------------------------------------- */

/* "low, mid, high" of a list of strings. */
static void knob_check_put_choices(struct kg_buf *out, const struct kg_node *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        kg_buf_text(out, i > 0 ? ", " : "");
        kg_buf_str(out, list->items[i].text);
    }
}

static int knob_check_enum(const struct projects_knob_check *check, struct kg_err *err)
{
    const struct kg_node *values = knob_check_bound(check, "values", KG_ARRAY);
    if (values == NULL ||
        (check->value->type == KG_STRING && kg_node_has_text(values, check->value->text)))
        return 0;
    kg_auto(kg_buf_free) struct kg_buf choices = {0};
    knob_check_put_choices(&choices, values);
    return knob_check_refuse(check, err, "is not one of its values, which are %" KG_S_CAUSE,
                             kg_buf_terminate(&choices));
}

static int check_boolean(const struct projects_knob_check *check, struct kg_err *err)
{
    return need_type(check, KG_BOOL, "true or false", err);
}

static size_t knob_check_characters(struct kg_str text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.length; i++)
        count += ((unsigned char)text.data[i] & 0xC0) != 0x80;
    return count;
}

static bool knob_check_matches(struct kg_str pattern, const struct kg_node *value)
{
    struct kg_member member = {KG_STR("pattern"), 1, 1, {.type = KG_STRING, .text = pattern}};
    const struct kg_node document = {.type = KG_OBJECT, .count = 1, .members = &member};
    const struct schema_options options = {.draft = SCHEMA_DRAFT_2020_12};
    struct schema *schema = schema_compile(&document, &options, NULL);
    bool fits = schema != NULL && schema_check(schema, value, NULL);
    schema_free(schema);
    return fits;
}

static int check_multiline(const struct projects_knob_check *check, struct kg_err *err)
{
    const struct kg_node *max = knob_check_bound(check, "max_length", KG_NUMBER);
    const struct kg_node *pattern = knob_check_bound(check, "pattern", KG_STRING);
    struct kg_str text = check->value->text;
    int result = need_type(check, KG_STRING, "a text", err);
    if (result < 0)
        return result;
    if (text.length > 0 && memchr(text.data, '\0', text.length) != NULL)
        return knob_check_refuse(check, err, "contains a NUL");
    if (max != NULL && (long double)knob_check_characters(text) > knob_check_number_of(max))
        return knob_check_refuse(check, err, "has %zu characters, more than its max_length, %.*s",
                                 knob_check_characters(text), KG_STR_CUT(max->text, KG_CUT_NAME));
    if (pattern != NULL && !knob_check_matches(pattern->text, check->value))
        return knob_check_refuse(check, err, "does not match its pattern, %.*s",
                                 KG_STR_CUT(pattern->text, KG_CUT_PATH));
    return 0;
}

static int knob_check_text(const struct projects_knob_check *check, struct kg_err *err)
{
    struct kg_str text = check->value->text;
    if (check->value->type == KG_STRING && text.length > 0 &&
        (memchr(text.data, '\n', text.length) || memchr(text.data, '\r', text.length)))
        return knob_check_refuse(check, err, "is more than one line");
    return check_multiline(check, err);
}

/* -- models and paths -------------------------------------------------------------------------- */

static void hint_alias(const struct local *local, struct kg_str alias, struct kg_err *err)
{
    size_t count = local ? local->model_count : 0;
    char **aliases = kg_list_new(count);
    for (size_t i = 0; i < count; i++)
        aliases[i] = kg_str_dup(local->models[i].alias);
    const char *nearest = kg_str_nearest(alias, (const char *const *)aliases, count);
    if (nearest != NULL)
        kg_hint(err, "did you mean %s?", nearest);
    else
        kg_hint(err, "models are in [models] of local.toml");
    kg_list_free(aliases);
}

static int knob_check_model(const struct projects_knob_check *check, struct kg_err *err)
{
    const struct kg_node *filter = knob_check_bound(check, "filter", KG_STRING);
    int result = need_type(check, KG_STRING, "an alias of a model", err);
    if (result < 0)
        return result;
    const struct local_model *model =
        check->local ? local_model_find(check->local, check->value->text) : NULL;
    if (model == NULL) {
        result = knob_check_refuse(check, err, "is not one of the operator's models");
        hint_alias(check->local, check->value->text, err);
        return result;
    }
    bool fits = filter == NULL || kg_str_is(filter->text, "any") ||
                (kg_str_is(filter->text, "reasoning") ? model->reasoning : model->fast);
    if (fits)
        return 0;
    result = knob_check_refuse(check, err, "is a model that does not fit its filter, %.*s",
                               KG_STR_CUT(filter->text, KG_CUT_NAME));
    kg_hint(err, "a model that is says so in local.toml: %.*s = true",
            KG_STR_CUT(filter->text, KG_CUT_NAME));
    return result;
}

/* The grammar of capabilities says what such a path may look like; so does the cage. */
static int knob_check_path(const struct projects_knob_check *check, struct kg_err *err)
{
    const struct kg_node *prefixes = knob_check_bound(check, "prefixes", KG_ARRAY);
    kg_auto(capability_free) struct capability capability = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_err wrong;
    int result = need_type(check, KG_STRING, "a path", err);
    if (result < 0)
        return result;
    if (prefixes != NULL && !manifest_knob_allows(check->knob, check->value->text)) {
        knob_check_put_choices(&text, prefixes);
        return knob_check_refuse(check, err,
                                 "does not have one of its prefixes, which are %" KG_S_PATH,
                                 kg_buf_terminate(&text));
    }
    kg_buf_text(&text, "write:fs:");
    kg_buf_str(&text, check->value->text);
    if (capability_parse(kg_buf_view(&text), &capability, &wrong) == 0)
        return 0;
    result = knob_check_refuse(check, err, "is not a path that a plugin can have%s%" KG_S_CAUSE,
                               check->hidden ? "" : ": ", check->hidden ? "" : wrong.message);
    kg_hint(err, "write it like config:/memory, without . and ..");
    return result;
}

int projects_knob_check(const struct projects_knob_check *check, struct kg_err *err)
{
    static const struct {
        const char *type;
        int (*check)(const struct projects_knob_check *check, struct kg_err *err);
    } rows[] = {
        {"range", check_range},
        {"int_range", check_int_range},
        {"enum", knob_check_enum},
        {"boolean", check_boolean},
        {"text", knob_check_text},
        {"multiline", check_multiline},
        {"model_alias", knob_check_model},
        {"path", knob_check_path},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        if (strcmp(check->knob->type, rows[i].type) == 0)
            return rows[i].check(check, err);
    return kg_fail(err, KG_E_INVALID_PARAMS, "knob %s: its type, %" KG_S_NAME ", is not known",
                   check->knob->name, check->knob->type);
}
