/*
 * Walks the program and the instance together. The first walk only finds out whether the instance
 * fits, stops at the first thing that does not, and allocates nothing but for very large
 * containers; only if it fails and a report is wanted does a second walk collect what is wrong.
 * Both pay for each step from a budget, so that no schema and no instance can hold the caller up.
 */
#include "schema/internal.h"

#include <stdlib.h>

/* Kept out of its callers, which then save fewer registers for the values that end there. */
#define APART __attribute__((noinline))

/* -- marks: which members or items of one container have been looked at ------------------------ */

#define MARKS_INLINE 256 /* more of them are allocated */

struct schema_marks {
    uint64_t *words;
    uint32_t count;
    bool all;
    uint64_t few[MARKS_INLINE / 64];
};

static size_t marks_words(const struct schema_marks *marks)
{
    return ((size_t)marks->count + 63) / 64;
}

static void marks_begin(struct schema_run *run, struct schema_marks *marks,
                        const struct kg_node *node)
{
    bool container = node->type == KG_ARRAY || node->type == KG_OBJECT;
    marks->count = container ? node->count : 0;
    marks->all = false;
    marks->words = marks->few;
    if (marks->count > MARKS_INLINE)
        marks->words = kg_alloc(marks_words(marks) * sizeof(*marks->words));
    else
        memset(marks->few, 0, sizeof(marks->few));
    schema_work(&run->work, marks_words(marks));
}

static void marks_end(struct schema_marks *marks)
{
    if (marks->words != marks->few)
        free(marks->words);
}

static void schema_check_mark(struct schema_marks *marks, uint32_t number)
{
    if (marks != NULL)
        marks->words[number / 64] |= (uint64_t)1 << number % 64;
}

static bool is_marked(const struct schema_marks *marks, uint32_t number)
{
    return marks->all || (marks->words[number / 64] >> number % 64 & 1) != 0;
}

/* Both are of the same container. */
static void marks_merge(struct schema_marks *into, const struct schema_marks *from)
{
    into->all |= from->all;
    for (size_t i = 0; i < marks_words(into); i++)
        into->words[i] |= from->words[i];
}

/* -- subschemas -------------------------------------------------------------------------------- */

#define CHECK_PARAMETERS                                                                           \
    struct schema_run *run, const struct schema_subschema *subschema,                              \
        const struct schema_test *test, const struct kg_node *node, struct schema_marks *marks

static schema_act *const checks[SCHEMA_KEYWORD_COUNT];

static inline bool passes(CHECK_PARAMETERS)
{
    return !(test->types >> node->type & 1) ||
           checks[test->keyword](run, subschema, test, node, marks);
}

/* Without a report the first failure ends it, with one the rest may add more. */
static APART bool check_several(CHECK_PARAMETERS)
{
    bool fits = true;
    for (const struct schema_test *end = test + subschema->test_count; test < end; test++) {
        if (passes(run, subschema, test, node, marks))
            continue;
        if (run->report == NULL)
            return false;
        fits = false;
    }
    return fits;
}

static inline bool check_tests(CHECK_PARAMETERS)
{
    return subschema->test_count == 1 ? passes(run, subschema, test, node, marks)
                                      : check_several(run, subschema, test, node, marks);
}

static APART bool check_tracking(CHECK_PARAMETERS)
{
    struct schema_marks own;
    marks_begin(run, &own, node);
    bool fits = check_tests(run, subschema, test, node, &own);
    if (fits && marks != NULL)
        marks_merge(marks, &own);
    marks_end(&own);
    return fits;
}

/* While it is checked, its resource is in scope. */
static APART bool check_scoped(CHECK_PARAMETERS)
{
    const struct schema_scope *outer = run->scope;
    struct schema_scope scope = {outer, subschema->resource};
    if (outer == NULL || outer->resource != scope.resource)
        run->scope = &scope;
    bool fits = subschema->tracks ? check_tracking(run, subschema, test, node, marks)
                                  : check_tests(run, subschema, test, node, marks);
    run->scope = outer;
    return fits;
}

static bool check_nested(CHECK_PARAMETERS)
{
    if (run->depth == 0) {
        run->work = 0;
        return false;
    }
    run->depth--;
    bool fits = run->schema->dynamic ? check_scoped(run, subschema, test, node, marks)
                : subschema->tracks  ? check_tracking(run, subschema, test, node, marks)
                                     : check_tests(run, subschema, test, node, marks);
    run->depth++;
    return fits;
}

