/*
 * All that local.toml names, looked up at once, away from the loop. What was found, and why
 * something was not, does not change from then on: whoever reads the file gets the same answers.
 */
#include "secret/internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define REFERENCES_MAX 1024
#define PROGRAM_MS_MAX 60000 /* for all that a program is asked */

struct value {
    enum local_reference_kind kind;
    char *name;            /* owned, like the others */
    struct kg_buf text;    /* empty: it was not found */
    struct kg_err problem; /* why not */
    char **used_by;
    bool is_sealed;
    int64_t set_ms;
};

struct secret_values {
    atomic_uint references;
    struct value *items; /* owned */
    size_t count;
    bool has_command; /* what is not sealed may be a program's */
};

/* -- the list ---------------------------------------------------------------------------------- */

static struct value *values_find(const struct secret_values *values, enum local_reference_kind kind,
                                 struct kg_str name)
{
    for (size_t i = 0; i < values->count; i++)
        if (values->items[i].kind == kind && kg_str_is(name, values->items[i].name))
            return &values->items[i];
    return NULL;
}

static struct value *find_or_add(struct secret_values *values, enum local_reference_kind kind,
                                 struct kg_str name)
{
    struct value *value = values_find(values, kind, name);
    if (value != NULL)
        return value;
    values->items = kg_realloc(values->items, (values->count + 1) * sizeof(*values->items));
    value = &values->items[values->count++];
    *value = (struct value){.kind = kind, .name = kg_str_dup(name), .used_by = kg_list_new(0)};
    return value;
}

struct secret_values *secret_values_keep(struct secret_values *values)
{
    atomic_fetch_add(&values->references, 1);
    return values;
}

void secret_values_drop(struct secret_values *values)
{
    if (values == NULL || atomic_fetch_sub(&values->references, 1) > 1)
        return;
    for (size_t i = 0; i < values->count; i++) {
        free(values->items[i].name);
        secret_wipe(&values->items[i].text);
        kg_list_free(values->items[i].used_by);
    }
    free(values->items);
    free(values);
}

/* -- looking up -------------------------------------------------------------------------------- */

static int values_collect(void *data, const struct local_reference *reference,
                          struct kg_buf *ret_value, struct kg_err *err)
{
    struct secret_values *values = data;
    (void)ret_value;
    if (values->count == REFERENCES_MAX)
        return kg_fail(err, KG_E_TOO_LARGE, "more than %d secrets and files are named",
                       REFERENCES_MAX);
    struct value *value = find_or_add(values, reference->kind, reference->name);
    bool in_table = reference->table.length > 0;
    char *user = kg_format("%.*s%s%.*s", KG_STR_CUT(reference->section, KG_CUT_NAME),
                           in_table ? "." : "", KG_STR_CUT(reference->table, KG_CUT_PATH));
    if (kg_list_has(value->used_by, kg_str(user)))
        free(user);
    else
        kg_list_add(&value->used_by, user);
    return 0;
}

static void add_sealed(struct secret_values *values, const struct secret_places *places)
{
    struct secrets sealed = {0};
    struct kg_err err = {0};
    int result = secrets_read(places, &sealed, &err);
    for (size_t i = 0; i < sealed.count; i++) {
        struct value *value = find_or_add(values, LOCAL_SECRET, kg_str(sealed.items[i].name));
        value->is_sealed = true;
        value->set_ms = sealed.items[i].set_ms;
        kg_buf_str(&value->text, kg_buf_view(&sealed.items[i].value));
    }
    secrets_free(&sealed);
    for (size_t i = 0; result < 0 && i < values->count; i++)
        if (values->items[i].kind == LOCAL_SECRET)
            values->items[i].problem = err;
    if (result < 0)
        kg_log(KG_ERROR_LEVEL, "%s; %s", err.message, err.hint);
}

