/*
 * Why user namespaces cannot be made. Kernels, distributions and containers each have their own
 * switch for it; what the failed attempt and the settings say together tells which one it is, and
 * so what to do.
 */
#include "cage/internal.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_DROP        255 /* an exit code that is not an errno */
#define MOUNTS_MAX     ((size_t)1024 * 1024)
#define NUMBER_MAX     64
#define BINFMT_MISC    "/proc/sys/fs/binfmt_misc" /* an ordinary mount below /proc */
#define MOUNTINFO_SKIP 4                          /* fields before the mount point */

/* -- the causes -------------------------------------------------------------------------------- */

static bool is_foreign_root(const struct cage_userns *seen)
{
    return seen->cannot_drop;
}

static bool is_none_allowed(const struct cage_userns *seen)
{
    return seen->max == 0;
}

static bool is_debian_switch(const struct cage_userns *seen)
{
    return seen->unprivileged_clone == 0;
}

static bool is_limit_reached(const struct cage_userns *seen)
{
    return seen->unshare_errno == ENOSPC || seen->unshare_errno == EUSERS;
}

static bool is_old_kernel(const struct cage_userns *seen)
{
    return seen->unshare_errno == ENOSYS || seen->unshare_errno == EINVAL;
}

static bool is_apparmor(const struct cage_userns *seen)
{
    return seen->apparmor_restricts == 1;
}

static bool userns_is_refused(const struct cage_userns *seen)
{
    return seen->unshare_errno != 0;
}

static bool is_proc_masked(const struct cage_userns *seen)
{
    return seen->proc_masked && strstr(seen->said, "proc") != NULL;
}

static bool is_anything(const struct cage_userns *seen)
{
    (void)seen;
    return true;
}

/* The first that fits is it. */
static const struct {
    bool (*fits)(const struct cage_userns *seen);
    struct cage_userns_cause cause;
} causes[] = {
    {is_foreign_root,
     {"root here cannot become uid 65534, so it is not the machine's own root",
      "run kaged as an ordinary user, or map uid and gid 65534 into this user namespace"}},
    {is_none_allowed,
     {"user.max_user_namespaces is 0",
      "sysctl -w user.max_user_namespaces=10000, and the same line in /etc/sysctl.d/kaged.conf"}},
    {is_debian_switch,
     {"kernel.unprivileged_userns_clone is 0",
      "sysctl -w kernel.unprivileged_userns_clone=1, and the same line in "
      "/etc/sysctl.d/kaged.conf"}},
    {is_limit_reached,
     {"no more user namespaces can be created here",
      "raise user.max_user_namespaces, here or in the "
      "system around this container"}},
    {is_old_kernel, {"the kernel has no user namespaces", "use a kernel with CONFIG_USER_NS"}},
    {is_apparmor,
     {"kernel.apparmor_restrict_unprivileged_userns is 1 and kaged-spawner has no AppArmor profile",
      "apparmor_parser -r /etc/apparmor.d/kaged-spawner; without kaged's package, write it before: "
      "abi <abi/4.0>, profile kaged-spawner PATH flags=(unconfined) { userns, } with the PATH that "
      "kaged doctor shows for it"}},
    {userns_is_refused,
     {"user namespaces are forbidden here",
      "in a container: allow unshare, clone and mount in its seccomp profile (docker run "
      "--security-opt seccomp=unconfined); in a chroot: leave it"}},
    {is_proc_masked,
     {"parts of /proc are masked, as containers do, so a cage cannot have its own",
      "start the container with /proc uncovered: docker --security-opt "
      "systempaths=unconfined, podman --security-opt unmask=ALL"}},
    {is_anything,
     {"bwrap could not build a cage",
      "allow user namespaces: sysctl user.max_user_namespaces, "
      "kernel.unprivileged_userns_clone, or an AppArmor profile for kaged-spawner; in a "
      "container, /proc must not be masked"}},
};

const struct cage_userns_cause *cage_userns_cause(const struct cage_userns *seen)
{
    size_t i = 0;
    while (!causes[i].fits(seen))
        i++;
    return &causes[i].cause;
}

/* -- looking ----------------------------------------------------------------------------------- */

int64_t cage_read_number(const char *path)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    int64_t value;
    if (kg_read_file(path, NUMBER_MAX, &text, NULL) < 0)
        return -1;
    struct kg_str line = {text.data, text.length};
    while (line.length > 0 && line.data[line.length - 1] == '\n')
        line.length--;
    return kg_str_to_int(line, &value) ? value : -1;
}

/* The errno of a plain attempt, NO_DROP, or 0. */
static int try_unshare(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (!cage_become_user(CAGE_UID))
            _exit(NO_DROP);
        _exit(unshare(CLONE_NEWUSER) < 0 ? errno : 0);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return 0;
    return WEXITSTATUS(status);
}

static bool covers_proc(const char *line)
{
    for (int i = 0; i < MOUNTINFO_SKIP; i++) {
        line += strcspn(line, " \n");
        line += *line == ' ';
    }
    return strncmp(line, "/proc/", 6) == 0 &&
           strncmp(line, BINFMT_MISC, sizeof(BINFMT_MISC) - 1) != 0;
}

static bool is_proc_covered(void)
{
    kg_auto(kg_buf_free) struct kg_buf mounts = {0};
    if (kg_read_file("/proc/self/mountinfo", MOUNTS_MAX, &mounts, NULL) < 0)
        return false;
    const char *line = kg_buf_terminate(&mounts);
    for (; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n')
        if (covers_proc(line))
            return true;
    return false;
}

struct cage_userns cage_userns_look(const char *said)
{
    int tried = try_unshare();
    return (struct cage_userns){
        .said = said,
        .unshare_errno = tried == NO_DROP ? 0 : tried,
        .cannot_drop = tried == NO_DROP,
        .max = cage_read_number("/proc/sys/user/max_user_namespaces"),
        .unprivileged_clone = cage_read_number("/proc/sys/kernel/unprivileged_userns_clone"),
        .apparmor_restricts =
            cage_read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        .proc_masked = is_proc_covered(),
    };
}
