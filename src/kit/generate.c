/*
 * Walks the schema as it was written and writes an instance. Two of each: as small as it may be,
 * and with all that is described; wrong ones are a good one with one member changed. Everything is
 * bounded: depth, properties, lengths.
 */
#include "kit/generate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define DEPTH_MAX      8
#define PROPERTIES_MAX 64
#define TEXT_MAX       4096
#define ITEMS_MAX      64

struct maker {
    const struct kg_node *document;
    bool full; /* all that is described; else as little as may be */
    unsigned depth;
};

static void generate_put_value(struct maker *maker, const struct kg_node *node,
                               struct kg_json_writer *json);

/* -- reading schemas --------------------------------------------------------------------------- */

static bool generate_get_number(const struct kg_node *node, const char *key, double *ret_number)
{
    const struct kg_node *found = kg_node_typed(node, key, KG_NUMBER);
    if (found == NULL)
        return false;
    kg_auto(kg_free) char *text = kg_str_dup(found->text);
    *ret_number = strtod(text, NULL);
    return isfinite(*ret_number);
}

static size_t get_size(const struct kg_node *node, const char *key, size_t otherwise)
{
    double number;
    if (!generate_get_number(node, key, &number) || number < 0)
        return otherwise;
    return number > TEXT_MAX ? TEXT_MAX : (size_t)number;
}

/* "#/$defs/x": the only references that are followed. */
static const struct kg_node *generate_resolve(const struct maker *maker, struct kg_str pointer)
{
    const struct kg_node *node = maker->document;
    if (kg_str_is(pointer, "#"))
        return node;
    if (!kg_str_starts(pointer, "#/"))
        return NULL;
    kg_auto(kg_free) char *path = kg_str_dup(pointer);
    char *rest = NULL;
    for (char *part = strtok_r(path + 2, "/", &rest); part != NULL && node != NULL;
         part = strtok_r(NULL, "/", &rest))
        node = kg_node_get(node, part);
    return node;
}

/* Where a schema only points elsewhere, or leaves a choice: what it comes to. */
static const struct kg_node *generate_follow(const struct maker *maker, const struct kg_node *node)
{
    for (unsigned step = 0; node != NULL && node->type == KG_OBJECT && step < DEPTH_MAX; step++) {
        const struct kg_node *reference = kg_node_typed(node, "$ref", KG_STRING);
        const struct kg_node *choice = kg_node_typed(node, "anyOf", KG_ARRAY);
        if (choice == NULL)
            choice = kg_node_typed(node, "oneOf", KG_ARRAY);
        if (reference != NULL)
            node = generate_resolve(maker, reference->text);
        else if (choice != NULL && choice->count > 0 && kg_node_get(node, "properties") == NULL)
            node = &choice->items[maker->full ? choice->count - 1 : 0];
        else
            break;
    }
    return node;
}

static const char *generate_type_of(const struct kg_node *node)
{
    static const struct {
        const char *key, *type;
    } signs[] = {
        {"properties", "object"}, {"required", "object"}, {"additionalProperties", "object"},
        {"items", "array"},       {"minItems", "array"},  {"prefixItems", "array"},
        {"minimum", "number"},    {"maximum", "number"},  {"multipleOf", "number"},
    };
    static const char *const types[] = {"object", "array",   "string", "integer",
                                        "number", "boolean", "null"};
    const struct kg_node *type = kg_node_get(node, "type");
    if (type != NULL && type->type == KG_ARRAY && type->count > 0)
        type = &type->items[0];
    for (size_t i = 0; type != NULL && type->type == KG_STRING && i < KG_COUNT(types); i++)
        if (kg_str_is(type->text, types[i]))
            return types[i];
    for (size_t i = 0; i < KG_COUNT(signs); i++)
        if (kg_node_get(node, signs[i].key) != NULL)
            return signs[i].type;
    return "string";
}

