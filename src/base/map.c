/*
 * A map from text to pointer. Entries stand in an array in the order they came; an open-addressing
 * table of indices finds them. A removed entry leaves a hole that the next growth closes.
 */
#include "base/base.h"

#include <stdlib.h>

struct entry {
    char *key; /* owned; NULL: a hole */
    size_t key_length;
    uint32_t hash;
    void *value; /* borrowed */
};

struct kg_map {
    struct entry *entries;
    size_t used; /* entries with their holes */
    size_t count;
    size_t capacity;  /* of entries; slots has twice as many */
    uint32_t *slots;  /* index + 1 into entries, 0: free */
    size_t slot_mask; /* slot count - 1, a power of two */
};

struct kg_map *kg_map_new(void)
{
    return kg_alloc(sizeof(struct kg_map));
}

void kg_map_free(struct kg_map *map)
{
    if (map == NULL)
        return;
    for (size_t i = 0; i < map->used; i++)
        free(map->entries[i].key);
    free(map->entries);
    free(map->slots);
    free(map);
}

static struct entry *map_find(const struct kg_map *map, struct kg_str key, uint32_t hash)
{
    if (map->capacity == 0)
        return NULL;
    for (size_t slot = hash & map->slot_mask; map->slots[slot] != 0;
         slot = (slot + 1) & map->slot_mask) {
        struct entry *entry = &map->entries[map->slots[slot] - 1];
        if (entry->key != NULL && entry->hash == hash &&
            kg_str_equal((struct kg_str){entry->key, entry->key_length}, key))
            return entry;
    }
    return NULL;
}

static void link_entry(struct kg_map *map, size_t index)
{
    size_t slot = map->entries[index].hash & map->slot_mask;
    while (map->slots[slot] != 0)
        slot = (slot + 1) & map->slot_mask;
    map->slots[slot] = (uint32_t)index + 1;
}

static void rebuild(struct kg_map *map)
{
    size_t capacity = map->count < 4 ? 8 : map->count * 2;
    struct entry *entries = kg_alloc_array(capacity, sizeof(*entries));
    size_t used = 0;
    for (size_t i = 0; i < map->used; i++)
        if (map->entries[i].key != NULL)
            entries[used++] = map->entries[i];
    size_t slot_count = 16;
    while (slot_count < capacity * 2)
        slot_count *= 2;
    free(map->entries);
    free(map->slots);
    map->entries = entries;
    map->capacity = capacity;
    map->used = used;
    map->slots = kg_alloc_array(slot_count, sizeof(*map->slots));
    map->slot_mask = slot_count - 1;
    for (size_t i = 0; i < used; i++)
        link_entry(map, i);
}

void *kg_map_get(const struct kg_map *map, struct kg_str key)
{
    struct entry *entry = map_find(map, key, (uint32_t)kg_hash(key));
    return entry ? entry->value : NULL;
}

void kg_map_set(struct kg_map *map, struct kg_str key, void *value)
{
    uint32_t hash = (uint32_t)kg_hash(key);
    struct entry *entry = map_find(map, key, hash);
    if (entry != NULL) {
        entry->value = value;
        return;
    }
    if (map->used == map->capacity)
        rebuild(map);
    map->entries[map->used] = (struct entry){
        .key = kg_str_dup(key), .key_length = key.length, .hash = hash, .value = value};
    link_entry(map, map->used);
    map->used++;
    map->count++;
}

void *kg_map_remove(struct kg_map *map, struct kg_str key)
{
    struct entry *entry = map_find(map, key, (uint32_t)kg_hash(key));
    if (entry == NULL)
        return NULL;
    void *value = entry->value;
    free(entry->key);
    entry->key = NULL;
    map->count--;
    return value;
}

size_t kg_map_count(const struct kg_map *map)
{
    return map->count;
}

bool kg_map_next(const struct kg_map *map, size_t *position, struct kg_str *ret_key,
                 void **ret_value)
{
    for (; *position < map->used; (*position)++) {
        const struct entry *entry = &map->entries[*position];
        if (entry->key == NULL)
            continue;
        if (ret_key)
            *ret_key = (struct kg_str){entry->key, entry->key_length};
        if (ret_value)
            *ret_value = entry->value;
        (*position)++;
        return true;
    }
    return false;
}
