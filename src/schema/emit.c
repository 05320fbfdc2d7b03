/*
 * One subschema at a time becomes tests: its keywords are checked for what they may hold, then
 * each, or each group that works together, is made ready. Cheap tests come first, those that need
 * to know what the others have looked at come last.
 */
#include "schema/internal.h"

#include <stdio.h>

#define NUMBERS  (1 << KG_NUMBER)
#define STRINGS  (1 << KG_STRING)
#define ARRAYS   (1 << KG_ARRAY)
#define OBJECTS  (1 << KG_OBJECT)
#define ANY_TYPE SCHEMA_ALL_TYPES

static struct schema_step at_keyword(enum schema_keyword keyword)
{
    return (struct schema_step){keyword, KG_STR_NULL, SCHEMA_NONE};
}

static struct schema_test *add_test(struct schema_compiler *compiler, enum schema_keyword keyword,
                                    uint8_t types)
{
    struct schema_test *test = &compiler->tests[compiler->test_count++];
    *test = (struct schema_test){.keyword = (uint8_t)keyword, .types = types};
    return test;
}

static void *emit_take(struct schema_compiler *compiler, size_t count, size_t size)
{
    return kg_arena_alloc(compiler->schema->arena, count * size);
}

static int count_names(struct schema_compiler *compiler, enum schema_keyword keyword, size_t more)
{
    compiler->name_count += more;
    if (compiler->name_count <= SCHEMA_NAMES_MAX)
        return 0;
    return schema_compile_fail(compiler, at_keyword(keyword), compiler->at[keyword],
                               "is too large: at most %d names in a schema", SCHEMA_NAMES_MAX);
}

/* -- values ------------------------------------------------------------------------------------ */

static int keep_value(struct schema_compiler *compiler, enum schema_keyword keyword,
                      const struct kg_node *value, uint32_t *ret_number)
{
    compiler->value_nodes += schema_value_nodes(value);
    if (compiler->value_nodes > SCHEMA_VALUES_MAX)
        return schema_compile_fail(compiler, at_keyword(keyword), value,
                                   "is too large: at most %d values in a schema",
                                   SCHEMA_VALUES_MAX);
    schema_value_copy(compiler->values, value);
    *ret_number = compiler->value_count++;
    return 0;
}

static int emit_const(struct schema_compiler *compiler)
{
    const struct kg_node *value = compiler->at[SCHEMA_K_CONST];
    if (value == NULL)
        return 0;
    struct schema_test *test = add_test(compiler, SCHEMA_K_CONST, ANY_TYPE);
    return keep_value(compiler, SCHEMA_K_CONST, value, &test->number);
}

/* Strings are found by their hash, other values by looking at each. */
static struct schema_keys string_choices(struct schema_compiler *compiler,
                                         const struct kg_node *list)
{
    struct schema_key *keys = emit_take(compiler, list->count, sizeof(*keys));
    struct kg_map *seen = kg_map_new();
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct kg_node *item = &list->items[i];
        if (item->type != KG_STRING || kg_map_get(seen, item->text) != NULL)
            continue;
        kg_map_set(seen, item->text, keys);
        keys[count++].name = kg_arena_str(compiler->schema->arena, item->text);
    }
    kg_map_free(seen);
    return schema_keys_build(compiler->schema->arena, keys, count);
}

static int emit_enum(struct schema_compiler *compiler)
{
    const struct kg_node *list = compiler->at[SCHEMA_K_ENUM];
    if (list == NULL)
        return 0;
    if (list->count > SCHEMA_ENUM_MAX)
        return schema_compile_fail(compiler, at_keyword(SCHEMA_K_ENUM), list,
                                   "is too long: at most %d values", SCHEMA_ENUM_MAX);
    struct schema_enum *choices = emit_take(compiler, 1, sizeof(*choices));
    choices->first = compiler->value_count;
    choices->count = list->count;
    int result = 0;
    uint32_t ignored;
    for (uint32_t i = 0; i < list->count && result == 0; i++)
        result = keep_value(compiler, SCHEMA_K_ENUM, &list->items[i], &ignored);
    choices->strings = string_choices(compiler, list);
    add_test(compiler, SCHEMA_K_ENUM, ANY_TYPE)->choices = choices;
    return result;
}

static int emit_default(struct schema_compiler *compiler)
{
    const struct kg_node *value = compiler->at[SCHEMA_K_DEFAULT];
    if (value == NULL)
        return 0;
    return keep_value(compiler, SCHEMA_K_DEFAULT, value,
                      &compiler->schema->subschemas[compiler->number].initial);
}

