/*
 * What the TOML and the YAML editor share: one door that checks before and after, a list of
 * replacements in the old text, and lists of items between brackets.
 */
#ifndef KAGED_EDIT_INTERNAL_H
#define KAGED_EDIT_INTERNAL_H

#include "base/doc.h"
#include "config/edit.h"

#define EDIT_PATH_MAX KG_DOC_DEPTH_MAX

struct edit_span {
    size_t start;
    size_t end;
};

/* The old text, and what is to become of parts of it. All offsets are into the old text. */
struct edit {
    struct kg_str text;          /* borrowed; without its byte order mark */
    const char *eol;             /* as the first line of the text ends */
    struct kg_arena *arena;      /* owned; dies with the edit */
    struct edit_splice *splices; /* owned */
    size_t splice_count;
    size_t splice_capacity;
    struct kg_buf tail; /* owned; goes behind all else, after a blank line */
};

/* One key and what it shall be. */
struct edit_request {
    struct kg_str path[EDIT_PATH_MAX + 1]; /* room for one key below */
    size_t count;
    size_t found;                /* leading keys of path that are there */
    const struct kg_node *root;  /* of the old text */
    const struct kg_node *old;   /* what path leads to, or NULL */
    const struct kg_node *value; /* NULL: remove it */
};

struct edit_format {
    struct kg_doc *(*read)(struct kg_str text, struct kg_err *err);
    /* Whether the format has such a scalar. */
    int (*check_scalar)(const struct kg_node *scalar, struct kg_err *err);
    /* Says what to replace; need not look at what the others check. */
    int (*plan)(struct edit *edit, struct edit_request *request, struct kg_err *err);
};

/* The one door: reads, plans, applies, reads again, compares; on failure text is untouched. */
int edit_run(const struct edit_format *format, struct kg_buf *text, const char *const *path,
             size_t path_count, const struct kg_node *value, struct kg_err *err);

/* -- replacements ------------------------------------------------------------------------------ */

void edit_replace(struct edit *edit, size_t start, size_t end, struct kg_str text);
/* lines end in a line break; should what stands before them not, one is put between. */
void edit_insert_lines(struct edit *edit, size_t at, struct kg_str lines);
void edit_cut(struct edit *edit, size_t start, size_t end);

size_t edit_line_start(const struct edit *edit, size_t at);
size_t edit_line_end(const struct edit *edit, size_t at); /* behind its line break */
/* Whether nothing but blanks stands on the line before that place. */
bool edit_starts_line(const struct edit *edit, size_t at);
size_t edit_skip_blank(const struct edit *edit, size_t at); /* spaces and tabs */

/* -- items between brackets, with commas ------------------------------------------------------- */

struct edit_items {
    size_t open;  /* behind the opening bracket */
    size_t close; /* the closing bracket */
    struct edit_span *spans;
    size_t count;
};

/* Writes a value as one item; how is the caller's. */
typedef void edit_put(struct kg_buf *out, const struct kg_node *value, const void *how);

void edit_items_insert(struct edit *edit, const struct edit_items *items, size_t before,
                       const struct kg_str *texts, size_t count);
/* Takes out those that are marked; if all are, what stands between the brackets goes. */
void edit_items_remove(struct edit *edit, const struct edit_items *items, const bool *marked);
/* Makes the list of old that of value; what both start and end with is left alone. */
void edit_items_change(struct edit *edit, const struct edit_items *items, const struct kg_node *old,
                       const struct kg_node *value, edit_put *put, const void *how);

/* -- trees ------------------------------------------------------------------------------------- */

/* Values are equal, in whatever order maps have their keys. */
bool edit_same(const struct kg_node *a, const struct kg_node *b);
/* Items at the start, then at the end, that two lists share. */
void edit_common(const struct kg_node *a, const struct kg_node *b, uint32_t *ret_head,
                 uint32_t *ret_tail);
/* The value within a new map for each key of path, the first outermost. */
const struct kg_node *edit_wrap(struct edit *edit, const struct kg_str *path, size_t count,
                                const struct kg_node *value);
bool edit_is_container(const struct kg_node *node);
/* In double quotes; both formats understand the escapes. */
void edit_put_quoted(struct kg_buf *out, struct kg_str text);
/* Whether text can stand between single quotes on one line; the quotes themselves not looked at. */
bool edit_is_printable(struct kg_str text);

#endif