/* A value that the schema itself gives, or NULL. */
static const struct kg_node *generate_given(const struct maker *maker, const struct kg_node *node)
{
    const struct kg_node *constant = kg_node_get(node, "const");
    const struct kg_node *listed = kg_node_typed(node, "enum", KG_ARRAY);
    const struct kg_node *examples = kg_node_typed(node, "examples", KG_ARRAY);
    if (constant != NULL)
        return constant;
    if (listed != NULL && listed->count > 0)
        return &listed->items[maker->full ? listed->count - 1 : 0];
    if (maker->full && examples != NULL && examples->count > 0)
        return &examples->items[0];
    const struct kg_node *standard = kg_node_get(node, "default");
    return standard == NULL && examples != NULL && examples->count > 0 ? &examples->items[0]
                                                                       : standard;
}

/* -- scalars ----------------------------------------------------------------------------------- */

static const char *of_format(const struct kg_node *node)
{
    static const char *const formats[][2] = {
        {"date-time", "2026-01-02T03:04:05Z"},
        {"date", "2026-01-02"},
        {"time", "03:04:05Z"},
        {"duration", "P1D"},
        {"email", "kit@example.com"},
        {"hostname", "example.com"},
        {"ipv4", "192.0.2.1"},
        {"ipv6", "2001:db8::1"},
        {"uri", "https://example.com/kit"},
        {"uri-reference", "/kit"},
        {"uuid", "123e4567-e89b-42d3-a456-426614174000"},
        {"json-pointer", "/kit"},
        {"regex", "^kit$"},
    };
    const struct kg_node *format = kg_node_typed(node, "format", KG_STRING);
    for (size_t i = 0; format != NULL && i < KG_COUNT(formats); i++)
        if (kg_str_is(format->text, formats[i][0]))
            return formats[i][1];
    return NULL;
}

static void generate_put_string(const struct maker *maker, const struct kg_node *node,
                                struct kg_json_writer *json)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    const struct kg_node *pattern = kg_node_typed(node, "pattern", KG_STRING);
    size_t least = get_size(node, "minLength", 0), most = get_size(node, "maxLength", TEXT_MAX);
    if (of_format(node) != NULL)
        kg_buf_text(&text, of_format(node));
    else if (pattern != NULL)
        kit_sample_pattern(pattern->text, &text);
    else
        kg_buf_text(&text, maker->full ? "some text" : "x");
    while (text.length < least)
        kg_buf_char(&text, text.length > 0 ? text.data[text.length - 1] : 'x');
    if (text.length > most)
        text.length = most;
    kg_json_str(json, kg_buf_view(&text));
}

static void put_double(double number, struct kg_json_writer *json)
{
    char text[64];
    if (number == floor(number) && fabs(number) < 1e15)
        snprintf(text, sizeof(text), "%lld", (long long)number);
    else
        snprintf(text, sizeof(text), "%.17g", number);
    kg_json_raw(json, kg_str(text));
}

/* The bounds with their exclusive kin; infinite where there is none. */
static void find_bounds(const struct kg_node *node, double step, double *ret_least,
                        double *ret_most)
{
    double number;
    *ret_least = -INFINITY;
    *ret_most = INFINITY;
    if (generate_get_number(node, "minimum", &number))
        *ret_least = number;
    if (generate_get_number(node, "exclusiveMinimum", &number) && number + step > *ret_least)
        *ret_least = number + step;
    if (generate_get_number(node, "maximum", &number))
        *ret_most = number;
    if (generate_get_number(node, "exclusiveMaximum", &number) && number - step < *ret_most)
        *ret_most = number - step;
}

static void generate_put_number(const struct maker *maker, const struct kg_node *node, bool integer,
                                struct kg_json_writer *json)
{
    double least, most, multiple = integer ? 1 : 0;
    generate_get_number(node, "multipleOf", &multiple);
    find_bounds(node, integer ? 1 : 0.5, &least, &most);
    double number = maker->full && isfinite(most) ? most : isfinite(least) ? least : 1;
    if (number > most)
        number = most;
    if (multiple > 0)
        number =
            (maker->full && isfinite(most) ? floor(number / multiple) : ceil(number / multiple)) *
            multiple;
    put_double(number, json);
}

