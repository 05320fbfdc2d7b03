/*
 * Waiting for something that comes once, in a way that can be withdrawn: whoever waits embeds a
 * wait, whoever has what is waited for keeps a list of them.
 */
#ifndef KAGED_WAIT_H
#define KAGED_WAIT_H

#include "base/base.h"

struct kg_waits;
struct kg_wait {
    struct kg_waits *list; /* NULL: it does not wait */
    struct kg_wait *next, *previous;
    void (*on_done)(struct kg_wait *wait, const struct kg_err *err_or_null);
};
struct kg_waits {
    struct kg_wait *first, *last;
};

/* Behind those that wait already. */
void kg_wait_add(struct kg_waits *list, struct kg_wait *wait,
                 void (*on_done)(struct kg_wait *wait, const struct kg_err *err_or_null));
/* on_done does not come. Of one that does not wait: nothing happens. */
void kg_wait_withdraw(struct kg_wait *wait);
/* Tells all that wait now, in order. Meanwhile any may be withdrawn, and the list may be freed. */
void kg_waits_tell(struct kg_waits *list, const struct kg_err *err_or_null);

#endif
