/*
 * Runs at build time and writes the two seccomp filters as a C header. The first lets only the
 * calls of syscalls.def through, the second refuses arguments that would lead out of the cage: a
 * call has to pass both. Arguments narrower than a register are compared without their upper bits,
 * since the kernel drops those. Both are kept short: the kernel compiles them at each start of a
 * cage, twice, and that takes a third of a microsecond for an instruction.
 *
 * In a cage that is watched the first also lets the shim add a third filter, which notifies of the
 * calls of watched.def and takes that permission back. It has a header of its own.
 *
 * usage: seccomp-gen FILTERS-HEADER WATCH-HEADER
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
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
#define TIOCSETD_NUMBER 0x5423u
#define F_SETDELEG_CALL 1040u /* of Linux 6.19 */

static void seccomp_gen_need(int result, const char *what)
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
        seccomp_gen_need(-ENOMEM, "seccomp_init");
    /* Other ABIs number their calls differently: none of them may be used. */
    seccomp_gen_need(seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS),
                     "bad arch");
    return filter;
}

/* Negative for a call that this machine does not have; a name that nobody has is an error. */
static int seccomp_gen_number_of(const char *name)
{
    int call = seccomp_syscall_resolve_name(name);
    if (call == __NR_SCMP_ERROR)
        seccomp_gen_need(-ENOSYS, name);
    return call;
}

static void rule(scmp_filter_ctx filter, uint32_t action, const char *name, unsigned count,
                 const struct scmp_arg_cmp *arguments)
{
    int call = seccomp_gen_number_of(name);
    if (call >= 0)
        seccomp_gen_need(seccomp_rule_add_array(filter, action, call, count, arguments), name);
}

static void seccomp_gen_refuse(scmp_filter_ctx filter, int errnum, const char *name,
                               struct scmp_arg_cmp argument)
{
    rule(filter, SCMP_ACT_ERRNO((uint32_t)errnum), name, 1, &argument);
}

/* -- calls ------------------------------------------------------------------------------------- */

/*
 * libseccomp would compare with each call by itself. The numbers of those that are allowed lie
 * close together, so a tree over the borders of their ranges has a quarter of the instructions.
 */
#define NUMBERS    1024 /* no call of any machine has a higher one */
#define STEPS_MAX  250  /* as far as a jump reaches */
#define X32_BIT    0x40000000u
#define NO_CALL    UINT32_MAX
#define OFFSET(at) ((uint32_t)offsetof(struct seccomp_data, at))

/* The halves of an argument. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LOWER 0
#define UPPER sizeof(uint32_t)
#else
#define LOWER sizeof(uint32_t)
#define UPPER 0
#endif

/* Where a step leads, if not to another one that is known. */
enum { NEXT = -1, ALLOW = -2, NOT_THERE = -3, KILL = -4, NOTIFY = -5 };
#define ENDS 4

struct step {
    uint16_t code;
    uint32_t value;
    int then, otherwise;
};

static struct calls {
    bool listed[NUMBERS + 1];
    uint32_t borders[NUMBERS + 1]; /* where what is listed begins, ends, begins again... */
    unsigned border_count;
    int inside, outside; /* where listed calls lead, and the others */
    struct step steps[STEPS_MAX];
    struct sock_filter program[STEPS_MAX + ENDS];
    int length;
} calls;

static int seccomp_gen_step(uint16_t code, uint32_t value, int then, int otherwise)
{
    if (calls.length == STEPS_MAX)
        seccomp_gen_need(-E2BIG, "the filter of calls");
    calls.steps[calls.length] = (struct step){code, value, then, otherwise};
    return calls.length++;
}

static void seccomp_gen_load(uint32_t offset)
{
    seccomp_gen_step(BPF_LD | BPF_W | BPF_ABS, offset, NEXT, NEXT);
}

static int seccomp_gen_compare(uint16_t how, uint32_t value, int then, int otherwise)
{
    return seccomp_gen_step((uint16_t)(BPF_JMP | BPF_K | how), value, then, otherwise);
}