/* -- limits ------------------------------------------------------------------------------------ */

static struct schema_number emit_number_of(struct schema_compiler *compiler,
                                           const struct kg_node *value)
{
    struct schema_number number;
    schema_number_read(&number, kg_arena_str(compiler->schema->arena, value->text));
    return number;
}

/* Leaves of the integers within the limits those that this one takes too. */
static void narrow(struct schema_limits *limits, const struct schema_limit *limit)
{
    bool below = limit->keyword == SCHEMA_K_MAXIMUM || limit->keyword == SCHEMA_K_EXCLUSIVE_MAXIMUM;
    bool beside = limit->keyword == SCHEMA_K_EXCLUSIVE_MINIMUM ||
                  limit->keyword == SCHEMA_K_EXCLUSIVE_MAXIMUM;
    int64_t bound;
    if (!limit->number.is_small || __builtin_add_overflow(limit->number.small,
                                                          !beside ? 0
                                                          : below ? -1
                                                                  : 1,
                                                          &bound)) {
        limits->least = 1;
        limits->most = 0;
    } else if (below) {
        limits->most = bound < limits->most ? bound : limits->most;
    } else {
        limits->least = bound > limits->least ? bound : limits->least;
    }
}

static int emit_limits(struct schema_compiler *compiler)
{
    static const uint8_t keywords[] = {SCHEMA_K_MINIMUM, SCHEMA_K_EXCLUSIVE_MINIMUM,
                                       SCHEMA_K_MAXIMUM, SCHEMA_K_EXCLUSIVE_MAXIMUM};
    uint32_t count = 0;
    for (size_t i = 0; i < KG_COUNT(keywords); i++)
        count += compiler->at[keywords[i]] != NULL;
    if (count == 0)
        return 0;
    struct schema_limits *limits = emit_take(compiler, 1, sizeof(*limits));
    struct schema_limit *row = emit_take(compiler, count, sizeof(*row));
    *limits = (struct schema_limits){row, count, INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < KG_COUNT(keywords); i++) {
        const struct kg_node *value = compiler->at[keywords[i]];
        if (value == NULL)
            continue;
        *row = (struct schema_limit){emit_number_of(compiler, value), keywords[i]};
        narrow(limits, row++);
    }
    add_test(compiler, SCHEMA_K_MINIMUM, NUMBERS)->limits = limits;
    return 0;
}

static int emit_multiple(struct schema_compiler *compiler)
{
    const struct kg_node *value = compiler->at[SCHEMA_K_MULTIPLE_OF];
    if (value == NULL)
        return 0;
    struct schema_number *divisor = emit_take(compiler, 1, sizeof(*divisor));
    *divisor = emit_number_of(compiler, value);
    add_test(compiler, SCHEMA_K_MULTIPLE_OF, NUMBERS)->divisor = divisor;
    return 0;
}

static bool emit_take_count(const struct kg_node *value, uint64_t *ret_count)
{
    return value != NULL && schema_number_count(value->text, ret_count);
}

static int emit_counts(struct schema_compiler *compiler)
{
    static const struct {
        uint8_t least, most; /* keywords */
        uint8_t types;
    } rows[] = {
        {SCHEMA_K_MIN_LENGTH, SCHEMA_K_MAX_LENGTH, STRINGS},
        {SCHEMA_K_MIN_ITEMS, SCHEMA_K_MAX_ITEMS, ARRAYS},
        {SCHEMA_K_MIN_PROPERTIES, SCHEMA_K_MAX_PROPERTIES, OBJECTS},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        struct schema_counts counts = {0, UINT64_MAX};
        bool given = emit_take_count(compiler->at[rows[i].least], &counts.least);
        given |= emit_take_count(compiler->at[rows[i].most], &counts.most);
        if (!given)
            continue;
        struct schema_counts *kept = emit_take(compiler, 1, sizeof(*kept));
        *kept = counts;
        add_test(compiler, rows[i].least, rows[i].types)->counts = kept;
    }
    return 0;
}

/* -- strings ----------------------------------------------------------------------------------- */

