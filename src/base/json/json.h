/*
 * JSON in three forms. The scanner walks received bytes and validates them without building
 * anything; the tree is one arena that the JSON, YAML and TOML readers all fill, with positions;
 * the writer appends to a buffer. Bytes that are passed on are never printed again.
 */
#ifndef KAGED_JSON_H
#define KAGED_JSON_H

#include "base/base.h"

/* -- scanner ----------------------------------------------------------------------------------- */

#define KG_JSON_DEPTH_MAX 256 /* nesting past this is a fault, whatever follows */

enum kg_json_fault {
    KG_JSON_OK,
    KG_JSON_SYNTAX,    /* a byte that cannot stand there */
    KG_JSON_TRUNCATED, /* the text ends too early */
    KG_JSON_UTF8,      /* not UTF-8: overlong, surrogate, past U+10FFFF, cut, stray */
    KG_JSON_SURROGATE, /* an escaped surrogate without its other half */
    KG_JSON_CONTROL,   /* a raw control character, NUL included, in a string */
    KG_JSON_DEPTH,     /* nested deeper than KG_JSON_DEPTH_MAX */
};
const char *kg_json_fault_text(enum kg_json_fault fault);

/* A place in a text; after a fault `at` is the byte that was wrong. */
struct kg_json_cursor {
    const char *at;
    const char *end;
};

static inline void kg_json_skip_space(struct kg_json_cursor *cursor)
{
    while (
        cursor->at < cursor->end && (unsigned char)*cursor->at <= ' ' &&
        (*cursor->at == ' ' || *cursor->at == '\t' || *cursor->at == '\n' || *cursor->at == '\r'))
        cursor->at++;
}
/*
 * At the opening quote; leaves the cursor behind the closing one. *ret_raw is what stands between.
 */
enum kg_json_fault kg_json_skip_string(struct kg_json_cursor *cursor, struct kg_str *ret_raw,
                                       bool *ret_escaped);
/* At the first byte of a value of any kind; leaves the cursor behind it. Validates all of it. */
enum kg_json_fault kg_json_skip_value(struct kg_json_cursor *cursor, struct kg_str *ret_span);
/* Whether the whole text is one JSON value with nothing but white space around it. */
enum kg_json_fault kg_json_check(struct kg_str text, size_t *ret_offset);
/* Decodes what stands between the quotes of a valid string into out (raw.length bytes suffice). */
size_t kg_json_unescape(struct kg_str raw, char *out);
/* Whether a valid raw string, escapes decoded, is the given text. */
bool kg_json_raw_is(struct kg_str raw, bool escaped, const char *text);
/*
 * The span of the value of a top-level member of a valid object, escapes in keys decoded; the first
 * of that name. False if text is not an object or has no such member.
 */
bool kg_json_member(struct kg_str text, const char *key, struct kg_str *ret_value);
/* Walks a valid array or object: from behind its bracket, one by one; false at its end. */
struct kg_json_cursor kg_json_inside(struct kg_str container);
bool kg_json_next_item(struct kg_json_cursor *cursor, struct kg_str *ret_item);
bool kg_json_next_member(struct kg_json_cursor *cursor, struct kg_str *ret_raw_key,
                         bool *ret_escaped, struct kg_str *ret_value);

/* -- tree -------------------------------------------------------------------------------------- */

enum kg_type { KG_NULL, KG_BOOL, KG_NUMBER, KG_STRING, KG_ARRAY, KG_OBJECT };
extern const char
    *const kg_type_names[]; /* "null", "boolean", "number", "string", "array", "object" */

/* TOML's dates and times are strings that remember what they were written as. */
enum kg_flavor { KG_PLAIN, KG_DATETIME, KG_DATETIME_LOCAL, KG_DATE_LOCAL, KG_TIME_LOCAL };

struct kg_node {
    uint8_t type;    /* enum kg_type */
    uint8_t flavor;  /* enum kg_flavor */
    bool boolean;    /* KG_BOOL */
    bool is_small;   /* KG_NUMBER: an integer that is in `small` too; false says nothing */
    uint32_t line;   /* 1-based, where the value starts */
    uint32_t column; /* 1-based, in bytes */
    uint32_t count;  /* KG_ARRAY: items; KG_OBJECT: members */
    union {
        /* KG_STRING: decoded; KG_NUMBER: as JSON writes it, or inf, -inf, nan (TOML) */
        struct kg_str text;
        /* KG_OBJECT: the builder's, finds a key among many; NULL in a small object */
        const struct kg_index *index;
    };
    union {
        struct kg_node *items;     /* KG_ARRAY, in order */
        struct kg_member *members; /* KG_OBJECT, in the order of the text */
        int64_t small;             /* KG_NUMBER, if is_small */
    };
};

struct kg_member {
    struct kg_str key;
    uint32_t key_line;
    uint32_t key_column;
    struct kg_node value;
};

struct kg_arena;
struct kg_arena *kg_arena_new(void);
void kg_arena_free(struct kg_arena *arena);
void *kg_arena_alloc(struct kg_arena *arena, size_t size); /* zeroed, aligned for any object */
struct kg_str kg_arena_str(struct kg_arena *arena, struct kg_str text);
const char *kg_arena_text(struct kg_arena *arena, struct kg_str text); /* with a NUL behind it */
size_t kg_arena_bytes(const struct kg_arena *arena);                   /* handed out so far */

