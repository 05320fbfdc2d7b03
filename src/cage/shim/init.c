/*
 * kaged-cage-init: what runs right before bwrap and right after it.
 *
 * After it, it is the first program in a cage. It puts stdin and stdout in their place, lets no
 * other fd but stderr through, and follows its orders: it sets the limits that count per cage or
 * process, asks Landlock for the second layer, looks whether what was bound is what was opened, has
 * what follows watched if it is to be, and becomes the command. It runs before any of the plugin's
 * code, says on a pipe of the spawner that it did, and says there too if the command could not be
 * run. Without orders it runs nothing.
 *
 * Before it, it makes the namespaces that every cage has, says on that pipe whether it could, and
 * becomes bwrap.
 *
 * usage: kaged-cage-init PIPE STDIN STDOUT ORDERS
 *        kaged-cage-init ahead PIPE HOSTNAME BWRAP ARGV0 WORD...
 */
#include "bare.h"
#include "landlock.h"
#include "mounts.h"
#include "namespaces.h"
#include "orders.h"
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST_OTHER_FD 3
#define OLD_KERNEL_FDS 1024
#define SIGNALS_QUEUED 1024 /* all cages of a user share what the kernel grants him */

/* The spawner knows these letters as CAGE_RAN, CAGE_FAILED and CAGE_AHEAD. */
static const char ran = 'R';
static const char failed = 'F';
static const char ahead = 'A';

static int init_fail(const char *what, long result)
{
    bare_complain("cannot run ", what, (int)-result);
    return result == -EACCES || result == -EPERM ? 126 : 127;
}

/* A limit that is lower already stays. */
static long init_limit(int resource, uint64_t value)
{
    struct {
        uint64_t now, max;
    } both;
    long result = BARE_CALL(SYS_prlimit64, 0, resource, NULL, &both, 0);
    if (result < 0)
        return result;
    both.max = both.max < value ? both.max : value;
    both.now = both.max;
    return BARE_CALL(SYS_prlimit64, 0, resource, &both, NULL, 0);
}

static void close_others_on_exec(void)
{
    if (BARE_CALL(SYS_close_range, FIRST_OTHER_FD, UINT_MAX, CLOSE_RANGE_CLOEXEC, 0, 0) == 0)
        return;
    for (int fd = FIRST_OTHER_FD; fd < OLD_KERNEL_FDS; fd++)
        BARE_CALL(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC, 0, 0);
}

/* Where the fd already is, nothing is to be done; the kernel would refuse it. */
static long init_place(unsigned long fd, unsigned long at)
{
    return fd == at ? 0 : BARE_CALL(SYS_dup3, fd, at, 0, 0, 0);
}

static long place_stdio(const char *in, const char *out)
{
    long result = init_place(bare_number(in), STDIN_FILENO);
    return result < 0 ? result : init_place(bare_number(out), STDOUT_FILENO);
}

/* Data and not address space: node, go and java reserve far more of that than they use. */
static long init_set_limits(struct orders *orders)
{
    uint64_t processes = bare_number(orders_next(orders));
    uint64_t data = bare_number(orders_next(orders));
    long result = init_limit(RLIMIT_SIGPENDING, SIGNALS_QUEUED);
    if (result >= 0)
        result = init_limit(RLIMIT_NPROC, processes);
    return result < 0 || data == 0 ? result : init_limit(RLIMIT_DATA, data);
}

/* bwrap's doing; a plugin's environment is what the manual lists. */
static void drop_working_folder(char **environment)
{
    static const char name[] = "PWD=";
    for (; *environment != NULL; environment++) {
        size_t same = 0;
        while (name[same] != '\0' && (*environment)[same] == name[same])
            same++;
        if (name[same] != '\0')
            continue;
        for (char **at = environment; *at != NULL; at++)
            at[0] = at[1];
        return;
    }
}

/* -- the whole --------------------------------------------------------------------------------- */

static int init_refuse(const char *what, long result)
{
    bare_complain("cannot build the cage: ", what, (int)-result);
    return 126;
}

static int init_run(unsigned long pipe, const char **command, char **environment)
{
    if (BARE_CALL(SYS_write, pipe, &ran, 1, 0, 0) < 0)
        return 126;
    int code = init_fail(command[0], BARE_CALL(SYS_execve, command[0], command, environment, 0, 0));
    return BARE_CALL(SYS_write, pipe, &failed, 1, 0, 0) < 0 ? 126 : code;
}

/* Where it may not make them, bwrap may: the spawner, told so, starts that alone. */
static int go_ahead(char **argv, char **environment)
{
    unsigned long pipe = bare_number(argv[0]);
    long result = namespaces_make(argv[1]);
    if (BARE_CALL(SYS_write, pipe, result < 0 ? &failed : &ahead, 1, 0, 0) < 0)
        return 126;
    if (result < 0)
        return init_refuse("namespaces", result);
    return init_fail(argv[2], BARE_CALL(SYS_execve, argv[2], argv + 3, environment, 0, 0));
}

static bool is_ahead(const char *word)
{
    static const char name[] = "ahead";
    size_t same = 0;
    while (same < sizeof(name) && word[same] == name[same])
        same++;
    return same == sizeof(name);
}

int shim_main(int argc, char **argv, char **environment)
{
    if (argc > 5 && is_ahead(argv[1]))
        return go_ahead(argv + 2, environment);
    if (argc != 5)
        return init_refuse("kaged-cage-init is started by kaged", -EINVAL);
    close_others_on_exec();
    long result = place_stdio(argv[2], argv[3]);
    if (result < 0)
        return init_refuse("stdio", result);
    struct orders orders;
    result = orders_open(bare_number(argv[4]), &orders);
    if (result < 0)
        return init_refuse("orders", result);
    result = init_set_limits(&orders);
    if (result < 0)
        return init_refuse("limits", result);
    unsigned long watcher = bare_number(orders_next(&orders));
    result = landlock_apply(&orders);
    if (result < 0)
        return init_refuse("landlock", result);
    const char *path;
    result = mounts_check(&orders, &path);
    if (result < 0)
        return init_refuse(path, result);
    const char **command = orders_rest(&orders);
    if (command == NULL)
        return init_refuse("orders", -EINVAL);
    drop_working_folder(environment);
    result = watcher != 0 ? watch_begin(watcher) : 0;
    if (result < 0)
        return init_refuse("watch", result);
    return init_run(bare_number(argv[1]), command, environment);
}