static int keep_pattern(struct schema_compiler *compiler, struct schema_step step,
                        const struct kg_node *node, struct kg_str source,
                        const struct schema_pattern **ret_pattern)
{
    struct schema *schema = compiler->schema;
    struct schema_pattern *pattern = kg_map_get(compiler->patterns, source);
    char problem[SCHEMA_PROBLEM_MAX];
    if (pattern == NULL) {
        pattern = schema_pattern_new(source, problem);
        if (pattern == NULL)
            return schema_compile_fail(compiler, step, node, "is not a usable pattern: %s",
                                       problem);
        schema->patterns =
            kg_realloc(schema->patterns, (schema->pattern_count + 1) * sizeof(*schema->patterns));
        schema->patterns[schema->pattern_count++] = pattern;
        kg_map_set(compiler->patterns, source, pattern);
        compiler->pattern_bytes += schema_pattern_bytes(pattern);
    }
    if (schema->pattern_count > SCHEMA_PATTERNS_MAX ||
        compiler->pattern_bytes > SCHEMA_PATTERNS_BYTES)
        return schema_compile_fail(
            compiler, step, node,
            "is too large: at most %d patterns in a schema, of %zu bytes when compiled",
            SCHEMA_PATTERNS_MAX, SCHEMA_PATTERNS_BYTES);
    *ret_pattern = pattern;
    return 0;
}

static int emit_pattern(struct schema_compiler *compiler)
{
    const struct kg_node *value = compiler->at[SCHEMA_K_PATTERN];
    if (value == NULL)
        return 0;
    return keep_pattern(compiler, at_keyword(SCHEMA_K_PATTERN), value, value->text,
                        &add_test(compiler, SCHEMA_K_PATTERN, STRINGS)->pattern);
}

static int emit_format(struct schema_compiler *compiler)
{
    const struct kg_node *value = compiler->at[SCHEMA_K_FORMAT];
    uint32_t resource = compiler->schema->subschemas[compiler->number].resource;
    bool assert_it = compiler->options->formats ||
                     (compiler->vocabularies[resource] & SCHEMA_V_ASSERT_FORMAT) != 0;
    const struct schema_format *format =
        value != NULL && assert_it ? schema_format_find(value->text) : NULL;
    if (format != NULL)
        add_test(compiler, SCHEMA_K_FORMAT, STRINGS)->format = format;
    return 0;
}

/* -- arrays ------------------------------------------------------------------------------------ */

static uint32_t number_at(const struct schema_compiler *compiler, enum schema_keyword keyword)
{
    const struct kg_node *node = compiler->at[keyword];
    return node ? schema_compile_number(compiler, node) : SCHEMA_NONE;
}

static const uint32_t *list_numbers(struct schema_compiler *compiler, const struct kg_node *list)
{
    uint32_t *numbers = emit_take(compiler, list->count, sizeof(*numbers));
    for (uint32_t i = 0; i < list->count; i++)
        numbers[i] = schema_compile_number(compiler, &list->items[i]);
    return numbers;
}

static int emit_items(struct schema_compiler *compiler)
{
    const struct kg_node *prefix = compiler->at[SCHEMA_K_PREFIX_ITEMS];
    enum schema_keyword rest = SCHEMA_K_ITEMS;
    if (compiler->at[SCHEMA_K_ITEMS] != NULL && compiler->at[SCHEMA_K_ITEMS]->type == KG_ARRAY) {
        prefix = compiler->at[SCHEMA_K_ITEMS];
        rest = SCHEMA_K_ADDITIONAL_ITEMS;
    }
    if (prefix == NULL && compiler->at[rest] == NULL)
        return 0;
    struct schema_items *items = emit_take(compiler, 1, sizeof(*items));
    if (prefix != NULL) {
        items->prefix = list_numbers(compiler, prefix);
        items->prefix_count = prefix->count;
    }
    items->rest = number_at(compiler, rest);
    items->rest_keyword = rest;
    add_test(compiler, rest, ARRAYS)->items = items;
    return 0;
}

static int emit_contains(struct schema_compiler *compiler)
{
    if (compiler->at[SCHEMA_K_CONTAINS] == NULL)
        return 0;
    struct schema_contains *contains = emit_take(compiler, 1, sizeof(*contains));
    *contains = (struct schema_contains){number_at(compiler, SCHEMA_K_CONTAINS), 1, UINT64_MAX};
    if (compiler->at[SCHEMA_K_MIN_CONTAINS] != NULL)
        schema_number_count(compiler->at[SCHEMA_K_MIN_CONTAINS]->text, &contains->min);
    if (compiler->at[SCHEMA_K_MAX_CONTAINS] != NULL)
        schema_number_count(compiler->at[SCHEMA_K_MAX_CONTAINS]->text, &contains->max);
    add_test(compiler, SCHEMA_K_CONTAINS, ARRAYS)->contains = contains;
    return 0;
}

