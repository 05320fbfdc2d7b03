/*
 * The two filters, run here as the kernel runs them: over every number of a call, and the odd ones,
 * the first says what libseccomp would make of the same list; and whatever arguments a call has,
 * the second refuses what the kernel would understand as a way out.
 */
#include "base/base.h"
#include "seccomp-filters.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define NUMBERS 1100 /* the highest one of any machine is below 600 */
#define STRANGE 200000
#define X32_BIT 0x40000000u
#define UPPER   0x100000000ull /* a bit that the kernel drops from an int */

/* -- the kernel's part ------------------------------------------------------------------------- */

struct program {
    struct sock_filter steps[BPF_MAXINSNS];
    size_t count;
};

static struct program calls, arguments; /* of a cage */
static struct program plain_calls;      /* what libseccomp makes of the same list */

static void take(const void *bytes, size_t length, struct program *ret_program)
{
    assert_true(length <= sizeof(ret_program->steps));
    memcpy(ret_program->steps, bytes, length);
    ret_program->count = length / sizeof(struct sock_filter);
}

static uint32_t load(const struct seccomp_data *data, uint32_t offset)
{
    uint32_t value;
    assert_true(offset <= sizeof(*data) - sizeof(value) && offset % sizeof(value) == 0);
    memcpy(&value, (const char *)data + offset, sizeof(value));
    return value;
}

static bool compare(uint16_t how, uint32_t value, uint32_t with)
{
    if (how == BPF_JEQ)
        return value == with;
    if (how == BPF_JGE)
        return value >= with;
    if (how == BPF_JGT)
        return value > with;
    assert_int_equal(how, BPF_JSET);
    return (value & with) != 0;
}

/* Fails the test at a step that filters are not made of, and at a jump out of the program. */
static uint32_t judge(const struct program *program, const struct seccomp_data *data)
{
    uint32_t value = 0;
    for (size_t at = 0;; at++) {
        assert_true(at < program->count);
        const struct sock_filter *step = &program->steps[at];
        if (step->code == (BPF_RET | BPF_K))
            return step->k;
        if (step->code == (BPF_LD | BPF_W | BPF_ABS))
            value = load(data, step->k);
        else if (step->code == (BPF_ALU | BPF_AND | BPF_K))
            value &= step->k;
        else if (step->code == (BPF_JMP | BPF_JA))
            at += step->k;
        else if (BPF_CLASS(step->code) == BPF_JMP && BPF_SRC(step->code) == BPF_K)
            at += compare(BPF_OP(step->code), value, step->k) ? step->jt : step->jf;
        else
            fail_msg("step %zu has the code %u", at, step->code);
    }
}

/* -- calls ------------------------------------------------------------------------------------- */

static void allow(scmp_filter_ctx filter, const char *name, unsigned count,
                  const struct scmp_arg_cmp *conditions)
{
    int call = seccomp_syscall_resolve_name(name);
    assert_int_not_equal(call, __NR_SCMP_ERROR);
    if (call >= 0)
        assert_int_equal(seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, count, conditions),
                         0);
}

static void make_plain_calls(void)
{
    static const char *const names[] = {
#define CALL(name) #name,
#include "cage/syscalls.def"
#undef CALL
    };
    static char bytes[sizeof(plain_calls.steps)];
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    assert_int_equal(seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), 0);
    for (size_t i = 0; i < KG_COUNT(names); i++)
        allow(filter, names[i], 0, NULL);
    allow(filter, "personality", 1, &SCMP_A0(SCMP_CMP_EQ, 0));
    allow(filter, "personality", 1, &SCMP_A0(SCMP_CMP_EQ, UINT32_MAX));
    kg_auto(kg_close) int fd = memfd_create("filter", MFD_CLOEXEC);
    assert_int_equal(seccomp_export_bpf(filter, fd), 0);
    seccomp_release(filter);
    ssize_t length = pread(fd, bytes, sizeof(bytes), 0);
    assert_true(length > 0);
    take(bytes, (size_t)length, &plain_calls);
}

static int take_filters(void **state)
{
    (void)state;
    take(cage_filter_calls, sizeof(cage_filter_calls), &calls);
    take(cage_filter_arguments, sizeof(cage_filter_arguments), &arguments);
    make_plain_calls();
    return 0;
}

static void expect_same(uint32_t arch, uint32_t call, uint64_t first)
{
    struct seccomp_data data = {.nr = (int)call, .arch = arch, .args = {first}};
    uint32_t expected = judge(&plain_calls, &data), found = judge(&calls, &data);
    if (found != expected)
        fail_msg("arch %#x, call %#x, argument %#llx: %#x, and libseccomp says %#x", arch, call,
                 (unsigned long long)first, found, expected);
}

