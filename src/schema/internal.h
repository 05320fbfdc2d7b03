/*
 * What the parts of schema/ share. A document's tree becomes a program: subschemas in one array,
 * each with a type mask and a short list of tests, each test with what it needs prepared.
 * References are numbers into the array, so a recursive schema is as small as its text.
 */
#ifndef KAGED_SCHEMA_INTERNAL_H
#define KAGED_SCHEMA_INTERNAL_H

#include "schema/schema.h"

/* Bounds of a schema; past one it is refused. */
#define SCHEMA_SUBSCHEMAS_MAX 50000
#define SCHEMA_DEPTH_MAX      256
#define SCHEMA_RESOURCES_MAX  1000   /* $id in one document */
#define SCHEMA_NAMES_MAX      200000 /* in required, dependencies and the like, together */
#define SCHEMA_ENUM_MAX       10000  /* values of one enum */
#define SCHEMA_VALUES_MAX     100000 /* nodes in enum, const and default, together */
#define SCHEMA_URI_MAX        1024   /* bytes */
#define SCHEMA_PATTERN_MAX    4096   /* bytes */
#define SCHEMA_PATTERNS_MAX   1000
#define SCHEMA_PATTERNS_BYTES ((size_t)8 * 1024 * 1024) /* compiled, together */
#define SCHEMA_DIGITS_MAX     18                        /* of a multipleOf */

/* Bounds of a check; past one it gives up. */
#define SCHEMA_WORK_MAX       10000000
#define SCHEMA_WORK_DEPTH_MAX 1024 /* subschemas within subschemas */

#define SCHEMA_NONE UINT32_MAX /* in place of a subschema's number */

/* -- keywords ---------------------------------------------------------------------------------- */

enum schema_keyword {
#define SCHEMA_KEYWORD(symbol, name, drafts, vocabulary, shape) SCHEMA_K_##symbol,
#include "schema/keywords.def"
#undef SCHEMA_KEYWORD
    SCHEMA_KEYWORD_COUNT
};

enum schema_vocabulary {
    SCHEMA_V_CORE = 1 << 0,
    SCHEMA_V_APPLICATOR = 1 << 1,
    SCHEMA_V_UNEVALUATED = 1 << 2,
    SCHEMA_V_VALIDATION = 1 << 3,
    SCHEMA_V_META_DATA = 1 << 4,
    SCHEMA_V_FORMAT = 1 << 5,
    SCHEMA_V_CONTENT = 1 << 6,
    SCHEMA_V_USUAL = (1 << 7) - 1,
    SCHEMA_V_ASSERT_FORMAT = 1 << 7,
};

/* What a keyword's value must be; the rows of keywords.def name these. */
enum schema_shape {
    SCHEMA_IS_ANY,
    SCHEMA_IS_BOOLEAN,
    SCHEMA_IS_STRING,
    SCHEMA_IS_NUMBER,
    SCHEMA_IS_DIVISOR, /* a number above 0 */
    SCHEMA_IS_COUNT,   /* an integer of at least 0 */
    SCHEMA_IS_ARRAY,
    SCHEMA_IS_OBJECT,
    SCHEMA_IS_STRINGS, /* an array of different strings */
    SCHEMA_IS_STRINGS_MAP,
    SCHEMA_IS_TYPE,
    SCHEMA_IS_ID,
    SCHEMA_IS_ANCHOR,
    SCHEMA_IS_SCHEMA,
    SCHEMA_IS_SCHEMA_LIST, /* not empty */
    SCHEMA_IS_SCHEMA_MAP,
    SCHEMA_IS_ITEMS,        /* a schema; in draft-07 also a list */
    SCHEMA_IS_DEPENDENCIES, /* a map of schemas and of lists of strings */
    SCHEMA_SHAPE_COUNT
};

struct schema_keyword_row {
    const char *name;
    bool drafts[2]; /* by enum schema_draft */
    uint8_t vocabulary;
    uint8_t shape;
};
extern const struct schema_keyword_row schema_keywords[SCHEMA_KEYWORD_COUNT];

/* SCHEMA_KEYWORD_COUNT if the draft has no keyword of that name. */
enum schema_keyword schema_keyword_find(struct kg_str name, enum schema_draft draft);