static int emit_unique(struct schema_compiler *compiler)
{
    const struct kg_node *value = compiler->at[SCHEMA_K_UNIQUE_ITEMS];
    if (value != NULL && value->boolean)
        add_test(compiler, SCHEMA_K_UNIQUE_ITEMS, ARRAYS);
    return 0;
}

/* -- objects ----------------------------------------------------------------------------------- */

/* The keys of properties, then those that are only required. */
static struct schema_keys object_keys(struct schema_compiler *compiler)
{
    const struct kg_node *properties = compiler->at[SCHEMA_K_PROPERTIES];
    const struct kg_node *required = compiler->at[SCHEMA_K_REQUIRED];
    size_t room = (properties ? properties->count : 0) + (required ? required->count : 0);
    struct schema_key *keys = emit_take(compiler, room, sizeof(*keys));
    struct kg_map *known = kg_map_new();
    uint32_t count = 0;
    for (uint32_t i = 0; properties != NULL && i < properties->count; i++) {
        const struct kg_member *member = &properties->members[i];
        uint32_t target = schema_compile_number(compiler, &member->value);
        keys[count] = (struct schema_key){compiler->schema->places[target].step.key, target, false};
        if (keys[count].name.data == NULL) /* it was reached by a reference first */
            keys[count].name = kg_arena_str(compiler->schema->arena, member->key);
        kg_map_set(known, member->key, &keys[count++]);
    }
    for (uint32_t i = 0; required != NULL && i < required->count; i++) {
        struct kg_str name = required->items[i].text;
        struct schema_key *key = kg_map_get(known, name);
        if (key == NULL) {
            key = &keys[count++];
            *key = (struct schema_key){kg_arena_str(compiler->schema->arena, name), SCHEMA_NONE,
                                       false};
        }
        key->required = true;
    }
    kg_map_free(known);
    return schema_keys_build(compiler->schema->arena, keys, count);
}

static int pattern_properties(struct schema_compiler *compiler, struct schema_object *object)
{
    const struct kg_node *map = compiler->at[SCHEMA_K_PATTERN_PROPERTIES];
    if (map == NULL)
        return 0;
    object->patterns = emit_take(compiler, map->count, sizeof(*object->patterns));
    object->pattern_count = map->count;
    int result = 0;
    for (uint32_t i = 0; i < map->count && result == 0; i++) {
        const struct kg_member *member = &map->members[i];
        struct schema_step step = {SCHEMA_K_PATTERN_PROPERTIES, member->key, SCHEMA_NONE};
        object->patterns[i].target = schema_compile_number(compiler, &member->value);
        result =
            keep_pattern(compiler, step, &member->value, member->key, &object->patterns[i].pattern);
    }
    return result;
}

static int emit_object(struct schema_compiler *compiler)
{
    const struct kg_node *required = compiler->at[SCHEMA_K_REQUIRED];
    if (required == NULL && compiler->at[SCHEMA_K_PROPERTIES] == NULL &&
        compiler->at[SCHEMA_K_PATTERN_PROPERTIES] == NULL &&
        compiler->at[SCHEMA_K_ADDITIONAL_PROPERTIES] == NULL)
        return 0;
    int result = required ? count_names(compiler, SCHEMA_K_REQUIRED, required->count) : 0;
    if (result < 0)
        return result;
    struct schema_object *object = emit_take(compiler, 1, sizeof(*object));
    object->keys = object_keys(compiler);
    object->required_count = required ? required->count : 0;
    object->additional = number_at(compiler, SCHEMA_K_ADDITIONAL_PROPERTIES);
    add_test(compiler, SCHEMA_K_PROPERTIES, OBJECTS)->object = object;
    return pattern_properties(compiler, object);
}

static int emit_property_names(struct schema_compiler *compiler)
{
    if (compiler->at[SCHEMA_K_PROPERTY_NAMES] != NULL)
        add_test(compiler, SCHEMA_K_PROPERTY_NAMES, OBJECTS)->number =
            number_at(compiler, SCHEMA_K_PROPERTY_NAMES);
    return 0;
}

static const struct kg_str *copy_names(struct schema_compiler *compiler, const struct kg_node *list)
{
    struct kg_str *names = emit_take(compiler, list->count, sizeof(*names));
    for (uint32_t i = 0; i < list->count; i++)
        names[i] = kg_arena_str(compiler->schema->arena, list->items[i].text);
    return names;
}