static void every_number_is_judged_as_by_libseccomp(void **state)
{
    (void)state;
    static const uint32_t tops[] = {0, X32_BIT, X32_BIT * 2, X32_BIT * 3};
    uint32_t arch = seccomp_arch_native();
    for (size_t i = 0; i < KG_COUNT(tops); i++)
        for (uint32_t call = 0; call < NUMBERS; call++) {
            expect_same(arch, tops[i] + call, 0);
            expect_same(arch, tops[i] - 1 - call, 0);
        }
    srandom(1);
    for (unsigned i = 0; i < STRANGE; i++)
        expect_same(arch, (uint32_t)random() * 2u + (i & 1), 0);
}

static void numbers_of_other_machines_are_killed(void **state)
{
    (void)state;
    uint32_t native = seccomp_arch_native();
    static const uint32_t others[] = {SCMP_ARCH_X86,   SCMP_ARCH_ARM,     SCMP_ARCH_PPC64LE,
                                      SCMP_ARCH_S390X, SCMP_ARCH_RISCV64, 0,
                                      UINT32_MAX};
    for (uint32_t call = 0; call < NUMBERS; call++) {
        for (size_t i = 0; i < KG_COUNT(others); i++)
            expect_same(others[i], call, 0);
        for (unsigned bit = 0; bit < 32; bit++)
            expect_same(native ^ (1u << bit), call, 0);
    }
}

static void only_the_plain_personality_may_be_asked_for(void **state)
{
    (void)state;
    uint32_t arch = seccomp_arch_native();
    uint32_t call = (uint32_t)seccomp_syscall_resolve_name("personality");
    static const uint64_t known[] = {0, UINT32_MAX, UPPER, UPPER | UINT32_MAX, UINT64_MAX};
    for (size_t i = 0; i < KG_COUNT(known); i++)
        expect_same(arch, call, known[i]);
    for (unsigned bit = 0; bit < 64; bit++) {
        expect_same(arch, call, 1ull << bit);
        expect_same(arch, call, UINT32_MAX ^ (1ull << bit));
    }
}

/* -- arguments --------------------------------------------------------------------------------- */

/* Each says whether the kernel would do what must not be done, by the arguments as it sees them. */
static bool makes_namespace(const uint64_t *args)
{
    return (args[0] & (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                       CLONE_NEWPID | CLONE_NEWNET)) != 0;
}

static bool makes_other_socket(const uint64_t *args)
{
    uint32_t family = (uint32_t)args[0], type = (uint32_t)args[1] & 0xf,
             protocol = (uint32_t)args[2];
    bool is_ip = family == AF_INET || family == AF_INET6;
    bool is_plain =
        protocol == 0 || (is_ip && (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP));
    return !(is_ip || family == AF_NETLINK) || type > SOCK_RAW || !is_plain;
}

static bool makes_other_pair(const uint64_t *args)
{
    uint32_t type = (uint32_t)args[1] & 0xf;
    return (uint32_t)args[0] != AF_UNIX || type == SOCK_DGRAM || type == SOCK_RAW;
}

static bool drives_a_terminal(const uint64_t *args)
{
    uint32_t request = (uint32_t)args[1];
    return request == TIOCSTI || request == TIOCLINUX || request == TIOCSETD;
}

static bool takes_a_lease(const uint64_t *args)
{
    return (uint32_t)args[1] == F_SETLEASE || (uint32_t)args[1] == 1040;
}

static bool sets_core_limit(const uint64_t *args)
{
    return (uint32_t)args[0] == RLIMIT_CORE;
}

static bool sets_core_limit_of(const uint64_t *args)
{
    return (uint32_t)args[1] == RLIMIT_CORE && args[2] != 0;
}

static bool is_setuid(uint64_t mode)
{
    return (mode & (S_ISUID | S_ISGID)) != 0;
}

static bool has_mode_second(const uint64_t *args)
{
    return is_setuid(args[1]);
}

static bool has_mode_third(const uint64_t *args)
{
    return is_setuid(args[2]);
}

static bool makes_node_second(const uint64_t *args)
{
    return is_setuid(args[1]) || (args[1] & S_IFMT) == S_IFCHR;
}

static bool makes_node_third(const uint64_t *args)
{
    return is_setuid(args[2]) || (args[2] & S_IFMT) == S_IFCHR;
}

static bool leaves_a_node(const uint64_t *args)
{
    return (args[4] & RENAME_WHITEOUT) != 0;
}

static bool creates(uint64_t flags)
{
    return (flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) != 0;
}

static bool creates_by_path(const uint64_t *args)
{
    return creates(args[1]) && is_setuid(args[2]);
}

static bool creates_in_folder(const uint64_t *args)
{
    return creates(args[2]) && is_setuid(args[3]);
}

