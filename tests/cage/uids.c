/*
 * Whom root's cages run as when there is a range of uids: each as somebody else, whom no other
 * process of the machine is. Only root gives uids away.
 */
#include "cage/internal.h"
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define BASE  1000000
#define COUNT 2048

static const struct cage_uids range = {.base = BASE, .count = COUNT};

/* -- the range --------------------------------------------------------------------------------- */

static void assert_range(const char *text, const char *name, uid_t uid, uid_t base, uint32_t count)
{
    struct cage_uids uids = {0};
    assert_int_equal(cage_uids_read(kg_str(text), name, uid, &uids), count > 0);
    assert_int_equal(uids.base, base);
    assert_int_equal(uids.count, count);
}

static void range_of_a_user_is_found_by_name_and_number(void **state)
{
    (void)state;
    static const char text[] = "alice:100000:65536\nroot:200000:65536\n7:300000:2000\nbad\n:::\n";
    assert_range(text, "root", 0, 200000, 65536);
    assert_range(text, "alice", 1, 100000, 65536);
    assert_range(text, "bob", 7, 300000, 2000);
    assert_range(text, "carol", 8, 0, 0);
    assert_range("", "root", 0, 0, 0);
}

static void range_that_is_none_is_not_taken(void **state)
{
    (void)state;
    static const char *const bad[] = {"root:0:65536",
                                      "root:100000:10",
                                      "root:100000",
                                      "root:100000:-5",
                                      "root:4294967000:65536",
                                      "root:1e5:65536",
                                      "root",
                                      "root:100000:99999999999999999999"};
    for (size_t i = 0; i < KG_COUNT(bad); i++)
        assert_range(bad[i], "root", 0, 0, 0);
}

/* As in a container. */
static void range_that_root_cannot_become_is_not_taken(void **state)
{
    (void)state;
    const struct cage_uids uids = range;
    assert_true(cage_uids_are_mapped(kg_str("         0          0 4294967295\n"), &uids));
    assert_true(cage_uids_are_mapped(kg_str("0 1000 1\n1000000 5 2048\n"), &uids));
    assert_false(cage_uids_are_mapped(kg_str("0 100000 65536\n"), &uids));
    assert_false(cage_uids_are_mapped(kg_str("0 0 1001000\n"), &uids));
    assert_false(cage_uids_are_mapped(kg_str(""), &uids));
}

/* Of this process alone: whoever runs the same test beside it takes others. */
static struct cage_uids own_range(void)
{
    return (struct cage_uids){.base = (uid_t)(1u << 30) + (uid_t)getpid() % 65536 * COUNT,
                              .count = COUNT};
}

static uid_t take(struct cage_uid_pool *pool)
{
    uid_t uid = 0;
    struct kg_err err = {0};
    if (cage_uid_take(pool, &uid, &err) < 0)
        assert_string_equal(err.message, "all 1024 uids for running cages are in use");
    return uid;
}

static void uid_is_nobody_elses_until_it_is_given_back(void **state)
{
    (void)state;
    static bool seen[COUNT];
    const struct cage_uids own = own_range();
    struct cage_uid_pool *pool = cage_uid_pool_new(own);
    for (size_t i = 0; i < COUNT / 2; i++) {
        uid_t uid = take(pool);
        assert_true(uid >= own.base && uid < own.base + COUNT / 2 && !seen[uid - own.base]);
        seen[uid - own.base] = true;
    }
    assert_int_equal(take(pool), 0);
    cage_uid_give(pool, own.base + 17);
    assert_int_equal(take(pool), own.base + 17);
    cage_uid_give(pool, own.base + COUNT / 2);
    cage_uid_give(pool, CAGE_UID);
    assert_int_equal(take(pool), 0);
    cage_uid_pool_free(pool);
}

static void uid_is_everybodys_where_there_is_no_range(void **state)
{
    (void)state;
    struct cage_uid_pool *pool = cage_uid_pool_new((struct cage_uids){0});
    assert_int_equal(take(pool), CAGE_UID);
    assert_int_equal(take(pool), CAGE_UID);
    cage_uid_pool_free(pool);
}

/* As of a daemon and of `kaged doctor` beside it. */
static void uid_is_not_taken_by_two_spawners_of_one_machine(void **state)
{
    (void)state;
    const struct cage_uids own = own_range();
    struct cage_uid_pool *one = cage_uid_pool_new(own), *two = cage_uid_pool_new(own);
    uid_t first = take(one);
    assert_int_not_equal(take(two), first);
    cage_uid_pool_free(one); /* as by its death */
    bool found = false;
    for (size_t i = 0; i < COUNT / 2 && !found; i++)
        found = take(two) == first;
    assert_true(found);
    cage_uid_pool_free(two);
}