/* For a number with at least `low` and at most `high` borders up to it. */
static int tree(unsigned low, unsigned high)
{
    if (low == high)
        return low % 2 == 1 ? calls.inside : calls.outside;
    unsigned middle = (low + high + 1) / 2;
    int at = seccomp_gen_compare(BPF_JGE, calls.borders[middle - 1], NEXT, NEXT);
    calls.steps[at].otherwise = tree(low, middle - 1);
    calls.steps[at].then = tree(middle, high);
    return at;
}

static void find_borders(const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int call = seccomp_gen_number_of(names[i]);
        if (call >= NUMBERS)
            seccomp_gen_need(-ERANGE, names[i]);
        if (call >= 0)
            calls.listed[call] = true;
    }
    for (uint32_t call = 0; call <= NUMBERS; call++)
        if (calls.listed[call] != (calls.border_count % 2 == 1))
            calls.borders[calls.border_count++] = call;
}

/* Asking for the personality, or for the plain one, changes nothing. */
static void allow_plain_personality(void)
{
    int call = seccomp_gen_number_of("personality");
    if (call < 0)
        return;
    int other = seccomp_gen_compare(BPF_JEQ, (uint32_t)call, NEXT, NEXT);
    seccomp_gen_load(OFFSET(args[0]) + UPPER);
    seccomp_gen_compare(BPF_JEQ, 0, NEXT, NOT_THERE);
    seccomp_gen_load(OFFSET(args[0]) + LOWER);
    seccomp_gen_compare(BPF_JEQ, 0, ALLOW, NEXT);
    seccomp_gen_compare(BPF_JEQ, UINT32_MAX, ALLOW, NOT_THERE);
    calls.steps[other].otherwise = calls.length;
}

/* How far a step at `at` jumps; the ends come after the last step. */
static uint8_t distance(int at, int to)
{
    int target = to == NEXT ? at + 1 : to <= ALLOW ? calls.length + ALLOW - to : to;
    return (uint8_t)(target - at - 1);
}

static void seccomp_gen_resolve(void)
{
    static const uint32_t ends[] = {SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | ENOSYS,
                                    SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_USER_NOTIF};
    for (int i = 0; i < calls.length; i++) {
        const struct step *step = &calls.steps[i];
        calls.program[i] = (struct sock_filter){step->code, distance(i, step->then),
                                                distance(i, step->otherwise), step->value};
    }
    for (int i = 0; i < ENDS; i++)
        calls.program[calls.length++] = (struct sock_filter){BPF_RET | BPF_K, 0, 0, ends[i]};
}

/* The shim's one call of it, for the filter that is made below. */
static void allow_listener(void)
{
    int other =
        seccomp_gen_compare(BPF_JEQ, (uint32_t)seccomp_gen_number_of("seccomp"), NEXT, NEXT);
    seccomp_gen_load(OFFSET(args[0]) + LOWER);
    seccomp_gen_compare(BPF_JEQ, SECCOMP_SET_MODE_FILTER, NEXT, NOT_THERE);
    seccomp_gen_load(OFFSET(args[1]) + LOWER);
    seccomp_gen_compare(BPF_JEQ, SECCOMP_FILTER_FLAG_NEW_LISTENER, ALLOW, NEXT);
    seccomp_gen_compare(BPF_JEQ,
                        SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
                        ALLOW, NOT_THERE);
    calls.steps[other].otherwise = calls.length;
}

static void make_calls_filter(bool watched)
{
    static const char *const names[] = {
#define CALL(name) #name,
#include "syscalls.def"
#undef CALL
    };
    uint32_t arch = seccomp_arch_native();
    calls = (struct calls){.inside = ALLOW, .outside = NOT_THERE};
    find_borders(names, sizeof(names) / sizeof(names[0]));
    /* Other ABIs number their calls differently: none of them may be used. */
    seccomp_gen_load(OFFSET(arch));
    seccomp_gen_compare(BPF_JEQ, arch, NEXT, KILL);
    seccomp_gen_load(OFFSET(nr));
    if (arch == SCMP_ARCH_X86_64) {
        seccomp_gen_compare(BPF_JEQ, NO_CALL, NOT_THERE, NEXT);
        seccomp_gen_compare(BPF_JGE, X32_BIT, KILL, NEXT);
    }
    allow_plain_personality();
    if (watched)
        allow_listener();
    tree(0, calls.border_count);
    seccomp_gen_resolve();
}

