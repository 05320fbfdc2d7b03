/*
 * What the kernel says about refusals. Landlock's denials go to the kernel's audit log, if that is
 * enabled; a root spawner may listen to it. A record names a Landlock domain, and one more record
 * the process that entered it, which is how we know the cage. The log is everybody's: what is not
 * about a cage of ours is passed over, and what is lost under load is lost.
 */
#include "cage/internal.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/landlock.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef AUDIT_LANDLOCK_ACCESS
#define AUDIT_LANDLOCK_ACCESS 1423
#define AUDIT_LANDLOCK_DOMAIN 1424
#endif

#define GROUP_READ_LOG     1 /* AUDIT_NLGRP_READLOG */
#define RECORD_BYTES       8970
#define ANSWER_MS          1000 /* for the kernel to say whether it records */
#define ANSWER_RECORDS     64   /* of others, which may come before its answer */
#define LANDLOCK_THAT_LOGS 7    /* the version that does so */

/* -- opening ----------------------------------------------------------------------------------- */

static bool landlock_logs(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) >=
           LANDLOCK_THAT_LOGS;
}

static int ask_status(int fd)
{
    const struct nlmsghdr question = {
        .nlmsg_len = NLMSG_LENGTH(0), .nlmsg_type = AUDIT_GET, .nlmsg_flags = NLM_F_REQUEST};
    const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    return sendto(fd, &question, question.nlmsg_len, 0, (const struct sockaddr *)&kernel,
                  sizeof(kernel)) < 0
               ? -errno
               : 0;
}

/* The kernel answers from a thread of its own, so the answer has to be waited for. */
static enum cage_kernel_log read_status(int fd)
{
    uint64_t deadline = kg_monotonic_ms() + ANSWER_MS, now;
    for (unsigned i = 0; i < ANSWER_RECORDS && (now = kg_monotonic_ms()) < deadline; i++) {
        struct {
            struct nlmsghdr header;
            struct audit_status status;
        } answer;
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, (int)(deadline - now)) <= 0)
            break;
        ssize_t got = recv(fd, &answer, sizeof(answer), 0);
        if (got >= (ssize_t)NLMSG_HDRLEN && answer.header.nlmsg_type == NLMSG_ERROR)
            break;
        if (got >= (ssize_t)NLMSG_LENGTH(offsetof(struct audit_status, failure)) &&
            answer.header.nlmsg_type == AUDIT_GET)
            return answer.status.enabled != 0 ? CAGE_KERNEL_LOG_TELLS : CAGE_KERNEL_LOG_OFF;
    }
    return CAGE_KERNEL_LOG_NOT_OURS;
}

enum cage_kernel_log cage_kernel_log_open(int *ret_fd)
{
    kg_auto(kg_close) int fd =
        socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_AUDIT);
    const struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = GROUP_READ_LOG};
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
        ask_status(fd) < 0)
        return CAGE_KERNEL_LOG_NOT_OURS;
    enum cage_kernel_log log = read_status(fd);
    if (log == CAGE_KERNEL_LOG_TELLS && !landlock_logs())
        return CAGE_KERNEL_LOG_OFF;
    if (log == CAGE_KERNEL_LOG_TELLS)
        *ret_fd = kg_steal_fd(&fd);
    return log;
}

/* -- records ----------------------------------------------------------------------------------- */

/* The value of a field: up to a blank, or between quotes. Empty if there is none. */
static struct kg_str kernel_log_field(const char *record, const char *key)
{
    for (const char *at = record; (at = strstr(at, key)) != NULL; at++) {
        if (at != record && at[-1] != ' ')
            continue;
        const char *value = at + strlen(key);
        if (*value == '"')
            return (struct kg_str){value + 1, strcspn(value + 1, "\"")};
        return (struct kg_str){value, strcspn(value, " ")};
    }
    return KG_STR_NULL;
}

static bool kernel_log_is_hex(struct kg_str text)
{
    for (size_t i = 0; i < text.length; i++)
        if (kg_hex_digit(text.data[i]) < 0)
            return false;
    return text.length % 2 == 0;
}

/* A path with unusual characters comes as hexadecimal digits, without quotes. */
static char *kernel_log_path_of(const char *record)
{
    struct kg_str text = kernel_log_field(record, "path=");
    if (text.length == 0 || text.data[-1] == '"' || !kernel_log_is_hex(text))
        return kg_str_dup(text);
    struct kg_buf path = {0};
    for (size_t i = 0; i < text.length; i += 2) {
        int byte = kg_hex_digit(text.data[i]) * 16 + kg_hex_digit(text.data[i + 1]);
        kg_buf_char(&path, byte != 0 ? (char)byte : '?');
    }
    return kg_buf_terminate(&path);
}

/* In the words of a capability: "fs.make_reg" and its like are all writing. */
static enum cage_access access_of(const char *record)
{
    struct kg_str blockers = kernel_log_field(record, "blockers=");
    if (kg_str_is(blockers, "fs.execute"))
        return CAGE_ACCESS_EXECUTE;
    return kg_str_starts(blockers, "fs.") ? CAGE_ACCESS_WRITE : CAGE_ACCESS_PROCESS;
}

/* 0 if there is none: no domain has that number. */
static uint64_t kernel_log_domain_of(const char *record)
{
    struct kg_str text = kernel_log_field(record, "domain=");
    return text.length > 0 ? strtoull(text.data, NULL, 16) : 0;
}

static pid_t kernel_log_pid_of(const char *record)
{
    struct kg_str text = kernel_log_field(record, "pid=");
    long pid = text.length > 0 ? strtol(text.data, NULL, 10) : 0;
    return pid > 0 && pid <= INT32_MAX ? (pid_t)pid : 0;
}

int cage_kernel_log_read(int fd, struct cage_denial *ret_denial)
{
    static _Alignas(struct nlmsghdr) char buffer[NLMSG_HDRLEN + RECORD_BYTES + 1];
    ssize_t got = recv(fd, buffer, sizeof(buffer) - 1, 0);
    if (got < 0)
        return errno == ENOBUFS ? 0 : -errno; /* some were lost; the next are as good */
    buffer[got] = '\0';
    const struct nlmsghdr *header = (const struct nlmsghdr *)buffer;
    const char *record = buffer + NLMSG_HDRLEN;
    if (got < (ssize_t)NLMSG_HDRLEN || kernel_log_domain_of(record) == 0)
        return 0;
    struct cage_denial denial = {.domain = kernel_log_domain_of(record)};
    if (header->nlmsg_type == AUDIT_LANDLOCK_DOMAIN)
        denial.pid = kernel_log_pid_of(record);
    if (header->nlmsg_type == AUDIT_LANDLOCK_ACCESS) {
        denial.access = access_of(record);
        denial.path = kernel_log_path_of(record);
    }
    if (denial.pid == 0 && denial.path == NULL)
        return 0;
    *ret_denial = denial;
    return 1;
}
