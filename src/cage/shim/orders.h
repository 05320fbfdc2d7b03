/* What the spawner ordered: words in a file of memory, as cage_argv_orders writes them. */
#ifndef KAGED_SHIM_ORDERS_H
#define KAGED_SHIM_ORDERS_H

struct orders {
    const char *at, *end;
};

/* 0, or a negative errno: -EINVAL also for orders that were cut, or never written. */
long orders_open(unsigned long fd, struct orders *ret_orders);
/* The next word; past the end each is empty. */
const char *orders_next(struct orders *orders);
/* The words that are left, as an argv. NULL if there are none. */
const char **orders_rest(struct orders *orders);

#endif