/* -- what is noticed --------------------------------------------------------------------------- */

static const struct watched {
    const char *name, *act;
    int folder, what;
} watched[] = {
#define NONE                             (-1)
#define WATCHED(name, act, folder, what) {#name, #act, folder, what},
#include "watched.def"
#undef WATCHED
#undef NONE
};
#define WATCHED_COUNT (sizeof(watched) / sizeof(watched[0]))

/* What is asked of an open file tells nothing, and C libraries ask it with every open. */
static void pass_open_files(const char *name, unsigned flags)
{
    int call = seccomp_gen_number_of(name);
    if (call < 0)
        return;
    int other = seccomp_gen_compare(BPF_JEQ, (uint32_t)call, NEXT, NEXT);
    seccomp_gen_load((uint32_t)(OFFSET(args[0]) + flags * sizeof(uint64_t) + LOWER));
    seccomp_gen_compare(BPF_JSET, AT_EMPTY_PATH, ALLOW, NOTIFY);
    calls.steps[other].otherwise = calls.length;
}

/* Nor does what goes to whom the socket is connected to. */
static void pass_connected(void)
{
    int other = seccomp_gen_compare(BPF_JEQ, (uint32_t)seccomp_gen_number_of("sendto"), NEXT, NEXT);
    seccomp_gen_load(OFFSET(args[4]) + UPPER);
    seccomp_gen_compare(BPF_JEQ, 0, NEXT, NOTIFY);
    seccomp_gen_load(OFFSET(args[4]) + LOWER);
    seccomp_gen_compare(BPF_JEQ, 0, ALLOW, NOTIFY);
    calls.steps[other].otherwise = calls.length;
}

/* Other ABIs are left to the first filter. */
static void make_watch_filter(void)
{
    static const char *names[WATCHED_COUNT];
    for (size_t i = 0; i < WATCHED_COUNT; i++)
        names[i] = watched[i].name;
    calls = (struct calls){.inside = NOTIFY, .outside = ALLOW};
    find_borders(names, WATCHED_COUNT);
    seccomp_gen_load(OFFSET(nr));
    seccomp_gen_compare(BPF_JEQ, (uint32_t)seccomp_gen_number_of("seccomp"), NOT_THERE, NEXT);
    pass_open_files("newfstatat", 3);
    pass_open_files("statx", 2);
    pass_connected();
    tree(0, calls.border_count);
    seccomp_gen_resolve();
}

/* -- arguments --------------------------------------------------------------------------------- */

static void refuse_namespaces(scmp_filter_ctx filter)
{
    static const uint64_t flags[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                     CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        seccomp_gen_refuse(filter, EPERM, "clone", SCMP_A0(SCMP_CMP_MASKED_EQ, flags[i], flags[i]));
}

/* Blocks of numbers are compared at once, without the bits in which they differ. */
static void refuse_range(scmp_filter_ctx filter, int errnum, unsigned argument, uint64_t first,
                         uint64_t last)
{
    for (uint64_t size; first <= last; first += size) {
        for (size = 1; first % (size * 2) == 0 && first + size * 2 - 1 <= last;)
            size *= 2;
        seccomp_gen_refuse(filter, errnum, "socket",
                           SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, ~(size - 1), first));
    }
}

/* A stranger's protocol makes the kernel load a module for it: only TCP and UDP are asked for. */
static void refuse_other_protocols(scmp_filter_ctx filter)
{
    /* Types above SOCK_RAW have one of these two bits. */
    for (unsigned bit = SOCK_RAW + 1; bit < SOCKET_TYPE; bit *= 2)
        seccomp_gen_refuse(filter, ESOCKTNOSUPPORT, "socket",
                           SCMP_A1(SCMP_CMP_MASKED_EQ, bit, bit));
    refuse_range(filter, EPROTONOSUPPORT, 2, 1, IPPROTO_TCP - 1);
    refuse_range(filter, EPROTONOSUPPORT, 2, IPPROTO_TCP + 1, IPPROTO_UDP - 1);
    seccomp_gen_refuse(filter, EPROTONOSUPPORT, "socket", SCMP_A2(SCMP_CMP_GT, IPPROTO_UDP));
}

