/*
 * Runs at build time and writes the two seccomp filters as a C header. The first lets only the
 * calls of syscalls.def through, the second refuses arguments that would lead out of the cage: a
 * call has to pass both. Arguments narrower than a register are compared without their upper bits,
 * since the kernel drops those.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOW_32          0xffffffffu
#define O_CREAT_BIT     0100u
#define O_TMPFILE_BIT   020000000u
#define SOCKET_TYPE     0xfu
#define FAMILIES        64 /* above every family that the kernel knows */
#define TIOCSETD_NUMBER 0x5423u
#define F_SETDELEG_CALL 1040u /* of Linux 6.19 */

static void need(int result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "seccomp-gen: %s: %s\n", what, strerror(-result));
    exit(1);
}

static scmp_filter_ctx filter_new(uint32_t otherwise)
{
    scmp_filter_ctx filter = seccomp_init(otherwise);
    if (filter == NULL)
        need(-ENOMEM, "seccomp_init");
    /* Other ABIs number their calls differently: none of them may be used. */
    need(seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "bad arch");
    return filter;
}

/* A call that this machine does not have is left out; a name that nobody has is an error. */
static void rule(scmp_filter_ctx filter, uint32_t action, const char *name, unsigned count,
                 const struct scmp_arg_cmp *arguments)
{
    int call = seccomp_syscall_resolve_name(name);
    if (call == __NR_SCMP_ERROR)
        need(-ENOSYS, name);
    if (call >= 0)
        need(seccomp_rule_add_array(filter, action, call, count, arguments), name);
}

static void refuse(scmp_filter_ctx filter, int errnum, const char *name,
                   struct scmp_arg_cmp argument)
{
    rule(filter, SCMP_ACT_ERRNO((uint32_t)errnum), name, 1, &argument);
}

static scmp_filter_ctx make_calls_filter(void)
{
    static const char *const allowed[] = {
#define CALL(name) #name,
#include "syscalls.def"
#undef CALL
    };
    scmp_filter_ctx filter = filter_new(SCMP_ACT_ERRNO(ENOSYS));
    /* A tree instead of a list: the cost of a call does not grow with the table. */
    need(seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2), "optimize");
    for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
        rule(filter, SCMP_ACT_ALLOW, allowed[i], 0, NULL);
    /* Asking for the personality, or for the plain one, changes nothing. */
    rule(filter, SCMP_ACT_ALLOW, "personality", 1, &SCMP_A0(SCMP_CMP_EQ, 0));
    rule(filter, SCMP_ACT_ALLOW, "personality", 1, &SCMP_A0(SCMP_CMP_EQ, LOW_32));
    return filter;
}

static void refuse_namespaces(scmp_filter_ctx filter)
{
    static const uint64_t flags[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                     CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        refuse(filter, EPERM, "clone", SCMP_A0(SCMP_CMP_MASKED_EQ, flags[i], flags[i]));
}

/* A stranger's protocol makes the kernel load a module for it: only TCP and UDP are asked for. */
static void refuse_other_protocols(scmp_filter_ctx filter)
{
    for (unsigned type = SOCK_RAW + 1; type <= SOCKET_TYPE; type++)
        refuse(filter, ESOCKTNOSUPPORT, "socket", SCMP_A1(SCMP_CMP_MASKED_EQ, SOCKET_TYPE, type));
    for (unsigned protocol = 1; protocol < IPPROTO_UDP; protocol++)
        if (protocol != IPPROTO_TCP)
            refuse(filter, EPROTONOSUPPORT, "socket", SCMP_A2(SCMP_CMP_EQ, protocol));
    refuse(filter, EPROTONOSUPPORT, "socket", SCMP_A2(SCMP_CMP_GT, IPPROTO_UDP));
}

/*
 * TCP and UDP over IP, in the cage's own empty network, and the list of its interfaces. A unix
 * socket could connect to the host's through any bind, so only connected pairs remain; a pair of
 * datagram sockets is not bound to stay one, and vsock reaches past network namespaces.
 */
static void refuse_sockets(scmp_filter_ctx filter)
{
    for (unsigned family = 0; family < FAMILIES; family++)
        if (family != AF_INET && family != AF_INET6 && family != AF_NETLINK)
            refuse(filter, EAFNOSUPPORT, "socket", SCMP_A0(SCMP_CMP_EQ, family));
    refuse(filter, EAFNOSUPPORT, "socket", SCMP_A0(SCMP_CMP_GE, FAMILIES));
    const struct scmp_arg_cmp other_netlink[] = {SCMP_A0(SCMP_CMP_EQ, AF_NETLINK),
                                                 SCMP_A2(SCMP_CMP_NE, NETLINK_ROUTE)};
    rule(filter, SCMP_ACT_ERRNO(EPROTONOSUPPORT), "socket", 2, other_netlink);

    refuse_other_protocols(filter);

    refuse(filter, EAFNOSUPPORT, "socketpair", SCMP_A0(SCMP_CMP_NE, AF_UNIX));
    static const uint64_t unconnected[] = {SOCK_DGRAM, SOCK_RAW}; /* raw means datagram here */
    for (size_t i = 0; i < 2; i++)
        refuse(filter, ESOCKTNOSUPPORT, "socketpair",
               SCMP_A1(SCMP_CMP_MASKED_EQ, SOCKET_TYPE, unconnected[i]));
}

/* Input pushed into a terminal, the console's, and line disciplines, which load kernel modules. */
static void refuse_terminals(scmp_filter_ctx filter)
{
    static const uint64_t requests[] = {TIOCSTI, TIOCLINUX, TIOCSETD_NUMBER};
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        refuse(filter, EPERM, "ioctl", SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_32, requests[i]));
}

