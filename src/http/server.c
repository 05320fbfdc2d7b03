/*
 * The socket that the API is reached by, and who may use it. Only the daemon's own user and root
 * get in, and only from the daemon's own user namespace: a caged plugin has the daemon's uid, but
 * never its namespace. The file is 0600 from its first moment.
 */
#include "http/internal.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define PASSWD_BYTES 4096

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

/* -- who is who -------------------------------------------------------------------------------- */

/* A name that does not fit is not cut, since it would then be another's. */
static void name_user(uid_t uid, char ret_name[HTTP_OPERATOR_MAX])
{
    char text[PASSWD_BYTES];
    struct passwd entry, *found = NULL;
    getpwuid_r(uid, &entry, text, sizeof(text), &found);
    if (found != NULL && strlen(found->pw_name) < HTTP_OPERATOR_MAX)
        snprintf(ret_name, HTTP_OPERATOR_MAX, "%s", found->pw_name);
    else
        snprintf(ret_name, HTTP_OPERATOR_MAX, "%u", (unsigned)uid);
}

/*
 * While the pidfd says that the peer lives, its number is not another's. Older kernels have none:
 * *ret_pidfd is -1 then.
 */
static int open_peer(int fd, int *ret_pidfd)
{
    int pidfd;
    socklen_t length = sizeof(pidfd);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &length) == 0)
        *ret_pidfd = pidfd;
    else if (errno == ENOPROTOOPT)
        *ret_pidfd = -1;
    else
        return -errno;
    return 0;
}

static bool server_is_gone(int pidfd)
{
    return pidfd >= 0 && pidfd_send_signal(pidfd, 0, NULL, 0) < 0 && errno == ESRCH;
}

static int stat_user_namespace(const char *process, struct stat *ret_namespace)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%s/ns/user", process);
    return stat(path, ret_namespace) < 0 ? -errno : 0;
}

static int check_namespace(const struct http_server *server, int fd, const struct ucred *peer,
                           struct kg_err *err)
{
    char process[16];
    struct stat theirs = {0};
    kg_auto(kg_close) int pidfd = -1;
    snprintf(process, sizeof(process), "%d", (int)peer->pid);
    int result = open_peer(fd, &pidfd);
    if (result == 0)
        result = stat_user_namespace(process, &theirs);
    if (server_is_gone(pidfd))
        result = -ESRCH;
    /* A user's daemon may not look at root's processes, and none of its cages can hold one. */
    if (result == -EACCES && peer->uid == 0 && geteuid() != 0)
        return 0;
    if (result < 0)
        return kg_fail(err, KG_E_REFUSED, "process %d: look at its user namespace: %s",
                       (int)peer->pid, strerror(-result));
    if (theirs.st_dev != server->user_namespace.st_dev ||
        theirs.st_ino != server->user_namespace.st_ino)
        return kg_fail(err, KG_E_REFUSED,
                       "process %d: it runs in another user namespace than the daemon, as in a "
                       "cage or a container; none of those may use it",
                       (int)peer->pid);
    return 0;
}

int http_server_check_peer(const struct http_server *server, int fd, const struct ucred *peer,
                           char ret_operator[HTTP_OPERATOR_MAX], struct kg_err *err)
{
    if (peer->uid != geteuid() && peer->uid != 0)
        return kg_fail(err, KG_E_REFUSED, "process %d: uid %u may not use the daemon of uid %u",
                       (int)peer->pid, (unsigned)peer->uid, (unsigned)geteuid());
    int result = check_namespace(server, fd, peer, err);
    if (result < 0)
        return result;
    memcpy(ret_operator, peer->uid == geteuid() ? server->own_name : server->root_name,
           HTTP_OPERATOR_MAX);
    return 0;
}

/* -- life -------------------------------------------------------------------------------------- */