/* A place below a subschema: the keyword, then a key or a position where the keyword holds many. */
struct schema_step {
    enum schema_keyword keyword;
    struct kg_str key; /* data NULL: none */
    uint32_t position; /* SCHEMA_NONE: none */
};
/* What the walk over a subschema's own subschemas calls for each; nonzero ends it. */
typedef int schema_on_child(void *data, const struct kg_node *child, struct schema_step step);
int schema_each_child(const struct kg_node *node, enum schema_draft draft,
                      schema_on_child *on_child, void *data);

/* NULL if the value may stand under the keyword, else a sentence; *ret_at is the node at fault. */
const char *schema_shape_problem(enum schema_keyword keyword, enum schema_draft draft,
                                 const struct kg_node *value, const struct kg_node **ret_at);
/* The bits of a valid "type": 1 << enum kg_type each, and SCHEMA_INTEGERS. */
uint8_t schema_type_bits(const struct kg_node *value);

/* -- URIs -------------------------------------------------------------------------------------- */

/*
 * The reference resolved against the base, without its fragment, which *ret_fragment gets (a part
 * of reference; data NULL if there is none). False if the result is longer than SCHEMA_URI_MAX.
 */
bool schema_uri_resolve(struct kg_str base, struct kg_str reference, struct kg_buf *ret_uri,
                        struct kg_str *ret_fragment);
void schema_uri_decode(struct kg_str text, struct kg_buf *ret_text); /* %41 becomes A */
bool schema_uri_is_valid(struct kg_str text, bool relative_too);     /* RFC 3986 to the letter */

/* -- documents --------------------------------------------------------------------------------- */

struct schema_index;

struct schema_anchor {
    struct kg_str name;
    const struct kg_node *node;
    bool dynamic;
};

/* A part of a document that has a URI of its own: the document, or a subschema with $id. */
struct schema_resource {
    struct kg_str uri; /* without fragment */
    const struct kg_node *root;
    enum schema_draft draft;
    const struct kg_node *dialect;    /* its $schema, or NULL */
    const struct schema_resource *up; /* the one that it is in, or NULL */
    const struct schema_index *index; /* of its document */
    struct kg_map *anchors;           /* owned; name to struct schema_anchor */
};

struct schema_index *schema_index_new(void);
void schema_index_free(struct schema_index *index);
/* Takes in a document: its resources and anchors. The tree outlives the index. */
int schema_index_add(struct schema_index *index, const struct schema_registry *registry,
                     struct kg_str uri, const struct kg_node *root, enum schema_draft draft,
                     struct kg_err *err);
/* The resource whose root the node is, else `within`. */
const struct schema_resource *schema_index_enter(const struct schema_index *index,
                                                 const struct kg_node *node,
                                                 const struct schema_resource *within);
/* Looks in the document itself, then in the registry, then among the metaschemas; NULL if unknown.
 */
const struct schema_resource *schema_find(const struct schema_index *own,
                                          const struct schema_registry *registry,
                                          enum schema_draft draft, struct kg_str uri);
/* The draft and the vocabularies that a $schema stands for; false if it is not known. */
bool schema_dialect(const struct schema_index *own, const struct schema_registry *registry,
                    struct kg_str uri, enum schema_draft *ret_draft, unsigned *ret_vocabularies);

/* -- numbers: as written, so of any size and without rounding ---------------------------------- */

/* 0.DIGITS times ten to the power of `point`, without zeros at either end of the digits. */
struct schema_decimal {
    const char *first; /* the first digit that counts; a '.' may stand among them */
    size_t count;      /* 0: the number is 0 */
    int64_t point;
    bool negative;
    bool infinite;
    bool nan;
};
struct schema_number {
    struct kg_str text;
    bool is_small; /* it is an integer that fits */
    int64_t small;
    struct schema_decimal decimal;
};
void schema_number_read(struct schema_number *number, struct kg_str text);
/* Less, equal, greater: -1, 0, 1. False if one of them is nan. */
bool schema_number_compare(const struct schema_number *a, const struct schema_number *b,
                           int *ret_order);
bool schema_number_is_integer(const struct schema_number *number);
bool schema_number_is_positive(struct kg_str text);
bool schema_number_is_multiple(const struct schema_number *number,
                               const struct schema_number *divisor);
size_t schema_number_digits(struct kg_str text); /* significant ones */
uint64_t schema_number_hash(struct kg_str text); /* the same for 1, 1.0 and 10e-1 */
/* A whole number of at least 0; past uint64 the largest of it. */
bool schema_number_count(struct kg_str text, uint64_t *ret_count);