/* One number is often looked at by several tests in a row. */
static const struct schema_number *schema_check_read_number(struct schema_run *run,
                                                            const struct kg_node *node)
{
    if (run->numeric != node) {
        schema_work(&run->work, node->text.length / 16);
        schema_number_read(&run->number, node->text);
        run->numeric = node;
    }
    return &run->number;
}

static APART bool schema_check_refuse_type(struct schema_run *run,
                                           const struct schema_subschema *subschema,
                                           const struct kg_node *node)
{
    schema_report_type(run, subschema, node);
    return false;
}

static inline bool check_typed(struct schema_run *run, const struct schema_subschema *subschema,
                               const struct kg_node *node, struct schema_marks *marks)
{
    return subschema->act == NULL || subschema->act(run, subschema, subschema->tests, node, marks);
}

/* A number where integers are wanted. */
static APART bool check_integer(struct schema_run *run, const struct schema_subschema *subschema,
                                const struct kg_node *node, struct schema_marks *marks)
{
    return schema_number_is_integer(schema_check_read_number(run, node))
               ? check_typed(run, subschema, node, marks)
               : schema_check_refuse_type(run, subschema, node);
}

/* Whether the node fits the subschema. Marks are those of the node, NULL if nobody asks for them.
 */
static inline bool schema_check_check(struct schema_run *run, uint32_t number,
                                      const struct kg_node *node, struct schema_marks *marks)
{
    const struct schema_subschema *subschema = &run->schema->subschemas[number];
    schema_work(&run->work, 1 + subschema->test_count);
    if (run->work == 0)
        return false;
    if (!(subschema->types >> node->type & 1))
        return schema_check_refuse_type(run, subschema, node);
    if (node->type == KG_NUMBER && !node->is_small && (subschema->types & SCHEMA_INTEGERS))
        return check_integer(run, subschema, node, marks);
    return check_typed(run, subschema, node, marks);
}

/* The same without a word in the report; marks are kept only if it fits. */
static bool check_quietly(struct schema_run *run, uint32_t number, const struct kg_node *node,
                          struct schema_marks *marks)
{
    struct schema_report *report = run->report;
    struct schema_marks own;
    run->report = NULL;
    if (marks != NULL)
        marks_begin(run, &own, node);
    bool fits = schema_check_check(run, number, node, marks ? &own : NULL);
    if (marks != NULL) {
        if (fits)
            marks_merge(marks, &own);
        marks_end(&own);
    }
    run->report = report;
    return fits;
}

/* A part of the instance; its way there is kept for the report only. */
static APART bool check_on_path(struct schema_run *run, uint32_t number, const struct kg_node *node,
                                struct schema_path path)
{
    path.up = run->path;
    run->path = &path;
    bool fits = schema_check_check(run, number, node, NULL);
    run->path = path.up;
    return fits;
}

static inline bool check_member(struct schema_run *run, uint32_t number,
                                const struct kg_member *member)
{
    return run->report == NULL
               ? schema_check_check(run, number, &member->value, NULL)
               : check_on_path(run, number, &member->value, (struct schema_path){.member = member});
}

static inline bool check_item(struct schema_run *run, uint32_t number, const struct kg_node *array,
                              uint32_t item)
{
    return run->report == NULL ? schema_check_check(run, number, &array->items[item], NULL)
                               : check_on_path(run, number, &array->items[item],
                                               (struct schema_path){.item = item});
}

/* -- values and limits ------------------------------------------------------------------------- */

static bool check_const(CHECK_PARAMETERS)
{
    (void)marks;
    bool fits = schema_value_equal(node, schema_value(run->schema, test->number), &run->work);
    if (!fits)
        schema_report_choices(run, subschema, SCHEMA_K_CONST, node, test->number, 1);
    return fits;
}

static bool schema_check_is_choice(struct schema_run *run, const struct schema_enum *choices,
                                   const struct kg_node *node)
{
    if (node->type == KG_STRING) {
        schema_work(&run->work, node->text.length / 64);
        return schema_keys_find(&choices->strings, node->text) != NULL;
    }
    for (uint32_t i = 0; i < choices->count && run->work > 0; i++)
        if (schema_value_equal(node, schema_value(run->schema, choices->first + i), &run->work))
            return true;
    return false;
}

static bool schema_check_enum(CHECK_PARAMETERS)
{
    (void)marks;
    const struct schema_enum *choices = test->choices;
    bool fits = schema_check_is_choice(run, choices, node);
    if (!fits)
        schema_report_choices(run, subschema, SCHEMA_K_ENUM, node, choices->first, choices->count);
    return fits;
}

