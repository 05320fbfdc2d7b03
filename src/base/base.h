/*
 * The ground that every module stands on: memory, owned locals, text, buffers, errors, log, clock,
 * ids. Nothing here knows of plugins. Prefix kg_.
 */
#ifndef KAGED_BASE_H
#define KAGED_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#define KG_COUNT(array)                     (sizeof(array) / sizeof((array)[0]))
#define KG_PRINTF(at, first)                __attribute__((format(printf, at, first)))
#define KG_CONTAINER(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))
/* Takes an item out of a list of such with a `next`; nothing happens if it is not in there. */
#define KG_UNLINK(first, item)                                                                     \
    do {                                                                                           \
        __typeof__(item) *kg_at = &(first);                                                        \
        while (*kg_at != NULL && *kg_at != (item))                                                 \
            kg_at = &(*kg_at)->next;                                                               \
        if (*kg_at != NULL)                                                                        \
            *kg_at = (item)->next;                                                                 \
    } while (0)

/* -- memory: running out of it ends the program, here and nowhere else ------------------------- */

void *kg_alloc(size_t size);              /* zeroed */
void *kg_realloc(void *old, size_t size); /* not zeroed past the old size */
void *kg_alloc_array(size_t count, size_t size);
char *kg_strdup(const char *text_or_null);            /* NULL of NULL */
void kg_replace(char **text, const char *by_or_null); /* by a copy; the old one is freed */
char *kg_format(const char *format, ...) KG_PRINTF(1, 2);

/* Locals that own: `kg_auto(kg_free) char *path = ...`, handed over with kg_steal(&path). */
#define kg_auto(function) __attribute__((cleanup(function)))
#define kg_steal(pointer)                                                                          \
    __extension__({                                                                                \
        __auto_type kg_stolen = *(pointer);                                                        \
        *(pointer) = NULL;                                                                         \
        kg_stolen;                                                                                 \
    })
void kg_free(void *pointer_to_pointer); /* for kg_auto: frees and clears *(void **)argument */
void kg_close(int *fd);                 /* for kg_auto: closes unless negative, sets -1 */
static inline int kg_steal_fd(int *fd)
{
    int stolen = *fd;
    *fd = -1;
    return stolen;
}

/* -- text: pointer and length, never assumed to end in NUL ------------------------------------- */

struct kg_str {
    const char *data;
    size_t length;
};

#define KG_STR(literal) ((struct kg_str){"" literal, sizeof(literal) - 1})
#define KG_STR_ARG(str) (int)(str).length, (str).data /* for "%.*s" */
#define KG_STR_CUT(str, max)                                                                       \
    (int)((str).length < (max) ? (str).length : (max)), (str).data /* for "%.*s", at most max */
#define KG_STR_NULL ((struct kg_str){NULL, 0})

/* How much of a text that others chose goes into a message; as bytes, and for "%" KG_S_NAME. */
#define KG_CUT_NAME  64
#define KG_CUT_WORD  128 /* a package, an argument */
#define KG_CUT_PATH  256 /* a path, an address */
#define KG_CUT_CAUSE 400 /* what somebody else says about it */
#define KG_CUT_LINE  1024
#define KG_S_NAME    ".64s"
#define KG_S_WORD    ".128s"
#define KG_S_PATH    ".256s"
#define KG_S_CAUSE   ".400s"

static inline struct kg_str kg_str(const char *text)
{
    return (struct kg_str){text, text ? strlen(text) : 0};
}
static inline bool kg_str_equal(struct kg_str a, struct kg_str b)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): what has a length has data */
    return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}
static inline bool kg_str_is(struct kg_str a, const char *text)
{
    return kg_str_equal(a, kg_str(text));
}
/* What is left of a text without its first bytes, and those bytes alone; it must have so many. */
static inline struct kg_str kg_str_from(struct kg_str text, size_t offset)
{
    return (struct kg_str){text.data + offset, text.length - offset};
}
static inline struct kg_str kg_str_first(struct kg_str text, size_t length)
{
    return (struct kg_str){text.data, length};
}
/* Takes the part up to the next separator, or all, off the front of *rest, which goes on behind it.
 */
