/*
 * An fd and the handle that polls it, which go in this order: libuv removes the fd from epoll by
 * its number, and after a close that could be somebody else's.
 */
#include "loop/loop.h"

#include <stdlib.h>

static void fd_on_poll_closed(uv_handle_t *handle)
{
    free(handle);
}

void loop_fd_begin(struct loop *loop, struct loop_fd *polled, int fd)
{
    uv_poll_t *poll = kg_alloc(sizeof(*poll));
    *polled = (struct loop_fd){.fd = fd};
    if (uv_poll_init(loop_uv(loop), poll, fd) < 0) {
        free(poll);
        loop_fd_end(polled);
        return;
    }
    poll->data = polled;
    polled->poll = poll;
}

void loop_fd_end(struct loop_fd *polled)
{
    if (polled->poll != NULL)
        uv_close((uv_handle_t *)polled->poll, fd_on_poll_closed);
    polled->poll = NULL;
    kg_close(&polled->fd);
}
