/*
 * The daemon, from its start to its end. Read top to bottom, cli_start is the order in which it
 * must happen: config, folders, lock, spawner (before the first thread), then everything else on
 * the loop.
 */
#include "cli/cli.h"

#include "catalog/catalog.h"
#include "cli/start_hooks.h"
#include "cluster/cluster.h"
#include "cluster/link.h"
#include "http/http.h"
#include "mcp/mcp.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CAGES_END_MS      2000 /* for cages that were killed to be told as gone */
#define STOP_AGAIN_MAX_MS 5000 /* after a second request: every plugin is killed by then */
#define LOG_CHECK_MS      60000
#define LOCK_WAIT_MS      5000 /* a change of the plugin store takes less */
#define LOCK_TRY_MS       20
#define READY             "ready\n"
#define STATUS_MS         10000 /* between two looks at what the service manager was told */

struct daemon {
    const struct config_paths *paths;
    struct config *config; /* until the host takes it */
    int lock_fd;
    int ready_fd;            /* told "ready" once; -1: nobody waits */
    int parent_fd;           /* of `kaged start` that waits for us; -1 in the foreground */
    struct cage_owner owner; /* whom it runs as */
    struct cage_checks checks;
    struct cage_facts *facts;
    struct kg_err no_cage;
    char *cages; /* owned; what the checks found, in words */
    char *user;  /* owned; the owner's name */
    struct cage_spawner *spawner;
    struct loop *loop;
    struct host *host;
    struct sessions *sessions;
    struct mcp *mcp;
    struct catalog *catalog;
    struct http_server *server;
    struct http_auth *auth;
    struct native *native;
    struct start_hooks *hooks;
    bool insecure;
    struct systemd *systemd;         /* also where there is none */
    size_t told_running, told_count; /* plugins, as the service manager knows them */
    uv_signal_t signals[3];
    struct loop_timer stop_timer;
    struct loop_timer log_timer; /* looks at the size of our own log */
    struct loop_timer status_timer;
    struct audit_listener status_listener; /* while that timer does not run */
    int exit_code;
};

/* -- before the loop --------------------------------------------------------------------------- */

static pid_t lock_owner(int fd)
{
    char text[16] = {0};
    int64_t pid = 0;
    ssize_t got = pread(fd, text, sizeof(text) - 1, 0);
    if (got > 0)
        kg_str_to_int((struct kg_str){text, strcspn(text, "\n")}, &pid);
    return (pid_t)pid;
}

static int cli_start_fail_locked(const struct daemon *daemon, struct kg_err *err)
{
    kg_fail(err, KG_E_CONFLICT, "kaged is already running here: process %d holds %s",
            (int)lock_owner(daemon->lock_fd), daemon->paths->pid_file);
    kg_hint(err, "stop it with: kaged stop; or choose another folder with --home");
    return -EBUSY;
}