/*
 * TCP and UDP over IP, in the cage's own empty network, and the list of its interfaces. A unix
 * socket could connect to the host's through any bind, so only connected pairs remain; a pair of
 * datagram sockets is not bound to stay one, and vsock reaches past network namespaces.
 */
static void refuse_sockets(scmp_filter_ctx filter)
{
    refuse_range(filter, EAFNOSUPPORT, 0, 0, AF_INET - 1);
    refuse_range(filter, EAFNOSUPPORT, 0, AF_INET + 1, AF_INET6 - 1);
    refuse_range(filter, EAFNOSUPPORT, 0, AF_INET6 + 1, AF_NETLINK - 1);
    seccomp_gen_refuse(filter, EAFNOSUPPORT, "socket", SCMP_A0(SCMP_CMP_GT, AF_NETLINK));
    const struct scmp_arg_cmp other_netlink[] = {SCMP_A0(SCMP_CMP_EQ, AF_NETLINK),
                                                 SCMP_A2(SCMP_CMP_NE, NETLINK_ROUTE)};
    rule(filter, SCMP_ACT_ERRNO(EPROTONOSUPPORT), "socket", 2, other_netlink);

    refuse_other_protocols(filter);

    seccomp_gen_refuse(filter, EAFNOSUPPORT, "socketpair", SCMP_A0(SCMP_CMP_NE, AF_UNIX));
    static const uint64_t unconnected[] = {SOCK_DGRAM, SOCK_RAW}; /* raw means datagram here */
    for (size_t i = 0; i < 2; i++)
        seccomp_gen_refuse(filter, ESOCKTNOSUPPORT, "socketpair",
                           SCMP_A1(SCMP_CMP_MASKED_EQ, SOCKET_TYPE, unconnected[i]));
}

/* Input pushed into a terminal, the console's, and line disciplines, which load kernel modules. */
static void refuse_terminals(scmp_filter_ctx filter)
{
    static const uint64_t requests[] = {TIOCSTI, TIOCLINUX, TIOCSETD_NUMBER};
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        seccomp_gen_refuse(filter, EPERM, "ioctl",
                           SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_32, requests[i]));
}

/* A lease on a file that can be read makes those wait, outside, who open it to write. */
static void refuse_leases(scmp_filter_ctx filter)
{
    static const uint64_t commands[] = {F_SETLEASE, F_SETDELEG_CALL};
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        seccomp_gen_refuse(filter, EINVAL, "fcntl",
                           SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_32, commands[i]));
}

/*
 * The limit of 1 byte that a cage starts with keeps the kernel from calling a handler of core
 * dumps, which is a program of the host's root; 0 would not. So it stays, and who sets it is told
 * that he did: some programs end if they cannot.
 */
