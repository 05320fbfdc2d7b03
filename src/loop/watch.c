/*
 * A folder that is watched. Only names come from it, and not what happened: the listener looks
 * again. libuv keeps its handle until the end of a turn, so the memory goes after the watch.
 */
#include "loop/internal.h"

#include <stdlib.h>

struct loop_watch {
    uv_fs_event_t event;
    loop_watch_fn *on_change; /* NULL: it ends */
    void *data;
};

static void loop_watch_on_event(uv_fs_event_t *event, const char *name, int events, int status)
{
    struct loop_watch *watch = KG_CONTAINER(event, struct loop_watch, event);
    (void)events;
    (void)status;
    if (watch->on_change != NULL)
        watch->on_change(watch->data, name);
}

static void loop_watch_on_closed(uv_handle_t *handle)
{
    free(KG_CONTAINER(handle, struct loop_watch, event));
}

struct loop_watch *loop_watch_new(struct loop *loop, const char *folder, loop_watch_fn *on_change,
                                  void *data, struct kg_err *err)
{
    struct loop_watch *watch = kg_alloc(sizeof(*watch));
    watch->on_change = on_change;
    watch->data = data;
    int result = uv_fs_event_init(loop_uv(loop), &watch->event);
    if (result == 0)
        result = uv_fs_event_start(&watch->event, loop_watch_on_event, folder, 0);
    if (result == 0)
        return watch;
    kg_fail_errno(err, -result, "watch %s", folder);
    loop_watch_free(watch);
    return NULL;
}

void loop_watch_free(struct loop_watch *watch)
{
    if (watch == NULL)
        return;
    watch->on_change = NULL;
    uv_close((uv_handle_t *)&watch->event, loop_watch_on_closed);
}