/* The lock is held for as long as the daemon lives, whatever way it ends. */
static int cli_start_take_lock(struct daemon *daemon, struct kg_err *err)
{
    const char *path = daemon->paths->pid_file;
    daemon->lock_fd =
        user_open(&daemon->owner, path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (daemon->lock_fd < 0)
        return kg_fail_errno(err, errno, "open lock file %s", path);
    /* Nobody's pid in it: a command that works without a daemon is about to be done. */
    uint64_t until_ms = kg_monotonic_ms() + LOCK_WAIT_MS;
    while (flock(daemon->lock_fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return kg_fail_errno(err, errno, "lock %s", path);
        if (lock_owner(daemon->lock_fd) != 0 || kg_monotonic_ms() > until_ms)
            return cli_start_fail_locked(daemon, err);
        cli_pause_ms(LOCK_TRY_MS);
    }
    return 0;
}

static int write_pid(struct daemon *daemon, struct kg_err *err)
{
    char text[16];
    int length = snprintf(text, sizeof(text), "%d\n", (int)getpid());
    if (ftruncate(daemon->lock_fd, 0) < 0 ||
        pwrite(daemon->lock_fd, text, (size_t)length, 0) != length)
        return kg_fail_errno(err, errno, "write %s", daemon->paths->pid_file);
    return 0;
}

/* Each plugin takes a handful of descriptors; the cage gives its children ordinary limits again. */
/* A core file would have every secret in it. */
static void forbid_core_files(void)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
}

static void raise_fd_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* -- going to the background ------------------------------------------------------------------- */

/* The parent waits until the child is ready, and prints what it lacks, or why it is not. */
static int wait_for_child(int fd, pid_t child)
{
    char text[1024];
    size_t length = 0;
    ssize_t got;
    while (length < sizeof(text) - 1 &&
           ((got = read(fd, text + length, sizeof(text) - 1 - length)) > 0 ||
            (got < 0 && errno == EINTR)))
        length += got > 0 ? (size_t)got : 0;
    text[length] = '\0';
    if (kg_str_starts(kg_str(text), READY)) {
        printf("kaged is running (pid %d)\n", (int)child);
        fflush(stdout);
        fputs(text + strlen(READY), stderr);
        return 0;
    }
    int status = 0;
    waitpid(child, &status, 0);
    fputs(length > 0 ? text : "kaged: the daemon ended before it was ready\n", stderr);
    return WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : 1;
}

static int redirect_to_log(const struct daemon *daemon, struct kg_err *err)
{
    kg_auto(kg_free) char *path = kg_format("%s/kaged.log", daemon->paths->logs_dir);
    kg_auto(kg_close) int log =
        user_open(&daemon->owner, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    kg_auto(kg_close) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (log < 0 || null < 0)
        return kg_fail_errno(err, errno, "open log file %s", path);
    if (dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        dup2(log, STDERR_FILENO) < 0)
        return kg_fail_errno(err, errno, "redirect to %s", path);
    return 0;
}

/* Our own log is a file only in the background; past the bound it is put aside and begun anew. */
static void on_log_check(struct loop_timer *timer)
{
    struct daemon *daemon = KG_CONTAINER(timer, struct daemon, log_timer);
    struct stat log;
    struct kg_err err;
    loop_timer_start(daemon->loop, timer, LOG_CHECK_MS, on_log_check);
    if (fstat(STDERR_FILENO, &log) < 0 ||
        log.st_size <= host_config(daemon->host)->logging_rotate_bytes)
        return;
    kg_auto(kg_free) char *path = kg_format("%s/kaged.log", daemon->paths->logs_dir);
    kg_auto(kg_free) char *old = kg_format("%s.1", path);
    if (rename(path, old) < 0 || redirect_to_log(daemon, &err) < 0)
        kg_log(KG_WARN, "rotate %s: %s", path, strerror(errno));
}

/* Where somebody looks: the terminal, or the `kaged start` that waits for us. */
static int report_failure(struct daemon *daemon, const struct kg_err *err)
{
    systemd_tell(daemon->systemd, "", "%s", err->message);
    if (daemon->parent_fd < 0)
        return print_error(err);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    print_put_problem(&text, kg_str(err->message), kg_str(err->hint));
    (void)kg_write_all(daemon->parent_fd, text.data, text.length);
    kg_close(&daemon->parent_fd);
    return kg_error_row(err->code)->exit_code;
}

/* Returns in the child only; *ret_exit_code is the parent's. */
static bool fork_away(struct daemon *daemon, int *ret_exit_code, struct kg_err *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0) {
        kg_fail_errno(err, errno, "make a pipe");
        *ret_exit_code = print_error(err);
        return false;
    }
    pid_t child = fork();
    if (child != 0) {
        close(fds[1]);
        *ret_exit_code = child > 0 ? wait_for_child(fds[0], child) : 1;
        close(fds[0]);
        return false;
    }
    close(fds[0]);
    daemon->parent_fd = fds[1];
    setsid();
    /* Before the spawner is started: it would hold on to the terminal otherwise. */
    if (redirect_to_log(daemon, err) == 0)
        return true;
    *ret_exit_code = report_failure(daemon, err);
    return false;
}

static void tell_ready(struct daemon *daemon)
{
    int *const fds[] = {&daemon->ready_fd, &daemon->parent_fd};
    for (size_t i = 0; i < KG_COUNT(fds); i++)
        if (*fds[i] >= 0)
            (void)kg_write_all(*fds[i], READY, strlen(READY));
    const char *no_tcp = http_server_tcp_problem(daemon->server);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (no_tcp != NULL && daemon->parent_fd >= 0) {
        kg_auto(kg_free) char *message = kg_format("no HTTP over TCP: %s", no_tcp);
        print_put_problem(&text, kg_str(message),
                          KG_STR("kaged config set daemon.bind 127.0.0.1:PORT"));
        (void)kg_write_all(daemon->parent_fd, text.data, text.length);
    }
    kg_close(&daemon->ready_fd);
    kg_close(&daemon->parent_fd);
}

/* -- the service manager ----------------------------------------------------------------------- */

static size_t count_running(const struct host *host, size_t *ret_count)
{
    size_t running = 0;
    kg_auto(kg_free) struct host_named *names = host_names(host, ret_count);
    for (size_t i = 0; i < *ret_count; i++)
        running += host_status(names[i]).state == INSTANCE_RUNNING;
    return running;
}

static void tell_plugins(struct daemon *daemon, const char *state)
{
    daemon->told_running = count_running(daemon->host, &daemon->told_count);
    systemd_tell(daemon->systemd, state, "%zu of %zu plugins running; cages: %s",
                 daemon->told_running, daemon->told_count, daemon->cages);
}

static void on_status_check(struct loop_timer *timer)
{
    struct daemon *daemon = KG_CONTAINER(timer, struct daemon, status_timer);
    size_t count, running = count_running(daemon->host, &count);
    audit_listen(host_audit(daemon->host), &daemon->status_listener);
    if (!host_is_stopping(daemon->host) &&
        (running != daemon->told_running || count != daemon->told_count))
        tell_plugins(daemon, "");
}

/* Whatever changes the figures is an event; while there is none, nothing wakes the daemon. */
static void cli_start_on_event(struct audit_listener *listener, struct kg_str line,
                               enum audit_event event)
{
    (void)line, (void)event;
    struct daemon *daemon = KG_CONTAINER(listener, struct daemon, status_listener);
    audit_unlisten(host_audit(daemon->host), listener);
    loop_timer_start(daemon->loop, &daemon->status_timer, STATUS_MS, on_status_check);
}

static void on_reloading(void *data, bool begins)
{
    struct daemon *daemon = data;
    if (begins)
        systemd_tell_reloading(daemon->systemd);
    else
        tell_plugins(daemon, "READY=1");
}

/* -- on the loop ------------------------------------------------------------------------------- */

static struct http_limits http_limits(const struct config *config)
{
    return (struct http_limits){
        .header_bytes = (size_t)config->limits_http_header_bytes,
        .body_bytes = (size_t)config->limits_http_body_bytes,
        .connections = (size_t)config->limits_http_connections,
        .idle_ms = (uint64_t)config->limits_http_idle_ms,
        .websockets = (size_t)config->limits_ws_connections,
        .websocket_queue_bytes = (size_t)config->limits_ws_queue_bytes,
        .websocket_ping_ms = (uint64_t)config->limits_ws_ping_ms,
        .bodies_bytes = (size_t)config->limits_http_bodies_bytes,
    };
}

static struct http_auth_limits auth_limits(const struct config *config)
{
    return (struct http_auth_limits){
        .hosts = config->auth_hosts,
        .session_ms = config->auth_session_hours * 60 * 60 * 1000,
        .failures_per_min = (uint32_t)config->auth_failures_per_min,
    };
}

static void cli_start_on_reloaded(void *data)
{
    struct daemon *daemon = data;
    if (daemon->server == NULL)
        return;
    struct http_limits limits = http_limits(host_config(daemon->host));
    struct http_auth_limits who = auth_limits(host_config(daemon->host));
    http_server_set_limits(daemon->server, &limits);
    http_auth_set_limits(daemon->auth, &who);
    native_see_reload(daemon->native, host_local(daemon->host));
}

static void cli_start_on_refused(void *data, uid_t uid, pid_t pid, const char *reason)
{
    struct daemon *daemon = data;
    audit_emit(host_audit(daemon->host), AUDIT_AUTH_PEER_REFUSED, KG_STR_NULL, AUDIT_V_INT(uid),
               AUDIT_V_INT(pid), AUDIT_V_TEXT(reason));
}

static void on_server_freed(void *data)
{
    struct daemon *daemon = data;
    daemon->server = NULL;
    loop_timer_stop(daemon->loop, &daemon->stop_timer);
    loop_timer_stop(daemon->loop, &daemon->log_timer);
    loop_timer_stop(daemon->loop, &daemon->status_timer);
    audit_unlisten(host_audit(daemon->host), &daemon->status_listener);
    systemd_detach(daemon->systemd);
    loop_stop(daemon->loop);
}

static void on_native_stopped(void *data)
{
    struct daemon *daemon = data;
    http_server_free(daemon->server, on_server_freed, daemon);
}

static void on_models_gone(void *data)
{
    struct daemon *daemon = data;
    native_stop(daemon->native, on_native_stopped, daemon);
}

static void on_host_stopped(void *data)
{
    struct daemon *daemon = data;
    sessions_when_stopped(daemon->sessions, on_models_gone, daemon);
}

/* Whatever hangs, the daemon does not: the spawner ends with it, and with that every cage. */
static void on_kill_deadline(struct loop_timer *timer)
{
    (void)timer;
    kg_log(KG_ERROR_LEVEL, "stopping took too long; leaving at once");
    _exit(1);
}

static void cli_start_stop(struct daemon *daemon, const char *reason);

static void on_stop_deadline(struct loop_timer *timer)
{
    struct daemon *daemon = KG_CONTAINER(timer, struct daemon, stop_timer);
    kg_log(KG_WARN, "stopping took longer than limits.stop_timeout_ms: what is left is killed");
    cli_start_stop(daemon, "stopping took too long");
}

/* The socket stays open, so that whoever asks hears that the daemon is stopping. */
static void cli_start_stop(struct daemon *daemon, const char *reason)
{
    if (daemon->server == NULL)
        return; /* all is done; this turn of the loop is the last */
    bool again = host_is_stopping(daemon->host);
    systemd_tell(daemon->systemd, "STOPPING=1", "%s: plugins are asked to leave", reason);
    uint64_t most_ms =
        again ? STOP_AGAIN_MAX_MS : (uint64_t)host_config(daemon->host)->limits_stop_timeout_ms;
    loop_timer_start(daemon->loop, &daemon->stop_timer, most_ms,
                     again ? on_kill_deadline : on_stop_deadline);
    if (!again)
        native_tell(daemon->native, NATIVE_DAEMON_SHUTDOWN, AUDIT_V_TEXT(reason));
    mcp_stop(daemon->mcp);
    catalog_stop(daemon->catalog);
    sessions_stop(daemon->sessions);
    host_stop(daemon->host, reason, on_host_stopped, daemon);
}

static void on_reload_done(void *data, struct kg_str changed, const struct kg_err *err_or_null)
{
    (void)data, (void)changed;
    if (err_or_null != NULL)
        kg_log(KG_ERROR_LEVEL, "reload: the old configuration stays: %s", err_or_null->message);
}

static void cli_start_on_signal(uv_signal_t *handle, int number)
{
    struct daemon *daemon = handle->data;
    if (daemon->server == NULL)
        return;
    if (number != SIGHUP) {
        cli_start_stop(daemon, number == SIGINT ? "interrupted" : "asked to terminate");
        return;
    }
    host_reload(daemon->host, NULL, on_reload_done, daemon);
}

/* Without the spawner no plugin runs and none can be started: whoever supervises us starts anew. */
static void cli_start_on_spawner_lost(void *data)
{
    struct daemon *daemon = data;
    kg_log(KG_ERROR_LEVEL, "the spawner is gone, and every plugin with it; stopping");
    daemon->exit_code = 1;
    cli_start_stop(daemon, "the spawner is gone");
}

static void watch_signals(struct daemon *daemon)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < KG_COUNT(numbers); i++) {
        uv_signal_init(loop_uv(daemon->loop), &daemon->signals[i]);
        daemon->signals[i].data = daemon;
        uv_signal_start(&daemon->signals[i], cli_start_on_signal, numbers[i]);
    }
}

