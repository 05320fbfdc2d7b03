/* Who is whose child, from /proc. Answers may be stale: the caller checks what it acts on. */
#include "cage/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define STAT_MAX_BYTES     4096
#define CHILDREN_MAX_BYTES ((size_t)4 * 1024 * 1024)

pid_t *cage_children_of(pid_t pid, size_t *ret_count)
{
    kg_auto(kg_free) char *path = kg_format("/proc/%d/task/%d/children", pid, pid);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    pid_t *children = NULL;
    size_t count = 0;
    if (kg_read_file(path, CHILDREN_MAX_BYTES, &text, NULL) == 0) {
        char *at = kg_buf_terminate(&text), *end;
        for (long child; (child = strtol(at, &end, 10)) > 0; at = end) {
            children = kg_realloc(children, (count + 1) * sizeof(*children));
            children[count++] = (pid_t)child;
        }
    }
    *ret_count = count;
    return children;
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
