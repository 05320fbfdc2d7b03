/*
 * Connections to other nodes. One that was used is kept for a while, so that the next request need
 * not wait for a handshake; whatever comes on one that nobody uses ends it.
 */
#include "http/nodes.h"

#include <stdlib.h>

#define IDLE_MS  10000
#define IDLE_MAX 32 /* to one node */

struct http_tunnel {
    struct http_tunnel *next;
    struct http_nodes *nodes;   /* not looked at any more once it is closed */
    struct http_server *server; /* lives until libuv lets go of this */
    char *node;                 /* owned */
    uv_pipe_t pipe;
    uv_write_t write;
    bool writing, reading;
    const struct http_tunnel_ops *ops; /* NULL: nobody uses it */
    void *data;
    struct loop_timer idle;
};

static struct loop *tunnel_loop(const struct http_tunnel *tunnel)
{
    return tunnel->server->loop;
}

static void tunnel_on_closed(uv_handle_t *handle)
{
    struct http_tunnel *tunnel = handle->data;
    struct http_server *server = tunnel->server;
    free(tunnel->node);
    free(tunnel);
    http_server_handle_closed(server);
}

void http_tunnel_close(struct http_tunnel *tunnel)
{
    KG_UNLINK(tunnel->nodes->tunnels, tunnel);
    tunnel->ops = NULL;
    loop_timer_stop(tunnel_loop(tunnel), &tunnel->idle);
    uv_close((uv_handle_t *)&tunnel->pipe, tunnel_on_closed);
}

static void tunnel_lose(struct http_tunnel *tunnel)
{
    const struct http_tunnel_ops *ops = tunnel->ops;
    void *data = tunnel->data;
    http_tunnel_close(tunnel);
    if (ops != NULL)
        ops->on_gone(data);
}

/* -- bytes ------------------------------------------------------------------------------------- */

static void tunnel_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    const struct http_tunnel *tunnel = handle->data;
    (void)suggested;
    *ret_buffer = uv_buf_init(loop_scratch(tunnel_loop(tunnel)), LOOP_SCRATCH_BYTES);
}

static void tunnel_on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
    struct http_tunnel *tunnel = stream->data;
    if (length == 0)
        return;
    if (length < 0 || tunnel->ops == NULL)
        tunnel_lose(tunnel);
    else
        tunnel->ops->on_bytes(tunnel->data, buffer->base, (size_t)length);
}

void http_tunnel_pause(struct http_tunnel *tunnel, bool paused)
{
    if (tunnel->reading != paused)
        return;
    tunnel->reading = !paused;
    if (paused)
        uv_read_stop((uv_stream_t *)&tunnel->pipe);
    else
        uv_read_start((uv_stream_t *)&tunnel->pipe, tunnel_on_alloc, tunnel_on_read);
}

static void tunnel_on_written(uv_write_t *write, int status)
{
    struct http_tunnel *tunnel = KG_CONTAINER(write, struct http_tunnel, write);
    tunnel->writing = false;
    if (status == 0 && tunnel->ops != NULL)
        tunnel->ops->on_sent(tunnel->data);
}

void http_tunnel_send(struct http_tunnel *tunnel, struct kg_str head, struct kg_str body)
{
    const uv_buf_t buffers[] = {
        uv_buf_init((char *)head.data, (unsigned)head.length),
        uv_buf_init((char *)body.data, (unsigned)body.length),
    };
    tunnel->writing = uv_write(&tunnel->write, (uv_stream_t *)&tunnel->pipe, buffers,
                               body.length > 0 ? 2 : 1, tunnel_on_written) == 0;
}

/* -- life -------------------------------------------------------------------------------------- */

struct http_tunnel *http_tunnel_new(struct http_nodes *nodes, const char *node, int fd)
{
    struct http_tunnel *tunnel = kg_alloc(sizeof(*tunnel));
    tunnel->nodes = nodes;
    tunnel->server = nodes->server;
    tunnel->node = kg_strdup(node);
    tunnel->next = nodes->tunnels;
    nodes->tunnels = tunnel;
    nodes->server->open_handles++;
    uv_pipe_init(loop_uv(nodes->server->loop), &tunnel->pipe, 0);
    tunnel->pipe.data = tunnel;
    if (uv_pipe_open(&tunnel->pipe, fd) < 0) {
        kg_close(&fd);
        http_tunnel_close(tunnel);
        return NULL;
    }
    http_tunnel_pause(tunnel, false);
    return tunnel;
}

struct http_tunnel *http_tunnel_idle(struct http_nodes *nodes, const char *node)
{
    struct http_tunnel *tunnel = nodes->tunnels;
    while (tunnel != NULL && (tunnel->ops != NULL || strcmp(tunnel->node, node) != 0))
        tunnel = tunnel->next;
    return tunnel;
}

void http_tunnel_use(struct http_tunnel *tunnel, const struct http_tunnel_ops *ops, void *data)
{
    loop_timer_stop(tunnel_loop(tunnel), &tunnel->idle);
    tunnel->ops = ops;
    tunnel->data = data;
}

static void tunnel_on_idle(struct loop_timer *timer)
{
    http_tunnel_close(KG_CONTAINER(timer, struct http_tunnel, idle));
}

static size_t tunnel_count_idle(const struct http_nodes *nodes, const char *node)
{
    size_t count = 0;
    for (const struct http_tunnel *at = nodes->tunnels; at != NULL; at = at->next)
        count += at->ops == NULL && strcmp(at->node, node) == 0;
    return count;
}

void http_tunnel_rest(struct http_tunnel *tunnel)
{
    if (tunnel->writing || tunnel_count_idle(tunnel->nodes, tunnel->node) >= IDLE_MAX) {
        http_tunnel_close(tunnel);
        return;
    }
    tunnel->ops = NULL;
    http_tunnel_pause(tunnel, false);
    loop_timer_start(tunnel_loop(tunnel), &tunnel->idle, IDLE_MS, tunnel_on_idle);
}