static void look_at_cages(struct daemon *daemon)
{
    struct cage_site site = {.owner = &daemon->owner,
                             .plugins_dir = config_plugins_dir(daemon->config, daemon->paths)};
    daemon->facts = cage_facts_check(&site, &daemon->checks, &daemon->no_cage);
    daemon->cages = cage_checks_words(&daemon->checks);
    const struct passwd *entry = getpwuid(daemon->owner.uid);
    daemon->user = entry ? kg_strdup(entry->pw_name) : kg_format("%u", (unsigned)daemon->owner.uid);
}

/* Each layer that is lacking is said once, at the start. */
static void log_cages(const struct daemon *daemon)
{
    for (size_t i = 0; i < daemon->checks.count; i++) {
        const struct cage_check *check = &daemon->checks.items[i];
        if (check->status == CAGE_STATUS_DEGRADED)
            kg_log(KG_WARN, "cages are degraded: %s: %s: %s; to fix it: %s", check->name,
                   check->detail, check->means, check->remedy);
    }
    if (daemon->facts == NULL)
        kg_log(KG_ERROR_LEVEL, "no plugin can be started: %s; to fix it: %s",
               daemon->no_cage.message, daemon->no_cage.hint);
}

/* How much of the disk it may have. */
static void log_audit(const struct config *config)
{
    long long size_mb = config->audit_rotate_mb, keep = config->audit_keep;
    if (keep == 0)
        kg_log(KG_INFO, "audit log: all of it is kept, as audit.keep = 0 says");
    else
        kg_log(KG_INFO,
               "audit log: the last %lld files of %lld MiB are kept (audit.keep, audit.rotate_mb)",
               keep, size_mb);
}

