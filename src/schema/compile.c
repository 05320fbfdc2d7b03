/*
 * From a tree to a program, in two passes. First every subschema of the document gets a number;
 * then each is turned into tests, and what its references lead to in other documents gets numbers
 * behind the rest, until nothing is left. A program whose references only lead back to themselves
 * is refused.
 */
#include "schema/internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* -- errors ------------------------------------------------------------------------------------ */

int schema_compile_fail(struct schema_compiler *compiler, struct schema_step step,
                        const struct kg_node *node, const char *format, ...)
{
    char sentence[KG_ERR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    kg_auto(kg_buf_free) struct kg_buf place = {0};
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    schema_place_text(compiler->schema, compiler->number, SCHEMA_KEYWORD_COUNT, &place);
    schema_step_text(step, &place);
    kg_buf_escaped(&shown, kg_buf_view(&place));
    const char *cut = shown.length > 240 ? "..." : "";
    return kg_fail(compiler->err, KG_E_INVALID_PARAMS, "%u:%u: %.*s%s: %s", node->line,
                   node->column, KG_STR_CUT(kg_buf_view(&shown), KG_CUT_PATH), cut, sentence);
}

/* -- numbering --------------------------------------------------------------------------------- */

static struct kg_str pointer_key(const void *const *pointer)
{
    return (struct kg_str){(const char *)pointer, sizeof(*pointer)};
}

static uint32_t compile_number_of(const struct kg_map *map, const void *pointer)
{
    const uint32_t *number = kg_map_get(map, pointer_key(&pointer));
    return number ? *number : SCHEMA_NONE;
}

static void set_number(struct schema_compiler *compiler, struct kg_map *map, struct kg_str key,
                       uint32_t number)
{
    uint32_t *kept = kg_arena_alloc(compiler->scratch, sizeof(*kept));
    *kept = number;
    kg_map_set(map, key, kept);
}

uint32_t schema_compile_number(const struct schema_compiler *compiler, const struct kg_node *node)
{
    return compile_number_of(compiler->numbers, node);
}

static int find_vocabularies(struct schema_compiler *compiler,
                             const struct schema_resource *resource, unsigned *ret_vocabularies)
{
    const struct schema_resource *named = resource;
    while (named->dialect == NULL && named->up != NULL)
        named = named->up;
    enum schema_draft draft;
    *ret_vocabularies = SCHEMA_V_USUAL;
    if (named->dialect == NULL || schema_dialect(compiler->index, compiler->options->registry,
                                                 named->dialect->text, &draft, ret_vocabularies))
        return 0;
    char shown[SCHEMA_SHOWN_MAX];
    bool first = compiler->schema->count == 0; /* it is the document's own */
    struct schema_step step = {first ? SCHEMA_K_SCHEMA : SCHEMA_KEYWORD_COUNT, KG_STR_NULL,
                               SCHEMA_NONE};
    return schema_compile_fail(
        compiler, step, first ? named->dialect : compiler->sources[compiler->number].node,
        "the $schema \"%s\" is not known here; draft 2020-12 and draft-07 are",
        schema_show(named->dialect->text, shown));
}

/* The number of the resource, which gets one at the first call. */
static int enter_resource(struct schema_compiler *compiler, const struct schema_resource *resource,
                          uint32_t *ret_number)
{
    struct schema *schema = compiler->schema;
    uint32_t number = compile_number_of(compiler->resource_numbers, resource);
    if (number == SCHEMA_NONE) {
        unsigned vocabularies;
        int result = find_vocabularies(compiler, resource, &vocabularies);
        if (result < 0)
            return result;
        number = schema->resource_count++;
        size_t room = number + 1;
        schema->resources = kg_realloc(schema->resources, room * sizeof(*schema->resources));
        schema->resources[number] = (struct schema_dynamics){0};
        compiler->resources = kg_realloc(compiler->resources, room * sizeof(*compiler->resources));
        compiler->resources[number] = resource;
        compiler->vocabularies =
            kg_realloc(compiler->vocabularies, room * sizeof(*compiler->vocabularies));
        compiler->vocabularies[number] = vocabularies;
        const void *key = resource;
        set_number(compiler, compiler->resource_numbers, pointer_key(&key), number);
    }
    *ret_number = number;
    return 0;
}

static void compile_make_room(struct schema_compiler *compiler)
{
    struct schema *schema = compiler->schema;
    if (schema->count < compiler->capacity)
        return;
    uint32_t capacity = compiler->capacity ? compiler->capacity * 2 : 8;
    schema->subschemas = kg_realloc(schema->subschemas, capacity * sizeof(*schema->subschemas));
    schema->places = kg_realloc(schema->places, capacity * sizeof(*schema->places));
    compiler->sources = kg_realloc(compiler->sources, capacity * sizeof(*compiler->sources));
    compiler->capacity = capacity;
}

struct adoption {
    struct schema_compiler *compiler;
    const struct schema_resource *resource;
    uint32_t parent;
    unsigned depth;
    struct kg_str origin;
};

/* Gives a number to the node and to each subschema below it that has none. */
static int compile_adopt(void *data, const struct kg_node *node, struct schema_step step)
{
    struct adoption adoption = *(const struct adoption *)data;
    struct schema_compiler *compiler = adoption.compiler;
    struct schema *schema = compiler->schema;
    if (compile_number_of(compiler->numbers, node) != SCHEMA_NONE)
        return 0;
    adoption.resource = schema_index_enter(adoption.resource->index, node, adoption.resource);
    uint32_t resource_number;
    int result = enter_resource(compiler, adoption.resource, &resource_number);
    if (result < 0)
        return result;
    uint32_t number = schema->count;
    if (number == SCHEMA_SUBSCHEMAS_MAX || ++adoption.depth > SCHEMA_DEPTH_MAX)
        return schema_compile_fail(compiler, step, node,
                                   "is too large: at most %d subschemas, nested at most %d deep",
                                   SCHEMA_SUBSCHEMAS_MAX, SCHEMA_DEPTH_MAX);
    compile_make_room(compiler);
    schema->count++;
    schema->subschemas[number] = (struct schema_subschema){
        .types = SCHEMA_ALL_TYPES, .resource = resource_number, .initial = SCHEMA_NONE};
    if (step.key.data != NULL)
        step.key = kg_arena_str(schema->arena, step.key);
    schema->places[number] = (struct schema_place){adoption.parent, step, adoption.origin};
    compiler->sources[number] = (struct schema_source){node, adoption.resource};
    const void *key = node;
    set_number(compiler, compiler->numbers, pointer_key(&key), number);
    adoption.parent = number;
    return schema_each_child(node, adoption.resource->draft, compile_adopt, &adoption);
}

/* -- references -------------------------------------------------------------------------------- */

/* What one token of a JSON pointer leads to, or NULL. */
static const struct kg_node *take_token(const struct kg_node *node, struct kg_str *pointer)
{
    const char *slash = memchr(pointer->data + 1, '/', pointer->length - 1);
    size_t length = slash ? (size_t)(slash - pointer->data) : pointer->length;
    kg_auto(kg_buf_free) struct kg_buf token = {0};
    for (size_t i = 1; i < length; i++) {
        char c = pointer->data[i];
        bool escaped = c == '~' && i + 1 < length;
        if (escaped)
            c = pointer->data[++i] == '1' ? '/' : '~';
        kg_buf_char(&token, c);
    }
    *pointer = (struct kg_str){pointer->data + length, pointer->length - length};
    int64_t item;
    if (node->type == KG_ARRAY && kg_str_to_int(kg_buf_view(&token), &item) && item >= 0 &&
        item < node->count)
        return &node->items[item];
    const struct kg_member *member = kg_node_member(node, kg_buf_view(&token));
    return member ? &member->value : NULL;
}

/* Follows the pointer, and notes the innermost resource on the way. */
static const struct kg_node *follow_pointer(const struct schema_resource **resource,
                                            struct kg_str pointer)
{
    const struct kg_node *node = (*resource)->root;
    while (node != NULL && pointer.length > 0) {
        node = take_token(node, &pointer);
        if (node != NULL)
            *resource = schema_index_enter((*resource)->index, node, *resource);
    }
    return node;
}

/* The node that a fragment of the resource means, or NULL. */
static const struct kg_node *find_fragment(const struct schema_resource **resource,
                                           struct kg_str fragment, struct kg_str *ret_dynamic)
{
    kg_auto(kg_buf_free) struct kg_buf decoded = {0};
    schema_uri_decode(fragment, &decoded);
    struct kg_str text = kg_buf_view(&decoded);
    if (text.length == 0)
        return (*resource)->root;
    if (text.data[0] == '/')
        return follow_pointer(resource, text);
    const struct schema_anchor *anchor = kg_map_get((*resource)->anchors, text);
    if (anchor == NULL)
        return NULL;
    if (anchor->dynamic)
        *ret_dynamic = anchor->name;
    return anchor->node;
}

/* "#/x" in the document itself, else with the document's URI before it. */
static struct kg_str compile_origin_of(struct schema_compiler *compiler,
                                       const struct schema_resource *resource, struct kg_str uri,
                                       struct kg_str fragment)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (resource->root != compiler->root)
        kg_buf_str(&text, uri);
    kg_buf_char(&text, '#');
    kg_buf_str(&text, fragment);
    return kg_arena_str(compiler->schema->arena, kg_buf_view(&text));
}

