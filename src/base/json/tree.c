/*
 * The tree of one document lives in one arena and dies with it. A builder collects the children of
 * each open container on a stack and moves them to the arena when it closes, so that the items or
 * members of a node are contiguous; no object ever holds a key twice, and finding that out takes
 * the same time for keys chosen by an enemy.
 */
#include "base/json/internal.h"

#include <assert.h>
#include <stdalign.h>
#include <stdlib.h>

const char *const kg_type_names[] = {"null", "boolean", "number", "string", "array", "object"};

/* -- arena ------------------------------------------------------------------------------------- */

#define CHUNK_BYTES_MIN ((size_t)512)
#define CHUNK_BYTES_MAX ((size_t)256 * 1024)

struct chunk {
    struct chunk *before; /* owned, but for the first, which is a part of its arena */
    size_t used;
    size_t size; /* of data */
    alignas(max_align_t) char data[];
};

struct kg_arena {
    struct chunk *chunk; /* owned; the one that is being filled */
    size_t chunk_bytes;  /* of the next ordinary chunk */
    size_t bytes;
    struct chunk first; /* last, for its data */
};

/* About so much will be asked for. */
static struct kg_arena *arena_new_for(size_t bytes)
{
    size_t size = bytes < CHUNK_BYTES_MIN   ? CHUNK_BYTES_MIN
                  : bytes > CHUNK_BYTES_MAX ? CHUNK_BYTES_MAX
                                            : bytes;
    struct kg_arena *arena = kg_realloc(NULL, sizeof(*arena) + size);
    arena->chunk = &arena->first;
    arena->chunk_bytes = size;
    arena->bytes = 0;
    arena->first = (struct chunk){.size = size};
    return arena;
}

struct kg_arena *kg_arena_new(void)
{
    return arena_new_for(CHUNK_BYTES_MIN);
}

void kg_arena_free(struct kg_arena *arena)
{
    if (arena == NULL)
        return;
    for (struct chunk *chunk = arena->chunk, *before; chunk != NULL; chunk = before) {
        before = chunk->before;
        if (chunk != &arena->first)
            free(chunk);
    }
    free(arena);
}

static struct chunk *chunk_new(struct chunk *before, size_t size)
{
    struct chunk *chunk = kg_realloc(NULL, sizeof(*chunk) + size);
    *chunk = (struct chunk){.before = before, .size = size};
    return chunk;
}

/* A large piece gets a chunk of its own, put behind the current one, whose rest stays in use. */
static void *take_alone(struct kg_arena *arena, size_t size)
{
    struct chunk *current = arena->chunk;
    struct chunk *chunk = chunk_new(current->before, size);
    chunk->used = size;
    current->before = chunk;
    return chunk->data;
}

/* As large as all before it together: what a small document leaves unused is small, too. */
static struct chunk *next_chunk(struct kg_arena *arena)
{
    arena->chunk = chunk_new(arena->chunk, arena->chunk_bytes);
    if (arena->chunk_bytes < CHUNK_BYTES_MAX)
        arena->chunk_bytes *= 2;
    return arena->chunk;
}

/* Not zeroed; align is a power of two. */
static inline void *base_json_tree_take(struct kg_arena *arena, size_t size, size_t align)
{
    arena->bytes += size;
    struct chunk *chunk = arena->chunk;
    size_t start = (chunk->used + align - 1) & ~(align - 1);
    if (start > chunk->size || chunk->size - start < size) {
        if (size > arena->chunk_bytes / 2)
            return take_alone(arena, size);
        chunk = next_chunk(arena);
        start = 0;
    }
    chunk->used = start + size;
    return chunk->data + start;
}

void *kg_arena_alloc(struct kg_arena *arena, size_t size)
{
    void *piece = base_json_tree_take(arena, size, alignof(max_align_t));
    return size > 0 ? memset(piece, 0, size) : piece;
}

const char *kg_arena_padded(struct kg_arena *arena, struct kg_str text, size_t padding)
{
    char *copy = base_json_tree_take(arena, text.length + padding, 1);
    if (text.length)
        memcpy(copy, text.data, text.length);
    memset(copy + text.length, 0, padding);
    return copy;
}