/* -- values ------------------------------------------------------------------------------------ */

/* Each takes what it did from *work, which stays at 0 when it is used up; the answer is void then.
 */
bool schema_value_equal(const struct kg_node *a, const struct kg_node *b, uint64_t *work);
uint64_t schema_value_hash(const struct kg_node *node, uint64_t *work);
void schema_value_copy(struct kg_builder *builder, const struct kg_node *node);
size_t schema_value_nodes(const struct kg_node *node);
size_t schema_value_bytes(const struct kg_node *node); /* of its texts and keys */
static inline void schema_work(uint64_t *work, uint64_t steps)
{
    if (steps > 0)
        *work = *work > steps ? *work - steps : 0;
}

/* -- patterns and formats ---------------------------------------------------------------------- */

struct schema_automaton;
/* NULL if the pattern is not plain, or no pattern at all. */
struct schema_automaton *schema_automaton_new(struct kg_str source);
bool schema_automaton_match(const struct schema_automaton *automaton, struct kg_str text);

struct schema_pattern;
#define SCHEMA_PROBLEM_MAX 160
/* A regular expression of ECMA-262; NULL with the problem if it is none, or too large. */
struct schema_pattern *schema_pattern_new(struct kg_str source, char problem[SCHEMA_PROBLEM_MAX]);
void schema_pattern_free(struct schema_pattern *pattern);
struct kg_str schema_pattern_source(const struct schema_pattern *pattern);
size_t schema_pattern_bytes(const struct schema_pattern *pattern);
/* Whether it matches somewhere in the text. A match that takes too long uses up *work. */
bool schema_pattern_match(const struct schema_pattern *pattern, struct kg_str text, uint64_t *work);
/* Whether the text is a regular expression, be it one that we cannot run. */
bool schema_pattern_is_valid(struct kg_str source);
/* ECMA-262 as PCRE2 writes the same; false with the problem. */
bool schema_pattern_translate(struct kg_str source, struct kg_buf *ret_translated,
                              char problem[SCHEMA_PROBLEM_MAX]);

struct schema_format {
    const char *name;
    bool (*fits)(struct kg_str text);
    uint32_t work; /* steps for each byte */
};
const struct schema_format *schema_format_find(struct kg_str name); /* NULL: not known */
bool schema_is_ipv6(struct kg_str text);
bool schema_is_idn_label(struct kg_str label); /* what stands behind "xn--" is a valid label */

/* -- sets of keys: found by a hash that costs little ------------------------------------------- */

struct schema_key {
    struct kg_str name;
    uint32_t target; /* the property's subschema, or SCHEMA_NONE */
    bool required;
};
struct schema_keys {
    struct schema_key *keys;
    uint32_t *slots; /* number of the key + 1; 0: free */
    uint32_t count;
    uint32_t mask; /* slot count - 1, a power of two */
    bool collide;  /* the quick hash serves these keys badly */
};
/* Takes the keys as they stand, no name twice; they and the slots live in the arena. */
struct schema_keys schema_keys_build(struct kg_arena *arena, struct schema_key *keys,
                                     uint32_t count);
const struct schema_key *schema_keys_find(const struct schema_keys *keys, struct kg_str name);
/* kg_str_equal, with less ado for the short texts that keys are. */
static inline bool schema_key_equal(struct kg_str a, struct kg_str b)
{
    if (a.length != b.length)
        return false;
    if (a.length >= 8 && a.length <= 16) {
        uint64_t words[4]; /* the first eight bytes of each, and the last eight */
        memcpy(&words[0], a.data, 8);
        memcpy(&words[1], b.data, 8);
        memcpy(&words[2], a.data + a.length - 8, 8);
        memcpy(&words[3], b.data + b.length - 8, 8);
        return ((words[0] ^ words[1]) | (words[2] ^ words[3])) == 0;
    }
    if (a.length >= 4 && a.length < 8) {
        uint32_t words[4];
        memcpy(&words[0], a.data, 4);
        memcpy(&words[1], b.data, 4);
        memcpy(&words[2], a.data + a.length - 4, 4);
        memcpy(&words[3], b.data + b.length - 4, 4);
        return ((words[0] ^ words[1]) | (words[2] ^ words[3])) == 0;
    }
    if (a.length > 16)
        return memcmp(a.data, b.data, a.length) == 0;
    return a.length == 0 ||
           (a.data[0] == b.data[0] && a.data[a.length / 2] == b.data[a.length / 2] &&
            a.data[a.length - 1] == b.data[a.length - 1]);
}

