/* The second layer of the cage, asked of the kernel before any code of the plugin runs. */
#ifndef KAGED_SHIM_LANDLOCK_H
#define KAGED_SHIM_LANDLOCK_H

#include "orders.h"

/*
 * Reads rules from the orders, up to an empty word (a letter and a path for each: 'x' may be
 * executed, 'w' may be changed), and applies them to this process. Nothing is done where there are
 * none. 0, or a negative errno.
 */
long landlock_apply(struct orders *orders);

#endif
