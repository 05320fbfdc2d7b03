/*
 * Where a plugin may reach every port of a host, or every host, no listener can stand for each: nft
 * redirects what is addressed there to one listener, and the kernel remembers the target. This runs
 * in the process that makes the network of a cage, once it is in the cage's namespaces; the rules
 * act there and nowhere else.
 */
#include "cage/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAYS_BYTES 512 /* of what nft says */

static void write_matches(const struct cage_network *network, const char *verdict, bool whole,
                          struct kg_buf *out)
{
    for (size_t i = 0; i < network->count; i++) {
        const struct cage_listener *item = &network->items[i];
        if ((item->port == 0) != whole)
            continue;
        kg_buf_printf(out, "%s daddr %s ", strchr(item->address, ':') != NULL ? "ip6" : "ip",
                      item->address);
        if (!whole)
            kg_buf_printf(out, "tcp dport %u ", item->port);
        kg_buf_printf(out, "%s\n", verdict);
    }
}

/*
 * First what has a listener of its own, then whole hosts, then the rest. The plugin's own loopback
 * and the place that answers for names are not part of the rest.
 */
static void write_rules(const struct cage_network *network, struct kg_buf *out)
{
    char redirect[64];
    snprintf(redirect, sizeof(redirect), "meta l4proto tcp redirect to :%d", CAGE_NET_ALL_PORT);
    kg_buf_text(out, "table inet kaged {\nchain output {\n"
                     "type nat hook output priority -100; policy accept;\n");
    write_matches(network, "accept", false, out);
    write_matches(network, redirect, true, out);
    if (network->any)
        kg_buf_printf(out, "ip daddr { 127.0.0.0/8, %s } accept\nip6 daddr ::1 accept\n%s\n",
                      CAGE_NET_GATE, redirect);
    kg_buf_text(out, "}\n}\n");
}

/* nft is not root in the cage's namespace either: the one right that it needs goes with it. */
static int keep_right(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    data[0].inheritable |= 1u << CAP_NET_ADMIN;
    if (syscall(SYS_capset, &header, data) < 0 ||
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_ADMIN, 0, 0) < 0)
        return -errno;
    return 0;
}

/* In the child of the child. */
__attribute__((noreturn)) static void become_nft(const char *nft, int rules, int output,
                                                 pid_t parent)
{
    static char *const argv[] = {"nft", "-f", "-", NULL};
    static char *const no_environment[] = {NULL};
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent || keep_right() < 0 ||
        dup2(rules, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(output, STDERR_FILENO) < 0)
        _exit(126);
    execve(nft, argv, no_environment);
    dprintf(STDERR_FILENO, "%s", strerror(errno));
    _exit(127);
}

/* Reads to the end, so that it can say all that it wants; keeps the beginning. */
static void redirect_read_output(int fd, char ret_text[SAYS_BYTES])
{
    size_t length = 0;
    char block[256];
    for (ssize_t got; (got = read(fd, block, sizeof(block))) != 0;) {
        if (got < 0 && errno != EINTR)
            break;
        for (ssize_t i = 0; i < got && length < SAYS_BYTES - 1; i++)
            ret_text[length++] = block[i];
    }
    ret_text[length] = '\0';
    ret_text[strcspn(ret_text, "\n")] = '\0';
}

static int write_rules_file(const struct cage_network *network, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf rules = {0};
    write_rules(network, &rules);
    return cage_memory_file("rules", rules.data, rules.length, err);
}

int cage_redirect_start(const struct cage_network *network, struct cage_redirect *ret_redirect,
                        struct kg_err *err)
{
    int ends[2];
    kg_auto(kg_close) int rules = write_rules_file(network, err);
    if (rules < 0)
        return rules;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return kg_fail_errno(err, errno, "pipe");
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        become_nft(network->nft, rules, ends[1], parent);
    int errnum = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return kg_fail_errno(err, errnum, "run %s", network->nft);
    }
    *ret_redirect = (struct cage_redirect){pid, ends[0], network->nft};
    return 0;
}

int cage_redirect_wait(const struct cage_redirect *redirect, struct kg_err *err)
{
    char said[SAYS_BYTES];
    int status = 0;
    redirect_read_output(redirect->output, said);
    if (waitpid(redirect->pid, &status, 0) < 0)
        return kg_fail_errno(err, errno, "wait for %s", redirect->nft);
    if (status == 0)
        return 0;
    return kg_fail(err, KG_E_CAGE, "run %s: %s", redirect->nft,
                   said[0] != '\0' ? said : "it failed without a message");
}
