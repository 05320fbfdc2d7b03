/*
 * What the kernel says about refusals. Landlock's denials go to the kernel's audit log, if that is
 * enabled; a root spawner may listen to it. A record names a Landlock domain, and one more record
 * the process that entered it, which is how we know the cage. The log is everybody's: what is not
 * about a cage of ours is passed over, and what is lost under load is lost.
 */
#include "cage/internal.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef AUDIT_LANDLOCK_ACCESS
#define AUDIT_LANDLOCK_ACCESS 1423
#define AUDIT_LANDLOCK_DOMAIN 1424
#endif

#define GROUP_READ_LOG 1 /* AUDIT_NLGRP_READLOG */
#define RECORD_BYTES   8970

/* -- opening ----------------------------------------------------------------------------------- */

/* Whether the kernel records anything at all; nobody but the operator switches that on. */
static bool is_enabled(int fd)
{
    struct {
        struct nlmsghdr header;
        struct audit_status status;
    } message = {.header = {.nlmsg_len = NLMSG_LENGTH(0),
                            .nlmsg_type = AUDIT_GET,
                            .nlmsg_flags = NLM_F_REQUEST}};
    const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    if (sendto(fd, &message, message.header.nlmsg_len, 0, (const struct sockaddr *)&kernel,
               sizeof(kernel)) < 0)
        return false;
    /* Records of others may come first. */
    for (unsigned i = 0; i < 64; i++) {
        ssize_t got = recv(fd, &message, sizeof(message), 0);
        if (got >= (ssize_t)NLMSG_LENGTH(offsetof(struct audit_status, failure)) &&
            message.header.nlmsg_type == AUDIT_GET)
            return message.status.enabled != 0;
        if (got < 0)
            return false;
    }
    return false;
}

int cage_kernel_log_open(void)
{
    kg_auto(kg_close) int fd =
        socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_AUDIT);
    const struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = GROUP_READ_LOG};
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return -1;
    return is_enabled(fd) ? kg_steal_fd(&fd) : -1;
}

/* -- records ----------------------------------------------------------------------------------- */

/* The value of a field: up to a blank, or between quotes. Empty if there is none. */
static struct kg_str field(const char *record, const char *key)
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

/* A path with unusual characters comes as hexadecimal digits, without quotes. */
static char *path_of(const char *record)
{
    struct kg_str text = field(record, "path=");
    if (text.length == 0 || text.data[-1] == '"' || text.length % 2 != 0)
        return kg_str_dup(text);
    struct kg_buf path = {0};
    for (size_t i = 0; i < text.length; i += 2) {
        int high = kg_hex_digit(text.data[i]), low = kg_hex_digit(text.data[i + 1]);
        kg_buf_char(&path, high < 0 || low < 0 ? '?' : (char)(high * 16 + low));
    }
    return kg_buf_terminate(&path);
}

/* In the words of a capability: "fs.make_reg" and its like are all writing. */
static enum cage_access access_of(const char *record)
{
    struct kg_str blockers = field(record, "blockers=");
    if (kg_str_is(blockers, "fs.execute"))
        return CAGE_ACCESS_EXECUTE;
    return kg_str_starts(blockers, "fs.") ? CAGE_ACCESS_WRITE : CAGE_ACCESS_PROCESS;
}

static uint64_t domain_of(const char *record)
{
    struct kg_str text = field(record, "domain=");
    return text.length > 0 ? strtoull(text.data, NULL, 16) : 0;
}

bool cage_kernel_log_read(int fd, struct cage_denial *ret_denial)
{
    static char buffer[NLMSG_HDRLEN + RECORD_BYTES + 1];
    for (;;) {
        ssize_t got = recv(fd, buffer, sizeof(buffer) - 1, 0);
        if (got < 0 && errno == ENOBUFS)
            continue; /* some were lost; the next are as good */
        if (got < (ssize_t)NLMSG_HDRLEN)
            return false;
        buffer[got] = '\0';
        const struct nlmsghdr *header = (const struct nlmsghdr *)buffer;
        const char *record = buffer + NLMSG_HDRLEN;
        *ret_denial = (struct cage_denial){.domain = domain_of(record)};
        struct kg_str pid = field(record, "pid=");
        if (header->nlmsg_type == AUDIT_LANDLOCK_DOMAIN && pid.length > 0) {
            ret_denial->pid = (pid_t)strtol(pid.data, NULL, 10);
            return true;
        }
        if (header->nlmsg_type != AUDIT_LANDLOCK_ACCESS)
            continue;
        ret_denial->access = access_of(record);
        ret_denial->path = path_of(record);
        return true;
    }
}
