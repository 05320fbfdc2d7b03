/*
 * kaged-cage-init: the first program in a cage. It sets the limits that count per cage or process,
 * puts stdin and stdout in their place, lets no other fd but stderr through, asks Landlock for the
 * second layer, and becomes the command. It runs before any of the plugin's code, says on a pipe of
 * the spawner that it did, and says there too if the command could not be run.
 *
 * usage: kaged-cage-init PROCESSES BYTES PIPE STDIN STDOUT RULES -- COMMAND ARGUMENT...
 */
#include "landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define FIRST_OTHER_FD 3
#define OLD_KERNEL_FDS 1024
#define SIGNALS_QUEUED 1024 /* all cages of a user share what the kernel grants him */

/* The spawner knows these letters as CAGE_RAN and CAGE_FAILED. */
static const char ran = 'R';
static const char failed = 'F';

static void say(int fd, char letter)
{
    if (write(fd, &letter, 1) < 0)
        _exit(126);
}

static int fail(const char *what, int errnum)
{
    fprintf(stderr, "kaged: cannot run %s: %s\n", what, strerror(errnum));
    return errnum == EACCES || errnum == EPERM ? 126 : 127;
}

/* A limit that is lower already stays. */
static int limit(int resource, rlim_t value)
{
    struct rlimit both;
    if (getrlimit(resource, &both) < 0)
        return -1;
    both.rlim_max = both.rlim_max < value ? both.rlim_max : value;
    both.rlim_cur = both.rlim_max;
    return setrlimit(resource, &both);
}

static void close_others_on_exec(void)
{
    if (close_range(FIRST_OTHER_FD, UINT_MAX, CLOSE_RANGE_CLOEXEC) == 0)
        return;
    for (int fd = FIRST_OTHER_FD; fd < OLD_KERNEL_FDS; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* Data and not address space: node, go and java reserve far more of that than they use. */
static int set_limits(const char *processes, const char *bytes)
{
    rlim_t data = strtoull(bytes, NULL, 10);
    if (limit(RLIMIT_SIGPENDING, SIGNALS_QUEUED) < 0 ||
        limit(RLIMIT_NPROC, strtoul(processes, NULL, 10)) < 0)
        return -1;
    return data != 0 ? limit(RLIMIT_DATA, data) : 0;
}

int main(int argc, char **argv)
{
    if (argc < 9 || strcmp(argv[7], "--") != 0) {
        fprintf(stderr, "usage: kaged-cage-init PROCESSES BYTES PIPE STDIN STDOUT RULES -- COMMAND "
                        "ARGUMENT...\n");
        return 126;
    }
    int pipe = atoi(argv[3]);
    char **command = argv + 8;
    close_others_on_exec();
    if (dup2(atoi(argv[4]), STDIN_FILENO) < 0 || dup2(atoi(argv[5]), STDOUT_FILENO) < 0)
        return fail("stdio", errno);
    if (set_limits(argv[1], argv[2]) < 0)
        return fail("limits", errno);
    if (landlock_apply(atoi(argv[6])) < 0) {
        fprintf(stderr, "kaged: cannot build the cage: landlock: %s\n", strerror(errno));
        return 126;
    }
    unsetenv("PWD"); /* bwrap's doing; a plugin's environment is what the manual lists */
    say(pipe, ran);
    execv(command[0], command);
    int code = fail(command[0], errno);
    say(pipe, failed);
    return code;
}