/* Threads that allocate little share one heap: one each would keep what it once needed for good. */
static void share_heap(void)
{
    mallopt(M_ARENA_MAX, 1);
}

static int cli_start_prepare(struct daemon *daemon, struct kg_err *err)
{
    forbid_core_files();
    raise_fd_limit();
    share_heap();
    int result = write_pid(daemon, err);
    if (result < 0)
        return result;
    look_at_cages(daemon);
    daemon->owner.uids.file = daemon->paths->uids_file;
    daemon->spawner = cage_spawner_start_for(&daemon->owner, err);
    if (daemon->spawner == NULL)
        return -EINVAL;
    return user_become(&daemon->owner, err);
}

/* -- TCP --------------------------------------------------------------------------------------- */

static void on_credentials_gone(void *data)
{
    const struct daemon *daemon = data;
    if (daemon->server != NULL)
        http_server_doubt(daemon->server);
}

static int open_auth(struct daemon *daemon, struct kg_err *err)
{
    const struct config *config = host_config(daemon->host);
    kg_auto(kg_buf_free) struct kg_buf nonce = {0};
    bool proxy = strcmp(config->auth_mode, "proxy") == 0;
    if (daemon->insecure && (proxy || config->daemon_bind[0] == '\0'))
        return kg_fail(err, KG_E_USAGE, "--insecure needs %s",
                       proxy ? "auth.mode local" : "an address in daemon.bind");
    int result = settings_read_nonce(config, &nonce, err);
    if (result < 0)
        return result;
    const struct http_auth_options options = {
        .keeper = host_keeper(daemon->host),
        .audit = host_audit(daemon->host),
        .native = daemon->native,
        .catalog = daemon->catalog,
        .launch_file = daemon->paths->launch_file,
        .mode = daemon->insecure ? HTTP_AUTH_INSECURE
                : proxy          ? HTTP_AUTH_PROXY
                                 : HTTP_AUTH_LOCAL,
        .nonce = kg_buf_view(&nonce),
        .nodes = host_nodes(daemon->host),
        .on_gone = on_credentials_gone,
        .data = daemon,
    };
    struct http_auth_limits limits = auth_limits(config);
    daemon->auth = http_auth_new(daemon->loop, &options, &limits, err);
    http_server_set_auth(daemon->server, daemon->auth);
    return daemon->auth != NULL ? 0 : -EINVAL;
}

