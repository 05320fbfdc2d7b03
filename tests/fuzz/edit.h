/*
 * Any bytes as a text and one edit of it. The first byte says what happens, the second to which
 * key; the rest is the text. An edit that is done makes exactly the change that was asked for, by a
 * model of its own; one that is refused leaves the text.
 */
#ifndef KAGED_FUZZ_EDIT_H
#define KAGED_FUZZ_EDIT_H

#include "config/edit.h"
#include "edit_model.h"

#include <stdio.h>

struct edit_fuzz {
    struct kg_doc *(*read)(struct kg_str text, struct kg_err *err);
    int (*set)(struct kg_buf *text, const char *const *path, size_t path_count,
               const struct kg_node *value, struct kg_err *err);
    int (*remove)(struct kg_buf *text, const char *const *path, size_t path_count,
                  struct kg_err *err);
    bool drops_tables; /* a map may go with its last key */
};

struct edit_fuzz_path {
    char *keys[64]; /* owned */
    size_t count;
};

static inline void edit_fuzz_path_end(struct edit_fuzz_path *path)
{
    while (path->count > 0)
        free(path->keys[--path->count]);
}

/* The key of that number, maps and what is in them counted from the top; false if there are fewer.
 */
static inline bool edit_fuzz_pick(const struct kg_node *map, size_t *number,
                                  struct edit_fuzz_path *path)
{
    for (uint32_t i = 0; map->type == KG_OBJECT && i < map->count; i++) {
        const struct kg_member *member = &map->members[i];
        bool has_nul = member->key.length && memchr(member->key.data, 0, member->key.length);
        if (has_nul || path->count > 60)
            continue;
        path->keys[path->count++] = kg_str_dup(member->key);
        if ((*number)-- == 0 || edit_fuzz_pick(&member->value, number, path))
            return true;
        free(path->keys[--path->count]);
    }
    return false;
}

/* What keys are set to; behind the last one stands for removal. */
static const char edit_fuzz_values[] =
    "[\"plain\",\"qu\\\"o'te\\n\\u0000\\u0085\\u2028\",42,-0.5,true,[],[1,\"x\",[2]],{},"
    "{\"k\":1,\"l l\":{\"m\":[{\"n\":{}}]}},\"\",[{\"a\":1},\"b: c\"],{\"a\":\"#\"}]";

static inline bool edit_fuzz_is_change(const struct edit_fuzz *fuzz, const struct kg_node *before,
                                       const struct kg_node *after,
                                       const struct edit_fuzz_path *path,
                                       const struct kg_node *value)
{
    bool same = false;
    struct kg_arena *arena = kg_arena_new();
    size_t drop_max = fuzz->drops_tables ? path->count - 1 : 0;
    for (size_t drop = 0; drop <= drop_max && !same; drop++) {
        struct kg_node expected =
            edit_model(arena, before, (const char *const *)path->keys, path->count, value, drop);
        same = edit_model_same(after, &expected);
    }
    kg_arena_free(arena);
    return same;
}

static inline void edit_fuzz_run(const struct edit_fuzz *fuzz, struct kg_str old,
                                 const struct kg_node *before, const struct edit_fuzz_path *path,
                                 const struct kg_node *value)
{
    struct kg_err err = {0};
    const char *const *keys = (const char *const *)path->keys;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_str(&text, old);
    int result = value ? fuzz->set(&text, keys, path->count, value, &err)
                       : fuzz->remove(&text, keys, path->count, &err);
    if (result < 0) {
        if (err.message[0] == '\0' || !kg_str_equal(kg_buf_view(&text), old))
            abort();
        return;
    }
    kg_auto(kg_doc_cleanup) struct kg_doc *after = fuzz->read(kg_buf_view(&text), &err);
    if (after == NULL || !edit_fuzz_is_change(fuzz, before, after->root, path, value))
        abort();
}

static inline int edit_fuzz(const struct edit_fuzz *fuzz, const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct kg_str text = {(const char *)data + 2, size - 2};
    kg_auto(kg_doc_cleanup) struct kg_doc *before = fuzz->read(text, NULL);
    if (before == NULL)
        return 0;
    kg_auto(kg_doc_cleanup) struct kg_doc *values = kg_json_read(kg_str(edit_fuzz_values), NULL);
    kg_auto(edit_fuzz_path_end) struct edit_fuzz_path path = {0};
    size_t number = data[1];
    edit_fuzz_pick(before->root, &number, &path);
    uint32_t choice = data[0] % (values->root->count + 1);
    if (data[0] >= 128 || path.count == 0)
        path.keys[path.count++] = kg_strdup("new key");
    if (data[0] >= 192)
        path.keys[path.count++] = kg_strdup("below");
    edit_fuzz_run(fuzz, text, before->root, &path,
                  choice < values->root->count ? &values->root->items[choice] : NULL);
    return 0;
}

#endif
