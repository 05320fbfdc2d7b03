/* The files of a plugin: what may be among them, their hash, and what changed. */
#include "store/tree.h"
#include "store/tree_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static const struct store_limits limits = {
    .bytes_max = 4096, .file_bytes_max = 2048, .files_max = 32, .depth_max = 4};

static char folder[] = "/tmp/kaged-tree-XXXXXX";
static int all = -1; /* the folder that all trees of these tests are in */

/* -- helpers ----------------------------------------------------------------------------------- */

static void write_file(int fd, const char *name, const char *text, mode_t mode)
{
    kg_auto(kg_close) int file = openat(fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    assert_int_equal(kg_write_all(file, text, strlen(text)), 0);
    assert_int_equal(fchmod(file, mode), 0);
}

/* A small plugin; the fd of its folder. */
static int make_tree(const char *name)
{
    assert_int_equal(mkdirat(all, name, 0755), 0);
    int fd = openat(all, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, 0755), 0);
    assert_int_equal(mkdirat(fd, "bin", 0755), 0);
    write_file(fd, "bin/run", "#!/bin/sh\n", 0755);
    write_file(fd, "kaged-plugin.yaml", "name: x\n", 0644);
    assert_int_equal(symlinkat("bin/run", fd, "run"), 0);
    return fd;
}

static void remove_tree(const char *name)
{
    struct kg_err err = {0};
    if (tree_remove(all, name, &err) < 0)
        fail_msg("%s", err.message);
}

static struct store_tree must_read(int fd)
{
    struct kg_err err = {0};
    struct store_tree tree;
    if (store_tree_read(fd, &limits, &tree, &err) < 0)
        fail_msg("%s", err.message);
    return tree;
}

static void assert_refused(int fd, const char *message)
{
    struct kg_err err = {0};
    struct store_tree tree;
    assert_true(store_tree_read(fd, &limits, &tree, &err) < 0);
    assert_string_equal(err.message, message);
}

static void quick(int fd, char ret_digest[STORE_HASH_TEXT])
{
    struct kg_err err = {0};
    if (store_tree_quick(fd, &limits, ret_digest, &err) < 0)
        fail_msg("%s", err.message);
}

/* -- names and links --------------------------------------------------------------------------- */

static void plain_relative_names_are_taken_and_others_are_not(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "a/b", ".hidden", "..a", "a b/ä", "ab:c", "-"};
    static const char *const bad[] = {
        "",      "/",    "/a",    "a/",    "a//b",      ".",    "..",  "../a",         "a/..",
        "a/./b", "a\nb", "a\x7f", "a\xff", "1/2/3/4/5", "a\\b", "C:a", "a\xE2\x80\xAE"};
    for (size_t i = 0; i < KG_COUNT(good); i++)
        assert_null(tree_path_problem(kg_str(good[i]), 4));
    for (size_t i = 0; i < KG_COUNT(bad); i++)
        assert_non_null(tree_path_problem(kg_str(bad[i]), 4));
    assert_non_null(tree_path_problem((struct kg_str){"a\0b", 3}, 4));
    kg_auto(kg_free) char *name = kg_alloc(TREE_NAME_BYTES_MAX + 2);
    memset(name, 'a', TREE_NAME_BYTES_MAX + 1);
    assert_non_null(tree_path_problem(kg_str(name), 4));
    name[TREE_NAME_BYTES_MAX] = '\0';
    assert_null(tree_path_problem(kg_str(name), 4));
}

/* Pairs of a link and what it says. */
static const char *link_of(void *data, struct kg_str path)
{
    for (const char *const *pair = data; *pair != NULL; pair += 2)
        if (kg_str_is(path, pair[0]))
            return pair[1];
    return NULL;
}

#define LINKS(...)                                                                                 \
    (void *)(const char *const[])                                                                  \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static void links_that_stay_inside_are_taken(void **state)
{
    (void)state;
    void *none = LINKS(NULL);
    assert_null(tree_link_problem(kg_str("a"), "b", link_of, none));
    assert_null(tree_link_problem(kg_str("x/y/a"), "../../b", link_of, none));
    assert_null(tree_link_problem(kg_str("x/a"), "./..//x/./b/", link_of, none));
    assert_null(tree_link_problem(kg_str("a"), "nowhere/../b", link_of, none));
    assert_null(tree_link_problem(kg_str("a"), "d/../b", link_of, LINKS("d", "x/y")));
}

