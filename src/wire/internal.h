/* What the files of wire/ share. */
#ifndef KAGED_WIRE_INTERNAL_H
#define KAGED_WIRE_INTERNAL_H

#include "wire/wire.h"

/* -- requests of the child that wait for an answer of ours, see debts.c ------------------------ */

struct debt {
    char id[RPC_ID_MAX]; /* as the child wrote it */
    uint8_t id_length;   /* 0: the slot is free */
    uint32_t next_free;
    uint32_t serial;
};
struct debts {
    struct debt *slots; /* owned */
    uint32_t capacity, first_free;
    uint32_t count;
    uint32_t last_serial;
    uint64_t since_ms; /* from when on there is at least one, while there is */
    uint64_t past_ms;  /* how long there was one, before that */
};
/* The number by which it is settled; never 0. */
int64_t debts_add(struct debts *debts, struct kg_str id, uint64_t now_ms);
/* False: there is none of that number, or not any more. *ret_debt is a copy. */
bool debts_settle(struct debts *debts, int64_t number, uint64_t now_ms, struct debt *ret_debt);
void debts_free(struct debts *debts);
static inline uint64_t debts_stood_ms(const struct debts *debts, const struct loop *loop)
{
    return debts->count == 0 ? debts->past_ms
                             : debts->past_ms + (loop_now_ms(loop) - debts->since_ms);
}

#endif
