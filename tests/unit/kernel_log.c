/*
 * Records of the kernel's audit log, read from a pair of datagram sockets instead of the kernel:
 * those of Landlock as Linux 6.15 writes them, those of others, and some that nobody would write.
 */
#include "cage/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <poll.h>
#include <setjmp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define ACCESS_RECORD 1423
#define DOMAIN_RECORD 1424
#define PREFIX        "audit(1729738800.268:30): "

static int ends[2]; /* what the kernel would write to, and what is read */

static int open_ends(void **state)
{
    (void)state;
    return socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
}

static int close_ends(void **state)
{
    (void)state;
    kg_close(&ends[0]);
    kg_close(&ends[1]);
    return 0;
}

static void put_bytes(const void *bytes, size_t length)
{
    assert_int_equal(send(ends[0], bytes, length, 0), length);
}

static void put(uint16_t type, const char *text)
{
    kg_auto(kg_buf_free) struct kg_buf packet = {0};
    const struct nlmsghdr header = {.nlmsg_len = (uint32_t)strlen(text), .nlmsg_type = type};
    kg_buf_append(&packet, &header, sizeof(header));
    kg_buf_text(&packet, text);
    put_bytes(packet.data, packet.length);
}

static void expect_denial(uint64_t domain, enum cage_access access, const char *path)
{
    struct cage_denial denial = {0};
    assert_int_equal(cage_kernel_log_read(ends[1], &denial), 1);
    assert_int_equal(denial.domain, domain);
    assert_int_equal(denial.pid, 0);
    assert_int_equal(denial.access, access);
    assert_string_equal(denial.path, path);
    kg_free(&denial.path);
}

static void expect_passed_over(void)
{
    struct cage_denial untouched = {.domain = 77};
    assert_int_equal(cage_kernel_log_read(ends[1], &untouched), 0);
    assert_int_equal(untouched.domain, 77);
}

static void expect_no_more(void)
{
    struct cage_denial denial;
    assert_int_equal(cage_kernel_log_read(ends[1], &denial), -EAGAIN);
}

/* -- records ----------------------------------------------------------------------------------- */

static void denial_has_a_domain_an_access_and_a_path(void **state)
{
    (void)state;
    put(ACCESS_RECORD, PREFIX "domain=195ba459b blockers=fs.execute path=\"/usr/bin/id\" "
                              "dev=\"vda2\" ino=143821");
    put(ACCESS_RECORD, PREFIX "domain=2 blockers=fs.make_reg path=\"/etc\" dev=\"vda2\" ino=2");
    put(ACCESS_RECORD, PREFIX "domain=3 blockers=ptrace opid=1 ocomm=\"systemd\"");
    expect_denial(0x195ba459b, CAGE_ACCESS_EXECUTE, "/usr/bin/id");
    expect_denial(2, CAGE_ACCESS_WRITE, "/etc");
    expect_denial(3, CAGE_ACCESS_PROCESS, "");
    expect_no_more();
}

static void domain_is_told_with_the_process_that_began_it(void **state)
{
    (void)state;
    struct cage_denial told;
    put(DOMAIN_RECORD, PREFIX "domain=195ba459b status=allocated mode=enforcing pid=300 uid=0 "
                              "exe=\"/root/sandboxer\" comm=\"sandboxer\"");
    assert_int_equal(cage_kernel_log_read(ends[1], &told), 1);
    assert_int_equal(told.domain, 0x195ba459b);
    assert_int_equal(told.pid, 300);
    assert_null(told.path);
}

static void path_of_hexadecimal_digits_is_read(void **state)
{
    (void)state;
    put(ACCESS_RECORD, PREFIX "domain=1 blockers=fs.write_file path=2F746D702F6120220A62 dev=0");
    expect_denial(1, CAGE_ACCESS_WRITE, "/tmp/a \"\nb");
}

static void path_that_only_looks_so_stays_as_it_is(void **state)
{
    (void)state;
    put(ACCESS_RECORD, PREFIX "domain=1 blockers=fs.write_file path=\"/cafe\" dev=0");
    put(ACCESS_RECORD, PREFIX "domain=1 blockers=fs.write_file path=(null) dev=0");
    put(ACCESS_RECORD, PREFIX "domain=1 blockers=fs.write_file path=2F7 dev=0");
    put(ACCESS_RECORD, PREFIX "domain=1 blockers=fs.write_file path=2F0061 dev=0");
    expect_denial(1, CAGE_ACCESS_WRITE, "/cafe");
    expect_denial(1, CAGE_ACCESS_WRITE, "(null)");
    expect_denial(1, CAGE_ACCESS_WRITE, "2F7");
    expect_denial(1, CAGE_ACCESS_WRITE, "/?a");
}

static void records_of_others_are_passed_over_one_by_one(void **state)
{
    (void)state;
    put(AUDIT_SYSCALL, PREFIX "arch=c000003e syscall=59 domain=1 path=\"/x\" pid=1");
    put(DOMAIN_RECORD, PREFIX "domain=1 status=deallocated denials=3");
    put(ACCESS_RECORD, PREFIX "blockers=fs.execute path=\"/bin/id\"");
    put(ACCESS_RECORD, PREFIX "domain=1 blockers=fs.execute path=\"/bin/id\"");
    for (int i = 0; i < 3; i++)
        expect_passed_over();
    expect_denial(1, CAGE_ACCESS_EXECUTE, "/bin/id");
}