static bool schema_check_is_within(struct schema_run *run, const struct schema_limit *limit,
                                   const struct kg_node *node)
{
    int order;
    schema_work(&run->work, limit->number.text.length / 32);
    if (!schema_number_compare(schema_check_read_number(run, node), &limit->number, &order))
        return false;
    switch (limit->keyword) {
    case SCHEMA_K_MINIMUM:
        return order >= 0;
    case SCHEMA_K_MAXIMUM:
        return order <= 0;
    case SCHEMA_K_EXCLUSIVE_MINIMUM:
        return order > 0;
    default:
        return order < 0;
    }
}

static APART bool check_each_limit(CHECK_PARAMETERS)
{
    static const char *const phrases[SCHEMA_KEYWORD_COUNT] = {
        [SCHEMA_K_MINIMUM] = "at least",
        [SCHEMA_K_MAXIMUM] = "at most",
        [SCHEMA_K_EXCLUSIVE_MINIMUM] = "above",
        [SCHEMA_K_EXCLUSIVE_MAXIMUM] = "below",
    };
    (void)marks;
    bool fits = true;
    for (uint32_t i = 0; i < test->limits->count && (fits || run->report); i++) {
        const struct schema_limit *limit = &test->limits->rows[i];
        if (schema_check_is_within(run, limit, node))
            continue;
        char shown[SCHEMA_SHOWN_MAX];
        fits = false;
        if (run->report != NULL)
            schema_report_add(run, subschema, limit->keyword, node, "must be %s %s",
                              phrases[limit->keyword], schema_show(limit->number.text, shown));
    }
    return fits;
}

static bool schema_check_limits(CHECK_PARAMETERS)
{
    const struct schema_limits *limits = test->limits;
    if (node->is_small && node->small >= limits->least && node->small <= limits->most)
        return true;
    return check_each_limit(run, subschema, test, node, marks);
}

static bool check_multiple(CHECK_PARAMETERS)
{
    (void)marks;
    schema_work(&run->work, node->text.length / 16);
    if (schema_number_is_multiple(schema_check_read_number(run, node), test->divisor))
        return true;
    char shown[SCHEMA_SHOWN_MAX];
    if (run->report != NULL)
        schema_report_add(run, subschema, SCHEMA_K_MULTIPLE_OF, node, "must be a multiple of %s",
                          schema_show(test->divisor->text, shown));
    return false;
}

/* -- strings ----------------------------------------------------------------------------------- */

/* Among eight bytes those that go on with a character, 10xxxxxx. */
static inline uint64_t count_inner(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101u;
    return (word >> 7 & ~word >> 6 & ones) * ones >> 56;
}

static uint64_t schema_check_count_characters(struct kg_str text)
{
    uint64_t count = text.length;
    uint64_t word = 0;
    for (; text.length >= 8; text.data += 8, text.length -= 8) {
        memcpy(&word, text.data, 8);
        count -= count_inner(word);
    }
    word = 0;
    if (text.length > 0)
        memcpy(&word, text.data, text.length);
    return count - count_inner(word);
}

static void report_length(struct schema_run *run, const struct schema_subschema *subschema,
                          enum schema_keyword keyword, const struct kg_node *node, uint64_t count)
{
    schema_report_add(run, subschema, keyword, node, "must be at %s %llu character%s long",
                      keyword == SCHEMA_K_MIN_LENGTH ? "least" : "most", (unsigned long long)count,
                      count == 1 ? "" : "s");
}

static APART bool check_characters(CHECK_PARAMETERS)
{
    (void)marks;
    const struct schema_counts *counts = test->counts;
    uint64_t length = schema_check_count_characters(node->text);
    if (length < counts->least)
        report_length(run, subschema, SCHEMA_K_MIN_LENGTH, node, counts->least);
    if (length > counts->most)
        report_length(run, subschema, SCHEMA_K_MAX_LENGTH, node, counts->most);
    return length >= counts->least && length <= counts->most;
}

/* A character has one byte at least and four at most: often that tells enough. */
static bool check_length(CHECK_PARAMETERS)
{
    size_t bytes = node->text.length;
    schema_work(&run->work, bytes / 64);
    if ((bytes + 3) / 4 >= test->counts->least && bytes <= test->counts->most)
        return true;
    return check_characters(run, subschema, test, node, marks);
}

