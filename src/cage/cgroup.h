/*
 * The kernel's groups that hold down memory, processes and processor time of cages. Which kind of
 * group there is on a host is found out once; each cage then has one group of its own, named after
 * the daemon that made it, so that a later daemon knows what a dead one left behind.
 */
#ifndef KAGED_CAGE_CGROUP_H
#define KAGED_CAGE_CGROUP_H

#include "cage/cage.h"

#include <poll.h>

/* Who asks, and where the host shows itself; a test has a folder of its own for that. */
struct cage_cgroup_asker {
    const char *proc; /* "/proc" */
    pid_t daemon;     /* the groups carry its name */
    bool is_root;
};

enum cage_controller { CAGE_MEMORY, CAGE_PIDS, CAGE_CPU, CAGE_CONTROLLERS };

struct cage_group;
struct cage_cgroups {
    enum cage_limits_mode mode;
    char *bases[CAGE_CONTROLLERS]; /* owned; where the groups are made; NULL: no such controller */
    bool own_bases;                /* their last folders are ours to make and to remove */
    char *prefix;                  /* owned; of the names of our groups */
    uint32_t made;                 /* groups, each with the next number as its name */
    struct cage_group *dying;      /* owned; groups that could not be removed yet */
};

/*
 * Looks for the best way; with `take` also makes it ready: folders, controllers, and our own
 * processes out of the way. NULL where there is none. *ret_limits says what was found, and why
 * nothing better.
 */
struct cage_cgroups *cage_cgroups_find(const struct cage_cgroup_asker *asker, bool take,
                                       struct cage_limits *ret_limits);
/* Makes the folders of the bases, also again where another daemon has tidied them away. */
int cage_cgroups_prepare(const struct cage_cgroups *cgroups, struct kg_err *err);
/* Finds, takes, and removes the groups of daemons that are gone. */
struct cage_cgroups *cage_cgroups_new(const struct cage_cgroup_asker *asker,
                                      struct cage_limits *ret_limits);
/* Removes what can be removed, and waits for it a little. */
void cage_cgroups_free(struct cage_cgroups *cgroups);

struct cage_group_limits {
    uint64_t memory_bytes; /* 0: none */
    unsigned processes;    /* of all in the group */
    unsigned cpu_shares;   /* 0: none */
};

/* A group for a cage, without limits yet. */
struct cage_group *cage_group_new(struct cage_cgroups *cgroups, struct kg_err *err);
/* Its memory and processes. */
int cage_group_limit(const struct cage_group *group, const struct cage_group_limits *limits,
                     struct kg_err *err);
/*
 * Its processor time. Apart, since that is for the plugin: while a cage is being built it has as
 * much as any process, or a busy machine would keep it from being built.
 */
void cage_group_share(const struct cage_group *group, unsigned cpu_shares);
/*
 * Forks into the group; group may be NULL. In the child *ret_join is a negative errno if it is not
 * in there.
 */
pid_t cage_group_fork(struct cage_group *group, int *ret_join);
/* How often each limit was hit; what cannot be read counts as never. */
void cage_group_read(const struct cage_group *group, uint32_t ret_counts[2]);
/* Removes the group and frees it, now or, while something is still in it, later. */
void cage_group_end(struct cage_cgroups *cgroups, struct cage_group *group);
/* Tries again to remove what was busy. True if there is something left. */
bool cage_cgroups_tidy(struct cage_cgroups *cgroups);

/* -- watching while the cage lives: at most one look a second ---------------------------------- */

#define CAGE_GROUP_POLLS 2

/* What to poll for the group; fds are -1 where there is nothing to wait for. group may be NULL. */
void cage_group_polls(const struct cage_group *group, struct pollfd ret_polls[CAGE_GROUP_POLLS]);
/* Milliseconds until cage_group_look has to be called without an event; -1: never. */
int cage_group_wait_ms(const struct cage_group *group, uint64_t now_ms);
/* After a poll. The bit 1 << limit is set in the result for each limit whose count rose. */
unsigned cage_group_look(struct cage_group *group, const struct pollfd polls[CAGE_GROUP_POLLS],
                         uint64_t now_ms, uint32_t ret_counts[2]);

#endif