/* Nobody asked for the default: where it cannot be had, the unix socket is enough. */
static int open_tcp(struct daemon *daemon, struct kg_err *err)
{
    const struct config *config = host_config(daemon->host);
    if (config->daemon_bind[0] == '\0')
        return 0;
    int result = http_server_listen_tcp(daemon->server, config->daemon_bind, err);
    if (result < 0 && !daemon->insecure && !config_says(config, "daemon", "bind")) {
        kg_log(KG_WARN, "no HTTP over TCP: %s", err->message);
        return 0;
    }
    if (result == 0 && daemon->insecure)
        kg_log(KG_WARN, "insecure: everybody on this machine may use %s",
               http_server_address(daemon->server));
    return result < 0 ? result : http_server_offer_launch(daemon->server, err);
}

/* -- other nodes ------------------------------------------------------------------------------- */

static const char *node_holder(void *data, const char *project)
{
    const struct cluster *nodes = data;
    const char *holder = cluster_holder(nodes, project);
    return holder != NULL && strcmp(holder, cluster_self(nodes)) != 0 ? holder : NULL;
}

static const char *node_address(void *data, const char *name)
{
    const struct cluster_node *node = cluster_node_find(data, name);
    return node != NULL && node->is_alive && node->address[0] != '\0' ? node->address : NULL;
}