static APART void report_pattern(struct schema_run *run, const struct schema_subschema *subschema,
                                 const struct schema_test *test, const struct kg_node *node)
{
    char shown[SCHEMA_SHOWN_MAX];
    if (run->report != NULL)
        schema_report_add(run, subschema, SCHEMA_K_PATTERN, node, "must match the pattern %s",
                          schema_show(schema_pattern_source(test->pattern), shown));
}

static bool check_pattern(CHECK_PARAMETERS)
{
    (void)marks;
    bool fits = schema_pattern_match(test->pattern, node->text, &run->work);
    if (!fits)
        report_pattern(run, subschema, test, node);
    return fits;
}

static bool check_format(CHECK_PARAMETERS)
{
    (void)marks;
    schema_work(&run->work, 16 + test->format->work * (uint64_t)node->text.length);
    if (test->format->fits(node->text))
        return true;
    schema_report_add(run, subschema, SCHEMA_K_FORMAT, node, "must be a valid %s",
                      test->format->name);
    return false;
}

/* -- arrays ------------------------------------------------------------------------------------ */

static void report_size(struct schema_run *run, const struct schema_subschema *subschema,
                        const struct kg_node *node, bool least, uint64_t count)
{
    static const struct {
        uint8_t keywords[2]; /* most, least */
        const char *one, *many;
    } rows[] = {
        {{SCHEMA_K_MAX_PROPERTIES, SCHEMA_K_MIN_PROPERTIES}, "property", "properties"},
        {{SCHEMA_K_MAX_ITEMS, SCHEMA_K_MIN_ITEMS}, "item", "items"},
    };
    bool array = node->type == KG_ARRAY;
    schema_report_add(run, subschema, rows[array].keywords[least], node,
                      "must have at %s %llu %s, not %u", least ? "least" : "most",
                      (unsigned long long)count, count == 1 ? rows[array].one : rows[array].many,
                      node->count);
}

static bool schema_check_size(CHECK_PARAMETERS)
{
    (void)marks;
    const struct schema_counts *counts = test->counts;
    if (node->count < counts->least)
        report_size(run, subschema, node, true, counts->least);
    if (node->count > counts->most)
        report_size(run, subschema, node, false, counts->most);
    return node->count >= counts->least && node->count <= counts->most;
}

/* Nothing fits behind the prefix: one sentence about the array says it. */
static bool check_closed_end(CHECK_PARAMETERS)
{
    (void)marks;
    schema_report_add(run, subschema, test->items->rest_keyword, node,
                      "must have at most %u item%s, not %u", test->items->prefix_count,
                      test->items->prefix_count == 1 ? "" : "s", node->count);
    return false;
}

static bool check_items(CHECK_PARAMETERS)
{
    const struct schema_items *items = test->items;
    bool fits = true;
    uint32_t prefix = items->prefix_count < node->count ? items->prefix_count : node->count;
    for (uint32_t i = 0; i < prefix && (fits || run->report); i++) {
        fits &= check_item(run, items->prefix[i], node, i);
        schema_check_mark(marks, i);
    }
    if (items->rest == SCHEMA_NONE || prefix == node->count)
        return fits;
    if (run->schema->subschemas[items->rest].types == 0)
        return check_closed_end(run, subschema, test, node, marks);
    for (uint32_t i = prefix; i < node->count && run->work > 0; i++) {
        if (check_item(run, items->rest, node, i))
            continue;
        if (run->report == NULL)
            return false;
        fits = false;
    }
    if (marks != NULL)
        marks->all = true;
    return fits;
}

static bool check_contains(CHECK_PARAMETERS)
{
    const struct schema_contains *contains = test->contains;
    uint64_t found = 0;
    for (uint32_t i = 0; i < node->count && run->work > 0; i++) {
        if (!check_quietly(run, contains->target, &node->items[i], NULL))
            continue;
        found++;
        schema_check_mark(marks, i);
        if (marks == NULL && found >= contains->min && contains->max == UINT64_MAX)
            return true;
    }
    if (found >= contains->min && found <= contains->max)
        return true;
    bool few = found < contains->min;
    uint64_t limit = few ? contains->min : contains->max;
    schema_report_add(run, subschema, SCHEMA_K_CONTAINS, node,
                      "must have at %s %llu item%s that fit%s \"contains\", not %llu",
                      few ? "least" : "most", (unsigned long long)limit, limit == 1 ? "" : "s",
                      limit == 1 ? "s" : "", (unsigned long long)found);
    return false;
}