struct kg_str kg_str_cut(struct kg_str *rest, char separator);
bool kg_str_starts(struct kg_str text, const char *prefix);
bool kg_str_ends(struct kg_str text, const char *suffix);
int kg_str_compare(struct kg_str a, struct kg_str b);
char *kg_str_dup(struct kg_str text); /* NUL-terminated copy; the caller owns it */
void kg_str_copy(struct kg_str text, char *to, size_t size); /* the same; cut if it is too long */
/* A whole decimal integer, nothing around it; false past int64 or on anything else. */
bool kg_str_to_int(struct kg_str text, int64_t *ret_value);
int kg_hex_digit(char c); /* its value, or -1 */
/* Of ASCII, whatever the locale says. */
static inline bool kg_is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}
static inline bool kg_is_lower(char c)
{
    return (unsigned char)(c - 'a') < 26;
}
static inline bool kg_is_letter(char c)
{
    return kg_is_lower((char)(c | 0x20));
}
static inline bool kg_is_letter_or_digit(char c)
{
    return kg_is_letter(c) || kg_is_digit(c);
}
bool kg_same_text(const char *a, const char *b); /* NULL is the same as NULL alone */
/* The candidate nearest to text by edit distance, or NULL when none is near enough to suggest. */
const char *kg_str_nearest(struct kg_str text, const char *const *candidates, size_t count);
uint64_t kg_hash(struct kg_str text); /* differs from process to process */
/* Length of the longest prefix of text that is valid UTF-8. */
size_t kg_utf8_valid(struct kg_str text);
/* The first code point of a text that is valid UTF-8 and not empty, and its length. */
uint32_t kg_utf8_decode(const char *text, size_t *ret_length);

/* -- a growing buffer -------------------------------------------------------------------------- */

struct kg_buf {
    char *data; /* owned */
    size_t length;
    size_t capacity;
};

void kg_buf_free(struct kg_buf *buf); /* also for kg_auto; leaves an empty buffer */
void kg_buf_grow(struct kg_buf *buf, size_t more);
/* Small and everywhere: these are worth the place that they take at each call. */
static inline void kg_buf_reserve(struct kg_buf *buf, size_t more)
{
    if (__builtin_expect(buf->capacity - buf->length < more, 0))
        kg_buf_grow(buf, more);
}
static inline void kg_buf_append(struct kg_buf *buf, const void *data, size_t length)
{
    if (length == 0)
        return;
    kg_buf_reserve(buf, length);
    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): what has a length has data */
    memcpy(buf->data + buf->length, data, length);
    buf->length += length;
}
static inline void kg_buf_char(struct kg_buf *buf, char c)
{
    kg_buf_reserve(buf, 1);
    buf->data[buf->length++] = c;
}
static inline void kg_buf_str(struct kg_buf *buf, struct kg_str text)
{
    kg_buf_append(buf, text.data, text.length);
}
/* Appends a copy for which room was reserved: it stays where it is. */
static inline struct kg_str kg_buf_keep(struct kg_buf *buf, struct kg_str text)
{
    size_t at = buf->length;
    kg_buf_str(buf, text);
    return (struct kg_str){buf->data + at, text.length};
}
static inline void kg_buf_text(struct kg_buf *buf, const char *text)
{
    kg_buf_append(buf, text, strlen(text));
}
void kg_buf_int(struct kg_buf *buf, int64_t value);
void kg_buf_printf(struct kg_buf *buf, const char *format, ...) KG_PRINTF(2, 3);
/* As a part of a URI: all but letters, digits and -._~ become %XX. */
void kg_buf_percent(struct kg_buf *buf, struct kg_str text);
/* One U+FFFD stands for each byte that is not part of a character of UTF-8. */
void kg_buf_utf8(struct kg_buf *buf, struct kg_str text);
/* For people to read: controls, bidirectional marks, what is invisible and bytes that are not UTF-8
 * become escapes. All that a stranger wrote is shown by this. */
void kg_buf_escaped(struct kg_buf *buf, struct kg_str text);
/* One word for a shell, quoted if it has to be. */
void kg_buf_shell(struct kg_buf *buf, struct kg_str text);
/* The same for valid JSON, which stays valid JSON of the same meaning. */
void kg_buf_json_escaped(struct kg_buf *buf, struct kg_str json);
/* Whether kg_buf_escaped would leave it as it is. */
bool kg_str_is_plain(struct kg_str text);
/* Drops the first `length` bytes. */
void kg_buf_consume(struct kg_buf *buf, size_t length);
/* Adds a NUL past the end, not counted in length, and returns data. */
char *kg_buf_terminate(struct kg_buf *buf);
static inline struct kg_str kg_buf_view(const struct kg_buf *buf)
{
    return (struct kg_str){buf->data, buf->length};
}

