/*
 * The last records of a conversation, bounded in number and bytes: the oldest go first, and how
 * many went is known. Copies share the records, so that a crash can keep what it was like while the
 * ring goes on.
 */
#include "trace/trace.h"

#include <stdlib.h>

#define RECORD_OVERHEAD 64 /* bytes that a record costs besides its text */
#define START_CAPACITY  16 /* a power of two, as all capacities are */

struct record {
    uint32_t references;
    uint64_t at_ns;
    size_t length;
    char text[];
};

struct trace_ring {
    struct record **records; /* owned */
    size_t capacity, first, count;
    size_t bytes;
    size_t records_max, bytes_max;
    uint64_t dropped;
};

struct trace_ring *trace_ring_new(void)
{
    return kg_alloc(sizeof(struct trace_ring));
}

static struct record **ring_slot(const struct trace_ring *ring, size_t index)
{
    return &ring->records[(ring->first + index) & (ring->capacity - 1)];
}

static size_t ring_cost(const struct record *record)
{
    return record->length + RECORD_OVERHEAD;
}

static void ring_drop_oldest(struct trace_ring *ring)
{
    struct record *record = *ring_slot(ring, 0);
    ring->first++;
    ring->count--;
    ring->bytes -= ring_cost(record);
    if (--record->references == 0)
        free(record);
}

void trace_ring_free(struct trace_ring *ring)
{
    if (ring == NULL)
        return;
    while (ring->count > 0)
        ring_drop_oldest(ring);
    free(ring->records);
    free(ring);
}

static void keep_limits(struct trace_ring *ring)
{
    while (ring->count > ring->records_max || ring->bytes > ring->bytes_max) {
        if (ring->count == 0)
            return;
        ring_drop_oldest(ring);
        ring->dropped++;
    }
}

void trace_ring_set_limits(struct trace_ring *ring, size_t records_max, size_t bytes_max)
{
    ring->records_max = records_max;
    ring->bytes_max = bytes_max;
    keep_limits(ring);
}

static void ring_grow(struct trace_ring *ring)
{
    size_t capacity = ring->capacity ? 2 * ring->capacity : START_CAPACITY;
    struct record **records = kg_alloc_array(capacity, sizeof(struct record *));
    for (size_t i = 0; i < ring->count; i++)
        records[i] = *ring_slot(ring, i);
    free(ring->records);
    ring->records = records;
    ring->capacity = capacity;
    ring->first = 0;
}

static void ring_push(struct trace_ring *ring, struct record *record)
{
    if (ring->count == ring->capacity)
        ring_grow(ring);
    record->references++;
    *ring_slot(ring, ring->count++) = record;
    ring->bytes += ring_cost(record);
}

void trace_ring_add(struct trace_ring *ring, uint64_t at_ns, struct kg_str body)
{
    struct record *record = kg_realloc(NULL, sizeof(*record) + body.length);
    *record = (struct record){.at_ns = at_ns, .length = body.length};
    memcpy(record->text, body.data, body.length);
    ring_push(ring, record);
    keep_limits(ring);
}

struct trace_ring *trace_ring_copy(const struct trace_ring *ring)
{
    struct trace_ring *copy = trace_ring_new();
    copy->records_max = ring->records_max;
    copy->bytes_max = ring->bytes_max;
    copy->dropped = ring->dropped;
    for (size_t i = 0; i < ring->count; i++)
        ring_push(copy, *ring_slot(ring, i));
    return copy;
}

size_t trace_ring_count(const struct trace_ring *ring)
{
    return ring->count;
}

size_t trace_ring_bytes(const struct trace_ring *ring)
{
    return ring->bytes;
}

uint64_t trace_ring_dropped(const struct trace_ring *ring)
{
    return ring->dropped;
}

struct kg_str trace_ring_at(const struct trace_ring *ring, size_t index, uint64_t *ret_at_ns)
{
    const struct record *record = *ring_slot(ring, index);
    *ret_at_ns = record->at_ns;
    return (struct kg_str){record->text, record->length};
}