static int adopt_target(struct schema_compiler *compiler, const struct kg_node *node,
                        const struct schema_resource *resource, struct kg_str origin,
                        uint32_t *ret_number)
{
    struct adoption adoption = {compiler, resource, SCHEMA_NONE, 0, origin};
    struct schema_step none = {SCHEMA_KEYWORD_COUNT, KG_STR_NULL, SCHEMA_NONE};
    int result = compile_adopt(&adoption, node, none);
    if (result == 0)
        *ret_number = compile_number_of(compiler->numbers, node);
    return result;
}

static int reference_fail(struct schema_compiler *compiler, enum schema_keyword keyword,
                          const char *problem)
{
    const struct kg_node *value = compiler->at[keyword];
    char shown[SCHEMA_SHOWN_MAX];
    return schema_compile_fail(compiler, (struct schema_step){keyword, KG_STR_NULL, SCHEMA_NONE},
                               value, "\"%s\" %s", schema_show(value->text, shown), problem);
}

int schema_compile_reference(struct schema_compiler *compiler, enum schema_keyword keyword,
                             uint32_t *ret_number, struct kg_str *ret_dynamic)
{
    const struct schema_resource *base = compiler->sources[compiler->number].resource;
    kg_auto(kg_buf_free) struct kg_buf uri = {0};
    struct kg_str fragment;
    if (!schema_uri_resolve(base->uri, compiler->at[keyword]->text, &uri, &fragment))
        return reference_fail(compiler, keyword, "is too long");
    const struct schema_resource *resource = base;
    if (!kg_str_equal(kg_buf_view(&uri), base->uri))
        resource = schema_find(compiler->index, compiler->options->registry, base->draft,
                               kg_buf_view(&uri));
    if (resource == NULL)
        return reference_fail(compiler, keyword, "is not known here, and nothing is fetched");
    const struct schema_resource *outer = resource;
    const struct kg_node *node = find_fragment(&resource, fragment, ret_dynamic);
    if (node == NULL)
        return reference_fail(compiler, keyword, "leads nowhere");
    if (node->type != KG_OBJECT && node->type != KG_BOOL)
        return reference_fail(compiler, keyword, "leads to something that is not a schema");
    *ret_number = compile_number_of(compiler->numbers, node);
    if (*ret_number != SCHEMA_NONE)
        return 0;
    struct kg_str origin = compile_origin_of(compiler, outer, kg_buf_view(&uri), fragment);
    return adopt_target(compiler, node, resource, origin, ret_number);
}