/* -- a list of texts: owned, ended by NULL ----------------------------------------------------- */

char **kg_list_new(size_t count); /* room for count texts */
char **kg_list_copy(const char *const *list);
size_t kg_list_count(char *const *list);
void kg_list_add(char ***list, char *text); /* takes the text; for short lists */
bool kg_list_has(char *const *list, struct kg_str text);
void kg_list_free(char **list); /* takes NULL */

/* -- a map from text to pointer, insertion order kept; values are borrowed --------------------- */

struct kg_map;
struct kg_map *kg_map_new(void);
void kg_map_free(struct kg_map *map);
void *kg_map_get(const struct kg_map *map, struct kg_str key);
void kg_map_set(struct kg_map *map, struct kg_str key, void *value); /* copies the key */
void *kg_map_remove(struct kg_map *map, struct kg_str key);          /* the value, or NULL */
size_t kg_map_count(const struct kg_map *map);
/* Walks in insertion order: start with *position 0; false at the end. */
bool kg_map_next(const struct kg_map *map, size_t *position, struct kg_str *ret_key,
                 void **ret_value);

/* -- errors ------------------------------------------------------------------------------------ */

/* One row of errors.def is the whole truth about one error: its name, codes and meaning. */
enum kg_code {
    KG_OK = 0,
#define KG_ERROR(symbol, name, rpc, http, exit, catalog, meaning) KG_E_##symbol,
#include "errors.def"
#undef KG_ERROR
    KG_CODE_COUNT
};

struct kg_error_row {
    const char *name;
    int rpc_code;
    int http_status;
    int exit_code;
    const char *catalog_code; /* below /api/orgs, /api/admin and /api/chat */
    const char *meaning;
};
const struct kg_error_row *kg_error_row(enum kg_code code);
/* The row whose JSON-RPC code is the given one; plugin_error for a plugin's own codes. */
enum kg_code kg_code_from_rpc(int64_t rpc_code);
/* The row of that name, or KG_E_INTERNAL. */
enum kg_code kg_code_from_name(struct kg_str name);

#define KG_ERR_MESSAGE_MAX 640

struct kg_err {
    enum kg_code code;
    int errnum;                       /* errno behind it, or 0 */
    char message[KG_ERR_MESSAGE_MAX]; /* names the object, the act and the cause */
    char hint[256];                   /* what to do next, or "" */
};

/* Each sets err (which may be NULL) and returns the negative errno to return upward. */
int kg_fail(struct kg_err *err, enum kg_code code, const char *format, ...) KG_PRINTF(3, 4);
int kg_fail_errno(struct kg_err *err, int errnum, const char *format, ...) KG_PRINTF(3, 4);
/* Puts "what: " before the message while it climbs; returns result unchanged. */
int kg_wrap(struct kg_err *err, int result, const char *format, ...) KG_PRINTF(3, 4);
/* Puts the file before a message that begins with its place: FILE:LINE:COLUMN, as everywhere. */
void kg_wrap_file(struct kg_err *err, const char *path);
/* What to do about it; returns what kg_fail does. */
int kg_hint(struct kg_err *err, const char *format, ...) KG_PRINTF(2, 3);
#if defined(__clang_analyzer__) && !defined(KG_ERR_DEFINITIONS)
/* The analyzer looks at one file at a time: it must be told what these return. */
#define kg_fail(...)              (kg_fail(__VA_ARGS__), -1)
#define kg_fail_errno(...)        (kg_fail_errno(__VA_ARGS__), -1)
#define kg_wrap(err, result, ...) (kg_wrap(err, result, __VA_ARGS__), (result))
#define kg_hint(...)              (kg_hint(__VA_ARGS__), -1)
#endif

/* -- log: one line a record on stderr, with level, time and the plugin it is about ------------- */

enum kg_level { KG_DEBUG, KG_INFO, KG_WARN, KG_ERROR_LEVEL };
enum kg_log_format { KG_LOG_TEXT, KG_LOG_JSON };
extern const char *const kg_level_names[];

void kg_log_set(enum kg_level level, enum kg_log_format format);
enum kg_level kg_log_level(void);
enum kg_log_format kg_log_format(void);
void kg_log(enum kg_level level, const char *format, ...) KG_PRINTF(2, 3);
void kg_log_about(enum kg_level level, const char *plugin, const char *format, ...) KG_PRINTF(3, 4);