struct kg_str kg_arena_str(struct kg_arena *arena, struct kg_str text)
{
    return (struct kg_str){kg_arena_padded(arena, text, 0), text.length};
}

const char *kg_arena_text(struct kg_arena *arena, struct kg_str text)
{
    return kg_arena_padded(arena, text, 1);
}

size_t kg_arena_bytes(const struct kg_arena *arena)
{
    return arena->bytes;
}

/* -- document ---------------------------------------------------------------------------------- */

void kg_doc_free(struct kg_doc *doc)
{
    if (doc == NULL)
        return;
    kg_arena_free(doc->arena); /* the document is in it */
}

void kg_doc_cleanup(struct kg_doc **doc)
{
    kg_doc_free(*doc);
    *doc = NULL;
}

/* -- index: finds a key among many ------------------------------------------------------------- */

#define INDEX_FROM 32 /* members; below, looking at each is as fast */

/* Open addressing, at most half full. */
struct kg_index {
    size_t mask;      /* slot count - 1, a power of two */
    uint32_t slots[]; /* number of the member + 1; 0: free */
};

/* The slot of that key, or the free one where it belongs. */
static size_t index_find(const struct kg_index *index, const struct kg_member *members,
                         struct kg_str key)
{
    size_t slot = kg_hash(key) & index->mask;
    while (index->slots[slot] != 0 && !kg_str_equal(members[index->slots[slot] - 1].key, key))
        slot = (slot + 1) & index->mask;
    return slot;
}

static size_t index_bytes(size_t slot_count)
{
    return sizeof(struct kg_index) + slot_count * sizeof(uint32_t);
}

/* An index with room for twice the members that there are. */
static struct kg_index *index_new(const struct kg_member *members, size_t count)
{
    size_t slot_count = 1;
    while (slot_count < count * 4)
        slot_count *= 2;
    struct kg_index *index = kg_alloc(index_bytes(slot_count));
    index->mask = slot_count - 1;
    for (size_t i = 0; i < count; i++)
        index->slots[index_find(index, members, members[i].key)] = (uint32_t)i + 1;
    return index;
}

/* -- access ------------------------------------------------------------------------------------ */

const struct kg_member *kg_node_member(const struct kg_node *node, struct kg_str key)
{
    if (node == NULL || node->type != KG_OBJECT)
        return NULL;
    if (node->index != NULL) {
        uint32_t found = node->index->slots[index_find(node->index, node->members, key)];
        return found ? &node->members[found - 1] : NULL;
    }
    for (uint32_t i = 0; i < node->count; i++)
        if (kg_str_equal(node->members[i].key, key))
            return &node->members[i];
    return NULL;
}

const struct kg_node *kg_node_get(const struct kg_node *node, const char *key)
{
    const struct kg_member *member = kg_node_member(node, kg_str(key));
    return member ? &member->value : NULL;
}

bool kg_node_int(const struct kg_node *node, int64_t *ret_value)
{
    if (node == NULL || node->type != KG_NUMBER)
        return false;
    if (!node->is_small)
        return kg_str_to_int(node->text, ret_value);
    *ret_value = node->small;
    return true;
}

const struct kg_node *kg_node_typed(const struct kg_node *node, const char *key, enum kg_type type)
{
    const struct kg_node *found = kg_node_get(node, key);
    return found != NULL && found->type == type ? found : NULL;
}

struct kg_str kg_node_text(const struct kg_node *node, const char *key)
{
    const struct kg_node *found = kg_node_typed(node, key, KG_STRING);
    return found != NULL ? found->text : KG_STR_NULL;
}

bool kg_node_is_true(const struct kg_node *node, const char *key)
{
    const struct kg_node *found = kg_node_typed(node, key, KG_BOOL);
    return found != NULL && found->boolean;
}

const struct kg_node *kg_node_list(const struct kg_node *node, const char *key)
{
    static const struct kg_node none = {.type = KG_ARRAY};
    const struct kg_node *found = kg_node_typed(node, key, KG_ARRAY);
    return found != NULL ? found : &none;
}