static uid_t fixed(struct cage_uid_record *record, const char *name)
{
    uid_t uid = 0;
    struct cage_owner self = cage_owner_self();
    struct kg_err err = {0};
    if (cage_uid_fixed(record, &self, name, &uid, &err) < 0)
        assert_string_equal(err.message,
                            "all 3 uids for plugins whose files cannot be mapped are given away");
    return uid;
}

/* Of three names two must have the same hash in so small a range, or no more than luck has it. */
static void uid_for_good_is_one_names_alone(void **state)
{
    (void)state;
    static const char *const names[] = {"git", "notes", "memory"};
    const struct cage_uids few = {.base = BASE, .count = 3};
    char file[] = "/tmp/kaged-uids-XXXXXX";
    uid_t uids[KG_COUNT(names)];
    kg_auto(kg_close) int fd = mkstemp(file);
    struct cage_uid_record *record = cage_uid_record_new(few, file);
    for (size_t i = 0; i < KG_COUNT(names); i++) {
        uids[i] = fixed(record, names[i]);
        assert_true(uids[i] >= BASE && uids[i] < BASE + 3);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(uids[i], uids[k]);
    }
    assert_int_equal(fixed(record, "one-more"), 0);
    cage_uid_record_free(record);
    /* Asked in another order after a restart. */
    record = cage_uid_record_new(few, file);
    for (size_t i = KG_COUNT(names); i-- > 0;)
        assert_int_equal(fixed(record, names[i]), uids[i]);
    cage_uid_record_free(record);
    unlink(file);
}

static void record_of_uids_that_was_cut_or_made_up_gives_none_away_twice(void **state)
{
    (void)state;
    static const char text[] = "1000000 git\n1000000 thief\n1000001 git\n-1 x\n99 y\n4294967296 z\n"
                               "1000001\n \nnonsense\n\n1000002 memory\n1000001 no";
    const struct cage_uids few = {.base = BASE, .count = 3};
    char file[] = "/tmp/kaged-uids-XXXXXX";
    kg_auto(kg_close) int fd = mkstemp(file);
    assert_int_equal(kg_write_all(fd, text, strlen(text)), 0);
    struct cage_uid_record *record = cage_uid_record_new(few, file);
    assert_int_equal(fixed(record, "thief"), BASE + 1);
    assert_int_equal(fixed(record, "git"), BASE);
    assert_int_equal(fixed(record, "memory"), BASE + 2);
    assert_int_equal(fixed(record, "notes"), 0);
    cage_uid_record_free(record);
    record = cage_uid_record_new(few, file);
    assert_int_equal(fixed(record, "thief"), BASE + 1);
    cage_uid_record_free(record);
    unlink(file);
}

/* -- cages ------------------------------------------------------------------------------------- */

static struct world *world, *common; /* with a range, and without */

static struct run *start(struct world *in)
{
    struct run *run = run_start(in, COMMAND("./probe", "wait-forever"));
    run_wait_line(run);
    return run;
}

static uid_t uid_of(const struct run *run)
{
    struct stat status;
    kg_auto(kg_free) char *path = kg_format("/proc/%d", cage_child_pid(run->child));
    assert_int_equal(stat(path, &status), 0);
    return status.st_uid;
}

static void end(struct run *run)
{
    cage_signal(run->child, SIGKILL);
    run_wait_exit(run);
    run_free(&run);
}

static void cages_that_run_at_once_have_two_uids(void **state)
{
    (void)state;
    struct run *one = start(world), *two = start(world);
    assert_int_not_equal(uid_of(one), uid_of(two));
    assert_true(uid_of(one) >= BASE && uid_of(one) < BASE + COUNT / 2);
    assert_true(uid_of(two) >= BASE && uid_of(two) < BASE + COUNT / 2);
    end(one);
    end(two);
}

/* What a process of the host that is nobody, as daemons often are, may do to a plugin. */
static int signal_as_nobody(pid_t pid)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(cage_become_user(CAGE_UID) && kill(pid, 0) == 0 ? 0 : errno);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
}

static void processes_of_the_host_are_not_of_the_same_user(void **state)
{
    (void)state;
    struct run *weakly = start(common), *really = start(world);
    assert_int_equal(uid_of(weakly), CAGE_UID);
    assert_int_equal(signal_as_nobody(cage_child_pid(weakly->child)), 0);
    assert_int_equal(signal_as_nobody(cage_child_pid(really->child)), EPERM);
    end(weakly);
    end(really);
}

