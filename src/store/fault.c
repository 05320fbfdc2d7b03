/*
 * Faults for tests, which other builds do not have. KAGED_STORE_FAULT=kill:N ends the process by
 * SIGKILL at the N-th step of its changes; full:N lets that step fail as on a disk that is full.
 */
#include "store/internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

int store_step(const char *step)
{
    static unsigned passed;
    const char *fault = getenv("KAGED_STORE_FAULT");
    unsigned wanted;
    char kind[8];
    (void)step;
    if (fault == NULL || sscanf(fault, "%7[a-z]:%u", kind, &wanted) != 2 || wanted != ++passed)
        return 0;
    if (strcmp(kind, "kill") == 0)
        raise(SIGKILL);
    return -ENOSPC;
}