int64_t kg_node_number(const struct kg_node *node, const char *key)
{
    int64_t value;
    return kg_node_int(kg_node_get(node, key), &value) ? value : 0;
}

bool kg_node_has_text(const struct kg_node *list_or_null, struct kg_str text)
{
    bool is_list = list_or_null != NULL && list_or_null->type == KG_ARRAY;
    for (uint32_t i = 0; is_list && i < list_or_null->count; i++)
        if (list_or_null->items[i].type == KG_STRING &&
            kg_str_equal(list_or_null->items[i].text, text))
            return true;
    return false;
}

bool kg_node_is_same(const struct kg_node *a, const struct kg_node *b)
{
    if (a->type != b->type)
        return false;
    if (a->type == KG_BOOL)
        return a->boolean == b->boolean;
    if (a->type != KG_ARRAY && a->type != KG_OBJECT)
        return a->type == KG_NULL || kg_str_equal(a->text, b->text);
    bool is_same = a->count == b->count;
    for (uint32_t i = 0; is_same && i < a->count; i++)
        is_same = a->type == KG_ARRAY
                      ? kg_node_is_same(&a->items[i], &b->items[i])
                      : kg_str_equal(a->members[i].key, b->members[i].key) &&
                            kg_node_is_same(&a->members[i].value, &b->members[i].value);
    return is_same;
}

/* -- builder ----------------------------------------------------------------------------------- */

void kg_builder_begin(struct kg_builder *builder, size_t bytes)
{
    builder->arena = arena_new_for(bytes);
    builder->children = builder->few_children;
    builder->next = builder->few_children;
    builder->end = builder->few_children + KG_COUNT(builder->few_children);
    builder->frames = builder->few_frames;
    builder->depth = 0;
    builder->frame_capacity = KG_COUNT(builder->few_frames);
}

void kg_builder_end(struct kg_builder *builder)
{
    for (size_t i = 0; i < builder->depth; i++)
        free(builder->frames[i].index);
    if (builder->frames != builder->few_frames)
        free(builder->frames);
    if (builder->children != builder->few_children)
        free(builder->children);
    kg_arena_free(builder->arena);
}

struct kg_builder *kg_builder_new(void)
{
    struct kg_builder *builder = kg_alloc(sizeof(*builder));
    kg_builder_begin(builder, 0);
    return builder;
}

void kg_builder_free(struct kg_builder *builder)
{
    if (builder == NULL)
        return;
    kg_builder_end(builder);
    free(builder);
}

struct kg_arena *kg_builder_arena(struct kg_builder *builder)
{
    return builder->arena;
}

unsigned kg_builder_depth(const struct kg_builder *builder)
{
    return (unsigned)builder->depth;
}

/* False if the key is among the members of a small object. */
static bool base_json_tree_is_new(const struct kg_member *members, size_t count, struct kg_str key)
{
    for (size_t i = 0; i < count; i++)
        if (kg_str_equal(members[i].key, key))
            return false;
    return true;
}

/*
 * The same of a large one, which has an index, and gets a larger one when that is half full. From
 * then on no key passes by it.
 */
static bool is_new_of_many(struct kg_builder_frame *frame, const struct kg_member *members,
                           size_t count, struct kg_str key)
{
    if (frame->index == NULL || count * 2 > frame->index->mask) {
        free(frame->index);
        frame->index = index_new(members, count);
        frame->keys = UINT64_MAX;
    }
    uint32_t *slot = &frame->index->slots[index_find(frame->index, members, key)];
    if (*slot != 0)
        return false;
    *slot = (uint32_t)count + 1;
    return true;
}

/* An object that grows large without coming here has no index: 64 members at most, by their bits.
 */
bool kg_builder_next_is_new(struct kg_builder *builder)
{
    struct kg_builder_frame *frame = &builder->frames[builder->depth - 1];
    const struct kg_member *members = builder->children + frame->first;
    size_t count = (size_t)(builder->next - members);
    struct kg_str key = builder->next->key;
    return count < INDEX_FROM ? base_json_tree_is_new(members, count, key)
                              : is_new_of_many(frame, members, count, key);
}