/* -- containers -------------------------------------------------------------------------------- */

static void generate_put_array(struct maker *maker, const struct kg_node *node,
                               struct kg_json_writer *json)
{
    const struct kg_node *items = kg_node_get(node, "items");
    const struct kg_node *prefix = kg_node_typed(node, "prefixItems", KG_ARRAY);
    size_t count = get_size(node, "minItems", 0), most = get_size(node, "maxItems", ITEMS_MAX);
    if (maker->full && count == 0)
        count = prefix != NULL ? prefix->count : 1;
    if (count > most)
        count = most;
    kg_json_begin(json, '[');
    for (size_t i = 0; i < count && i < ITEMS_MAX; i++)
        generate_put_value(maker, prefix != NULL && i < prefix->count ? &prefix->items[i] : items,
                           json);
    kg_json_end(json, ']');
}

/* The properties of one object, from all schemas that speak of it. */
struct properties {
    const struct kg_member *items[PROPERTIES_MAX];
    struct kg_str required[PROPERTIES_MAX];
    size_t count, required_count;
};

static bool generate_is_required(const struct properties *properties, struct kg_str key)
{
    for (size_t i = 0; i < properties->required_count; i++)
        if (kg_str_equal(properties->required[i], key))
            return true;
    return false;
}

static bool is_described(const struct properties *properties, struct kg_str key)
{
    for (size_t i = 0; i < properties->count; i++)
        if (kg_str_equal(properties->items[i]->key, key))
            return true;
    return false;
}

static void generate_collect(const struct maker *maker, const struct kg_node *node, unsigned depth,
                             struct properties *properties)
{
    node = generate_follow(maker, node);
    if (node == NULL || node->type != KG_OBJECT || depth > DEPTH_MAX)
        return;
    const struct kg_node *described = kg_node_typed(node, "properties", KG_OBJECT);
    const struct kg_node *required = kg_node_typed(node, "required", KG_ARRAY);
    const struct kg_node *all = kg_node_typed(node, "allOf", KG_ARRAY);
    for (uint32_t i = 0; described != NULL && i < described->count; i++)
        if (properties->count < PROPERTIES_MAX &&
            !is_described(properties, described->members[i].key))
            properties->items[properties->count++] = &described->members[i];
    for (uint32_t i = 0; required != NULL && i < required->count; i++)
        if (properties->required_count < PROPERTIES_MAX && required->items[i].type == KG_STRING)
            properties->required[properties->required_count++] = required->items[i].text;
    for (uint32_t i = 0; all != NULL && i < all->count; i++)
        generate_collect(maker, &all->items[i], depth + 1, properties);
}

static void generate_put_key(struct kg_str key, struct kg_json_writer *json)
{
    kg_auto(kg_free) char *text = kg_str_dup(key);
    kg_json_key(json, text);
}

static void generate_put_object(struct maker *maker, const struct kg_node *node,
                                struct kg_json_writer *json)
{
    static const struct kg_node anything = {.type = KG_BOOL, .boolean = true};
    struct properties properties = {.count = 0};
    generate_collect(maker, node, 0, &properties);
    kg_json_begin(json, '{');
    for (size_t i = 0; i < properties.count; i++) {
        const struct kg_member *member = properties.items[i];
        bool is_forbidden = member->value.type == KG_BOOL && !member->value.boolean;
        if (is_forbidden || (!maker->full && !generate_is_required(&properties, member->key)))
            continue;
        generate_put_key(member->key, json);
        generate_put_value(maker, &member->value, json);
    }
    for (size_t i = 0; i < properties.required_count; i++) {
        if (is_described(&properties, properties.required[i]))
            continue;
        generate_put_key(properties.required[i], json);
        generate_put_value(maker, &anything, json);
    }
    kg_json_end(json, '}');
}

