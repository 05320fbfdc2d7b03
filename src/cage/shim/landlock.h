/* The second layer of the cage, asked of the kernel before any code of the plugin runs. */
#ifndef KAGED_SHIM_LANDLOCK_H
#define KAGED_SHIM_LANDLOCK_H

/*
 * Reads the rules from the file that fd is open on (a letter and a path, ended by NUL, for each:
 * 'x' may be executed, 'w' may be changed) and applies them to this process. Nothing is done for an
 * empty file. 0, or a negative errno.
 */
long landlock_apply(unsigned long fd);

#endif
