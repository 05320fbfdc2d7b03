/* Whether the cage's mounts are those that were asked for. */
#ifndef KAGED_SHIM_MOUNTS_H
#define KAGED_SHIM_MOUNTS_H

#include "orders.h"

/*
 * Reads from the orders, up to an empty word: a letter and a path ('r': it is read-only, 'w': it
 * may be written), and the numbers of the device, in two words, and of the file that has to be
 * mounted there. 0, or a negative errno and the path that it is about.
 */
long mounts_check(struct orders *orders, const char **ret_path);

#endif