struct http_server *http_server_new(struct loop *loop, struct host *host,
                                    const struct http_limits *limits,
                                    const struct http_route *routes, size_t route_count)
{
    struct http_server *server = kg_alloc(sizeof(*server));
    server->loop = loop;
    server->host = host;
    server->limits = *limits;
    server->routes = routes;
    server->route_count = route_count;
    http_index_make(&server->index, routes, route_count);
    server->bodies = http_bodies_new(routes, route_count);
    server->budget = kg_alloc(sizeof(*server->budget));
    server->budget->references = 1;
    uv_pipe_init(loop_uv(loop), &server->listener, 0);
    server->listener.data = server;
    server->open_handles = 1;
    /* Looked up once: the user database may be slow, and the loop must not wait for it. */
    name_user(geteuid(), server->own_name);
    name_user(0, server->root_name);
    /* Unknown, it equals nobody's, and only root gets in. */
    stat_user_namespace("self", &server->user_namespace);
    return server;
}

void http_server_set_sessions(struct http_server *server, struct sessions *sessions)
{
    server->sessions = sessions;
}

void http_server_set_mcp(struct http_server *server, struct mcp *mcp)
{
    server->mcp = mcp;
}

void http_server_set_catalog(struct http_server *server, struct catalog *catalog)
{
    server->catalog = catalog;
}

void http_server_set_native(struct http_server *server, struct native *native)
{
    server->native = native;
}

void http_server_on_refused(struct http_server *server, http_refused_fn *on_refused, void *data)
{
    server->on_refused = on_refused;
    server->refused_data = data;
}

void http_server_set_limits(struct http_server *server, const struct http_limits *limits)
{
    server->limits = *limits;
}

/* Only what this server bound: another daemon may have taken the path since. */
static void remove_socket(struct http_server *server)
{
    struct stat now;
    if (server->path != NULL && lstat(server->path, &now) == 0 &&
        now.st_dev == server->path_device && now.st_ino == server->path_inode)
        unlink(server->path);
    kg_free(&server->path);
}

static void on_listener_closed(uv_handle_t *handle)
{
    http_server_handle_closed(handle->data);
}

void http_server_stop(struct http_server *server)
{
    if (server->stopped)
        return;
    server->stopped = true;
    remove_socket(server);
    uv_close((uv_handle_t *)&server->listener, on_listener_closed);
    if (server->has_tcp)
        uv_close((uv_handle_t *)&server->tcp, on_listener_closed);
    for (struct http_connection *connection = server->connections, *next; connection != NULL;
         connection = next) {
        next = http_connection_next(connection);
        http_connection_stop(connection);
    }
}

void http_server_doubt(struct http_server *server)
{
    for (struct http_connection *connection = server->connections, *next; connection != NULL;
         connection = next) {
        next = http_connection_next(connection);
        http_connection_doubt(connection);
    }
}

static void finish_free(struct loop_task *task)
{
    struct http_server *server = KG_CONTAINER(task, struct http_server, free_task);
    void (*on_freed)(void *data) = server->on_freed;
    void *data = server->data;
    http_index_free(&server->index);
    http_bodies_free(server->bodies, server->route_count);
    http_budget_unref(server->budget);
    free(server);
    if (on_freed != NULL)
        on_freed(data);
}

void http_server_handle_closed(struct http_server *server)
{
    server->open_handles--;
    if (server->freed && server->open_handles == 0)
        loop_defer(server->loop, &server->free_task);
}

void http_server_free(struct http_server *server, void (*on_freed)(void *data), void *data)
{
    if (server == NULL)
        return;
    http_server_stop(server);
    while (server->connections != NULL)
        http_connection_close(server->connections);
    http_nodes_free(server->nodes);
    server->freed = true;
    server->on_freed = on_freed;
    server->data = data;
    server->free_task.run = finish_free;
    if (server->open_handles == 0)
        loop_defer(server->loop, &server->free_task);
}

/* -- listening --------------------------------------------------------------------------------- */

static int make_address(const char *path, struct sockaddr_un *ret_address, struct kg_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length >= sizeof(address.sun_path)) {
        kg_fail(err, KG_E_INVALID_CONFIG,
                "socket %s: bind: the path has %zu bytes, a unix socket's at most %zu", path,
                length, sizeof(address.sun_path) - 1);
        return kg_hint(err, "choose a shorter KAGED_HOME");
    }
    memcpy(address.sun_path, path, length);
    *ret_address = address;
    return 0;
}

