/*
 * Settings of packages: no value of another type than the schema says gets in or out, and what is
 * sensitive leaves this file sealed, masked, or in the one object that its process is told.
 */
#include "catalog/settings.h"

#include <errno.h>
#include <stdlib.h>

/* -- what is stored ---------------------------------------------------------------------------- */

struct stored {
    struct kg_doc *doc; /* owned; NULL: there is nothing */
    const struct kg_node *plain, *sealed;
};

static struct stored stored_read(const char *text_or_null)
{
    struct stored stored = {0};
    if (text_or_null != NULL)
        stored.doc = kg_json_read(kg_str(text_or_null), NULL);
    if (stored.doc != NULL) {
        stored.plain = kg_node_typed(stored.doc->root, "plain", KG_OBJECT);
        stored.sealed = kg_node_typed(stored.doc->root, "sealed", KG_OBJECT);
    }
    return stored;
}

static void stored_free(struct stored *stored)
{
    kg_doc_free(stored->doc);
}

static const struct kg_node *member_of(const struct kg_node *object_or_null, struct kg_str key)
{
    const struct kg_member *member = object_or_null ? kg_node_member(object_or_null, key) : NULL;
    return member != NULL ? &member->value : NULL;
}

static bool stored_has(const struct stored *stored, struct kg_str key)
{
    return member_of(stored->plain, key) != NULL || member_of(stored->sealed, key) != NULL;
}

/* -- schemas ----------------------------------------------------------------------------------- */

static const struct kg_node *item_find(const struct kg_node *schema, struct kg_str key)
{
    for (uint32_t i = 0; i < schema->count; i++)
        if (kg_str_equal(kg_node_text(&schema->items[i], "key"), key))
            return &schema->items[i];
    return NULL;
}

static bool item_has_default(const struct kg_node *item)
{
    const struct kg_node *value = kg_node_get(item, "default");
    return value != NULL && value->type != KG_NULL;
}

static bool is_integer(const struct kg_node *value)
{
    for (size_t i = 0; value->type == KG_NUMBER && i < value->text.length; i++)
        if (!kg_is_digit(value->text.data[i]) && value->text.data[i] != '-')
            return false;
    return value->type == KG_NUMBER;
}

/* Whether a value is of the type that the item says. */
static bool settings_fits(const struct kg_node *item, const struct kg_node *value)
{
    static const struct {
        const char *name;
        enum kg_type type;
    } types[] = {{"str", KG_STRING}, {"int", KG_NUMBER}, {"float", KG_NUMBER},
                 {"bool", KG_BOOL},  {"list", KG_ARRAY}, {"dict", KG_OBJECT}};
    struct kg_str wanted = kg_node_text(item, "type");
    if (kg_str_is(wanted, "int"))
        return is_integer(value);
    for (size_t i = 0; i < KG_COUNT(types); i++)
        if (kg_str_is(wanted, types[i].name))
            return value->type == types[i].type;
    return false;
}

/* -- sealing ----------------------------------------------------------------------------------- */

static void seal_context(const struct settings_seal *seal, struct kg_str key, struct kg_buf *out)
{
    kg_buf_printf(out, "kaged catalog\n%s\n", seal->scope);
    kg_buf_str(out, key);
}

static int value_seal(const struct settings_seal *seal, struct kg_str key, struct kg_str json,
                      struct kg_buf *ret_box, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf context = {0};
    seal_context(seal, key, &context);
    return secret_seal(seal->places, kg_buf_view(&context), json, ret_box, err);
}

static int value_open(const struct settings_seal *seal, struct kg_str key, struct kg_str box,
                      struct kg_buf *ret_json, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf context = {0};
    seal_context(seal, key, &context);
    int result = secret_unseal(seal->places, kg_buf_view(&context), box, ret_json, err);
    return kg_wrap(err, result, "setting %.*s", KG_STR_CUT(key, 128));
}

/* -- changing ---------------------------------------------------------------------------------- */

static void put_member(struct kg_json_writer *json, struct kg_str key, const struct kg_node *value)
{
    kg_auto(kg_free) char *name = kg_str_dup(key);
    kg_json_named_node(json, name, value);
}

static bool is_mask(const struct kg_node *value)
{
    return value->type == KG_STRING && kg_str_is(value->text, CATALOG_MASK);
}

/* Whether what was sent means: leave it as it is. */
static bool is_unchanged(const struct kg_node *item, const struct stored *stored,
                         const struct kg_member *sent)
{
    return is_mask(&sent->value) &&
           (kg_node_is_true(item, "sensitive") || member_of(stored->sealed, sent->key) != NULL);
}