/* -- the program ------------------------------------------------------------------------------- */

#define SCHEMA_INTEGERS  (1 << 6) /* of the numbers only these */
#define SCHEMA_ALL_TYPES ((1 << 6) - 1)

struct schema_object {
    struct schema_keys keys; /* of properties and required */
    uint32_t required_count;
    uint32_t additional; /* or SCHEMA_NONE */
    uint32_t pattern_count;
    struct {
        const struct schema_pattern *pattern;
        uint32_t target;
    } * patterns;
};
struct schema_items {
    const uint32_t *prefix;
    uint32_t prefix_count;
    uint32_t rest; /* or SCHEMA_NONE */
    enum schema_keyword rest_keyword;
};
struct schema_contains {
    uint32_t target;
    uint64_t min, max;
};
struct schema_enum {
    struct schema_keys strings;
    uint32_t first, count; /* of all values in the schema's values */
};
struct schema_limit {
    struct schema_number number;
    uint8_t keyword;
};
struct schema_limits {
    const struct schema_limit *rows;
    uint32_t count;
    int64_t least, most; /* the integers within all of them; none if one of them is not small */
};
struct schema_counts {
    uint64_t least, most; /* characters, items or members */
};
struct schema_dependency {
    struct kg_str key;
    const struct kg_str *names; /* that must be there too */
    uint32_t name_count;
};
struct schema_dependencies {
    const struct schema_dependency *rows;
    uint32_t count;
};

/* One keyword, or several that belong together, made ready. */
struct schema_test {
    const uint32_t *targets; /* subschemas for the same instance; SCHEMA_NONE: absent */
    union {
        uint32_t number; /* a value, a name, or a subschema for a part of the instance */
        const struct schema_limits *limits;
        const struct schema_number *divisor;
        const struct schema_counts *counts;
        const struct schema_pattern *pattern;
        const struct schema_format *format;
        const struct schema_object *object;
        const struct schema_items *items;
        const struct schema_contains *contains;
        const struct schema_enum *choices;
        const struct schema_dependencies *dependencies;
    };
    uint32_t target_count;
    uint8_t keyword;
    uint8_t types; /* that it applies to: 1 << enum kg_type each */
};

struct schema_run;
struct schema_subschema;
struct schema_marks;
/* Whether the node passes a test, or those of the subschema from there on. */
typedef bool schema_act(struct schema_run *run, const struct schema_subschema *subschema,
                        const struct schema_test *test, const struct kg_node *node,
                        struct schema_marks *marks);

struct schema_subschema {
    const struct schema_test *tests;
    schema_act *act; /* decides about a value of a type that it takes; NULL: that fits */
    uint16_t test_count;
    uint8_t types; /* that it takes; none: nothing fits */
    bool tracks;   /* it has to know what its other tests have looked at */
    uint32_t resource;
    uint32_t initial; /* its default among the values, or SCHEMA_NONE */
};

/* Where a subschema stands, for messages. */
struct schema_place {
    uint32_t parent; /* SCHEMA_NONE: it stands at `origin` */
    struct schema_step step;
    struct kg_str origin; /* "#", "http://example.com/x.json#/$defs/y" */
};

struct schema_dynamic {
    uint32_t name;
    uint32_t target;
};
/* The $dynamicAnchor values of a resource. */
struct schema_dynamics {
    const struct schema_dynamic *rows;
    uint32_t count;
};

struct schema {
    struct kg_arena *arena;              /* owned; everything below that is not said to be */
    struct schema_subschema *subschemas; /* owned; 0 is the root */
    struct schema_place *places;         /* owned; beside it */
    uint32_t count;
    struct schema_dynamics *resources; /* owned */
    uint32_t resource_count;
    struct kg_doc *values;            /* owned; an array: enum, const, default */
    struct schema_pattern **patterns; /* owned, each and all */
    uint32_t pattern_count;
    bool dynamic; /* it has a $dynamicRef */
};

static inline const struct kg_node *schema_value(const struct schema *schema, uint32_t number)
{
    return &schema->values->root->items[number];
}

/* Appends "#/properties/x", and the keyword if it is one. */
void schema_place_text(const struct schema *schema, uint32_t number, enum schema_keyword keyword,
                       struct kg_buf *ret_text);