static void links_that_lead_out_are_refused_also_over_other_links(void **state)
{
    (void)state;
    void *none = LINKS(NULL);
    assert_non_null(tree_link_problem(kg_str("a"), "", link_of, none));
    assert_non_null(tree_link_problem(kg_str("a"), "/etc", link_of, none));
    assert_non_null(tree_link_problem(kg_str("a"), "..", link_of, none));
    assert_non_null(tree_link_problem(kg_str("x/a"), "../../b", link_of, none));
    assert_non_null(tree_link_problem(kg_str("a"), "b\nc", link_of, none));
    /* By its text x/y/.. is x; by the link it is the top. */
    void *up = LINKS("x/y", "..", "x/z", "y/..");
    assert_null(tree_link_problem(kg_str("x/y"), "..", link_of, up));
    assert_non_null(tree_link_problem(kg_str("x/z"), "y/..", link_of, up));
    assert_non_null(tree_link_problem(kg_str("a"), "b", link_of, LINKS("b", "/etc")));
    assert_string_equal(tree_link_problem(kg_str("a"), "b", link_of, LINKS("b", "a", "a", "b")),
                        "the link is circular");
}

/* -- the hash ---------------------------------------------------------------------------------- */

static void hash_is_that_of_a_listing_that_anybody_can_write(void **state)
{
    (void)state;
    kg_auto(kg_close) int fd = make_tree("listed");
    kg_auto(store_tree_free) struct store_tree tree = must_read(fd);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    store_tree_print(&tree, &text);
    assert_string_equal(
        kg_buf_terminate(&text),
        "kaged tree 1\n"
        "d - 0 bin\n"
        "x a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf 10 bin/run\n"
        "f a2a79ea37edb1963efaae29281523ab441a8a99df048d204f22f3f413e325afc 8 kaged-plugin.yaml\n"
        "l 57b94356302c85712d33811d8bda2a57b5181e3b496466db149873f6ed118265 0 run\n");
    assert_string_equal(tree.hash,
                        "sha256:7a3404757d501f54a9f05cd7cfdf28905addd7e537641ade26af2cab3bdd81bf");
    assert_int_equal(tree.bytes, 18);
    remove_tree("listed");
}

static void listing_reads_back_and_a_damaged_one_does_not(void **state)
{
    (void)state;
    kg_auto(kg_close) int fd = make_tree("printed");
    kg_auto(store_tree_free) struct store_tree tree = must_read(fd), again = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_err err = {0};
    store_tree_print(&tree, &text);
    assert_int_equal(store_tree_parse(kg_buf_view(&text), &again, &err), 0);
    assert_string_equal(again.hash, tree.hash);
    assert_int_equal(again.bytes, tree.bytes);
    static const char *const bad[] = {"",
                                      "kaged tree 2\n",
                                      "kaged tree 1\nd - 0 b\nd - 0 a\n",
                                      "kaged tree 1\nd - 0 a",
                                      "kaged tree 1\nf - 0 a\n",
                                      "kaged tree 1\nd - 0 ../a\n",
                                      "kaged tree 1\nd - -1 a\n"};
    for (size_t i = 0; i < KG_COUNT(bad); i++)
        assert_true(store_tree_parse(kg_str(bad[i]), &again, &err) < 0);
    remove_tree("printed");
}

static void every_change_changes_the_hash_and_is_named(void **state)
{
    (void)state;
    kg_auto(kg_close) int fd = make_tree("changed");
    kg_auto(store_tree_free) struct store_tree before = must_read(fd);
    write_file(fd, "bin/run", "#!/bin/sh\n", 0644); /* no longer executable */
    write_file(fd, "kaged-plugin.yaml", "name: y\n", 0644);
    write_file(fd, "new", "", 0644);
    assert_int_equal(unlinkat(fd, "run", 0), 0);
    kg_auto(store_tree_free) struct store_tree after = must_read(fd);
    assert_string_not_equal(before.hash, after.hash);
    kg_auto(store_tree_diff_free) struct store_tree_diff diff = {0};
    store_tree_compare(&before, &after, &diff);
    assert_int_equal(diff.changed_count, 2);
    assert_string_equal(diff.changed[0], "bin/run");
    assert_string_equal(diff.changed[1], "kaged-plugin.yaml");
    assert_int_equal(diff.added_count, 1);
    assert_string_equal(diff.added[0], "new");
    assert_int_equal(diff.removed_count, 1);
    assert_string_equal(diff.removed[0], "run");
    remove_tree("changed");
}