/* Draft-07 has both kinds in one keyword: rows with names, and rows with a target. */
static int emit_dependencies(struct schema_compiler *compiler, enum schema_keyword keyword)
{
    const struct kg_node *map = compiler->at[keyword];
    if (map == NULL)
        return 0;
    struct schema_dependency *rows = emit_take(compiler, map->count, sizeof(*rows));
    uint32_t *targets = emit_take(compiler, map->count, sizeof(*targets));
    int result = 0;
    for (uint32_t i = 0; i < map->count && result == 0; i++) {
        const struct kg_member *member = &map->members[i];
        rows[i].key = kg_arena_str(compiler->schema->arena, member->key);
        targets[i] = SCHEMA_NONE;
        if (member->value.type != KG_ARRAY) {
            targets[i] = schema_compile_number(compiler, &member->value);
            continue;
        }
        result = count_names(compiler, keyword, member->value.count);
        if (result == 0) {
            rows[i].names = copy_names(compiler, &member->value);
            rows[i].name_count = member->value.count;
        }
    }
    struct schema_dependencies *dependencies = emit_take(compiler, 1, sizeof(*dependencies));
    *dependencies = (struct schema_dependencies){rows, map->count};
    struct schema_test *test = add_test(compiler, keyword, OBJECTS);
    test->dependencies = dependencies;
    test->targets = targets;
    test->target_count = map->count;
    return result;
}

/* Draft 2020-12 has split "dependencies" in two, and still lets the old name work. */
static int emit_all_dependencies(struct schema_compiler *compiler)
{
    static const uint8_t keywords[] = {SCHEMA_K_DEPENDENT_REQUIRED, SCHEMA_K_DEPENDENT_SCHEMAS,
                                       SCHEMA_K_DEPENDENCIES};
    int result = 0;
    for (size_t i = 0; i < KG_COUNT(keywords) && result == 0; i++)
        result = emit_dependencies(compiler, keywords[i]);
    return result;
}

/* -- subschemas for the same instance ---------------------------------------------------------- */

static void add_target_test(struct schema_compiler *compiler, enum schema_keyword keyword,
                            uint32_t target)
{
    uint32_t *targets = emit_take(compiler, 1, sizeof(*targets));
    *targets = target;
    struct schema_test *test = add_test(compiler, keyword, ANY_TYPE);
    test->targets = targets;
    test->target_count = 1;
}

static int emit_references(struct schema_compiler *compiler)
{
    static const uint8_t keywords[] = {SCHEMA_K_REF, SCHEMA_K_DYNAMIC_REF};
    for (size_t i = 0; i < KG_COUNT(keywords); i++) {
        struct kg_str dynamic = KG_STR_NULL;
        uint32_t target;
        if (compiler->at[keywords[i]] == NULL)
            continue;
        int result = schema_compile_reference(compiler, keywords[i], &target, &dynamic);
        if (result < 0)
            return result;
        bool moves = keywords[i] == SCHEMA_K_DYNAMIC_REF && dynamic.data != NULL;
        add_target_test(compiler, moves ? SCHEMA_K_DYNAMIC_REF : SCHEMA_K_REF, target);
        if (moves) {
            compiler->schema->dynamic = true;
            compiler->tests[compiler->test_count - 1].number =
                schema_compile_name(compiler, dynamic);
        }
    }
    return 0;
}

static int emit_combinations(struct schema_compiler *compiler)
{
    static const uint8_t keywords[] = {SCHEMA_K_ALL_OF, SCHEMA_K_ANY_OF, SCHEMA_K_ONE_OF};
    for (size_t i = 0; i < KG_COUNT(keywords); i++) {
        const struct kg_node *list = compiler->at[keywords[i]];
        if (list == NULL)
            continue;
        struct schema_test *test = add_test(compiler, keywords[i], ANY_TYPE);
        test->targets = list_numbers(compiler, list);
        test->target_count = list->count;
    }
    if (compiler->at[SCHEMA_K_NOT] != NULL)
        add_target_test(compiler, SCHEMA_K_NOT, number_at(compiler, SCHEMA_K_NOT));
    return 0;
}