static void keep_core_limit(scmp_filter_ctx filter)
{
    seccomp_gen_refuse(filter, 0, "setrlimit", SCMP_A0(SCMP_CMP_MASKED_EQ, LOW_32, RLIMIT_CORE));
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
    } makes[] = {{"chmod", 1}, {"fchmod", 1},  {"fchmodat", 2}, {"creat", 1},
                 {"mkdir", 1}, {"mkdirat", 2}, {"mknod", 1},    {"mknodat", 2}};
    static const struct {
        const char *name;
        unsigned flags, mode;
    } opens[] = {{"open", 1, 2}, {"openat", 2, 3}};
    static const uint64_t bits[] = {S_ISUID, S_ISGID};
    static const uint64_t creates[] = {O_CREAT_BIT, O_TMPFILE_BIT};

    for (size_t bit = 0; bit < 2; bit++) {
        for (size_t i = 0; i < sizeof(makes) / sizeof(makes[0]); i++)
            seccomp_gen_refuse(filter, EPERM, makes[i].name,
                               SCMP_CMP(makes[i].mode, SCMP_CMP_MASKED_EQ, bits[bit], bits[bit]));
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

/*
 * A whiteout is a device node, of numbers that the kernel lets anybody make, on the host's disk,
 * where file systems laid over others take it for a deletion.
 */
static void refuse_whiteouts(scmp_filter_ctx filter)
{
    seccomp_gen_refuse(filter, EINVAL, "renameat2",
                       SCMP_A4(SCMP_CMP_MASKED_EQ, RENAME_WHITEOUT, RENAME_WHITEOUT));
    seccomp_gen_refuse(filter, EPERM, "mknod", SCMP_A1(SCMP_CMP_MASKED_EQ, S_IFMT, S_IFCHR));
    seccomp_gen_refuse(filter, EPERM, "mknodat", SCMP_A2(SCMP_CMP_MASKED_EQ, S_IFMT, S_IFCHR));
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
    refuse_whiteouts(filter);
    return filter;
}

static void write_bytes(FILE *out, const char *name, const void *data, size_t length)
{
    const unsigned char *bytes = data;
    fprintf(out, "static const unsigned char %s[] __attribute__((aligned(8), unused)) = {", name);
    for (size_t i = 0; i < length; i++)
        fprintf(out, "%s%u,", i % 16 == 0 ? "\n    " : " ", bytes[i]);
    fprintf(out, "\n};\n");
}

static void write_filter(FILE *out, const char *name, scmp_filter_ctx filter)
{
    static unsigned char bytes[BPF_MAXINSNS * sizeof(struct sock_filter)];
    int fd = memfd_create(name, MFD_CLOEXEC);
    seccomp_gen_need(fd < 0 ? -errno : 0, "memfd_create");
    seccomp_gen_need(seccomp_export_bpf(filter, fd), "seccomp_export_bpf");
    ssize_t length = pread(fd, bytes, sizeof(bytes), 0);
    seccomp_gen_need(length < 0 ? -errno : 0, "pread");
    write_bytes(out, name, bytes, (size_t)length);
    close(fd);
    seccomp_release(filter);
}

static void write_calls(FILE *out, const char *name)
{
    write_bytes(out, name, calls.program, (size_t)calls.length * sizeof(calls.program[0]));
}

static int write_filters(const char *path)
{
    FILE *out = fopen(path, "we");
    seccomp_gen_need(out == NULL ? -errno : 0, path);
    fprintf(out, "/* Written by seccomp-gen from syscalls.def. */\n");
    make_calls_filter(false);
    write_calls(out, "cage_filter_calls");
    make_calls_filter(true);
    write_calls(out, "cage_filter_calls_watched");
    write_filter(out, "cage_filter_arguments", make_arguments_filter());
    return fclose(out);
}

/* The filter for the shim, and for kaged-watch what the calls mean. */
static int write_watch(const char *path)
{
    FILE *out = fopen(path, "we");
    seccomp_gen_need(out == NULL ? -errno : 0, path);
    fprintf(out, "/* Written by seccomp-gen from watched.def. */\n");
    make_watch_filter();
    write_calls(out, "cage_filter_watch");
    fprintf(out, "#ifdef CAGE_WATCHED_CALLS\n"
                 "static const struct watched_call watched_calls[] = {\n");
    for (size_t i = 0; i < WATCHED_COUNT; i++)
        if (seccomp_gen_number_of(watched[i].name) >= 0)
            fprintf(out, "    {%d, \"%s\", ACT_%s, %d, %d},\n",
                    seccomp_gen_number_of(watched[i].name), watched[i].name, watched[i].act,
                    watched[i].folder, watched[i].what);
    fprintf(out, "};\n#endif\n");
    return fclose(out);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: seccomp-gen FILTERS-HEADER WATCH-HEADER\n");
        return 2;
    }
    return write_filters(argv[1]) == 0 && write_watch(argv[2]) == 0 ? 0 : 1;
}
