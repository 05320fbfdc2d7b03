/*
 * What the shim has in place of a C library. A C library's start asks the processor what it can do,
 * question by question, and under a hypervisor each is answered outside: that alone took half a
 * millisecond of every start. The shim runs once for each, and needs nothing of it.
 */
#ifndef KAGED_SHIM_BARE_H
#define KAGED_SHIM_BARE_H

#include <stddef.h>

/* A system call: its result, or a negative errno. Arguments that it does not take are 0. */
long bare_call(long number, long a, long b, long c, long d, long e);
#define BARE_CALL(number, a, b, c, d, e)                                                           \
    bare_call((number), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e))

size_t bare_length(const char *text);
/* The number that text begins with; 0 if there is none. */
unsigned long bare_number(const char *text);
/* A line on stderr: what could not be done, to what, and why. */
void bare_complain(const char *what, const char *object, int errnum);

/* The shim itself; what it returns is the exit code. */
int shim_main(int argc, char **argv, char **environment);

#endif
