/* Shared by the files of the probe: one attempt is one line of its output. */
#ifndef KAGED_TEST_CAGE_PROBE_H
#define KAGED_TEST_CAGE_PROBE_H

#include <stddef.h>

struct attempt {
    const char *name;
    int arguments;
    int (*run)(char **words);
};

/* "ok", or the name of the error. */
int say(long result);

/* What an attacker would do next, once something gives way. */
extern const struct attempt probe_attacks[];
extern const size_t probe_attack_count;

#endif