static int check_not_shared(const char *path, struct kg_err *err)
{
    struct stat there;
    if (stat(path, &there) < 0)
        return kg_fail_errno(err, errno, "stat %s", path);
    if ((there.st_uid == geteuid() || there.st_uid == 0) && (there.st_mode & 022) == 0)
        return 0;
    kg_fail(err, KG_E_REFUSED, "%s can be written by others: its [secrets] command is not run",
            path);
    return kg_hint(err, "chown and chmod it so that only you can write it");
}

/* Whoever writes the file, or puts another in its place, says what is run as the operator. */
static int values_check_file(const char *local_file, struct kg_err *err)
{
    kg_auto(kg_free) char *real = realpath(local_file, NULL);
    if (real == NULL)
        return kg_fail_errno(err, errno, "find %s", local_file);
    kg_auto(kg_free) char *folder = kg_path_folder(real);
    int result = check_not_shared(real, err);
    return result < 0 ? result : check_not_shared(folder, err);
}

static void ask_program(struct secret_values *values, const char *local_file,
                        const struct local_secrets *program)
{
    uint64_t until_ms = kg_monotonic_ms() + PROGRAM_MS_MAX;
    struct kg_err refused = {0};
    int allowed = program->command ? values_check_file(local_file, &refused) : 0;
    for (size_t i = 0; i < values->count; i++) {
        struct value *value = &values->items[i];
        struct kg_err *err = &value->problem;
        if (value->kind != LOCAL_SECRET || value->text.length > 0 || err->code != KG_OK)
            continue;
        if (program->command == NULL) {
            kg_fail(err, KG_E_NOT_FOUND, "there is no secret %s", value->name);
            kg_hint(err, "kaged secret set %s", value->name);
        } else if (allowed < 0) {
            *err = refused;
        } else if (kg_monotonic_ms() >= until_ms) {
            kg_fail(err, KG_E_IO, "the [secrets] command has taken %d s, and is not asked for %s",
                    PROGRAM_MS_MAX / 1000, value->name);
        } else if (secret_ask_program(program, kg_str(value->name), &value->text, err) < 0) {
            kg_wrap(err, -1, "secret %s", value->name);
        }
    }
}

static void values_read_file(struct value *value)
{
    struct kg_buf *text = &value->text;
    struct kg_err *err = &value->problem;
    if (kg_read_file(value->name, SECRET_BYTES_MAX, text, err) < 0)
        return;
    text->length -= text->length > 0 && text->data[text->length - 1] == '\n';
    if (text->length == 0)
        kg_fail(err, KG_E_INVALID_CONFIG, "%s is empty", value->name);
    else if (memchr(text->data, '\0', text->length) != NULL ||
             kg_utf8_valid(kg_buf_view(text)) != text->length)
        kg_fail(err, KG_E_INVALID_CONFIG, "%s is not a file of text", value->name);
    if (err->code != KG_OK)
        secret_wipe(text);
}

static int values_compare(const void *a, const void *b)
{
    const struct value *left = a, *right = b;
    int kind = (int)left->kind - (int)right->kind;
    return kind != 0 ? kind : strcmp(left->name, right->name);
}

static struct secret_values *read_values(const char *local_file, const struct secret_places *places,
                                         bool looks_up, struct kg_err *err)
{
    struct secret_values *values = kg_alloc(sizeof(*values));
    const struct local_lookup collector = {.find = values_collect, .data = values};
    atomic_init(&values->references, 1);
    struct local *local = local_load_references(local_file, &collector, err);
    if (local == NULL) {
        secret_values_drop(values);
        return NULL;
    }
    add_sealed(values, places);
    values->has_command = local->secrets.command != NULL;
    if (looks_up)
        ask_program(values, local_file, &local->secrets);
    for (size_t i = 0; looks_up && i < values->count; i++)
        if (values->items[i].kind == LOCAL_FILE)
            values_read_file(&values->items[i]);
    local_free(local);
    if (values->count > 0)
        qsort(values->items, values->count, sizeof(*values->items), values_compare);
    return values;
}