/* Removes what a daemon that died has left; refuses if anything else is there. */
static int clear_path(const char *path, const struct sockaddr_un *address, struct kg_err *err)
{
    struct stat there;
    if (lstat(path, &there) < 0)
        return errno == ENOENT ? 0 : kg_fail_errno(err, errno, "socket %s: stat", path);
    if (!S_ISSOCK(there.st_mode))
        return kg_fail(err, KG_E_CONFLICT, "socket %s: bind: another kind of file is there", path);
    kg_auto(kg_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return kg_fail_errno(err, errno, "socket %s: create", path);
    int refused = connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? errno : 0;
    if (refused == 0 || refused == EAGAIN) {
        kg_fail(err, KG_E_CONFLICT, "socket %s: bind: a daemon answers there", path);
        return kg_hint(err, "stop that daemon first, or choose another KAGED_HOME");
    }
    if (refused != ECONNREFUSED && refused != ENOENT)
        return kg_fail_errno(err, refused, "socket %s: look whether a daemon answers", path);
    if (unlink(path) < 0 && errno != ENOENT)
        return kg_fail_errno(err, errno, "socket %s: remove the stale one", path);
    return 0;
}

/* The mode is set before bind, which hands it to the file: no umask, no moment in between. */
static int bind_path(const char *path, const struct sockaddr_un *address, struct stat *ret_status,
                     int *ret_fd, struct kg_err *err)
{
    kg_auto(kg_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || fchmod(fd, 0600) < 0)
        return kg_fail_errno(err, errno, "socket %s: create", path);
    if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
        return kg_fail_errno(err, errno, "socket %s: bind", path);
    if (lstat(path, ret_status) < 0)
        return kg_fail_errno(err, errno, "socket %s: stat", path);
    *ret_fd = kg_steal_fd(&fd);
    return 0;
}

void http_server_on_connection(uv_stream_t *listener, int status)
{
    if (status < 0)
        kg_log(KG_WARN, "http: accept: %s", uv_strerror(status));
    else
        http_connection_accept(listener->data, listener);
}

static int server_start_listening(struct http_server *server, int fd)
{
    int result = uv_pipe_open(&server->listener, fd);
    if (result < 0) {
        close(fd);
        return result;
    }
    return uv_listen((uv_stream_t *)&server->listener, HTTP_LISTEN_BACKLOG,
                     http_server_on_connection);
}

int http_server_listen(struct http_server *server, const char *path, struct kg_err *err)
{
    struct sockaddr_un address;
    struct stat status;
    int fd = -1;
    int result = make_address(path, &address, err);
    if (result < 0)
        return result;
    result = clear_path(path, &address, err);
    if (result < 0)
        return result;
    result = bind_path(path, &address, &status, &fd, err);
    if (result < 0)
        return result;
    server->path = kg_strdup(path);
    server->path_device = status.st_dev;
    server->path_inode = status.st_ino;
    result = server_start_listening(server, fd);
    if (result < 0)
        return kg_fail_errno(err, -result, "socket %s: listen", path);
    return 0;
}

/* Clients look for the socket at `path`: one that listens elsewhere would have none. */
static int server_check_place(int fd, const char *path, struct kg_err *err)
{
    struct sockaddr_un address = {0};
    socklen_t length = sizeof(address) - 1; /* so that a path ends with a NUL */
    struct stat theirs, ours;
    if (getsockname(fd, (struct sockaddr *)&address, &length) < 0)
        return kg_fail_errno(err, errno, "socket that was passed: where it listens");
    if (strcmp(address.sun_path, path) == 0 ||
        (stat(address.sun_path, &theirs) == 0 && stat(path, &ours) == 0 &&
         theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino))
        return 0;
    kg_fail(err, KG_E_INVALID_CONFIG, "socket that was passed: it listens at \"%s\", not at %s",
            address.sun_path, path);
    return kg_hint(err, "let the unit of the socket have ListenStream=%s", path);
}

int http_server_adopt(struct http_server *server, int fd, const char *path, struct kg_err *err)
{
    int result = server_check_place(fd, path, err);
    if (result < 0) {
        close(fd);
        return result;
    }
    result = server_start_listening(server, fd);
    return result < 0 ? kg_fail_errno(err, -result, "socket %s: listen", path) : 0;
}