static void put_of_type(struct maker *maker, const struct kg_node *node,
                        struct kg_json_writer *json)
{
    const char *type = generate_type_of(node);
    if (strcmp(type, "object") == 0)
        generate_put_object(maker, node, json);
    else if (strcmp(type, "array") == 0)
        generate_put_array(maker, node, json);
    else if (strcmp(type, "boolean") == 0)
        kg_json_bool(json, maker->full);
    else if (strcmp(type, "null") == 0)
        kg_json_null(json);
    else if (strcmp(type, "string") == 0)
        generate_put_string(maker, node, json);
    else
        generate_put_number(maker, node, strcmp(type, "integer") == 0, json);
}

static void generate_put_value(struct maker *maker, const struct kg_node *node,
                               struct kg_json_writer *json)
{
    node = generate_follow(maker, node);
    if (node == NULL || node->type != KG_OBJECT || maker->depth == DEPTH_MAX) {
        kg_json_text(json, "x");
        return;
    }
    const struct kg_node *value = generate_given(maker, node);
    maker->depth++;
    if (value != NULL)
        kg_json_node(json, value);
    else
        put_of_type(maker, node, json);
    maker->depth--;
}

/* -- checking and keeping ---------------------------------------------------------------------- */

void kit_instances_free(struct kit_instances *instances)
{
    for (size_t i = 0; i < instances->count; i++) {
        free(instances->items[i].json);
        free(instances->items[i].what);
    }
    instances->count = 0;
}

static bool generate_fits(const struct schema *schema, struct kg_str json)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(json, NULL);
    return doc != NULL && doc->root->type == KG_OBJECT && schema_check(schema, doc->root, NULL);
}

static bool generate_has(const struct kit_instances *instances, struct kg_str json)
{
    for (size_t i = 0; i < instances->count; i++)
        if (kg_str_is(json, instances->items[i].json))
            return true;
    return false;
}

/* Only if it is as it was meant, and new. `what` is taken over. */
static void generate_keep(struct kit_instances *instances, const struct schema *schema, bool valid,
                          struct kg_str json, char *what)
{
    if (instances->count == KIT_INSTANCES_MAX || generate_has(instances, json) ||
        generate_fits(schema, json) != valid) {
        free(what);
        return;
    }
    instances->items[instances->count++] =
        (struct kit_instance){.json = kg_str_dup(json), .what = what};
}

static void generate_make(const struct kg_node *document, bool full, struct kg_buf *out)
{
    struct maker maker = {.document = document, .full = full};
    struct kg_json_writer json = kg_json_writer(out);
    generate_put_object(&maker, document, &json);
}

void kit_generate_valid(const struct kg_node *document, const struct schema *schema,
                        struct kit_instances *ret_instances)
{
    const struct kg_node *examples = kg_node_typed(document, "examples", KG_ARRAY);
    kg_auto(kg_buf_free) struct kg_buf small = {0}, full = {0};
    generate_make(document, false, &small);
    generate_make(document, true, &full);
    generate_keep(ret_instances, schema, true, kg_buf_view(&small),
                  kg_strdup("only what is required"));
    generate_keep(ret_instances, schema, true, kg_buf_view(&full), kg_strdup("all properties"));
    for (uint32_t i = 0; examples != NULL && i < examples->count; i++) {
        kg_auto(kg_buf_free) struct kg_buf example = {0};
        struct kg_json_writer json = kg_json_writer(&example);
        kg_json_node(&json, &examples->items[i]);
        generate_keep(ret_instances, schema, true, kg_buf_view(&example), kg_strdup("an example"));
    }
}

/* -- wrong ones -------------------------------------------------------------------------------- */