uint32_t schema_compile_name(struct schema_compiler *compiler, struct kg_str name)
{
    const uint32_t *known = kg_map_get(compiler->names, name);
    uint32_t number = known ? *known : (uint32_t)kg_map_count(compiler->names);
    if (known == NULL)
        set_number(compiler, compiler->names, name, number);
    return number;
}

/* A $dynamicRef may reach any $dynamicAnchor of a resource that was entered, so all get numbers. */
static int add_dynamics(struct schema_compiler *compiler, uint32_t number)
{
    assert(number < compiler->schema->resource_count && compiler->resources != NULL);
    const struct schema_resource *resource = compiler->resources[number];
    struct schema_dynamic *rows =
        kg_arena_alloc(compiler->schema->arena, kg_map_count(resource->anchors) * sizeof(*rows));
    uint32_t count = 0;
    size_t position = 0;
    struct kg_str name;
    void *value;
    while (kg_map_next(resource->anchors, &position, &name, &value)) {
        const struct schema_anchor *anchor = value;
        if (!anchor->dynamic)
            continue;
        uint32_t target = 0;
        struct kg_str origin = compile_origin_of(compiler, resource, resource->uri, name);
        int result = adopt_target(compiler, anchor->node, resource, origin, &target);
        if (result < 0)
            return result;
        rows[count++] = (struct schema_dynamic){schema_compile_name(compiler, name), target};
    }
    compiler->schema->resources[number] = (struct schema_dynamics){rows, count};
    return 0;
}