static const struct {
    const char *name;
    bool (*is_refused)(const uint64_t *args);
    unsigned first, count; /* the arguments that it is about */
} judged[] = {
    {"clone", makes_namespace, 0, 1},        {"socket", makes_other_socket, 0, 3},
    {"socketpair", makes_other_pair, 0, 2},  {"ioctl", drives_a_terminal, 1, 1},
    {"fcntl", takes_a_lease, 1, 1},          {"setrlimit", sets_core_limit, 0, 1},
    {"prlimit64", sets_core_limit_of, 1, 2}, {"chmod", has_mode_second, 1, 1},
    {"fchmod", has_mode_second, 1, 1},       {"fchmodat", has_mode_third, 2, 1},
    {"creat", has_mode_second, 1, 1},        {"mkdir", has_mode_second, 1, 1},
    {"mkdirat", has_mode_third, 2, 1},       {"mknod", makes_node_second, 1, 1},
    {"mknodat", makes_node_third, 2, 1},     {"open", creates_by_path, 1, 2},
    {"openat", creates_in_folder, 2, 2},     {"renameat2", leaves_a_node, 4, 1},
};

/* Small numbers, single bits, bits that are missing, what is asked for by name; then all of them
 * with a bit above. */
static size_t collect_values(uint64_t *values)
{
    static const uint32_t named[] = {
        TIOCSTI,   TIOCLINUX,        TIOCSETD, F_SETLEASE, 1040,
        O_TMPFILE, O_CREAT | O_RDWR, 04755,    UINT32_MAX, SOCK_STREAM | SOCK_CLOEXEC,
        262};
    size_t count = 0;
    for (uint32_t small = 0; small <= 20; small++)
        values[count++] = small;
    for (unsigned bit = 5; bit < 32; bit++)
        values[count++] = 1u << bit;
    for (size_t i = 0; i < KG_COUNT(named); i++)
        values[count++] = named[i];
    for (size_t i = 0, plain = count; i < plain; i++)
        values[count++] = values[i] | UPPER;
    return count;
}

/* The kernel drops upper bits of what is an int: with them, being refused too often does no harm.
 */
static void expect_judged(size_t row, const struct seccomp_data *data, bool is_plain)
{
    bool must_refuse = judged[row].is_refused((const uint64_t *)data->args);
    bool refuses = judge(&arguments, data) != SECCOMP_RET_ALLOW;
    if (refuses != must_refuse && (must_refuse || is_plain))
        fail_msg("%s(%#llx, %#llx, %#llx, %#llx) is %s", judged[row].name, data->args[0],
                 data->args[1], data->args[2], data->args[3], refuses ? "refused" : "allowed");
}

static void arguments_are_judged_as_the_kernel_understands_them(void **state)
{
    (void)state;
    uint64_t values[256];
    size_t count = collect_values(values);
    for (size_t row = 0; row < KG_COUNT(judged); row++) {
        int call = seccomp_syscall_resolve_name(judged[row].name);
        size_t rounds = 1;
        for (unsigned i = 0; i < judged[row].count; i++)
            rounds *= count;
        for (size_t round = 0; call >= 0 && round < rounds; round++) {
            struct seccomp_data data = {.nr = call, .arch = seccomp_arch_native()};
            bool is_plain = true;
            for (size_t i = 0, rest = round; i < judged[row].count; i++, rest /= count) {
                data.args[judged[row].first + i] = values[rest % count];
                is_plain = is_plain && values[rest % count] < UPPER;
            }
            expect_judged(row, &data, is_plain);
        }
    }
}

static bool is_judged(uint32_t call)
{
    for (size_t row = 0; row < KG_COUNT(judged); row++)
        if (seccomp_syscall_resolve_name(judged[row].name) == (int)call)
            return true;
    return false;
}

static void other_calls_may_have_any_arguments(void **state)
{
    (void)state;
    for (uint32_t call = 0; call < NUMBERS; call++) {
        if (is_judged(call))
            continue;
        struct seccomp_data data = {.nr = (int)call, .arch = seccomp_arch_native()};
        assert_int_equal(judge(&arguments, &data), SECCOMP_RET_ALLOW);
        memset(data.args, 0xff, sizeof(data.args));
        assert_int_equal(judge(&arguments, &data), SECCOMP_RET_ALLOW);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_judged_as_by_libseccomp),
        cmocka_unit_test(numbers_of_other_machines_are_killed),
        cmocka_unit_test(only_the_plain_personality_may_be_asked_for),
        cmocka_unit_test(arguments_are_judged_as_the_kernel_understands_them),
        cmocka_unit_test(other_calls_may_have_any_arguments),
    };
    return cmocka_run_group_tests_name("seccomp", tests, take_filters, NULL);
}