struct secret_values *secret_values_read(const char *local_file, const struct secret_places *places,
                                         struct kg_err *err)
{
    return read_values(local_file, places, true, err);
}

struct secret_values *secret_values_list(const char *local_file, const struct secret_places *places,
                                         struct kg_err *err)
{
    return read_values(local_file, places, false, err);
}

/* -- answers ----------------------------------------------------------------------------------- */

static int values_answer(void *data, const struct local_reference *reference,
                         struct kg_buf *ret_value, struct kg_err *err)
{
    const struct value *value = values_find(data, reference->kind, reference->name);
    if (value == NULL) {
        kg_fail(err, KG_E_NOT_FOUND, "%.*s was not named when the file was read",
                KG_STR_CUT(reference->name, KG_CUT_PATH));
        return kg_hint(err, "kaged reload");
    }
    if (value->text.length == 0) {
        if (err != NULL)
            *err = value->problem;
        return -ENOENT;
    }
    kg_buf_str(ret_value, kg_buf_view(&value->text));
    return 0;
}

struct local_lookup secret_values_lookup(const struct secret_values *values)
{
    return (struct local_lookup){.find = values_answer, .data = (void *)values};
}

size_t secret_values_count(const struct secret_values *values)
{
    size_t count = 0;
    while (count < values->count && values->items[count].kind == LOCAL_SECRET)
        count++;
    return count;
}

struct secret_fact secret_values_fact(const struct secret_values *values, size_t index)
{
    const struct value *value = &values->items[index];
    return (struct secret_fact){
        .name = value->name,
        .is_sealed = value->is_sealed,
        .is_command = !value->is_sealed && values->has_command,
        .is_known = value->text.length > 0,
        .is_hidden = value->text.length >= SECRET_HIDDEN_MIN,
        .set_ms = value->set_ms,
        .used_by = value->used_by,
    };
}

void secret_values_each(const struct secret_values *values, secret_value_fn *visit, void *data)
{
    for (size_t i = 0; i < values->count; i++)
        if (values->items[i].text.length > 0)
            visit(data, kg_buf_view(&values->items[i].text));
}

bool secret_values_find(const struct secret_values *values, struct kg_str name,
                        struct secret_fact *ret_fact)
{
    const struct value *value = values_find(values, LOCAL_SECRET, name);
    if (value != NULL)
        *ret_fact = secret_values_fact(values, (size_t)(value - values->items));
    return value != NULL;
}

int secret_check_unused(const struct secret_values *values, struct kg_str name, struct kg_err *err)
{
    struct secret_fact fact;
    if (!secret_values_find(values, name, &fact) || fact.used_by[0] == NULL)
        return 0;
    kg_fail(err, KG_E_REFUSED, "secret %s is used by %s%s", fact.name, fact.used_by[0],
            fact.used_by[1] != NULL ? " and others" : "");
    return kg_hint(err, "remove ${secret:%s} from local.toml first, or use --force", fact.name);
}

void secret_fact_json(const struct secret_fact *fact, struct kg_json_writer *json)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "name", fact->name);
    kg_json_named_text(json, "source",
                       fact->is_sealed    ? "sealed"
                       : fact->is_command ? "command"
                                          : "missing");
    kg_json_named_bool(json, "redacted", fact->is_hidden);
    kg_json_named_time(json, "set_at", fact->set_ms);
    kg_json_named_list(json, "used_by", fact->used_by);
    kg_json_end(json, '}');
}

void secret_values_json(const struct secret_values *values, struct kg_buf *ret_json)
{
    struct kg_json_writer json = kg_json_writer(ret_json);
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "secrets", '[');
    for (size_t i = 0; i < secret_values_count(values); i++) {
        const struct secret_fact fact = secret_values_fact(values, i);
        secret_fact_json(&fact, &json);
    }
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
}
