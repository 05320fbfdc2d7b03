/*
 * Sets of keys that a schema names. The hash looks at the ends of a key and its length only; keys
 * that it serves badly, which an enemy can choose, are found by the strong hash instead.
 */
#include "schema/internal.h"

#define PROBES_MAX 16
#define FEW        4 /* so many are looked at one by one: that costs less than a hash */

static inline uint64_t quick_hash(struct kg_str name)
{
    uint64_t head = 0;
    uint64_t tail = 0;
    if (name.length >= 8) {
        memcpy(&head, name.data, 8);
        memcpy(&tail, name.data + name.length - 8, 8);
    } else if (name.length >= 4) {
        memcpy(&head, name.data, 4);
        memcpy(&tail, name.data + name.length - 4, 4);
    } else if (name.length > 0) {
        head = (unsigned char)name.data[0];
        tail = (uint64_t)(unsigned char)name.data[name.length / 2] << 8 |
               (unsigned char)name.data[name.length - 1];
    }
    unsigned __int128 product = (unsigned __int128)(head ^ 0x9E3779B97F4A7C15u ^ name.length) *
                                (tail ^ 0xC2B2AE3D27D4EB4Fu);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* False if some key lies too far from where it is looked for. */
static bool fill_slots(struct schema_keys *keys)
{
    memset(keys->slots, 0, (keys->mask + 1) * sizeof(*keys->slots));
    for (uint32_t i = 0; i < keys->count; i++) {
        struct kg_str name = keys->keys[i].name;
        uint64_t slot = keys->collide ? kg_hash(name) : quick_hash(name);
        unsigned probes = 0;
        for (slot &= keys->mask; keys->slots[slot] != 0; slot = (slot + 1) & keys->mask)
            if (++probes > PROBES_MAX && !keys->collide)
                return false;
        keys->slots[slot] = i + 1;
    }
    return true;
}

struct schema_keys schema_keys_build(struct kg_arena *arena, struct schema_key *names,
                                     uint32_t count)
{
    struct schema_keys keys = {.keys = names, .count = count};
    uint32_t slots = 1;
    while (slots < count * 2)
        slots *= 2;
    keys.mask = slots - 1;
    keys.slots = kg_arena_alloc(arena, slots * sizeof(*keys.slots));
    if (!fill_slots(&keys)) {
        keys.collide = true;
        fill_slots(&keys);
    }
    return keys;
}

static const struct schema_key *find_among_few(const struct schema_keys *keys, struct kg_str name)
{
    for (uint32_t i = 0; i < keys->count; i++)
        if (schema_key_equal(keys->keys[i].name, name))
            return &keys->keys[i];
    return NULL;
}

const struct schema_key *schema_keys_find(const struct schema_keys *keys, struct kg_str name)
{
    if (keys->count <= FEW)
        return find_among_few(keys, name);
    uint64_t slot = keys->collide ? kg_hash(name) : quick_hash(name);
    uint32_t probes = keys->collide ? keys->count : PROBES_MAX;
    slot &= keys->mask;
    for (uint32_t i = 0; i <= probes && keys->slots[slot] != 0; i++) {
        const struct schema_key *key = &keys->keys[keys->slots[slot] - 1];
        if (schema_key_equal(key->name, name))
            return key;
        slot = (slot + 1) & keys->mask;
    }
    return NULL;
}
