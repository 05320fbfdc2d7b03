/* Who is whose child, from /proc. Answers may be stale: the caller checks what it acts on. */
#include "cage/internal.h"

#include <dirent.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <unistd.h>

#define STAT_MAX_BYTES     4096
#define CHILDREN_MAX_BYTES ((size_t)4 * 1024 * 1024)
#define WALK_MAX           65536 /* processes that are looked at for one answer */
#define FILE_BYTES         1024  /* that an empty file in memory takes, with its name */

struct pids {
    pid_t *items; /* owned */
    size_t count;
};

static void add_children(struct pids *pids, pid_t pid, pid_t thread)
{
    kg_auto(kg_free) char *path = kg_format("/proc/%d/task/%d/children", pid, thread);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (kg_read_file(path, CHILDREN_MAX_BYTES, &text, NULL) < 0)
        return;
    char *at = kg_buf_terminate(&text), *end;
    for (long child; (child = strtol(at, &end, 10)) > 0; at = end) {
        pids->items = kg_realloc(pids->items, (pids->count + 1) * sizeof(*pids->items));
        pids->items[pids->count++] = (pid_t)child;
    }
}

pid_t *cage_children_of(pid_t pid, size_t *ret_count)
{
    struct pids pids = {0};
    add_children(&pids, pid, pid);
    *ret_count = pids.count;
    return pids.items;
}

/* Each thread has children of its own. */
static void add_children_of_threads(struct pids *pids, pid_t pid)
{
    kg_auto(kg_free) char *path = kg_format("/proc/%d/task", pid);
    DIR *threads = opendir(path);
    for (struct dirent *entry; threads != NULL && (entry = readdir(threads)) != NULL;)
        if (atoi(entry->d_name) > 0)
            add_children(pids, pid, atoi(entry->d_name));
    if (threads != NULL)
        closedir(threads);
}

uint64_t cage_process_memory(pid_t pid)
{
    kg_auto(kg_free) char *path = kg_format("/proc/%d/statm", pid);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    unsigned long long pages = 0;
    if (kg_read_file(path, STAT_MAX_BYTES, &text, NULL) < 0 ||
        sscanf(kg_buf_terminate(&text), "%*u %llu", &pages) != 1)
        return 0;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t cage_memory_of(pid_t root)
{
    struct pids pids = {.items = kg_alloc(sizeof(pid_t)), .count = 1};
    uint64_t bytes = 0;
    pids.items[0] = root;
    for (size_t i = 0; i < pids.count && i < WALK_MAX; i++) {
        bytes += cage_process_memory(pids.items[i]);
        add_children_of_threads(&pids, pids.items[i]);
    }
    free(pids.items);
    return bytes;
}

/* Of one of its folders in memory; 0 where we may not look. */
static uint64_t files_in(pid_t pid, const char *folder)
{
    struct statfs there;
    kg_auto(kg_free) char *path = kg_format("/proc/%d/root%s", pid, folder);
    if (statfs(path, &there) < 0 || there.f_type != TMPFS_MAGIC)
        return 0;
    return there.f_files - there.f_ffree;
}

uint64_t cage_files_memory(pid_t pid)
{
    return (files_in(pid, "/tmp") + files_in(pid, "/dev/shm")) * FILE_BYTES;
}

pid_t cage_first_child(pid_t pid)
{
    size_t count;
    kg_auto(kg_free) pid_t *children = cage_children_of(pid, &count);
    return count > 0 ? children[0] : 0;
}

pid_t cage_parent_of(pid_t pid)
{
    kg_auto(kg_free) char *path = kg_format("/proc/%d/stat", pid);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (kg_read_file(path, STAT_MAX_BYTES, &text, NULL) < 0)
        return 0;
    /* The name may hold anything, also a bracket: what follows the last one is ours. */
    const char *after = strrchr(kg_buf_terminate(&text), ')');
    int parent = 0;
    if (after == NULL || sscanf(after + 1, " %*c %d", &parent) != 1)
        return 0;
    return parent;
}