/* A document lies in its arena, and so does every node and text of it. */
struct kg_doc {
    struct kg_arena *arena; /* owned */
    struct kg_node *root;
};
void kg_doc_free(struct kg_doc *doc);     /* takes NULL; frees doc too */
void kg_doc_cleanup(struct kg_doc **doc); /* for kg_auto */

/*
 * The readers. Each copies what it keeps, so the text may go away. A key given twice in one object
 * is refused. Errors read "3:14: what is wrong", line and column 1-based; the caller puts the file
 * before it with kg_wrap.
 */
struct kg_doc *kg_json_read(struct kg_str text, struct kg_err *err);

/* NULL if node is not an object or has no such member. */
const struct kg_node *kg_node_get(const struct kg_node *node, const char *key);
const struct kg_member *kg_node_member(const struct kg_node *node, struct kg_str key);
/* An integer written without fraction or exponent, within int64; false of NULL. */
bool kg_node_int(const struct kg_node *node, int64_t *ret_value);
/* The member of that type, or NULL; the text of a string, or KG_STR_NULL; whether it is true. */
const struct kg_node *kg_node_typed(const struct kg_node *node, const char *key, enum kg_type type);
struct kg_str kg_node_text(const struct kg_node *node, const char *key);
bool kg_node_is_true(const struct kg_node *node, const char *key);
/* The member that is a list; an empty one if it is none. */
const struct kg_node *kg_node_list(const struct kg_node *node, const char *key);
int64_t kg_node_number(const struct kg_node *node, const char *key); /* 0 if it is not an integer */
/* Whether a list has that string among its items; false of NULL, and of what is not a list. */
bool kg_node_has_text(const struct kg_node *list_or_null, struct kg_str text);
/* Whether both are written alike, members in the same order; numbers by their digits. */
bool kg_node_is_same(const struct kg_node *a, const struct kg_node *b);
/* A document of its own. */
struct kg_doc *kg_doc_copy(const struct kg_node *node);

/*
 * Building a tree bottom-up, for the readers. Children are collected in a scratch stack of the
 * builder and moved to the arena when their container closes, so that items and members are
 * contiguous. Keys and texts are kept as given: the reader puts them into the builder's arena
 * first.
 */
struct kg_builder;
struct kg_builder *kg_builder_new(void);
void kg_builder_free(struct kg_builder *builder);
struct kg_arena *kg_builder_arena(struct kg_builder *builder);
/* The key of the next value, when the open container is an object. False if it was given before. */
bool kg_builder_key(struct kg_builder *builder, struct kg_str key, uint32_t line, uint32_t column);
void kg_builder_value(struct kg_builder *builder, struct kg_node value); /* a scalar */
void kg_builder_open(struct kg_builder *builder, enum kg_type type, uint32_t line, uint32_t column);
void kg_builder_close(struct kg_builder *builder);
unsigned kg_builder_depth(const struct kg_builder *builder);
/* The finished document; nothing can be added afterwards, and the builder must still be freed. */
struct kg_doc *kg_builder_finish(struct kg_builder *builder);

/* -- writer ------------------------------------------------------------------------------------ */

/* Appends text as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void kg_json_put_string(struct kg_buf *buf, struct kg_str text);
void kg_json_put_node(struct kg_buf *buf, const struct kg_node *node);

/* Puts the commas itself. `buf` is borrowed; nothing to free. */
struct kg_json_writer {
    struct kg_buf *buf;
    bool comma; /* whether the next key or item needs one before it */
};
struct kg_json_writer kg_json_writer(struct kg_buf *buf);
void kg_json_begin(struct kg_json_writer *writer, char open); /* '{' or '[' */
void kg_json_end(struct kg_json_writer *writer, char close);  /* '}' or ']' */
void kg_json_key(struct kg_json_writer *writer, const char *key);
void kg_json_str(struct kg_json_writer *writer, struct kg_str text); /* data NULL: null */
void kg_json_text(struct kg_json_writer *writer, const char *text);  /* NULL: null */
void kg_json_int(struct kg_json_writer *writer, int64_t value);
void kg_json_bool(struct kg_json_writer *writer, bool value);
void kg_json_null(struct kg_json_writer *writer);
void kg_json_raw(struct kg_json_writer *writer,
                 struct kg_str span); /* valid JSON, passed on as it is */
void kg_json_node(struct kg_json_writer *writer, const struct kg_node *node);
void kg_json_list(struct kg_json_writer *writer, char *const *list); /* NULL: [] */
/* A key and its value; of an object or a list, which follows, its beginning. */
void kg_json_named_begin(struct kg_json_writer *writer, const char *key, char open);
void kg_json_named_text(struct kg_json_writer *writer, const char *key, const char *text);
void kg_json_named_str(struct kg_json_writer *writer, const char *key, struct kg_str text);
void kg_json_named_int(struct kg_json_writer *writer, const char *key, int64_t value);
void kg_json_named_bool(struct kg_json_writer *writer, const char *key, bool value);
void kg_json_named_list(struct kg_json_writer *writer, const char *key,
                        char *const *list); /* NULL: [] */
void kg_json_named_time(struct kg_json_writer *writer, const char *key,
                        int64_t wall_ms); /* 0: null */
/* null if there is none. */
void kg_json_named_node(struct kg_json_writer *writer, const char *key,
                        const struct kg_node *node_or_null);
void kg_json_named_raw(struct kg_json_writer *writer, const char *key, struct kg_str span);

#endif