static void what_stands_inside_another_field_is_no_field(void **state)
{
    (void)state;
    put(ACCESS_RECORD, PREFIX "domain=1 blockers=fs.execute comm=\"xdomain=9\" path=\"/a\"");
    put(ACCESS_RECORD,
        PREFIX "subdomain=9 domain=1 blockers=fs.execute oldpath=\"/b\" path=\"/a\"");
    expect_denial(1, CAGE_ACCESS_EXECUTE, "/a");
    expect_denial(1, CAGE_ACCESS_EXECUTE, "/a");
}

static void cut_records_do_no_harm(void **state)
{
    (void)state;
    static const char whole[] = PREFIX "domain=1 blockers=fs.execute path=\"/usr/bin/id\" dev=0";
    struct nlmsghdr header = {.nlmsg_len = sizeof(whole), .nlmsg_type = ACCESS_RECORD};
    for (size_t length = 0; length < sizeof(header); length++) {
        put_bytes(&header, length);
        expect_passed_over();
    }
    for (size_t length = 0; length < sizeof(whole); length++) {
        kg_auto(kg_free) char *part = kg_str_dup((struct kg_str){whole, length});
        struct cage_denial denial = {0};
        put(ACCESS_RECORD, part);
        assert_in_range(cage_kernel_log_read(ends[1], &denial), 0, 1);
        kg_free(&denial.path);
    }
    expect_no_more();
}

static void hostile_records_do_no_harm(void **state)
{
    (void)state;
    static const char *const records[] = {
        "domain=",
        "domain=zz path=\"",
        "domain=0 path=\"/x\"",
        "domain=ffffffffffffffffffffffff pid=99999999999999999999 path=",
        "domain=1 pid=-1",
        "domain=1 pid=0",
        "domain=1 pid=2147483648",
        "domain=\"1",
        "path=path=path= domain=domain=",
    };
    for (size_t i = 0; i < KG_COUNT(records); i++) {
        for (uint16_t type = ACCESS_RECORD; type <= DOMAIN_RECORD; type++) {
            struct cage_denial denial = {0};
            put(type, records[i]);
            assert_in_range(cage_kernel_log_read(ends[1], &denial), 0, 1);
            assert_true(denial.pid >= 0);
            kg_free(&denial.path);
        }
    }
    expect_no_more();
}

static void record_past_every_size_is_cut(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct cage_denial denial = {0};
    kg_buf_text(&text, PREFIX "domain=1 blockers=fs.execute path=");
    for (int i = 0; i < 10000; i++)
        kg_buf_text(&text, "61");
    put(ACCESS_RECORD, kg_buf_terminate(&text));
    assert_int_equal(cage_kernel_log_read(ends[1], &denial), 1);
    assert_in_range(strlen(denial.path), 1, 9000);
    kg_free(&denial.path);
    expect_no_more();
}

/* -- opening ----------------------------------------------------------------------------------- */

/* 1 if the kernel says that it records, 0 if not, -1 if it does not say, or not to us. */
static int ask_kernel(void)
{
    struct {
        struct nlmsghdr header;
        struct audit_status status;
    } packet = {.header = {.nlmsg_len = NLMSG_LENGTH(0),
                           .nlmsg_type = AUDIT_GET,
                           .nlmsg_flags = NLM_F_REQUEST}};
    const struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = 1};
    kg_auto(kg_close) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_AUDIT);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
        send(fd, &packet, packet.header.nlmsg_len, 0) < 0)
        return -1;
    do {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, 5000) <= 0 || recv(fd, &packet, sizeof(packet), 0) < 0 ||
            packet.header.nlmsg_type == NLMSG_ERROR)
            return -1;
    } while (packet.header.nlmsg_type != AUDIT_GET);
    return packet.status.enabled != 0;
}

/*
 * The kernel answers a moment later. That was taken for no answer, so a root daemon never heard of
 * refusals even where the log was on.
 */
static void answer_of_the_kernel_is_waited_for(void **state)
{
    (void)state;
    int said = ask_kernel();
    for (int i = 0; i < 20; i++) {
        kg_auto(kg_close) int fd = -1;
        enum cage_kernel_log log = cage_kernel_log_open(&fd);
        assert_int_equal(log == CAGE_KERNEL_LOG_TELLS, fd >= 0);
        assert_int_equal(log == CAGE_KERNEL_LOG_NOT_OURS, said < 0);
        if (said == 0)
            assert_int_equal(log, CAGE_KERNEL_LOG_OFF);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(denial_has_a_domain_an_access_and_a_path, open_ends,
                                        close_ends),
        cmocka_unit_test_setup_teardown(domain_is_told_with_the_process_that_began_it, open_ends,
                                        close_ends),
        cmocka_unit_test_setup_teardown(path_of_hexadecimal_digits_is_read, open_ends, close_ends),
        cmocka_unit_test_setup_teardown(path_that_only_looks_so_stays_as_it_is, open_ends,
                                        close_ends),
        cmocka_unit_test_setup_teardown(records_of_others_are_passed_over_one_by_one, open_ends,
                                        close_ends),
        cmocka_unit_test_setup_teardown(what_stands_inside_another_field_is_no_field, open_ends,
                                        close_ends),
        cmocka_unit_test_setup_teardown(cut_records_do_no_harm, open_ends, close_ends),
        cmocka_unit_test_setup_teardown(hostile_records_do_no_harm, open_ends, close_ends),
        cmocka_unit_test_setup_teardown(record_past_every_size_is_cut, open_ends, close_ends),
        cmocka_unit_test(answer_of_the_kernel_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