static int emit_condition(struct schema_compiler *compiler)
{
    if (compiler->at[SCHEMA_K_IF] == NULL)
        return 0;
    uint32_t *targets = emit_take(compiler, 3, sizeof(*targets));
    targets[0] = number_at(compiler, SCHEMA_K_IF);
    targets[1] = number_at(compiler, SCHEMA_K_THEN);
    targets[2] = number_at(compiler, SCHEMA_K_ELSE);
    struct schema_test *test = add_test(compiler, SCHEMA_K_IF, ANY_TYPE);
    test->targets = targets;
    test->target_count = 3;
    return 0;
}

static int emit_unevaluated(struct schema_compiler *compiler)
{
    static const struct {
        uint8_t keyword;
        uint8_t types;
    } rows[] = {{SCHEMA_K_UNEVALUATED_ITEMS, ARRAYS}, {SCHEMA_K_UNEVALUATED_PROPERTIES, OBJECTS}};
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        if (compiler->at[rows[i].keyword] == NULL)
            continue;
        add_test(compiler, rows[i].keyword, rows[i].types)->number =
            number_at(compiler, rows[i].keyword);
        compiler->schema->subschemas[compiler->number].tracks = true;
    }
    return 0;
}

/* -- one subschema ----------------------------------------------------------------------------- */

typedef int emitter(struct schema_compiler *compiler);

static emitter *const emitters[] = {
    emit_const,        emit_enum,      emit_default,        emit_limits,           emit_multiple,
    emit_counts,       emit_pattern,   emit_format,         emit_object,           emit_items,
    emit_contains,     emit_unique,    emit_property_names, emit_all_dependencies, emit_references,
    emit_combinations, emit_condition, emit_unevaluated,
};

/* An $id that the index could not take is one too long or one too many. */
static int emit_check_id(struct schema_compiler *compiler, const struct kg_node *node)
{
    const struct kg_node *id = compiler->at[SCHEMA_K_ID];
    if (id == NULL || id->text.length == 0 || id->text.data[0] == '#' ||
        compiler->sources[compiler->number].resource->root == node)
        return 0;
    return schema_compile_fail(compiler, at_keyword(SCHEMA_K_ID), id,
                               "is too large: at most %d of them, of %d bytes each when resolved",
                               SCHEMA_RESOURCES_MAX, SCHEMA_URI_MAX);
}

/* Notes the value of each keyword that counts here. */
static int take_keywords(struct schema_compiler *compiler, const struct kg_node *node)
{
    uint32_t resource = compiler->schema->subschemas[compiler->number].resource;
    enum schema_draft draft = compiler->resources[resource]->draft;
    const struct kg_node *reference = kg_node_get(node, "$ref");
    bool only_reference =
        draft == SCHEMA_DRAFT_7 && reference != NULL && reference->type == KG_STRING;
    memset(compiler->at, 0, sizeof(compiler->at));
    for (uint32_t i = 0; i < node->count; i++) {
        const struct kg_member *member = &node->members[i];
        enum schema_keyword keyword = schema_keyword_find(member->key, draft);
        if (keyword == SCHEMA_KEYWORD_COUNT || (only_reference && keyword != SCHEMA_K_REF) ||
            !(schema_keywords[keyword].vocabulary & compiler->vocabularies[resource]))
            continue;
        const struct kg_node *at;
        const char *problem = schema_shape_problem(keyword, draft, &member->value, &at);
        if (problem != NULL)
            return schema_compile_fail(compiler, at_keyword(keyword), at, "%s", problem);
        compiler->at[keyword] = &member->value;
    }
    return emit_check_id(compiler, node);
}

int schema_emit(struct schema_compiler *compiler)
{
    const struct kg_node *node = compiler->sources[compiler->number].node;
    if (node->type == KG_BOOL) {
        compiler->schema->subschemas[compiler->number].types = node->boolean ? ANY_TYPE : 0;
        return 0;
    }
    compiler->test_count = 0;
    int result = take_keywords(compiler, node);
    for (size_t i = 0; i < KG_COUNT(emitters) && result == 0; i++)
        result = emitters[i](compiler);
    if (result < 0)
        return result;
    size_t bytes = compiler->test_count * sizeof(*compiler->tests);
    struct schema_test *tests = emit_take(compiler, 1, bytes);
    memcpy(tests, compiler->tests, bytes);
    struct schema_subschema *subschema = &compiler->schema->subschemas[compiler->number];
    subschema->tests = tests;
    subschema->test_count = (uint16_t)compiler->test_count;
    if (compiler->at[SCHEMA_K_TYPE] != NULL)
        subschema->types = schema_type_bits(compiler->at[SCHEMA_K_TYPE]);
    subschema->act = schema_act_of(subschema);
    return 0;
}