static void modes_beside_the_executable_bit_do_not_matter(void **state)
{
    (void)state;
    kg_auto(kg_close) int fd = make_tree("modes");
    kg_auto(store_tree_free) struct store_tree before = must_read(fd);
    assert_int_equal(fchmodat(fd, "kaged-plugin.yaml", 0600, 0), 0);
    assert_int_equal(fchmodat(fd, "bin", 0700, 0), 0);
    kg_auto(store_tree_free) struct store_tree after = must_read(fd);
    assert_string_equal(before.hash, after.hash);
    remove_tree("modes");
}

/* -- the quick look ---------------------------------------------------------------------------- */

static void quick_look_sees_a_write_that_keeps_size_and_time(void **state)
{
    (void)state;
    char before[STORE_HASH_TEXT], same[STORE_HASH_TEXT], after[STORE_HASH_TEXT];
    kg_auto(kg_close) int fd = make_tree("quick");
    struct stat status;
    quick(fd, before);
    quick(fd, same);
    assert_string_equal(before, same);
    assert_int_equal(fstatat(fd, "bin/run", &status, 0), 0);
    usleep(20000); /* the kernel's clock of files is coarse */
    write_file(fd, "bin/run", "#!/bin/xx\n", 0755);
    const struct timespec times[] = {status.st_atim, status.st_mtim};
    assert_int_equal(utimensat(fd, "bin/run", times, 0), 0);
    quick(fd, after);
    assert_string_not_equal(before, after);
    remove_tree("quick");
}

static void quick_look_does_not_mind_that_the_whole_folder_moves(void **state)
{
    (void)state;
    char before[STORE_HASH_TEXT], after[STORE_HASH_TEXT];
    kg_auto(kg_close) int fd = make_tree("here");
    quick(fd, before);
    assert_int_equal(renameat(all, "here", all, "there"), 0);
    quick(fd, after);
    assert_string_equal(before, after);
    remove_tree("there");
}

/* -- refusals ---------------------------------------------------------------------------------- */

