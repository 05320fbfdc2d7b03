/* The second layer of the cage, asked of the kernel before any code of the plugin runs. */
#ifndef KAGED_SHIM_LANDLOCK_H
#define KAGED_SHIM_LANDLOCK_H

#include <stddef.h>

/*
 * Applies rules (a letter and a path, ended by NUL, for each: 'x' may be executed, 'w' may be
 * changed) to this process. Nothing is done where there are none. 0, or a negative errno.
 */
long landlock_apply(const char *text, size_t length);

#endif