static int check_keys(int found, struct kg_err *err)
{
    if (found <= 0)
        return found;
    kg_fail(err, KG_E_INVALID_CONFIG,
            "cluster.listen is set, but this home has no keys of a "
            "cluster");
    return kg_hint(err, "kaged cluster init makes them, kaged cluster join TOKEN brings them");
}

/* Where there are no other nodes, nobody listens for them. */
static int open_nodes(struct daemon *daemon, struct kg_err *err)
{
    struct cluster *nodes = host_nodes(daemon->host);
    const struct config *config = host_config(daemon->host);
    kg_auto(link_keys_free) struct link_keys keys = {0};
    if (config->cluster_listen[0] == '\0')
        return 0;
    if (nodes == NULL)
        return kg_fail(err, KG_E_INVALID_CONFIG, "cluster.listen needs cluster.database");
    int result = check_keys(link_keys_read(daemon->paths->cluster_keys, &keys, err), err);
    if (result < 0)
        return result;
    const struct http_nodes_options options = {
        .node = cluster_self(nodes),
        .listen = config->cluster_listen,
        .address = config->cluster_address,
        .keys = &keys,
        .audit = host_audit(daemon->host),
        .place = {.holder = node_holder, .address = node_address, .data = nodes},
    };
    const struct http_nodes *opened = http_nodes_new(daemon->server, &options, err);
    if (opened == NULL)
        return -EINVAL;
    cluster_set_address(nodes, http_nodes_address(opened));
    kg_log(KG_INFO, "other nodes reach this one, %s, at %s", cluster_self(nodes),
           http_nodes_address(opened));
    return 0;
}

/* The service manager's socket, if it made one: then clients can come before the daemon. */
static int listen_unix(struct daemon *daemon, struct kg_err *err)
{
    kg_auto(kg_close) int passed = systemd_take_socket(daemon->systemd, AF_UNIX);
    systemd_close_rest(daemon->systemd);
    return passed >= 0
               ? http_server_adopt(daemon->server, kg_steal_fd(&passed), daemon->paths->socket, err)
               : http_server_listen(daemon->server, daemon->paths->socket, err);
}