/* -- time: monotonic for deadlines; wall clock in UTC for the audit log only; tests may set both */

uint64_t kg_monotonic_ms(void);
uint64_t kg_monotonic_ns(void);
int64_t kg_wall_ms(void);
void kg_time_set(int64_t wall_ms_or_negative, int64_t monotonic_ms_or_negative);
#define KG_TIME_TEXT 25 /* "2026-11-15T22:19:34.123Z" and NUL */
void kg_time_format(int64_t wall_ms, char ret_text[KG_TIME_TEXT]);
/* RFC 3339, a date, or a span back from now like "90s", "15m", "2h", "7d". */
bool kg_time_parse(struct kg_str text, int64_t *ret_wall_ms);

/* -- ids: a prefix and a ULID, growing within the process -------------------------------------- */

#define KG_ULID_LENGTH 26
#define KG_ID_MAX      32
struct kg_id {
    char text[KG_ID_MAX]; /* NUL-terminated */
};
extern const char kg_ulid_digits[];               /* in their order */
void kg_ulid_count_up(char text[KG_ULID_LENGTH]); /* to the next one in order */
#define KG_ULID_TIME 10                           /* its first characters */
/* What the ULIDs of a millisecond begin with, without a NUL; texts sort as times do. */
void kg_ulid_time(int64_t wall_ms, char ret_text[KG_ULID_TIME]);
struct kg_id kg_id_new(const char *prefix); /* "req_", "evt_", ... at most five characters, or "" */

#define KG_TRACEPARENT_TEXT 56 /* of W3C Trace Context, and NUL */
/* False: it is none, and is as if it had not come. */
bool kg_traceparent_read(struct kg_str given, char ret_text[KG_TRACEPARENT_TEXT]);

/* -- paths, as texts --------------------------------------------------------------------------- */

/* Whether the path is the folder, or below it; both are written plainly. Nothing is in "". */
bool kg_path_within(const char *path, const char *folder);
/* The path as it is after `from`, which it may be within, became `to`; owned. */
char *kg_path_moved(const char *path, const char *from, const char *to);
const char *kg_path_name(const char *path);               /* what is behind the last slash */
char *kg_path_folder(const char *path);                   /* what is before it, or "."; owned */
char *kg_path_join(const char *folder, const char *name); /* owned */

/* -- files ------------------------------------------------------------------------------------- */

/* Reads a whole file of at most max bytes; a larger one is KG_E_TOO_LARGE. */
int kg_read_file(const char *path, size_t max, struct kg_buf *ret_text, struct kg_err *err);
/* The same of an open file, which messages call by its path; the fd is not consumed. */
int kg_read_fd(int fd, const char *path, size_t max, struct kg_buf *ret_text, struct kg_err *err);
int kg_write_all(int fd, const void *data, size_t length);
int kg_make_dirs(const char *path, mode_t mode, struct kg_err *err);
/* Copies a file to a name that must be free, and waits for the disk. 0 or a negative errno. */
int kg_copy_file(const char *from, const char *to, mode_t mode);
int kg_copy_fd(int from, const char *to, mode_t mode); /* the same, from where it stands */

/* -- options of helpers: NAME=VALUE, a number each --------------------------------------------- */

struct kg_option {
    const char *name; /* NULL ends a table */
    size_t at;        /* where its int64_t is in the struct of options */
    int64_t least, most, preset;
};
#define KG_OPTION(type, name, least, most, preset)                                                 \
    {                                                                                              \
#name, offsetof(type, name), least, most, preset                                           \
    }
void kg_options_preset(const struct kg_option *rows, void *options);
/* For options that are not numbers, too. */
int kg_option_split(const char *word, struct kg_str *ret_name, const char **ret_value,
                    struct kg_err *err);
int kg_option_set(const struct kg_option *rows, struct kg_str name, const char *value,
                  void *options, struct kg_err *err);

/* -- rates: at most `per_sec` events in each second; the rest are counted ---------------------- */

struct kg_rate {
    uint64_t second; /* the window that the counts are of */
    uint32_t passed;
    uint32_t dropped;
};
/* Whether one more event may pass at now_ms; *ret_dropped: what the last window dropped, once. */
bool kg_rate_pass(struct kg_rate *rate, uint32_t per_sec, uint64_t now_ms, uint32_t *ret_dropped);

#endif