/* A lease on a file that can be read makes those wait, outside, who open it to write. */
static void refuse_leases(scmp_filter_ctx filter)
{
    static const uint64_t commands[] = {F_SETLEASE, F_SETDELEG_CALL};
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        refuse(filter, EINVAL, "fcntl", SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_32, commands[i]));
}

/*
 * The limit of 1 byte that a cage starts with keeps the kernel from calling a handler of core
 * dumps, which is a program of the host's root; 0 would not. So it stays, and who sets it is told
 * that he did: some programs end if they cannot.
 */
static void keep_core_limit(scmp_filter_ctx filter)
{
    refuse(filter, 0, "setrlimit", SCMP_A0(SCMP_CMP_MASKED_EQ, LOW_32, RLIMIT_CORE));
    const struct scmp_arg_cmp set[] = {SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_32, RLIMIT_CORE),
                                       SCMP_A2(SCMP_CMP_NE, 0)};
    rule(filter, SCMP_ACT_ERRNO(0), "prlimit64", 2, set);
}

/* A setuid file on the host's disk would work outside of the cage. */
static void refuse_setuid_modes(scmp_filter_ctx filter)
{
    static const struct {
        const char *name;
        unsigned mode;
    } calls[] = {{"chmod", 1}, {"fchmod", 1},  {"fchmodat", 2}, {"creat", 1},
                 {"mkdir", 1}, {"mkdirat", 2}, {"mknod", 1},    {"mknodat", 2}};
    static const struct {
        const char *name;
        unsigned flags, mode;
    } opens[] = {{"open", 1, 2}, {"openat", 2, 3}};
    static const uint64_t bits[] = {S_ISUID, S_ISGID};
    static const uint64_t creates[] = {O_CREAT_BIT, O_TMPFILE_BIT};

    for (size_t bit = 0; bit < 2; bit++) {
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
            refuse(filter, EPERM, calls[i].name,
                   SCMP_CMP(calls[i].mode, SCMP_CMP_MASKED_EQ, bits[bit], bits[bit]));
        /* Without these flags the mode is not looked at, and may be anything. */
        for (size_t i = 0; i < 4; i++) {
            uint64_t create = creates[i % 2];
            const struct scmp_arg_cmp both[] = {
                SCMP_CMP(opens[i / 2].flags, SCMP_CMP_MASKED_EQ, create, create),
                SCMP_CMP(opens[i / 2].mode, SCMP_CMP_MASKED_EQ, bits[bit], bits[bit])};
            rule(filter, SCMP_ACT_ERRNO(EPERM), opens[i / 2].name, 2, both);
        }
    }
}

static scmp_filter_ctx make_arguments_filter(void)
{
    scmp_filter_ctx filter = filter_new(SCMP_ACT_ALLOW);
    refuse_namespaces(filter);
    refuse_sockets(filter);
    refuse_terminals(filter);
    refuse_leases(filter);
    keep_core_limit(filter);
    refuse_setuid_modes(filter);
    return filter;
}

static void write_filter(FILE *out, const char *name, scmp_filter_ctx filter)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    need(fd < 0 ? -errno : 0, "memfd_create");
    need(seccomp_export_bpf(filter, fd), "seccomp_export_bpf");
    need(lseek(fd, 0, SEEK_SET) < 0 ? -errno : 0, "lseek");
    fprintf(out, "static const unsigned char %s[] = {", name);
    unsigned char byte;
    for (unsigned i = 0; read(fd, &byte, 1) == 1; i++)
        fprintf(out, "%s%u,", i % 16 == 0 ? "\n    " : " ", byte);
    fprintf(out, "\n};\n");
    close(fd);
    seccomp_release(filter);
}

int main(int argc, char **argv)
{
    FILE *out = argc == 2 ? fopen(argv[1], "we") : NULL;
    if (out == NULL) {
        fprintf(stderr, "usage: seccomp-gen HEADER\n");
        return 2;
    }
    fprintf(out, "/* Written by seccomp-gen from syscalls.def. */\n");
    write_filter(out, "cage_filter_calls", make_calls_filter());
    write_filter(out, "cage_filter_arguments", make_arguments_filter());
    return fclose(out) == 0 ? 0 : 1;
}