static char *write_in(const char *folder, const char *name)
{
    kg_auto(kg_free) char *path = kg_format("%s/%s", folder, name);
    const struct cage_path paths[] = {{.path = folder, .write = true}};
    const char *const listed[] = {folder, NULL};
    struct cage_policy policy = world_policy(world, COMMAND("./probe", "put", path));
    policy.paths = paths;
    policy.path_count = 1;
    policy.root_writable = listed;
    kg_auto(run_free) struct run *run = run_policy(world, &policy);
    return kg_strdup(run_line(run));
}

static uid_t owner_of(const char *folder, const char *name)
{
    struct stat status;
    kg_auto(kg_free) char *path = kg_format("%s/%s", folder, name);
    assert_int_equal(stat(path, &status), 0);
    return status.st_uid;
}

/* Whoever the plugin is this time, what it keeps is where and whose it was. */
static void files_are_the_owners_whoever_the_plugin_is(void **state)
{
    (void)state;
    char folder[] = "/tmp/kaged-uids-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (unsigned i = 0; i < 3; i++) {
        kg_auto(kg_free) char *answer = write_in(folder, "file");
        assert_string_equal(answer, "ok");
        assert_int_equal(owner_of(folder, "file"), 0);
    }
    kg_auto(kg_free) char *command = kg_format("rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static char plain[] = "/tmp/kaged-plain-XXXXXX"; /* on a filesystem without idmapped mounts */

static void plugin_has_one_uid_where_files_cannot_be_mapped(void **state)
{
    (void)state;
    uid_t first = 0;
    for (unsigned i = 0; i < 3; i++) {
        kg_auto(kg_free) char *answer = write_in(plain, "file");
        assert_string_equal(answer, "ok");
        first = i == 0 ? owner_of(plain, "file") : first;
        assert_int_equal(owner_of(plain, "file"), first);
    }
    assert_true(first >= BASE + COUNT / 2 && first < BASE + COUNT);
}

/* -- the suite --------------------------------------------------------------------------------- */

static void ignore_loss(void *data)
{
    (void)data;
}

/* The mount has to be there before the spawner copies what is mounted. */
static int make_worlds(void **state)
{
    (void)state;
    struct kg_err err = {0};
    assert_int_equal(unshare(CLONE_NEWNS), 0);
    assert_int_equal(mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL), 0);
    assert_non_null(mkdtemp(plain));
    assert_int_equal(mount("plain", plain, "ramfs", 0, NULL), 0);
    assert_int_equal(chmod(plain, 0777), 0);
    common = world_new();
    world = world_new();
    cage_spawner_free(world->spawner);
    struct cage_owner owner = cage_owner_self();
    owner.uids = range;
    world->spawner = cage_spawner_start_for(&owner, &err);
    if (world->spawner == NULL)
        fail_msg("%s", err.message);
    return cage_spawner_attach(world->spawner, world->loop, ignore_loss, NULL, &err);
}

static int free_worlds(void **state)
{
    (void)state;
    world_free(world);
    world_free(common);
    umount(plain);
    return rmdir(plain);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(range_of_a_user_is_found_by_name_and_number),
        cmocka_unit_test(range_that_is_none_is_not_taken),
        cmocka_unit_test(range_that_root_cannot_become_is_not_taken),
        cmocka_unit_test(uid_is_everybodys_where_there_is_no_range),
        cmocka_unit_test(uid_for_good_is_one_names_alone),
        cmocka_unit_test(record_of_uids_that_was_cut_or_made_up_gives_none_away_twice),
        cmocka_unit_test(uid_is_nobody_elses_until_it_is_given_back),
        cmocka_unit_test(uid_is_not_taken_by_two_spawners_of_one_machine),
        cmocka_unit_test(cages_that_run_at_once_have_two_uids),
        cmocka_unit_test(processes_of_the_host_are_not_of_the_same_user),
        cmocka_unit_test(files_are_the_owners_whoever_the_plugin_is),
        cmocka_unit_test(plugin_has_one_uid_where_files_cannot_be_mapped),
    };
    signal(SIGPIPE, SIG_IGN);
    if (geteuid() == 0)
        return cmocka_run_group_tests_name("cage uids", tests, make_worlds, free_worlds);
    printf("SKIP cages_that_run_at_once_have_two_uids: only root gives uids away\n");
    return _cmocka_run_group_tests("cage uids", tests, 4, NULL, NULL);
}