static int sent_check(const struct kg_node *schema, const struct stored *stored,
                      const struct kg_member *sent, struct kg_err *err)
{
    const struct kg_node *item = item_find(schema, sent->key);
    struct kg_str type = kg_node_text(item, "type");
    if (item == NULL && sent->value.type == KG_NULL && stored_has(stored, sent->key))
        return 0; /* of a version before */
    if (item == NULL)
        return kg_fail(err, KG_E_INVALID_PARAMS, "the package has no setting \"%.*s\"",
                       KG_STR_CUT(sent->key, 128));
    if (sent->value.type == KG_NULL || is_unchanged(item, stored, sent) ||
        settings_fits(item, &sent->value))
        return 0;
    return kg_fail(err, KG_E_INVALID_PARAMS,
                   "setting %.*s: its type is %.*s, and this is a JSON %s",
                   KG_STR_CUT(sent->key, 128), KG_STR_ARG(type), kg_type_names[sent->value.type]);
}

struct changing {
    const struct kg_node *schema, *sent;
    const struct stored *stored;
    const struct settings_seal *seal;
};

/* Whether a member of what is stored is neither replaced nor taken away. */
static bool changing_keeps(const struct changing *changing, struct kg_str key)
{
    const struct kg_member *sent = kg_node_member(changing->sent, key);
    const struct kg_node *item = item_find(changing->schema, key);
    return sent == NULL || (item != NULL && is_unchanged(item, changing->stored, sent));
}

static void put_kept(struct kg_json_writer *json, const struct changing *changing,
                     const struct kg_node *object_or_null)
{
    for (uint32_t i = 0; object_or_null != NULL && i < object_or_null->count; i++)
        if (changing_keeps(changing, object_or_null->members[i].key))
            put_member(json, object_or_null->members[i].key, &object_or_null->members[i].value);
}

static int put_sent(struct kg_json_writer *json, const struct changing *changing, bool sensitive,
                    struct kg_err *err)
{
    int result = 0;
    for (uint32_t i = 0; result == 0 && i < changing->sent->count; i++) {
        const struct kg_member *sent = &changing->sent->members[i];
        const struct kg_node *item = item_find(changing->schema, sent->key);
        if (item == NULL || sent->value.type == KG_NULL ||
            kg_node_is_true(item, "sensitive") != sensitive ||
            is_unchanged(item, changing->stored, sent))
            continue;
        if (!sensitive) {
            put_member(json, sent->key, &sent->value);
            continue;
        }
        kg_auto(secret_wipe) struct kg_buf value = {0};
        kg_auto(kg_buf_free) struct kg_buf box = {0};
        kg_auto(kg_free) char *name = kg_str_dup(sent->key);
        kg_json_put_node(&value, &sent->value);
        result = value_seal(changing->seal, sent->key, kg_buf_view(&value), &box, err);
        kg_json_named_str(json, name, kg_buf_view(&box));
    }
    return result;
}

static int put_changed(struct kg_buf *out, const struct changing *changing, struct kg_err *err)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "plain", '{');
    put_kept(&json, changing, changing->stored->plain);
    int result = put_sent(&json, changing, false, err);
    kg_json_end(&json, '}');
    kg_json_named_begin(&json, "sealed", '{');
    put_kept(&json, changing, changing->stored->sealed);
    if (result == 0)
        result = put_sent(&json, changing, true, err);
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    if (result == 0 && out->length > SETTINGS_BYTES_MAX)
        return kg_fail(err, KG_E_TOO_LARGE, "the settings have more than %zu bytes",
                       SETTINGS_BYTES_MAX);
    return result;
}

int settings_change(const struct kg_node *schema, const char *stored_or_null,
                    const struct kg_node *sent, const struct settings_seal *seal,
                    struct kg_buf *ret_stored, struct kg_err *err)
{
    kg_auto(stored_free) struct stored stored = stored_read(stored_or_null);
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    const struct changing changing = {schema, sent, &stored, seal};
    for (uint32_t i = 0; i < sent->count; i++) {
        int result = sent_check(schema, &stored, &sent->members[i], err);
        if (result < 0)
            return result;
    }
    int result = put_changed(&out, &changing, err);
    if (result == 0)
        kg_buf_str(ret_stored, kg_buf_view(&out));
    return result;
}