/* -- items that are all different -------------------------------------------------------------- */

#define UNIQUE_PAIRS  8   /* up to so many items, each is compared with each */
#define UNIQUE_INLINE 256 /* more of them need allocated tables */

static bool find_equal_pair(struct schema_run *run, const struct kg_node *array, uint32_t *ret_a,
                            uint32_t *ret_b)
{
    for (uint32_t b = 1; b < array->count; b++) {
        for (uint32_t a = 0; a < b && run->work > 0; a++) {
            if (schema_value_equal(&array->items[a], &array->items[b], &run->work)) {
                *ret_a = a;
                *ret_b = b;
                return true;
            }
        }
    }
    return false;
}

/* Items by their hash; slots are free at first and at most half of them get used. */
static bool find_equal_hash(struct schema_run *run, const struct kg_node *array, uint64_t *hashes,
                            uint32_t *slots, uint32_t mask, uint32_t *ret_a, uint32_t *ret_b)
{
    for (uint32_t b = 0; b < array->count && run->work > 0; b++) {
        hashes[b] = schema_value_hash(&array->items[b], &run->work);
        uint32_t slot = (uint32_t)hashes[b] & mask;
        for (; slots[slot] != 0; slot = (slot + 1) & mask) {
            uint32_t a = slots[slot] - 1;
            schema_work(&run->work, 1);
            if (hashes[a] == hashes[b] &&
                schema_value_equal(&array->items[a], &array->items[b], &run->work)) {
                *ret_a = a;
                *ret_b = b;
                return true;
            }
        }
        slots[slot] = b + 1;
    }
    return false;
}

static bool find_equal_many(struct schema_run *run, const struct kg_node *array, uint32_t *ret_a,
                            uint32_t *ret_b)
{
    size_t slot_count = UNIQUE_INLINE;
    while (slot_count < (size_t)array->count * 2)
        slot_count *= 2;
    schema_work(&run->work, slot_count / 8);
    kg_auto(kg_free) uint64_t *hashes = kg_alloc_array(array->count, sizeof(*hashes));
    kg_auto(kg_free) uint32_t *slots = kg_alloc_array(slot_count, sizeof(*slots));
    return find_equal_hash(run, array, hashes, slots, (uint32_t)(slot_count - 1), ret_a, ret_b);
}

static bool find_equal_some(struct schema_run *run, const struct kg_node *array, uint32_t *ret_a,
                            uint32_t *ret_b)
{
    uint64_t hashes[UNIQUE_INLINE];
    uint32_t slots[UNIQUE_INLINE * 2] = {0};
    return find_equal_hash(run, array, hashes, slots, UNIQUE_INLINE * 2 - 1, ret_a, ret_b);
}

static bool check_unique(CHECK_PARAMETERS)
{
    (void)test, (void)marks;
    uint32_t a, b;
    bool found = node->count <= UNIQUE_PAIRS    ? find_equal_pair(run, node, &a, &b)
                 : node->count <= UNIQUE_INLINE ? find_equal_some(run, node, &a, &b)
                                                : find_equal_many(run, node, &a, &b);
    if (!found)
        return true;
    schema_report_add(run, subschema, SCHEMA_K_UNIQUE_ITEMS, node,
                      "must not have equal items; %u and %u are", a, b);
    return false;
}

/* -- objects ----------------------------------------------------------------------------------- */

static APART void report_missing(struct schema_run *run, const struct schema_subschema *subschema,
                                 const struct schema_keys *keys, const struct kg_node *node)
{
    for (uint32_t i = 0; run->report != NULL && i < keys->count; i++) {
        char shown[SCHEMA_SHOWN_MAX];
        if (keys->keys[i].required && kg_node_member(node, keys->keys[i].name) == NULL)
            schema_report_add(run, subschema, SCHEMA_K_REQUIRED, node,
                              "is missing the property \"%s\"",
                              schema_show(keys->keys[i].name, shown));
    }
}

static bool check_unknown(struct schema_run *run, const struct schema_subschema *subschema,
                          enum schema_keyword keyword, uint32_t target,
                          const struct kg_member *member, const struct schema_keys *known)
{
    if (run->schema->subschemas[target].types != 0)
        return check_member(run, target, member);
    schema_report_member(run, subschema, keyword, member, known);
    return false;
}

