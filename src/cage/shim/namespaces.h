/* What of a cage can be made before it is known what the cage is for. */
#ifndef KAGED_SHIM_NAMESPACES_H
#define KAGED_SHIM_NAMESPACES_H

/*
 * Moves this process into new namespaces of users, networks (with lo and nothing else),
 * interprocess communication, cgroups and host names, and sets the name. 0, or a negative errno:
 * then it has to end.
 */
long namespaces_make(const char *hostname);

#endif