int settings_reseal(const char *text, const struct settings_seal *seal, struct kg_buf *ret_stored,
                    struct kg_err *err)
{
    kg_auto(stored_free) struct stored stored = stored_read(text);
    struct kg_json_writer json = kg_json_writer(ret_stored);
    int result = 0;
    kg_json_begin(&json, '{');
    kg_json_named_node(&json, "plain", stored.plain);
    kg_json_named_begin(&json, "sealed", '{');
    for (uint32_t i = 0; result == 0 && stored.sealed != NULL && i < stored.sealed->count; i++) {
        const struct kg_member *member = &stored.sealed->members[i];
        kg_auto(secret_wipe) struct kg_buf value = {0};
        kg_auto(kg_buf_free) struct kg_buf box = {0};
        kg_auto(kg_free) char *name = kg_str_dup(member->key);
        result = value_open(seal, member->key, member->value.text, &value, err);
        if (result == 0)
            result = value_seal(seal, member->key, kg_buf_view(&value), &box, err);
        kg_json_named_str(&json, name, kg_buf_view(&box));
    }
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    return result;
}

/* -- showing ----------------------------------------------------------------------------------- */

/* What is shown of a key: the value, a mask, or null where there is none that fits. */
static void put_shown(struct kg_json_writer *json, const struct kg_node *item,
                      const struct stored *stored)
{
    struct kg_str key = kg_node_text(item, "key");
    const struct kg_node *plain = member_of(stored->plain, key);
    if (member_of(stored->sealed, key) != NULL ||
        (plain != NULL && kg_node_is_true(item, "sensitive")))
        kg_json_text(json, CATALOG_MASK);
    else if (plain != NULL && settings_fits(item, plain))
        kg_json_node(json, plain);
    else
        kg_json_null(json);
}

void settings_put(struct kg_json_writer *json, const struct kg_node *schema,
                  const char *stored_or_null)
{
    kg_auto(stored_free) struct stored stored = stored_read(stored_or_null);
    kg_json_begin(json, '{');
    for (uint32_t i = 0; i < schema->count; i++) {
        kg_auto(kg_free) char *key = kg_str_dup(kg_node_text(&schema->items[i], "key"));
        if (!stored_has(&stored, kg_str(key)))
            continue;
        kg_json_key(json, key);
        put_shown(json, &schema->items[i], &stored);
    }
    kg_json_end(json, '}');
}

static void put_item(struct kg_json_writer *json, const struct kg_node *item)
{
    struct kg_str name = kg_node_text(item, "name");
    kg_json_named_str(json, "key", kg_node_text(item, "key"));
    kg_json_named_str(json, "name", name.length > 0 ? name : kg_node_text(item, "key"));
    kg_json_named_str(json, "type", kg_node_text(item, "type"));
    if (item_has_default(item) && kg_node_is_true(item, "sensitive"))
        kg_json_named_text(json, "default", CATALOG_MASK);
    else
        kg_json_named_node(json, "default", kg_node_get(item, "default"));
    kg_json_named_str(json, "description", kg_node_text(item, "description"));
    kg_json_named_bool(json, "required", kg_node_is_true(item, "required"));
    kg_json_named_bool(json, "sensitive", kg_node_is_true(item, "sensitive"));
}

void settings_put_schema(struct kg_json_writer *json, const struct kg_node *schema)
{
    kg_json_begin(json, '[');
    for (uint32_t i = 0; i < schema->count; i++) {
        kg_json_begin(json, '{');
        put_item(json, &schema->items[i]);
        kg_json_end(json, '}');
    }
    kg_json_end(json, ']');
}

void settings_put_form(struct kg_json_writer *json, const struct kg_node *schema,
                       const char *stored_or_null)
{
    kg_auto(stored_free) struct stored stored = stored_read(stored_or_null);
    kg_json_begin(json, '[');
    for (uint32_t i = 0; i < schema->count; i++) {
        kg_json_begin(json, '{');
        put_item(json, &schema->items[i]);
        kg_json_key(json, "value");
        put_shown(json, &schema->items[i], &stored);
        kg_json_named_bool(json, "is_set",
                           stored_has(&stored, kg_node_text(&schema->items[i], "key")));
        kg_json_end(json, '}');
    }
    kg_json_end(json, ']');
}

char **settings_missing(const struct kg_node *schema, const char *stored_or_null)
{
    kg_auto(stored_free) struct stored stored = stored_read(stored_or_null);
    char **missing = kg_list_new(0);
    for (uint32_t i = 0; i < schema->count; i++) {
        const struct kg_node *item = &schema->items[i];
        struct kg_str key = kg_node_text(item, "key");
        const struct kg_node *plain = member_of(stored.plain, key);
        bool has = item_has_default(item) || member_of(stored.sealed, key) != NULL ||
                   (plain != NULL && settings_fits(item, plain));
        if (kg_node_is_true(item, "required") && !has)
            kg_list_add(&missing, kg_str_dup(key));
    }
    return missing;
}