/* -- loops ------------------------------------------------------------------------------------- */

/* Subschemas that apply to the same instance must not come back to where they began. */
enum loop_state { LOOP_NEW, LOOP_OPEN, LOOP_DONE };

struct loop_frame {
    uint32_t number;
    uint32_t test;
    uint32_t target;
};

/* The next target of the frame's subschema, or SCHEMA_NONE after the last. */
static uint32_t next_target(const struct schema *schema, struct loop_frame *frame)
{
    const struct schema_subschema *subschema = &schema->subschemas[frame->number];
    for (; frame->test < subschema->test_count; frame->test++, frame->target = 0) {
        const struct schema_test *test = &subschema->tests[frame->test];
        while (test->keyword != SCHEMA_K_DYNAMIC_REF && frame->target < test->target_count) {
            uint32_t target = test->targets[frame->target++];
            if (target != SCHEMA_NONE)
                return target;
        }
    }
    return SCHEMA_NONE;
}

/* The subschema that closes a loop with others, or SCHEMA_NONE. */
static uint32_t find_loop(const struct schema *schema, uint32_t start, uint8_t *states,
                          struct loop_frame *frames)
{
    uint32_t depth = 0;
    frames[depth++] = (struct loop_frame){.number = start};
    states[start] = LOOP_OPEN;
    while (depth > 0) {
        struct loop_frame *frame = &frames[depth - 1];
        uint32_t target = next_target(schema, frame);
        if (target == SCHEMA_NONE) {
            states[frame->number] = LOOP_DONE;
            depth--;
        } else if (states[target] == LOOP_OPEN) {
            return frame->number;
        } else if (states[target] == LOOP_NEW) {
            states[target] = LOOP_OPEN;
            frames[depth++] = (struct loop_frame){.number = target};
        }
    }
    return SCHEMA_NONE;
}

static int refuse_loops(struct schema_compiler *compiler)
{
    struct schema *schema = compiler->schema;
    kg_auto(kg_free) uint8_t *states = kg_alloc(schema->count);
    kg_auto(kg_free) struct loop_frame *frames =
        kg_alloc_array(schema->count, sizeof(struct loop_frame));
    for (uint32_t i = 0; i < schema->count; i++) {
        if (states[i] != LOOP_NEW)
            continue;
        uint32_t found = find_loop(schema, i, states, frames);
        if (found == SCHEMA_NONE)
            continue;
        compiler->number = found;
        struct schema_step none = {SCHEMA_KEYWORD_COUNT, KG_STR_NULL, SCHEMA_NONE};
        return schema_compile_fail(compiler, none, compiler->sources[found].node,
                                   "leads back to itself without going into the value");
    }
    return 0;
}