/* By patternProperties; *ret_matched if one of them matches the key. */
static bool check_patterns(struct schema_run *run, const struct schema_object *object,
                           const struct kg_member *member, bool *ret_matched)
{
    bool fits = true;
    for (uint32_t i = 0; i < object->pattern_count; i++) {
        if (!schema_pattern_match(object->patterns[i].pattern, member->key, &run->work))
            continue;
        *ret_matched = true;
        fits &= check_member(run, object->patterns[i].target, member);
    }
    return fits;
}

/* By all that may have a say about it; *ret_known if some of it does. */
static APART bool check_by_all(struct schema_run *run, const struct schema_subschema *subschema,
                               const struct schema_object *object, const struct schema_key *key,
                               const struct kg_member *member, bool *ret_known)
{
    bool known = key != NULL && key->target != SCHEMA_NONE;
    if (run->work == 0)
        return false;
    bool fits = !known || check_member(run, key->target, member);
    fits &= check_patterns(run, object, member, &known);
    *ret_known = known || object->additional != SCHEMA_NONE;
    if (known || object->additional == SCHEMA_NONE)
        return fits;
    return fits & check_unknown(run, subschema, SCHEMA_K_ADDITIONAL_PROPERTIES, object->additional,
                                member, &object->keys);
}

static bool check_object(CHECK_PARAMETERS)
{
    const struct schema_object *object = test->object;
    const struct schema_key *guess = object->keys.keys; /* members often come in the same order */
    const struct schema_key *end = guess + object->keys.count;
    uint32_t required = 0;
    bool fits = true;
    for (uint32_t i = 0; i < node->count; i++) {
        const struct kg_member *member = &node->members[i];
        const struct schema_key *key = guess;
        if (guess == end || !schema_key_equal(guess->name, member->key))
            key = schema_keys_find(&object->keys, member->key);
        schema_work(&run->work, member->key.length / 64);
        if (key != NULL) {
            guess = key + 1;
            required += key->required;
        }
        bool known = true;
        bool is_alone = key != NULL && key->target != SCHEMA_NONE && object->pattern_count == 0;
        if (!(is_alone ? check_member(run, key->target, member)
                       : check_by_all(run, subschema, object, key, member, &known))) {
            if (run->report == NULL)
                return false;
            fits = false;
        }
        if (marks != NULL && known)
            schema_check_mark(marks, i);
    }
    if (required == object->required_count)
        return fits;
    report_missing(run, subschema, &object->keys, node);
    return false;
}

static bool check_property_names(CHECK_PARAMETERS)
{
    (void)subschema, (void)marks;
    bool fits = true;
    const struct kg_str *outer = run->name;
    for (uint32_t i = 0; i < node->count && (fits || run->report) && run->work > 0; i++) {
        const struct kg_member *member = &node->members[i];
        struct kg_node name = {.type = KG_STRING,
                               .line = member->key_line,
                               .column = member->key_column,
                               .text = member->key};
        run->name = &member->key;
        fits &= schema_check_check(run, test->number, &name, NULL);
    }
    run->name = outer;
    return fits;
}

static bool check_dependency(struct schema_run *run, const struct schema_subschema *subschema,
                             enum schema_keyword keyword, const struct schema_dependency *row,
                             const struct kg_node *node)
{
    bool fits = true;
    for (uint32_t i = 0; i < row->name_count && (fits || run->report); i++) {
        schema_work(&run->work, 1 + row->names[i].length / 64);
        if (run->work > 0 && kg_node_member(node, row->names[i]) != NULL)
            continue;
        char key[SCHEMA_SHOWN_MAX];
        char name[SCHEMA_SHOWN_MAX];
        fits = false;
        if (run->report != NULL)
            schema_report_add(run, subschema, keyword, node,
                              "has the property \"%s\" and so must have \"%s\"",
                              schema_show(row->key, key), schema_show(row->names[i], name));
    }
    return fits;
}

static bool check_dependencies(CHECK_PARAMETERS)
{
    const struct schema_dependencies *dependencies = test->dependencies;
    bool fits = true;
    for (uint32_t i = 0; i < dependencies->count && (fits || run->report) && run->work > 0; i++) {
        const struct schema_dependency *row = &dependencies->rows[i];
        schema_work(&run->work, 1 + row->key.length / 64);
        if (kg_node_member(node, row->key) == NULL)
            continue;
        fits &= check_dependency(run, subschema, test->keyword, row, node);
        if (test->targets[i] != SCHEMA_NONE)
            fits &= schema_check_check(run, test->targets[i], node, marks);
    }
    return fits;
}