bool kg_builder_key(struct kg_builder *builder, struct kg_str key, uint32_t line, uint32_t column)
{
    assert(builder->depth > 0 && builder->frames[builder->depth - 1].type == KG_OBJECT);
    return kg_builder_next_key(builder, key, line, column);
}

/* Twice the room, at first in a place of its own. */
static void *base_json_tree_grow(void *items, void *few, size_t *capacity, size_t size)
{
    *capacity *= 2;
    if (items != few)
        return kg_realloc(items, *capacity * size);
    return memcpy(kg_realloc(NULL, *capacity * size), few, *capacity / 2 * size);
}

void kg_builder_grow(struct kg_builder *builder)
{
    size_t count = (size_t)(builder->next - builder->children);
    size_t capacity = (size_t)(builder->end - builder->children);
    builder->children = base_json_tree_grow(builder->children, builder->few_children, &capacity,
                                            sizeof(*builder->children));
    builder->next = builder->children + count;
    builder->end = builder->children + capacity;
}

/* An item of an array has no key, and nobody reads it. */
void kg_builder_value(struct kg_builder *builder, struct kg_node value)
{
    builder->next->value = value;
    kg_builder_keep_next(builder);
}

/*
 * The container takes its place among its siblings at once, and gets its children when it closes.
 */
void kg_builder_open(struct kg_builder *builder, enum kg_type type, uint32_t line, uint32_t column)
{
    assert(type == KG_ARRAY || type == KG_OBJECT);
    builder->next->value = (struct kg_node){.type = (uint8_t)type, .line = line, .column = column};
    kg_builder_keep_next(builder);
    if (builder->depth == builder->frame_capacity)
        builder->frames = base_json_tree_grow(builder->frames, builder->few_frames,
                                              &builder->frame_capacity, sizeof(*builder->frames));
    builder->frames[builder->depth++] = (struct kg_builder_frame){
        .type = type, .first = (size_t)(builder->next - builder->children)};
}

static void take_items(struct kg_arena *arena, struct kg_node *node,
                       const struct kg_member *children)
{
    node->items =
        base_json_tree_take(arena, node->count * sizeof(*node->items), alignof(max_align_t));
    for (uint32_t i = 0; i < node->count; i++)
        node->items[i] = children[i].value;
}

static void base_json_tree_take_members(struct kg_arena *arena, struct kg_node *node,
                                        const struct kg_member *children,
                                        const struct kg_index *index)
{
    size_t bytes = node->count * sizeof(*node->members);
    node->members = base_json_tree_take(arena, bytes, alignof(max_align_t));
    if (bytes)
        memcpy(node->members, children, bytes);
    if (index == NULL)
        return;
    bytes = index_bytes(index->mask + 1);
    node->index = memcpy(base_json_tree_take(arena, bytes, alignof(max_align_t)), index, bytes);
}

void kg_builder_close(struct kg_builder *builder)
{
    assert(builder->depth > 0);
    struct kg_builder_frame *frame = &builder->frames[--builder->depth];
    struct kg_member *children = builder->children + frame->first;
    struct kg_node *node = &children[-1].value;
    node->count = (uint32_t)(builder->next - children);
    if (frame->type == KG_ARRAY)
        take_items(builder->arena, node, children);
    else
        base_json_tree_take_members(builder->arena, node, children, frame->index);
    free(frame->index);
    frame->index = NULL;
    builder->next = children;
}

struct kg_doc *kg_builder_finish(struct kg_builder *builder)
{
    assert(builder->depth == 0 && builder->next == builder->children + 1);
    struct kg_doc *doc = base_json_tree_take(builder->arena, sizeof(*doc), alignof(max_align_t));
    doc->root = base_json_tree_take(builder->arena, sizeof(*doc->root), alignof(max_align_t));
    *doc->root = builder->children[0].value;
    doc->arena = builder->arena;
    builder->arena = NULL;
    return doc;
}
