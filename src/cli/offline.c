/*
 * A change of the home where no daemon runs. The lock is the pid file's, which a daemon holds for
 * life and a command for the moment of its change.
 */
#include "cli/offline.h"

#include "cage/cage.h"
#include "cli/install.h"
#include "host/cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <unistd.h>

#define LOCK_WAIT_MS 30000
#define LOCK_TRY_MS  20

/* A daemon holds it for life, another command for the moment of its change. */
static int offline_wait_for_lock(const struct cli *cli, int fd, struct kg_err *err)
{
    uint64_t until_ms = kg_monotonic_ms() + LOCK_WAIT_MS;
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return kg_fail_errno(err, errno, "lock %s", cli->paths.pid_file);
        if (door_daemon_runs(cli)) {
            kg_fail(err, KG_E_CONFLICT, "kaged was started meanwhile, so nothing was done");
            kg_hint(err, "run the command again: it will ask the daemon");
            return -EBUSY;
        }
        if (kg_monotonic_ms() > until_ms)
            return kg_fail(err, KG_E_CONFLICT, "another command has held %s for %d s",
                           cli->paths.pid_file, LOCK_WAIT_MS / 1000);
        cli_pause_ms(LOCK_TRY_MS);
    }
    return 0;
}

/* Empty, it names no daemon. */
int offline_lock(const struct cli *cli, struct kg_err *err)
{
    const char *path = cli->paths.pid_file;
    kg_auto(kg_close) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return kg_fail_errno(err, errno, "open lock file %s", path);
    int result = offline_wait_for_lock(cli, fd, err);
    if (result < 0)
        return result;
    if (ftruncate(fd, 0) < 0)
        return kg_fail_errno(err, errno, "empty %s", path);
    return kg_steal_fd(&fd);
}

int offline_begin(const struct cli *cli, const struct config *config, struct loop *loop,
                  struct offline *ret_offline, struct kg_err *err)
{
    const struct config_paths *paths = &cli->paths;
    kg_auto(kg_close) int lock_fd = offline_lock(cli, err);
    if (lock_fd < 0)
        return lock_fd;
    const struct audit_options options = {
        .dir = paths->audit_dir,
        .state_db = paths->state_db,
        .key_file = paths->audit_key,
        .rotate_bytes = (uint64_t)config->audit_rotate_mb * 1024 * 1024,
        .keep = (unsigned)config->audit_keep,
        .seal_interval_ms = (uint64_t)config->audit_seal_interval_ms,
        .queue_bytes = (size_t)config->audit_queue_bytes,
    };
    struct audit *audit = audit_open(loop, &options, err);
    if (audit == NULL)
        return -EIO;
    *ret_offline = (struct offline){kg_steal_fd(&lock_fd), audit, NULL};
    return 0;
}

int offline_join(const struct cli *cli, const struct config *config, struct offline *offline,
                 struct kg_err *err)
{
    struct local *local = cli_local_read(cli, err);
    int result = local != NULL
                     ? host_cluster_join(config, local, &cli->paths, &offline->cluster, err)
                     : -EINVAL;
    local_free(local);
    return result;
}

void offline_end(struct offline *offline)
{
    audit_close(offline->audit);
    state_cluster_leave(offline->cluster);
    kg_close(&offline->lock_fd);
}

int offline_become(const struct cli *cli, const struct config *config, struct kg_err *err)
{
    struct cage_owner owner;
    if (user_find(config, &owner, err) < 0 || config_paths_make(&cli->paths, owner.uid, err) < 0 ||
        user_give_folders(&cli->paths, &owner, err) < 0)
        return -EINVAL;
    return user_become(&owner, err);
}

char *offline_operator(void)
{
    const struct passwd *user = getpwuid(getuid());
    return kg_strdup(user != NULL ? user->pw_name : "");
}