/* The object with one member replaced, or left out if value is empty; a new one is added. */
static void generate_put_changed(const struct kg_node *object, struct kg_str key,
                                 struct kg_str value, struct kg_buf *out)
{
    struct kg_json_writer json = kg_json_writer(out);
    bool is_new = value.length > 0;
    kg_json_begin(&json, '{');
    for (uint32_t i = 0; i < object->count; i++) {
        bool is_it = kg_str_equal(object->members[i].key, key);
        if (is_it && value.length == 0)
            continue;
        generate_put_key(object->members[i].key, &json);
        if (is_it)
            kg_json_raw(&json, value);
        else
            kg_json_node(&json, &object->members[i].value);
        is_new = is_new && !is_it;
    }
    if (is_new) {
        generate_put_key(key, &json);
        kg_json_raw(&json, value);
    }
    kg_json_end(&json, '}');
}

struct breaker {
    const struct maker *maker;
    const struct schema *schema;
    const struct kg_node *good; /* an instance that fits */
    struct kit_instances *into;
};

static void try_value(const struct breaker *breaker, struct kg_str key, struct kg_str value,
                      const char *what)
{
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    generate_put_changed(breaker->good, key, value, &json);
    generate_keep(breaker->into, breaker->schema, false, kg_buf_view(&json),
                  kg_format("%s \"%.*s\"", what, KG_STR_CUT(key, KG_CUT_NAME)));
}

static void try_number(const struct breaker *breaker, struct kg_str key, double number,
                       const char *what)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    put_double(number, &json);
    try_value(breaker, key, kg_buf_view(&text), what);
}

static void try_length(const struct breaker *breaker, struct kg_str key, size_t length,
                       const char *what)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_char(&text, '"');
    for (size_t i = 0; i < length; i++)
        kg_buf_char(&text, 'x');
    kg_buf_char(&text, '"');
    try_value(breaker, key, kg_buf_view(&text), what);
}

static void try_bounds(const struct breaker *breaker, const struct kg_member *member)
{
    const struct kg_node *node = generate_follow(breaker->maker, &member->value);
    double least, most;
    if (node == NULL || node->type != KG_OBJECT)
        return;
    find_bounds(node, 0, &least, &most);
    if (isfinite(least))
        try_number(breaker, member->key, floor(least) - 1, "too small a");
    if (isfinite(most))
        try_number(breaker, member->key, ceil(most) + 1, "too large a");
    size_t longest = get_size(node, "maxLength", TEXT_MAX);
    if (get_size(node, "minLength", 0) > 0)
        try_length(breaker, member->key, get_size(node, "minLength", 0) - 1, "too short a");
    if (longest < TEXT_MAX)
        try_length(breaker, member->key, longest + 1, "too long a");
    if (kg_node_get(node, "enum") != NULL || kg_node_get(node, "const") != NULL)
        try_value(breaker, member->key, KG_STR("\"none of them\""), "an unknown");
}

void kit_generate_invalid(const struct kg_node *document, const struct schema *schema,
                          struct kit_instances *ret_instances)
{
    const struct maker maker = {.document = document, .full = true};
    struct properties properties = {.count = 0};
    kg_auto(kit_instances_free) struct kit_instances good = {.count = 0};
    kit_generate_valid(document, schema, &good);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        good.count > 0 ? kg_json_read(kg_str(good.items[good.count > 1].json), NULL) : NULL;
    if (doc == NULL)
        return;
    const struct breaker breaker = {&maker, schema, doc->root, ret_instances};
    generate_collect(&maker, document, 0, &properties);
    for (size_t i = 0; i < properties.required_count; i++)
        try_value(&breaker, properties.required[i], KG_STR_NULL, "without");
    for (size_t i = 0; i < properties.count; i++)
        try_value(&breaker, properties.items[i]->key, KG_STR("[[{}]]"), "the wrong type of");
    for (size_t i = 0; i < properties.count; i++)
        try_bounds(&breaker, properties.items[i]);
}