static int open_native(struct daemon *daemon, struct kg_err *err)
{
    const struct native_parts parts = {
        .place = {.loop = daemon->loop,
                  .spawner = daemon->spawner,
                  .gate = host_gate(daemon->host)},
        .facts = daemon->facts,
        .audit = host_audit(daemon->host),
        .local = host_local(daemon->host),
        .local_file = daemon->paths->local_file,
        .state_dir = daemon->paths->state_dir,
    };
    daemon->native = native_open(&parts, err);
    if (daemon->native == NULL)
        return -EINVAL;
    daemon->hooks = start_hooks_open(daemon->host, daemon->native);
    http_server_set_native(daemon->server, daemon->native);
    return 0;
}

static int open_for_business(struct daemon *daemon, struct kg_err *err)
{
    daemon->loop = loop_new();
    watch_signals(daemon);
    int result =
        cage_spawner_attach(daemon->spawner, daemon->loop, cli_start_on_spawner_lost, daemon, err);
    if (result < 0)
        return result;
    struct host_parts parts = {
        .loop = daemon->loop,
        .spawner = daemon->spawner,
        .facts = daemon->facts,
        .no_cage = &daemon->no_cage,
        .cages = daemon->cages,
        .checks = &daemon->checks,
        .user = daemon->user,
        .paths = daemon->paths,
        .config = kg_steal(&daemon->config),
        .on_reloaded = cli_start_on_reloaded,
        .on_reloading = on_reloading,
        .data = daemon,
    };
    daemon->host = host_new(&parts, err);
    if (daemon->host == NULL)
        return -EINVAL;
    projects_open(daemon->host);
    const struct sessions_parts sessions = {
        .loop = daemon->loop, .host = daemon->host, .state_db = daemon->paths->state_db};
    daemon->sessions = sessions_new(&sessions, err);
    if (daemon->sessions == NULL)
        return -EINVAL;
    struct http_limits limits = http_limits(host_config(daemon->host));
    daemon->server =
        http_server_new(daemon->loop, daemon->host, &limits, http_routes, http_route_count);
    daemon->mcp = mcp_new(daemon->host, err);
    if (daemon->mcp == NULL)
        return -EINVAL;
    const struct catalog_parts catalog = {.loop = daemon->loop,
                                          .host = daemon->host,
                                          .spawner = daemon->spawner,
                                          .facts = daemon->facts,
                                          .sessions = daemon->sessions};
    daemon->catalog = catalog_new(&catalog, err);
    if (daemon->catalog == NULL)
        return -EINVAL;
    http_server_set_catalog(daemon->server, daemon->catalog);
    http_server_set_sessions(daemon->server, daemon->sessions);
    http_server_set_mcp(daemon->server, daemon->mcp);
    http_server_on_refused(daemon->server, cli_start_on_refused, daemon);
    result = http_parser_check(err);
    if (result == 0)
        result = open_native(daemon, err);
    if (result == 0)
        result = open_auth(daemon, err);
    if (result == 0)
        result = open_nodes(daemon, err);
    if (result == 0)
        result = listen_unix(daemon, err);
    return result < 0 ? result : open_tcp(daemon, err);
}

/*
 * Once libuv lets go of a signal it is deadly again, and a second SIGTERM must not cut the orderly
 * end short. By now this is the only thread, so blocking it here is enough.
 */
static void close_signals(struct daemon *daemon)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (size_t i = 0; i < KG_COUNT(daemon->signals); i++)
        if (daemon->signals[i].data != NULL)
            uv_close((uv_handle_t *)&daemon->signals[i], NULL);
}

static bool cages_are_gone(void *spawner)
{
    return cage_spawner_is_idle(spawner);
}

static void tear_down(struct daemon *daemon)
{
    if (daemon->server != NULL) {
        http_server_free(daemon->server, on_server_freed, daemon);
        loop_run(daemon->loop);
    }
    http_auth_free(daemon->auth);
    mcp_free(daemon->mcp);
    catalog_free(daemon->catalog);
    sessions_free(daemon->sessions);
    /* A snapshot that was withdrawn lets go of its memory when its cage has ended. */
    if (daemon->spawner != NULL && daemon->loop != NULL)
        (void)loop_run_until(daemon->loop, cages_are_gone, daemon->spawner, CAGES_END_MS);
    start_hooks_close(daemon->hooks);
    native_free(daemon->native);
    host_free(daemon->host);
    cage_spawner_free(daemon->spawner);
    cage_facts_free(daemon->facts);
    cage_checks_free(&daemon->checks);
    free(daemon->cages);
    free(daemon->user);
    if (daemon->loop != NULL)
        close_signals(daemon);
    loop_free(daemon->loop);
    config_free(daemon->config);
    systemd_free(daemon->systemd);
    kg_close(&daemon->ready_fd);
    kg_close(&daemon->parent_fd);
    kg_close(&daemon->lock_fd);
}