/* -- subschemas for the same instance ---------------------------------------------------------- */

static bool check_all(CHECK_PARAMETERS)
{
    (void)subschema;
    bool fits = true;
    for (uint32_t i = 0; i < test->target_count && (fits || run->report) && run->work > 0; i++)
        fits &= schema_check_check(run, test->targets[i], node, marks);
    return fits;
}

/* The only one of the targets that takes such a type, or SCHEMA_NONE. */
static uint32_t likely_target(const struct schema_run *run, const struct schema_test *test,
                              const struct kg_node *node)
{
    uint32_t likely = SCHEMA_NONE;
    for (uint32_t i = 0; i < test->target_count; i++) {
        if (!(run->schema->subschemas[test->targets[i]].types & 1 << node->type))
            continue;
        if (likely != SCHEMA_NONE)
            return SCHEMA_NONE;
        likely = test->targets[i];
    }
    return likely;
}

/* None fits: if one was clearly meant, what is wrong by it is worth more than that alone. */
static void report_alternatives(struct schema_run *run, const struct schema_subschema *subschema,
                                const struct schema_test *test, const struct kg_node *node)
{
    if (run->report == NULL || run->work == 0)
        return;
    uint32_t likely = likely_target(run, test, node);
    if (likely != SCHEMA_NONE)
        schema_check_check(run, likely, node, NULL);
    else
        schema_report_add(run, subschema, test->keyword, node, "fits none of the %u alternatives",
                          test->target_count);
}

static bool check_any(CHECK_PARAMETERS)
{
    bool fits = false;
    for (uint32_t i = 0; i < test->target_count && !(fits && marks == NULL) && run->work > 0; i++)
        fits |= check_quietly(run, test->targets[i], node, marks);
    if (!fits)
        report_alternatives(run, subschema, test, node);
    return fits;
}

static bool check_one(CHECK_PARAMETERS)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < test->target_count && found < 2 && run->work > 0; i++)
        found += check_quietly(run, test->targets[i], node, marks);
    if (found == 0)
        report_alternatives(run, subschema, test, node);
    else if (found > 1)
        schema_report_add(run, subschema, SCHEMA_K_ONE_OF, node,
                          "fits more than one of the %u alternatives", test->target_count);
    return found == 1;
}

static bool check_not(CHECK_PARAMETERS)
{
    (void)marks;
    if (!check_quietly(run, test->targets[0], node, NULL))
        return run->work > 0;
    schema_report_add(run, subschema, SCHEMA_K_NOT, node, "must not fit the schema of \"not\"");
    return false;
}

static bool check_if(CHECK_PARAMETERS)
{
    (void)subschema;
    bool fits = check_quietly(run, test->targets[0], node, marks);
    uint32_t next = test->targets[fits ? 1 : 2];
    return next == SCHEMA_NONE || schema_check_check(run, next, node, marks);
}

/* The target of the outermost resource in scope that has the name, else the one written down. */
static bool check_dynamic(CHECK_PARAMETERS)
{
    (void)subschema;
    uint32_t target = test->targets[0];
    for (const struct schema_scope *scope = run->scope; scope != NULL; scope = scope->up) {
        const struct schema_dynamics *dynamics = &run->schema->resources[scope->resource];
        schema_work(&run->work, 1 + dynamics->count / 8);
        for (uint32_t i = 0; i < dynamics->count; i++)
            if (dynamics->rows[i].name == test->number)
                target = dynamics->rows[i].target;
    }
    return schema_check_check(run, target, node, marks);
}

static bool check_unevaluated_items(CHECK_PARAMETERS)
{
    (void)subschema;
    bool fits = true;
    for (uint32_t i = 0; i < node->count && (fits || run->report) && run->work > 0; i++)
        if (!is_marked(marks, i))
            fits &= check_item(run, test->number, node, i);
    marks->all = true;
    return fits;
}

static bool check_unevaluated_properties(CHECK_PARAMETERS)
{
    bool fits = true;
    for (uint32_t i = 0; i < node->count && (fits || run->report) && run->work > 0; i++)
        if (!is_marked(marks, i))
            fits &= check_unknown(run, subschema, SCHEMA_K_UNEVALUATED_PROPERTIES, test->number,
                                  &node->members[i], NULL);
    marks->all = true;
    return fits;
}

