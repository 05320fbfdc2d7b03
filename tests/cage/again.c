/* The second run is a fresh process of the same program, so that it holds nothing of root's. */
#include "again.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ORDINARY_UID 1234

static int run_again(int output)
{
    char self[PATH_MAX];
    char *const argv[] = {self, NULL};
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (length <= 0 || dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0)
        return 126;
    self[length] = '\0';
    setenv("CMOCKA_MESSAGE_OUTPUT", "STDOUT", 1);
    if (setgroups(0, NULL) < 0 || setgid(ORDINARY_UID) < 0 || setuid(ORDINARY_UID) < 0 ||
        chdir("/") < 0)
        return 126;
    prctl(PR_SET_DUMPABLE, 1);
    execv(self, argv);
    return 126;
}

static void read_all(int fd, struct kg_buf *text)
{
    for (ssize_t got = 1; got > 0 || (got < 0 && errno == EINTR);) {
        kg_buf_reserve(text, 4096);
        got = read(fd, text->data + text->length, 4096);
        text->length += got > 0 ? (size_t)got : 0;
    }
}

void again_as_ordinary_user(void)
{
    if (geteuid() != 0)
        return;
    int ends[2], status = 0;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(run_again(ends[1]));
    close(ends[1]);
    kg_auto(kg_buf_free) struct kg_buf said = {0};
    read_all(ends[0], &said);
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0)
        fail_msg("as uid %d: status %d\n%s", ORDINARY_UID, status, kg_buf_terminate(&said));
}
