/*
 * What we owe a child: its requests that are not answered yet. Each keeps the id exactly as the
 * child wrote it, and is settled once. How many there are is bounded by whoever serves them; here
 * is only counted for how long there was at least one, since so long the child cannot be blamed.
 */
#include "wire/internal.h"

#include <stdlib.h>

#define SLOTS_LEAST 8
#define SLOTS_KEPT  64 /* more are given back once nothing is owed */

static void add_slots(struct debts *debts)
{
    uint32_t capacity = debts->capacity ? debts->capacity * 2 : SLOTS_LEAST;
    struct debt *slots = kg_alloc_array(capacity, sizeof(*slots));
    if (debts->capacity > 0)
        memcpy(slots, debts->slots, debts->capacity * sizeof(*slots));
    free(debts->slots);
    for (uint32_t i = debts->capacity; i < capacity; i++)
        slots[i].next_free = i + 1;
    debts->first_free = debts->capacity;
    debts->slots = slots;
    debts->capacity = capacity;
}

int64_t debts_add(struct debts *debts, struct kg_str id, uint64_t now_ms)
{
    if (debts->first_free == debts->capacity)
        add_slots(debts);
    if (debts->count++ == 0)
        debts->since_ms = now_ms;
    uint32_t index = debts->first_free;
    struct debt *debt = &debts->slots[index];
    debts->first_free = debt->next_free;
    memcpy(debt->id, id.data, id.length);
    debt->id_length = (uint8_t)id.length;
    debts->last_serial = (debts->last_serial + 1) & INT32_MAX;
    debt->serial = debts->last_serial;
    return (int64_t)((uint64_t)debt->serial << 32 | (index + 1));
}

bool debts_settle(struct debts *debts, int64_t number, uint64_t now_ms, struct debt *ret_debt)
{
    uint32_t index = (uint32_t)((uint64_t)number & UINT32_MAX) - 1;
    if (index >= debts->capacity)
        return false;
    struct debt *debt = &debts->slots[index];
    if (debt->id_length == 0 || debt->serial != (uint64_t)number >> 32)
        return false;
    *ret_debt = *debt;
    debt->id_length = 0;
    debt->next_free = debts->first_free;
    debts->first_free = index;
    if (--debts->count > 0)
        return true;
    debts->past_ms += now_ms - debts->since_ms;
    if (debts->capacity > SLOTS_KEPT)
        debts_free(debts);
    return true;
}

void debts_free(struct debts *debts)
{
    free(debts->slots);
    debts->slots = NULL;
    debts->capacity = debts->first_free = 0;
}