static schema_act *const checks[SCHEMA_KEYWORD_COUNT] = {
    [SCHEMA_K_CONST] = check_const,
    [SCHEMA_K_ENUM] = schema_check_enum,
    [SCHEMA_K_MINIMUM] = schema_check_limits,
    [SCHEMA_K_MULTIPLE_OF] = check_multiple,
    [SCHEMA_K_MIN_LENGTH] = check_length,
    [SCHEMA_K_PATTERN] = check_pattern,
    [SCHEMA_K_FORMAT] = check_format,
    [SCHEMA_K_MIN_ITEMS] = schema_check_size,
    [SCHEMA_K_MIN_PROPERTIES] = schema_check_size,
    [SCHEMA_K_ITEMS] = check_items,
    [SCHEMA_K_ADDITIONAL_ITEMS] = check_items,
    [SCHEMA_K_CONTAINS] = check_contains,
    [SCHEMA_K_UNIQUE_ITEMS] = check_unique,
    [SCHEMA_K_PROPERTIES] = check_object,
    [SCHEMA_K_PROPERTY_NAMES] = check_property_names,
    [SCHEMA_K_DEPENDENCIES] = check_dependencies,
    [SCHEMA_K_DEPENDENT_REQUIRED] = check_dependencies,
    [SCHEMA_K_DEPENDENT_SCHEMAS] = check_dependencies,
    [SCHEMA_K_REF] = check_all,
    [SCHEMA_K_DYNAMIC_REF] = check_dynamic,
    [SCHEMA_K_ALL_OF] = check_all,
    [SCHEMA_K_ANY_OF] = check_any,
    [SCHEMA_K_ONE_OF] = check_one,
    [SCHEMA_K_NOT] = check_not,
    [SCHEMA_K_IF] = check_if,
    [SCHEMA_K_UNEVALUATED_ITEMS] = check_unevaluated_items,
    [SCHEMA_K_UNEVALUATED_PROPERTIES] = check_unevaluated_properties,
};

/* None of them goes on to another subschema. */
static bool are_leaves(const struct schema_test *tests, uint16_t count)
{
    static const bool leaves[SCHEMA_KEYWORD_COUNT] = {
        [SCHEMA_K_CONST] = true,          [SCHEMA_K_ENUM] = true,
        [SCHEMA_K_MINIMUM] = true,        [SCHEMA_K_MULTIPLE_OF] = true,
        [SCHEMA_K_MIN_LENGTH] = true,     [SCHEMA_K_PATTERN] = true,
        [SCHEMA_K_FORMAT] = true,         [SCHEMA_K_MIN_ITEMS] = true,
        [SCHEMA_K_MIN_PROPERTIES] = true, [SCHEMA_K_UNIQUE_ITEMS] = true,
    };
    for (uint16_t i = 0; i < count; i++)
        if (!leaves[tests[i].keyword])
            return false;
    return true;
}

schema_act *schema_act_of(const struct schema_subschema *subschema)
{
    const struct schema_test *test = subschema->tests;
    if (subschema->test_count == 0)
        return NULL;
    if (!are_leaves(test, subschema->test_count))
        return check_nested;
    bool is_for_all = !(subschema->types & SCHEMA_ALL_TYPES & ~test->types);
    return subschema->test_count == 1 && is_for_all ? checks[test->keyword] : check_several;
}

/* -- the whole --------------------------------------------------------------------------------- */

static inline struct schema_run run_of(const struct schema *schema)
{
    return (struct schema_run){
        .schema = schema, .work = SCHEMA_WORK_MAX, .depth = SCHEMA_WORK_DEPTH_MAX};
}

bool schema_check(const struct schema *schema, const struct kg_node *instance,
                  struct schema_report *report_or_null)
{
    struct schema_run run = run_of(schema);
    bool fits = schema_check_check(&run, 0, instance, NULL) && run.work > 0;
    if (fits || report_or_null == NULL)
        return fits;
    bool gave_up = run.work == 0;
    run = run_of(schema);
    run.report = report_or_null;
    if (gave_up) {
        report_or_null->gave_up = true;
        schema_report_add(&run, &schema->subschemas[0], SCHEMA_KEYWORD_COUNT, instance,
                          "takes more work to check than is allowed");
        return false;
    }
    schema_check_check(&run, 0, instance, NULL);
    report_or_null->truncated |= run.work == 0;
    if (report_or_null->count == 0)
        schema_report_add(&run, &schema->subschemas[0], SCHEMA_KEYWORD_COUNT, instance,
                          "does not fit, in more ways than can be told apart");
    return false;
}
