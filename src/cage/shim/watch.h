/* A cage that is watched. */
#ifndef KAGED_SHIM_WATCH_H
#define KAGED_SHIM_WATCH_H

/*
 * From now on the kernel asks about the calls of watched.def, and whoever is at the other end of
 * the socket answers: nobody else can. 0, or a negative errno.
 */
long watch_begin(unsigned long socket);

#endif