/* -- the whole --------------------------------------------------------------------------------- */

static void compiler_free(struct schema_compiler *compiler)
{
    schema_free(compiler->schema);
    schema_index_free(compiler->index);
    free(compiler->sources);
    kg_map_free(compiler->numbers);
    free(compiler->resources);
    kg_map_free(compiler->resource_numbers);
    free(compiler->vocabularies);
    kg_builder_free(compiler->values);
    kg_map_free(compiler->patterns);
    kg_map_free(compiler->names);
    kg_arena_free(compiler->scratch);
}

static void compiler_start(struct schema_compiler *compiler)
{
    compiler->schema = kg_alloc(sizeof(*compiler->schema));
    compiler->schema->arena = kg_arena_new();
    compiler->scratch = kg_arena_new();
    compiler->index = schema_index_new();
    compiler->numbers = kg_map_new();
    compiler->resource_numbers = kg_map_new();
    compiler->values = kg_builder_new();
    kg_builder_open(compiler->values, KG_ARRAY, 1, 1);
    compiler->patterns = kg_map_new();
    compiler->names = kg_map_new();
}

/* Each step may add more to do for the others. */
static int emit_all(struct schema_compiler *compiler)
{
    int result = 0;
    uint32_t resource = 0;
    uint32_t number = 0;
    while (result == 0) {
        if (resource < compiler->schema->resource_count) {
            result = add_dynamics(compiler, resource++);
        } else if (number < compiler->schema->count) {
            compiler->number = number++;
            result = schema_emit(compiler);
        } else {
            break;
        }
    }
    return result;
}

/* Schemas are kept as long as their plugin is: no room for more than there is. */
static void fit_room(struct schema *schema)
{
    schema->subschemas =
        kg_realloc(schema->subschemas, schema->count * sizeof(*schema->subschemas));
    schema->places = kg_realloc(schema->places, schema->count * sizeof(*schema->places));
}

static int compile_compile(struct schema_compiler *compiler)
{
    const struct schema_options *options = compiler->options;
    const struct kg_node *root = compiler->root;
    uint32_t number;
    if (root->type != KG_OBJECT && root->type != KG_BOOL)
        return kg_fail(compiler->err, KG_E_INVALID_PARAMS,
                       "%u:%u: #: must be a schema: an object, true or false", root->line,
                       root->column);
    int result = schema_index_add(compiler->index, options->registry, KG_STR(""), root,
                                  options->draft, compiler->err);
    if (result < 0)
        return result;
    const struct schema_resource *resource = schema_index_enter(compiler->index, root, NULL);
    result = adopt_target(compiler, root, resource, KG_STR("#"), &number);
    if (result == 0)
        result = emit_all(compiler);
    return result == 0 ? refuse_loops(compiler) : result;
}

struct schema *schema_compile(const struct kg_node *document, const struct schema_options *options,
                              struct kg_err *err)
{
    static const struct schema_options usual;
    kg_auto(compiler_free) struct schema_compiler compiler = {
        .options = options ? options : &usual, .root = document, .err = err};
    compiler_start(&compiler);
    if (compile_compile(&compiler) < 0)
        return NULL;
    fit_room(compiler.schema);
    kg_builder_close(compiler.values);
    compiler.schema->values = kg_builder_finish(compiler.values);
    return kg_steal(&compiler.schema);
}

void schema_free(struct schema *schema)
{
    if (schema == NULL)
        return;
    for (uint32_t i = 0; i < schema->pattern_count; i++)
        schema_pattern_free(schema->patterns[i]);
    free(schema->patterns);
    free(schema->subschemas);
    free(schema->places);
    free(schema->resources);
    kg_doc_free(schema->values);
    kg_arena_free(schema->arena);
    free(schema);
}