void schema_step_text(struct schema_step step, struct kg_buf *ret_text);

/* -- compiling: compile.c finds and numbers the subschemas, emit.c makes their tests ----------- */

struct schema_source {
    const struct kg_node *node;
    const struct schema_resource *resource;
    unsigned vocabularies;
};

struct schema_compiler {
    struct schema *schema;    /* owned while it is being made */
    struct kg_arena *scratch; /* owned; what only compiling needs */
    const struct schema_options *options;
    struct schema_index *index;               /* owned; of the document */
    struct schema_source *sources;            /* owned; beside the subschemas */
    uint32_t capacity;                        /* of both */
    struct kg_map *numbers;                   /* owned; node to its subschema's number */
    const struct schema_resource **resources; /* owned; beside the schema's */
    struct kg_map *resource_numbers;          /* owned; resource to its number */
    unsigned *vocabularies;                   /* owned; by resource number */
    struct kg_builder *values;                /* owned */
    uint32_t value_count;
    size_t value_nodes;
    struct kg_map *patterns; /* owned; source to pattern */
    size_t pattern_bytes;
    struct kg_map *names;       /* owned; of dynamic anchors, to their numbers */
    size_t name_count;          /* in required and the like */
    const struct kg_node *root; /* of the document */
    struct kg_err *err;
    /* The subschema at work: the values of its keywords, and its tests so far. */
    uint32_t number;
    const struct kg_node *at[SCHEMA_KEYWORD_COUNT];
    struct schema_test tests[SCHEMA_KEYWORD_COUNT];
    uint32_t test_count;
};

/* Sets the error: "LINE:COLUMN: #/place/keyword: sentence". */
int schema_compile_fail(struct schema_compiler *compiler, struct schema_step step,
                        const struct kg_node *node, const char *format, ...) KG_PRINTF(4, 5);
/* The number of a subschema that has one. */
uint32_t schema_compile_number(const struct schema_compiler *compiler, const struct kg_node *node);
/* The subschema that a reference in the current one leads to; *ret_dynamic: its $dynamicAnchor. */
int schema_compile_reference(struct schema_compiler *compiler, enum schema_keyword keyword,
                             uint32_t *ret_number, struct kg_str *ret_dynamic);
uint32_t schema_compile_name(struct schema_compiler *compiler, struct kg_str name);
int schema_emit(struct schema_compiler *compiler);

/* -- checking ---------------------------------------------------------------------------------- */

/* The way into the instance, innermost first; lives on the stack. */
struct schema_path {
    const struct schema_path *up;
    const struct kg_member *member; /* or NULL for an item */
    uint32_t item;
};
struct schema_scope {
    const struct schema_scope *up;
    uint32_t resource;
};

struct schema_run {
    const struct schema *schema;
    const struct schema_path *path;
    const struct schema_scope *scope;
    struct schema_report *report;  /* NULL: only yes or no is wanted */
    uint64_t work;                 /* left; 0: given up */
    uint32_t depth;                /* left */
    const struct kg_str *name;     /* the property's name, while it is what is checked */
    const struct kg_node *numeric; /* the node that was last read as a number, or NULL */
    struct schema_number number;   /* what it was read as */
};

/* The act of a subschema whose types and tests are known. */
schema_act *schema_act_of(const struct schema_subschema *subschema);

/* Adds an error about the node at the run's path; does nothing without a report. */
void schema_report_add(struct schema_run *run, const struct schema_subschema *subschema,
                       enum schema_keyword keyword, const struct kg_node *node, const char *format,
                       ...) KG_PRINTF(5, 6);
/* The same for one member of an object. */
void schema_report_member(struct schema_run *run, const struct schema_subschema *subschema,
                          enum schema_keyword keyword, const struct kg_member *member,
                          const struct schema_keys *known);
void schema_report_type(struct schema_run *run, const struct schema_subschema *subschema,
                        const struct kg_node *node);
void schema_report_choices(struct schema_run *run, const struct schema_subschema *subschema,
                           enum schema_keyword keyword, const struct kg_node *node, uint32_t first,
                           uint32_t count);
#define SCHEMA_SHOWN_MAX 128
/* For "%s": what a reader may be shown of a text. Returns shown. */
const char *schema_show(struct kg_str text, char shown[SCHEMA_SHOWN_MAX]);

#endif