char **settings_dropped(const struct kg_node *schema, const char *stored_or_null)
{
    kg_auto(stored_free) struct stored stored = stored_read(stored_or_null);
    char **dropped = kg_list_new(0);
    for (uint32_t i = 0; stored.plain != NULL && i < stored.plain->count; i++) {
        const struct kg_member *member = &stored.plain->members[i];
        const struct kg_node *item = item_find(schema, member->key);
        if (item == NULL || !settings_fits(item, &member->value))
            kg_list_add(&dropped, kg_str_dup(member->key));
    }
    for (uint32_t i = 0; stored.sealed != NULL && i < stored.sealed->count; i++)
        if (item_find(schema, stored.sealed->members[i].key) == NULL)
            kg_list_add(&dropped, kg_str_dup(stored.sealed->members[i].key));
    return dropped;
}

/* -- merging ----------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    return kg_str_compare(kg_node_text(*(const struct kg_node *const *)a, "key"),
                          kg_node_text(*(const struct kg_node *const *)b, "key"));
}

/* The layer's value as JSON, appended; nothing is where it has none, or none that fits. */
static int layer_value(const struct settings_layer *layer, const struct stored *stored,
                       const struct kg_node *item, struct kg_buf *ret_json, struct kg_err *err)
{
    struct kg_str key = kg_node_text(item, "key");
    const struct kg_node *plain = member_of(stored->plain, key);
    const struct kg_node *sealed = member_of(stored->sealed, key);
    if (sealed == NULL) {
        if (plain != NULL && settings_fits(item, plain))
            kg_json_put_node(ret_json, plain);
        return 0;
    }
    kg_auto(secret_wipe) struct kg_buf opened = {0};
    int result = value_open(&layer->seal, key, sealed->text, &opened, err);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        result == 0 ? kg_json_read(kg_buf_view(&opened), NULL) : NULL;
    if (doc != NULL && settings_fits(item, doc->root))
        kg_buf_str(ret_json, kg_buf_view(&opened));
    return result;
}

static int item_value(const struct settings_layer *layers, const struct stored *stored,
                      size_t count, const struct kg_node *item, struct kg_buf *ret_json,
                      struct kg_err *err)
{
    int result = 0;
    for (size_t i = count; result == 0 && ret_json->length == 0 && i > 0; i--)
        result = layer_value(&layers[i - 1], &stored[i - 1], item, ret_json, err);
    if (result == 0 && ret_json->length == 0 && item_has_default(item))
        kg_json_put_node(ret_json, kg_node_get(item, "default"));
    return result;
}

int settings_merge(const struct kg_node *schema, const struct settings_layer *layers, size_t count,
                   struct kg_buf *ret_values, char ***ret_missing, struct kg_err *err)
{
    kg_auto(secret_wipe) struct kg_buf out = {0};
    kg_auto(kg_free) const struct kg_node **items =
        kg_alloc_array(schema->count + 1, sizeof(*items));
    kg_auto(kg_free) struct stored *stored = kg_alloc_array(count + 1, sizeof(*stored));
    struct kg_json_writer json = kg_json_writer(&out);
    char **missing = kg_list_new(0);
    int result = 0;
    for (uint32_t i = 0; i < schema->count; i++)
        items[i] = &schema->items[i];
    qsort(items, schema->count, sizeof(*items), by_key);
    for (size_t i = 0; i < count; i++)
        stored[i] = stored_read(layers[i].stored);
    kg_json_begin(&json, '{');
    for (uint32_t i = 0; result == 0 && i < schema->count; i++) {
        kg_auto(secret_wipe) struct kg_buf value = {0};
        kg_auto(kg_free) char *key = kg_str_dup(kg_node_text(items[i], "key"));
        result = item_value(layers, stored, count, items[i], &value, err);
        if (value.length == 0 && kg_node_is_true(items[i], "required"))
            kg_list_add(&missing, kg_strdup(key));
        kg_json_named_raw(&json, key, value.length > 0 ? kg_buf_view(&value) : KG_STR("null"));
    }
    kg_json_end(&json, '}');
    for (size_t i = 0; i < count; i++)
        stored_free(&stored[i]);
    if (result < 0) {
        kg_list_free(missing);
        return result;
    }
    kg_buf_str(ret_values, kg_buf_view(&out));
    *ret_missing = missing;
    return 0;
}

int settings_need(const char *pid, char *const *missing, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf names = {0};
    if (missing == NULL || missing[0] == NULL)
        return 0;
    for (char *const *name = missing; *name != NULL; name++)
        kg_buf_printf(&names, "%s%s", name == missing ? "" : ", ", *name);
    kg_fail(err, KG_E_CONFIG_INVALID, "package %s: missing required settings: %.400s", pid,
            kg_buf_terminate(&names));
    return kg_hint(err, "kaged catalog set %s KEY --org ORG", pid);
}