static void what_is_no_file_folder_or_link_is_refused(void **state)
{
    (void)state;
    kg_auto(kg_close) int fd = make_tree("kinds");
    assert_int_equal(mkfifoat(fd, "bin/pipe", 0600), 0);
    assert_refused(fd, "\"bin/pipe\": it is a pipe");
    assert_int_equal(unlinkat(fd, "bin/pipe", 0), 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/kinds/socket", folder);
    kg_auto(kg_close) int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_refused(fd, "\"socket\": it is a socket");
    remove_tree("kinds");
}

static void special_bits_are_refused(void **state)
{
    (void)state;
    kg_auto(kg_close) int fd = make_tree("bits");
    assert_int_equal(fchmodat(fd, "bin/run", 04755, 0), 0);
    assert_refused(fd, "\"bin/run\": it would run as its owner or group (set-id bit)");
    assert_int_equal(fchmodat(fd, "bin/run", 0755, 0), 0);
    assert_int_equal(fchmodat(fd, "bin", 01755, 0), 0);
    assert_refused(fd, "\"bin\": its sticky bit is set");
    remove_tree("bits");
}

static void links_out_of_the_folder_are_refused(void **state)
{
    (void)state;
    kg_auto(kg_close) int fd = make_tree("links");
    assert_int_equal(symlinkat("../../etc/passwd", fd, "bin/out"), 0);
    assert_refused(fd, "\"bin/out\": the link leads out of the plugin's folder");
    assert_int_equal(unlinkat(fd, "bin/out", 0), 0);
    assert_int_equal(symlinkat("/etc/passwd", fd, "bin/out"), 0);
    assert_refused(fd, "\"bin/out\": the link is absolute");
    remove_tree("links");
}

static void bounds_are_kept(void **state)
{
    (void)state;
    kg_auto(kg_close) int fd = make_tree("bounds");
    kg_auto(kg_free) char *large = kg_alloc(2050);
    memset(large, 'x', 2049);
    write_file(fd, "large", large, 0644);
    assert_refused(fd, "\"large\": the file is larger than the bound");
    large[2040] = '\0';
    write_file(fd, "large", large, 0644);
    write_file(fd, "large2", large, 0644);
    struct kg_err err = {0};
    struct store_tree tree;
    assert_true(store_tree_read(fd, &limits, &tree, &err) < 0); /* which is read last, varies */
    assert_non_null(strstr(err.message, "all files together are larger than the bound"));
    assert_int_equal(err.code, KG_E_TOO_LARGE);
    assert_int_equal(unlinkat(fd, "large", 0), 0);
    for (char name[] = "a"; name[0] <= 'z'; name[0]++)
        write_file(fd, name, "", 0644);
    write_file(fd, "last", "", 0644);
    write_file(fd, "very-last", "", 0644);
    assert_true(store_tree_read(fd, &limits, &tree, &err) < 0);
    assert_non_null(strstr(err.message, "there are more entries than the bound"));
    remove_tree("bounds");
}

static void fresh_tree_has_plain_modes_and_files_of_one_name(void **state)
{
    (void)state;
    kg_auto(kg_close) int fd = make_tree("fresh");
    kg_auto(store_tree_free) struct store_tree tree = {0};
    struct kg_err err = {0};
    if (tree_read_fresh(fd, &limits, &tree, &err) < 0)
        fail_msg("%s", err.message);
    store_tree_free(&tree);
    assert_int_equal(linkat(fd, "bin/run", fd, "bin/second", 0), 0);
    assert_true(tree_read_fresh(fd, &limits, &tree, &err) < 0);
    assert_non_null(strstr(err.message, "it has a second name"));
    assert_int_equal(unlinkat(fd, "bin/second", 0), 0);
    assert_int_equal(fchmodat(fd, "bin/run", 0777, 0), 0);
    assert_true(tree_read_fresh(fd, &limits, &tree, &err) < 0);
    assert_string_equal(err.message, "\"bin/run\": its mode is not a plain one");
    remove_tree("fresh");
}

/* -- removing ---------------------------------------------------------------------------------- */

/* A cage can make more folders in each other than a walk into them may have open. */
static void folders_without_end_can_be_removed(void **state)
{
    (void)state;
    int fd = make_tree("deep");
    for (int i = 0; i < 700; i++) {
        assert_int_equal(mkdirat(fd, "d", 0755), 0);
        write_file(fd, "f", "", 0644);
        int inner = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(inner >= 0);
        close(fd);
        fd = inner;
    }
    close(fd);
    remove_tree("deep");
    assert_int_equal(faccessat(all, "deep", F_OK, 0), -1);
}

static void folders_that_nobody_may_enter_can_be_removed(void **state)
{
    (void)state;
    kg_auto(kg_close) int fd = make_tree("closed");
    assert_int_equal(fchmodat(fd, "bin", 0, 0), 0);
    assert_int_equal(fchmod(fd, 0), 0);
    remove_tree("closed");
    assert_int_equal(faccessat(all, "closed", F_OK, 0), -1);
    struct kg_err err = {0};
    assert_int_equal(tree_remove(all, "closed", &err), 0); /* what is gone is gone */
}

/* -- the suite --------------------------------------------------------------------------------- */

static int make_folder(void **state)
{
    (void)state;
    all = mkdtemp(folder) == NULL ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return all < 0 ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    kg_close(&all);
    return rmdir(folder);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_relative_names_are_taken_and_others_are_not),
        cmocka_unit_test(links_that_stay_inside_are_taken),
        cmocka_unit_test(links_that_lead_out_are_refused_also_over_other_links),
        cmocka_unit_test(hash_is_that_of_a_listing_that_anybody_can_write),
        cmocka_unit_test(listing_reads_back_and_a_damaged_one_does_not),
        cmocka_unit_test(every_change_changes_the_hash_and_is_named),
        cmocka_unit_test(modes_beside_the_executable_bit_do_not_matter),
        cmocka_unit_test(quick_look_sees_a_write_that_keeps_size_and_time),
        cmocka_unit_test(quick_look_does_not_mind_that_the_whole_folder_moves),
        cmocka_unit_test(what_is_no_file_folder_or_link_is_refused),
        cmocka_unit_test(special_bits_are_refused),
        cmocka_unit_test(links_out_of_the_folder_are_refused),
        cmocka_unit_test(bounds_are_kept),
        cmocka_unit_test(fresh_tree_has_plain_modes_and_files_of_one_name),
        cmocka_unit_test(folders_without_end_can_be_removed),
        cmocka_unit_test(folders_that_nobody_may_enter_can_be_removed),
    };
    return cmocka_run_group_tests_name("store tree", tests, make_folder, remove_folder);
}
