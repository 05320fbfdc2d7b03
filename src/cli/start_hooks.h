/* What happens in the daemon, told to system plugins; see start_hooks.c. */
#ifndef KAGED_START_HOOKS_H
#define KAGED_START_HOOKS_H

#include "host/host.h"
#include "native/native.h"

struct start_hooks;
/* Both are borrowed. Tells daemon.starting at once. */
struct start_hooks *start_hooks_open(struct host *host, struct native *native);
void start_hooks_close(struct start_hooks *hooks); /* takes NULL */

#endif
