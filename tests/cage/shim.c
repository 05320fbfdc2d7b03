/*
 * The first program in a cage, by itself and outside of one: what it refuses to do before it runs
 * any code of a plugin's. Its orders are written here by hand.
 */
#include "cage/internal.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MANY    "1000000" /* processes: a limit that is lower already stays */
#define REFUSED 126
#define RAN     7

static char shim[CAGE_PATH_MAX];
static char top[] = "/tmp/kaged-shim-XXXXXX"; /* holds a folder that something is mounted on, */
static char mounted[64], plain[64], link_to_mounted[64]; /* one that is none, and a link */

/* An ordinary user may mount in a namespace of his own. */
static void mount_folder(void)
{
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    assert_int_equal(unshare(CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER)), 0);
    assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    assert_int_equal(mount(mounted, mounted, NULL, MS_BIND, NULL), 0);
    assert_int_equal(mount_setattr(AT_FDCWD, mounted, 0, &attributes, sizeof(attributes)), 0);
}

static int make_folders(void **state)
{
    (void)state;
    kg_auto(kg_free) char *path = cage_helper_path("kaged-cage-init");
    assert_non_null(path);
    snprintf(shim, sizeof(shim), "%s", path);
    assert_non_null(mkdtemp(top));
    snprintf(mounted, sizeof(mounted), "%s/mounted", top);
    snprintf(plain, sizeof(plain), "%s/plain", top);
    snprintf(link_to_mounted, sizeof(link_to_mounted), "%s/link", top);
    assert_int_equal(mkdir(mounted, 0755), 0);
    assert_int_equal(mkdir(plain, 0755), 0);
    assert_int_equal(symlink(mounted, link_to_mounted), 0);
    mount_folder();
    return 0;
}

static int free_folders(void **state)
{
    (void)state;
    assert_int_equal(umount2(mounted, MNT_DETACH), 0);
    kg_auto(kg_free) char *command = kg_format("rm -r %s", top);
    return system(command);
}

static void add(struct kg_buf *orders, const char *word)
{
    kg_buf_append(orders, word, strlen(word) + 1);
}

/* Orders that what can be found by this path is mounted there. */
static void add_mount(struct kg_buf *orders, char letter, const char *path)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    kg_buf_printf(orders, "%c%s", letter, path);
    kg_buf_char(orders, '\0');
    const unsigned long numbers[] = {major(status.st_dev), minor(status.st_dev), status.st_ino};
    for (size_t i = 0; i < KG_COUNT(numbers); i++) {
        kg_buf_printf(orders, "%lu", numbers[i]);
        kg_buf_char(orders, '\0');
    }
}

/* The whole of it, to exit with RAN once these mounts were found to be right. */
static struct kg_buf orders_with(const struct kg_buf *mounts)
{
    struct kg_buf rest = {0}, orders = {0};
    const char *const first[] = {MANY, "0", "0", ""}, *const last[] = {"", "/bin/sh", "-c",
                                                                       "exit 7"};
    for (size_t i = 0; i < KG_COUNT(first); i++)
        add(&rest, first[i]);
    kg_buf_append(&rest, mounts->data, mounts->length);
    for (size_t i = 0; i < KG_COUNT(last); i++)
        add(&rest, last[i]);
    kg_buf_printf(&orders, "%zu", rest.length);
    kg_buf_char(&orders, '\0');
    kg_buf_append(&orders, rest.data, rest.length);
    kg_buf_free(&rest);
    return orders;
}

/* The shim's exit code. What it complains of is not shown. */
static int follow(const char *orders, size_t length)
{
    char number[16];
    int file = cage_memory_file("orders", orders, length, NULL), status;
    assert_true(file >= 0);
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        snprintf(number, sizeof(number), "%d", fcntl(file, F_DUPFD, 10));
        dup2(null, STDERR_FILENO);
        execl(shim, shim, "2", "0", "1", number, (char *)NULL);
        _exit(1);
    }
    close(file);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int follow_with(const struct kg_buf *mounts)
{
    kg_auto(kg_buf_free) struct kg_buf orders = orders_with(mounts);
    return follow(orders.data, orders.length);
}

static void orders_that_were_cut_run_nothing(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf mounts = {0};
    add_mount(&mounts, CAGE_MOUNT_WRITE, mounted);
    kg_auto(kg_buf_free) struct kg_buf orders = orders_with(&mounts);
    assert_int_equal(follow(orders.data, orders.length), RAN);
    for (size_t length = 0; length < orders.length; length++)
        assert_int_equal(follow(orders.data, length), REFUSED);
}

static void orders_that_are_too_long_run_nothing(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf orders = orders_with(&(struct kg_buf){0});
    add(&orders, "and more");
    assert_int_equal(follow(orders.data, orders.length), REFUSED);
}

static void mount_that_can_be_written_is_not_taken_for_a_read_only_one(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf mounts = {0};
    add_mount(&mounts, CAGE_MOUNT_READ, mounted);
    assert_int_equal(follow_with(&mounts), REFUSED);
}

static void right_folder_that_nothing_is_mounted_on_is_refused(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf mounts = {0};
    add_mount(&mounts, CAGE_MOUNT_WRITE, plain);
    assert_int_equal(follow_with(&mounts), REFUSED);
}

static void one_mount_does_not_count_for_two(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf mounts = {0};
    add_mount(&mounts, CAGE_MOUNT_WRITE, mounted);
    assert_int_equal(follow_with(&mounts), RAN);
    add_mount(&mounts, CAGE_MOUNT_WRITE, mounted);
    assert_int_equal(follow_with(&mounts), REFUSED);
}

static void link_to_the_right_mount_is_refused(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf mounts = {0};
    add_mount(&mounts, CAGE_MOUNT_WRITE, link_to_mounted);
    assert_int_equal(follow_with(&mounts), REFUSED);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_that_were_cut_run_nothing),
        cmocka_unit_test(orders_that_are_too_long_run_nothing),
        cmocka_unit_test(mount_that_can_be_written_is_not_taken_for_a_read_only_one),
        cmocka_unit_test(right_folder_that_nothing_is_mounted_on_is_refused),
        cmocka_unit_test(one_mount_does_not_count_for_two),
        cmocka_unit_test(link_to_the_right_mount_is_refused),
    };
    return cmocka_run_group_tests_name("cage shim", tests, make_folders, free_folders);
}