static int cli_start_run(struct daemon *daemon)
{
    struct kg_err err = {0};
    if (cli_start_prepare(daemon, &err) < 0 || open_for_business(daemon, &err) < 0)
        return report_failure(daemon, &err);
    log_cages(daemon);
    const struct cage_limits *limits = cage_spawner_limits(daemon->spawner);
    kg_log(limits->mode == CAGE_LIMITS_NONE ? KG_WARN : KG_INFO, "limits: %s", limits->words);
    log_audit(host_config(daemon->host));
    if (daemon->parent_fd >= 0)
        loop_timer_start(daemon->loop, &daemon->log_timer, LOG_CHECK_MS, on_log_check);
    host_start(daemon->host);
    catalog_start(daemon->catalog);
    const char *tcp = http_server_address(daemon->server);
    kg_log(KG_INFO, "kaged %s is listening on %s%s%s", KAGED_VERSION, daemon->paths->socket,
           tcp ? " and " : "", tcp ? tcp : "");
    tell_ready(daemon);
    native_tell(daemon->native, NATIVE_DAEMON_READY, AUDIT_V_TEXT(KAGED_VERSION),
                AUDIT_V_INT(getpid()), AUDIT_V_TEXT(daemon->paths->socket), AUDIT_V_TEXT(tcp));
    tell_plugins(daemon, "READY=1");
    systemd_attach(daemon->systemd, daemon->loop);
    daemon->status_listener.on_event = cli_start_on_event;
    audit_listen(host_audit(daemon->host), &daemon->status_listener);
    loop_run(daemon->loop);
    return daemon->exit_code;
}

int cli_start(struct cli *cli)
{
    struct kg_err err = {0};
    struct daemon daemon = {.paths = &cli->paths, .lock_fd = -1, .ready_fd = -1, .parent_fd = -1};
    int64_t ready_fd = -1;
    int exit_code = 0;
    if (cli_option_number(cli, "ready-fd", 3, 1 << 20, &ready_fd, &err) < 0)
        return print_error(&err);
    if (ready_fd >= 0 && fcntl((int)ready_fd, F_SETFD, FD_CLOEXEC) < 0) {
        kg_fail(&err, KG_E_USAGE, "--ready-fd %d is not an open file descriptor", (int)ready_fd);
        return print_error(&err);
    }
    daemon.ready_fd = (int)ready_fd;
    daemon.systemd = systemd_meet(&err);
    if (daemon.systemd == NULL) {
        kg_close(&daemon.ready_fd);
        return print_error(&err);
    }
    if (cli_has(cli, "no-sandbox"))
        fputs("kaged: --no-sandbox does not apply to plugins: they are always caged\n", stderr);
    daemon.insecure = cli_has(cli, "insecure");
    umask(077);
    daemon.config = config_load(cli->paths.config_file, &err);
    if (daemon.config != NULL)
        config_apply_logging(daemon.config);
    if (daemon.config == NULL || settings_check(daemon.config, cli->paths.config_file, &err) < 0 ||
        user_find(daemon.config, &daemon.owner, &err) < 0 ||
        config_paths_make(&cli->paths, daemon.owner.uid, &err) < 0 ||
        user_give_folders(&cli->paths, &daemon.owner, &err) < 0 ||
        cli_start_take_lock(&daemon, &err) < 0)
        exit_code = print_error(&err);
    else if (cli_has(cli, "foreground") || fork_away(&daemon, &exit_code, &err))
        exit_code = cli_start_run(&daemon);
    tear_down(&daemon);
    return exit_code;
}
