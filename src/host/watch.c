/*
 * Folders that are watched together. What changes in them within a moment is told once, when it has
 * been quiet again, or has not been for too long. Editors replace files, and so it is always the
 * folder that is watched.
 */
#include "host/internal.h"

#include <stdlib.h>

#define QUIET_MS    200  /* without a change */
#define PATIENCE_MS 2000 /* where it never gets quiet */

struct folder {
    struct host_watch *of;
    char **names; /* owned; what counts in it; NULL: all */
    struct loop_watch *watch;
};

struct host_watch {
    struct loop *loop;
    const struct host_watch_ops *ops;
    void *data;
    struct loop_timer timer;
    uint64_t first_ms;      /* when the first change came that was not told yet */
    struct kg_map *folders; /* owned, as they are; by path */
    struct kg_map *before;  /* owned; those of the list before; NULL: a new one is not being made */
};

static void folders_free(struct kg_map *folders)
{
    struct kg_str path;
    void *value;
    for (size_t at = 0; folders != NULL && kg_map_next(folders, &at, &path, &value);) {
        struct folder *folder = value;
        loop_watch_free(folder->watch);
        kg_list_free(folder->names);
        free(folder);
    }
    kg_map_free(folders);
}

struct host_watch *host_watch_new(struct loop *loop, const struct host_watch_ops *ops, void *data)
{
    struct host_watch *watch = kg_alloc(sizeof(*watch));
    watch->loop = loop;
    watch->ops = ops;
    watch->data = data;
    watch->folders = kg_map_new();
    return watch;
}

void host_watch_free(struct host_watch *watch)
{
    if (watch == NULL)
        return;
    loop_timer_stop(watch->loop, &watch->timer);
    folders_free(watch->folders);
    folders_free(watch->before);
    free(watch);
}

/* -- changes ----------------------------------------------------------------------------------- */

static void host_watch_on_due(struct loop_timer *timer)
{
    struct host_watch *watch = KG_CONTAINER(timer, struct host_watch, timer);
    watch->ops->on_quiet(watch->data);
}

static void tell_soon(struct host_watch *watch)
{
    uint64_t now = loop_now_ms(watch->loop);
    if (!loop_timer_running(&watch->timer))
        watch->first_ms = now;
    uint64_t due = now + QUIET_MS, latest = watch->first_ms + PATIENCE_MS;
    if (due > latest)
        due = latest > now ? latest : now;
    loop_timer_start(watch->loop, &watch->timer, due - now, host_watch_on_due);
}

static void on_change(void *data, const char *name_or_null)
{
    struct folder *folder = data;
    struct host_watch *watch = folder->of;
    if (name_or_null != NULL && folder->names != NULL &&
        !kg_list_has(folder->names, kg_str(name_or_null)))
        return;
    if (watch->ops->counts == NULL || watch->ops->counts(watch->data, name_or_null))
        tell_soon(watch);
}

/* -- what is watched --------------------------------------------------------------------------- */

void host_watch_renew(struct host_watch *watch)
{
    watch->before = kg_steal(&watch->folders);
    watch->folders = kg_map_new();
}

void host_watch_add(struct host_watch *watch, const char *path, const char *name_or_null)
{
    struct folder *folder = kg_map_get(watch->folders, kg_str(path));
    if (folder == NULL) {
        folder = kg_alloc(sizeof(*folder));
        folder->of = watch;
        kg_map_set(watch->folders, kg_str(path), folder);
    }
    if (name_or_null == NULL)
        return;
    if (folder->names == NULL)
        folder->names = kg_list_new(0);
    if (!kg_list_has(folder->names, kg_str(name_or_null)))
        kg_list_add(&folder->names, kg_strdup(name_or_null));
}

static bool had_name(const struct folder *before, const char *name)
{
    return before != NULL && before->watch != NULL &&
           (before->names == NULL || kg_list_has(before->names, kg_str(name)));
}

/* What was not watched until now may have changed before it was. */
static bool has_news(const struct folder *folder, const struct folder *before)
{
    if (folder->watch == NULL)
        return false;
    if (folder->names == NULL)
        return before == NULL || before->watch == NULL;
    for (char **name = folder->names; *name != NULL; name++)
        if (!had_name(before, *name))
            return true;
    return false;
}

size_t host_watch_begin(struct host_watch *watch, struct kg_err *ret_first)
{
    struct kg_str path;
    void *value;
    size_t failed = 0;
    for (size_t at = 0; kg_map_next(watch->folders, &at, &path, &value);) {
        struct folder *folder = value;
        kg_auto(kg_free) char *text = kg_str_dup(path);
        struct kg_err err;
        folder->watch = loop_watch_new(watch->loop, text, on_change, folder, &err);
        if (folder->watch == NULL && failed++ == 0)
            *ret_first = err;
        if (has_news(folder, kg_map_get(watch->before, path)))
            tell_soon(watch);
    }
    folders_free(kg_steal(&watch->before));
    return failed;
}
