/*
 * What a plugin was granted of files and programs, tried in real cages: it has that, and not a byte
 * more. Started by root, all of it runs a second time as an ordinary user.
 */
#include "cage/internal.h"
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define RACES     40
#define RACES_MAX 4000 /* until both ends were seen */

static struct world *world;
static char base[64]; /* a folder of the host: data/, data/inner/, other/ */
static const char *const no_folders[] = {NULL};
static const char *base_folders[] = {base, NULL};

/* -- the host's side --------------------------------------------------------------------------- */

static char *at(const char *name)
{
    return kg_format("%s/%s", base, name);
}

static void make_folder(const char *name)
{
    kg_auto(kg_free) char *path = at(name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void make_file(const char *name, const char *text)
{
    kg_auto(kg_free) char *path = at(name);
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(kg_write_all(fd, text, strlen(text)), 0);
}

static void remove_all(const char *path)
{
    kg_auto(kg_free) char *command = kg_format("rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

static int make_base(void **state)
{
    (void)state;
    strcpy(base, "/tmp/kaged-files-XXXXXX");
    assert_non_null(mkdtemp(base));
    make_folder("data");
    make_folder("data/inner");
    make_folder("other");
    make_file("data/file", "old");
    make_file("data/inner/file", "old");
    make_file("other/file", "secret");
    return 0;
}

static int remove_base(void **state)
{
    (void)state;
    remove_all(base);
    return 0;
}

static void expect_file(const char *name, const char *text)
{
    kg_auto(kg_free) char *path = at(name);
    kg_auto(kg_buf_free) struct kg_buf found = {0};
    assert_int_equal(kg_read_file(path, 4096, &found, NULL), 0);
    assert_string_equal(kg_buf_terminate(&found), text);
}

static void expect_owner(const char *name, uid_t uid)
{
    kg_auto(kg_free) char *path = at(name);
    struct stat status;
    assert_int_equal(lstat(path, &status), 0);
    assert_int_equal(status.st_uid, uid);
    const struct passwd *entry = getpwuid(uid); /* whom nobody knows has nobody's group */
    gid_t gid = uid == geteuid() ? getegid() : entry != NULL ? entry->pw_gid : CAGE_GID;
    assert_int_equal(status.st_gid, gid);
}

/* -- grants ------------------------------------------------------------------------------------ */

/* Up to four grants below the base, as "r:data" or "w:data/inner". */
struct grants {
    const char *words[4];
};

static struct run *start(const struct grants *grants, const char *const *command)
{
    struct cage_path paths[4] = {0};
    char *owned[4] = {NULL};
    struct cage_policy policy = world_policy(world, command);
    for (size_t i = 0; i < 4 && grants->words[i] != NULL; i++) {
        owned[i] = at(grants->words[i] + 2);
        paths[i] = (struct cage_path){owned[i], grants->words[i][0] == 'w', false};
        policy.path_count++;
    }
    policy.paths = paths;
    policy.root_writable = base_folders;
    struct run *run = run_policy(world, &policy);
    for (size_t i = 0; i < 4; i++)
        free(owned[i]);
    return run;
}

static void expect(const char *answer, const struct grants *grants, const char *attempt,
                   const char *name)
{
    kg_auto(kg_free) char *path = at(name);
    kg_auto(run_free) struct run *run = start(grants, COMMAND("./probe", attempt, path));
    const char *line = run_line(run);
    if (strcmp(line, answer) != 0)
        fail_msg("%s %s: %s instead of %s", attempt, name, line, answer);
}

static void refused(const struct cage_path *path, const char *const *kept, const char *why)
{
    struct cage_policy policy = world_policy(world, COMMAND("./probe", "hello"));
    struct kg_err err = {0};
    policy.paths = path;
    policy.path_count = 1;
    policy.kept = kept;
    assert_null(cage_plan_new(&policy, world->facts, &err));
    kg_auto(kg_free) char *message =
        kg_format("plugin probe: %s %s: %s", path->write ? "write" : "read", path->path, why);
    assert_string_equal(err.message, message);
}

/* -- files ------------------------------------------------------------------------------------- */

static void what_was_not_granted_is_not_there(void **state)
{
    (void)state;
    const struct grants none = {{NULL}}, other = {{"r:other"}};
    expect("ENOENT", &none, "read", "data/file");
    expect("ENOENT", &other, "read", "data/file");
}

static void granted_folder_can_be_read_and_not_written(void **state)
{
    (void)state;
    const struct grants read = {{"r:data"}};
    expect("ok", &read, "read", "data/inner/file");
    expect("EROFS", &read, "write", "data/file");
    expect("EROFS", &read, "create", "data/new");
    expect("EROFS", &read, "remove", "data/file");
}

static void what_is_written_lands_on_disk_as_the_owners(void **state)
{
    (void)state;
    const struct grants write = {{"w:data"}};
    expect("ok", &write, "put", "data/file");
    expect("ok", &write, "put", "data/inner/new");
    expect("ok", &write, "make-folder", "data/folder");
    expect_file("data/file", "new");
    expect_file("data/inner/new", "new");
    expect_owner("data/inner/new", geteuid());
    expect_owner("data/folder", geteuid());
    expect("ok", &write, "remove", "data/inner/new");
}

/* A root daemon's plugin writes as whoever the folder belongs to. */
static void folder_of_another_user_is_written_as_that_user(void **state)
{
    (void)state;
    if (geteuid() != 0)
        return;
    kg_auto(kg_free) char *data = at("data");
    kg_auto(kg_free) char *inner = at("data/inner");
    assert_int_equal(chown(data, ORDINARY_UID, ORDINARY_UID), 0);
    const struct grants write = {{"w:data"}};
    expect("ok", &write, "put", "data/new");
    expect_owner("data/new", ORDINARY_UID);
    /* What root keeps to itself in there stays root's. */
    expect("EACCES", &write, "read", "data/file");
    expect("EACCES", &write, "create", "data/inner/new");
    assert_int_equal(chown(inner, 70000, 70000), 0);
    const struct grants higher = {{"w:data/inner"}};
    expect("ok", &higher, "put", "data/inner/new");
    expect_owner("data/inner/new", 70000);
}

static void folder_of_the_cages_user_is_written_as_that_user(void **state)
{
    (void)state;
    if (geteuid() != 0)
        return;
    kg_auto(kg_free) char *data = at("data");
    assert_int_equal(chown(data, CAGE_UID, CAGE_GID), 0);
    const struct grants write = {{"w:data"}};
    expect("ok", &write, "put", "data/new");
    expect_owner("data/new", CAGE_UID);
}

static void readable_folder_in_a_writable_one_is_read_only(void **state)
{
    (void)state;
    const struct grants grants = {{"r:data/inner", "w:data"}};
    expect("ok", &grants, "put", "data/file");
    expect("ok", &grants, "read", "data/inner/file");
    expect("EROFS", &grants, "write", "data/inner/file");
    expect("EROFS", &grants, "create", "data/inner/new");
}

static void writable_folder_in_a_readable_one_can_be_written(void **state)
{
    (void)state;
    const struct grants grants = {{"w:data/inner", "r:data"}};
    expect("ok", &grants, "put", "data/inner/new");
    expect("EROFS", &grants, "write", "data/file");
    expect_file("data/inner/new", "new");
}

static void single_file_is_granted_alone(void **state)
{
    (void)state;
    const struct grants read = {{"r:data/file"}}, write = {{"w:data/file"}};
    expect("ok", &read, "read", "data/file");
    expect("ENOENT", &read, "read", "data/inner/file");
    expect("EROFS", &read, "write", "data/file");
    expect("ok", &write, "put", "data/file");
    expect_file("data/file", "new");
    /* The folder around it is the cage's own. */
    kg_auto(kg_free) char *path = at("data/new");
    expect("ok", &write, "create", "data/new");
    assert_int_equal(access(path, F_OK), -1);
}

static void install_folder_stays_read_only_below_a_writable_one(void **state)
{
    (void)state;
    kg_auto(kg_free) char *inside = at("data/plugin");
    kg_auto(kg_free) char *copy = kg_format("cp -r %s %s", world->folder, inside);
    kg_auto(kg_free) char *data = at("data");
    assert_int_equal(system(copy), 0);
    const struct cage_path paths[] = {{data, true, false}};
    const char *const attempts[][2] = {{"plugin/x", "EROFS"}, {"x", "ok"}};
    for (size_t i = 0; i < 2; i++) {
        kg_auto(kg_free) char *path = kg_format("%s/%s", data, attempts[i][0]);
        const char *const command[] = {"./probe", "create", path, NULL};
        struct cage_policy policy = world_policy(world, command);
        policy.install_dir = inside;
        policy.paths = paths;
        policy.path_count = 1;
        policy.root_writable = base_folders;
        kg_auto(run_free) struct run *run = run_policy(world, &policy);
        assert_string_equal(run_line(run), attempts[i][1]);
    }
}

static void link_that_leads_out_of_a_granted_folder_dangles(void **state)
{
    (void)state;
    kg_auto(kg_free) char *secret = at("other/file");
    kg_auto(kg_free) char *link = at("data/out");
    assert_int_equal(symlink(secret, link), 0);
    const struct grants write = {{"w:data"}};
    expect("ENOENT", &write, "read", "data/out");
    expect("ENOENT", &write, "write", "data/out");
}

static void mount_below_a_folder_is_not_there_for_a_root_daemon(void **state)
{
    (void)state;
    kg_auto(kg_free) char *inner = at("data/inner");
    if (geteuid() != 0)
        return;
    if (mount("kaged-test", inner, "tmpfs", 0, "size=64k") < 0) {
        printf("SKIP %s: mount: %s\n", __func__, strerror(errno));
        return;
    }
    make_file("data/inner/mounted", "x");
    struct world *usual = world;
    world = world_new(); /* whose spawner has seen the mount, also where mounts do not spread */
    const struct grants read = {{"r:data"}}, both = {{"r:data", "r:data/inner"}};
    kg_auto(kg_free) char *path = at("data/inner/mounted");
    struct run *without = start(&read, COMMAND("./probe", "read", path));
    struct run *with = start(&both, COMMAND("./probe", "read", path));
    run_wait_exit(without);
    run_wait_exit(with);
    umount2(inner, MNT_DETACH);
    assert_string_equal(run_line(without), "ENOENT");
    assert_string_equal(run_line(with), "ok");
    run_free(&without);
    run_free(&with);
    world_free(world);
    world = usual;
}

/* On most hosts a mount spreads to wherever its folder is bound. */
static void mount_that_comes_later_is_not_there_for_a_root_daemon(void **state)
{
    (void)state;
    kg_auto(kg_free) char *data = at("data"), *later = at("data/later");
    if (geteuid() != 0)
        return;
    if (mount("kaged-test", data, "tmpfs", 0, "size=64k") < 0 ||
        mount(NULL, data, NULL, MS_SHARED, NULL) < 0) {
        printf("SKIP %s: mount: %s\n", __func__, strerror(errno));
        return;
    }
    make_folder("data/later");
    struct world *usual = world;
    world = world_new();
    struct run *run = start(&(const struct grants){{"r:data"}}, COMMAND("./probe", "wait-forever"));
    run_wait_line(run);
    int mounted = mount("kaged-test", later, "tmpfs", 0, "size=64k");
    make_file("data/later/file", "x");
    kg_auto(kg_free) char *in_the_cage =
        kg_format("/proc/%d/root%s/later/file", (int)cage_child_pid(run->child), data);
    bool is_there = access(in_the_cage, F_OK) == 0;
    umount2(data, MNT_DETACH);
    assert_int_equal(mounted, 0);
    assert_false(is_there);
    cage_signal(run->child, SIGKILL);
    run_wait_exit(run);
    run_free(&run);
    world_free(world);
    world = usual;
}

/* -- refusals ---------------------------------------------------------------------------------- */

static void missing_path_is_named(void **state)
{
    (void)state;
    kg_auto(kg_free) char *missing = at("none");
    refused(&(struct cage_path){missing, false, false}, no_folders, "it does not exist");
    refused(&(struct cage_path){missing, true, false}, no_folders, "it does not exist");
}

static void link_in_a_path_is_refused(void **state)
{
    (void)state;
    kg_auto(kg_free) char *link = at("link");
    kg_auto(kg_free) char *below = at("link/inner");
    assert_int_equal(symlink("data", link), 0);
    refused(&(struct cage_path){link, false, false}, no_folders,
            "this path contains a symbolic link");
    refused(&(struct cage_path){below, false, false}, no_folders,
            "this path contains a symbolic link");
}

static void path_around_a_folder_of_kaged_is_refused(void **state)
{
    (void)state;
    kg_auto(kg_free) char *inner = at("data/inner");
    kg_auto(kg_free) char *data = at("data");
    kg_auto(kg_free) char *file = at("data/inner/file");
    const char *const kept[] = {inner, NULL};
    const char *const paths[] = {base, data, inner, file};
    for (size_t i = 0; i < KG_COUNT(paths); i++)
        refused(&(struct cage_path){paths[i], false, false}, kept, "it belongs to kaged itself");
}

static void folder_of_root_is_not_written_unless_listed(void **state)
{
    (void)state;
    kg_auto(kg_free) char *data = at("data");
    if (geteuid() == 0)
        refused(&(struct cage_path){data, true, false}, no_folders, "it belongs to root");
}

/* A folder that became root's after it was planned for. */
static void folder_of_root_that_took_the_place_of_another_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0)
        return;
    kg_auto(kg_free) char *data = at("data");
    assert_int_equal(chown(data, ORDINARY_UID, ORDINARY_UID), 0);
    struct cage_policy policy = world_policy(world, COMMAND("./probe", "hello"));
    const struct cage_path path = {data, true, false};
    policy.paths = &path;
    policy.path_count = 1;
    struct cage_plan *plan = cage_plan_new(&policy, world->facts, NULL);
    assert_int_equal(chown(data, 0, 0), 0);
    struct run *run = run_plan(world, plan);
    run_wait_exit(run);
    kg_auto(kg_free) char *message = kg_format("plugin probe: write %s: it belongs to root", data);
    assert_string_equal(run->error, message);
    run_free(&run);
    cage_plan_free(plan);
}

static void link_that_took_the_place_of_a_granted_folder_is_refused(void **state)
{
    (void)state;
    kg_auto(kg_free) char *data = at("data");
    kg_auto(kg_free) char *moved = at("moved");
    kg_auto(kg_free) char *path = at("data/file");
    struct cage_policy policy = world_policy(world, COMMAND("./probe", "read", path));
    const struct cage_path grant = {data, false, false};
    policy.paths = &grant;
    policy.path_count = 1;
    struct cage_plan *plan = cage_plan_new(&policy, world->facts, NULL);
    assert_int_equal(rename(data, moved), 0);
    assert_int_equal(symlink("other", data), 0);
    struct run *run = run_plan(world, plan);
    run_wait_exit(run);
    kg_auto(kg_free) char *message =
        kg_format("plugin probe: open %s: this path contains a symbolic link", data);
    assert_string_equal(run->error, message);
    assert_false(run->spawned);
    run_free(&run);
    cage_plan_free(plan);
}

/* -- a link that comes and goes ---------------------------------------------------------------- */

static atomic_bool racing;

/* Puts a link to the other folder in the place of the granted one, and back, without a pause. */
static void *swap_for_ever(void *data)
{
    (void)data;
    kg_auto(kg_free) char *granted = at("data");
    kg_auto(kg_free) char *link = at("link");
    while (racing)
        renameat2(AT_FDCWD, granted, AT_FDCWD, link, RENAME_EXCHANGE);
    return NULL;
}

/*
 * Either the granted folder is bound, or nothing starts: the other's file never comes through. The
 * plan is made while nothing moves, so that each round reaches the spawner.
 */
static void link_that_is_swapped_in_during_the_start_never_shows_the_other_folder(void **state)
{
    (void)state;
    kg_auto(kg_free) char *data = at("data");
    kg_auto(kg_free) char *link = at("link");
    kg_auto(kg_free) char *path = at("data/file");
    assert_int_equal(symlink("other", link), 0);
    struct cage_policy policy = world_policy(world, COMMAND("./probe", "show", path));
    const struct cage_path grant = {data, false, false};
    policy.paths = &grant;
    policy.path_count = 1;
    struct cage_plan *plan = cage_plan_new(&policy, world->facts, NULL);
    pthread_t thread;
    racing = true;
    assert_int_equal(pthread_create(&thread, NULL, swap_for_ever, NULL), 0);
    unsigned shown = 0, stopped = 0;
    for (unsigned i = 0; i < RACES || (i < RACES_MAX && (shown == 0 || stopped == 0)); i++) {
        kg_auto(run_free) struct run *run = run_plan(world, plan);
        run_wait_exit(run);
        const char *said = kg_buf_terminate(&run->out);
        bool is_shown = strcmp(said, "old\n") == 0;
        if (!is_shown)
            assert_string_equal(said, ""); /* of the other folder not even an error */
        *(is_shown ? &shown : &stopped) += 1;
    }
    racing = false;
    pthread_join(thread, NULL);
    assert_int_not_equal(shown, 0);   /* else nothing was tried, */
    assert_int_not_equal(stopped, 0); /* or there was no race */
    cage_plan_free(plan);
}

/* -- programs ---------------------------------------------------------------------------------- */

/* Java is large, and no test needs it but one: it is tried where somebody has it. */
static bool lacks(const char *test, const char *program)
{
    if (access(program, X_OK) == 0)
        return false;
    kg_auto(kg_free) char *reason = kg_format("%s is not installed", program);
    if (strcmp(program, "/usr/bin/java") == 0)
        printf("SKIP %s: %s\n", test, reason);
    else
        world_skip(test, reason);
    return true;
}

static bool lacks_landlock(const char *test)
{
    if (world->facts->landlock > 0)
        return false;
    printf("SKIP %s: the kernel has no Landlock\n", test);
    return true;
}

/* Runs a script of the plugin with one program granted, in the writable data folder. */
static struct run *run_with(const char *program, const char *script)
{
    kg_auto(kg_free) char *data = at("data");
    const struct cage_program grant = {program, data};
    const struct cage_path path = {data, true, false};
    world_write(world, "main.sh", script, 0755);
    struct cage_policy policy = world_policy(world, COMMAND("./main.sh", data));
    policy.programs = &grant;
    policy.program_count = 1;
    policy.paths = &path;
    policy.path_count = 1;
    policy.root_writable = base_folders;
    return run_policy(world, &policy);
}

static void granted_program_runs_in_its_folder_and_no_other_does(void **state)
{
    (void)state;
    if (lacks(__func__, "/usr/bin/git"))
        return;
    struct run *run = run_with("git", "#!/bin/bash\n"
                                      "cd $1 && git -c init.defaultBranch=main init -q . &&\n"
                                      "  git add file && git -c user.name=x -c user.email=x \\\n"
                                      "    commit -q -m x file && git log --format=%s &&\n"
                                      "  git repack -qad && git gc -q\n"
                                      "[ -e /usr/bin/id ] && echo id is there\n"
                                      "exit 0\n");
    assert_string_equal(run_line(run), "x");
    run_free(&run);
    expect_owner("data/.git", geteuid());
}

static void program_without_a_grant_is_not_there(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run =
        run_start(world, COMMAND("./probe", "exec", "/usr/bin/git"));
    assert_string_equal(run_line(run), "ENOENT");
}

static void granted_compiler_compiles(void **state)
{
    (void)state;
    if (lacks(__func__, "/usr/bin/gcc"))
        return;
    kg_auto(run_free) struct run *run = run_with("gcc", "#!/bin/bash\n"
                                                        "cd $1 && echo '#include <stdio.h>\n"
                                                        "int main(void) { puts(\"x\"); }' >a.c &&\n"
                                                        "gcc -o a a.c && echo compiled\n"
                                                        "./a 2>/dev/null || echo not run\n");
    run_wait_exit(run);
    assert_string_equal(kg_buf_terminate(&run->out),
                        world->facts->landlock > 0 ? "compiled\nnot run\n" : "compiled\nx\n");
}

static void granted_java_starts(void **state)
{
    (void)state;
    if (lacks(__func__, "/usr/bin/java"))
        return;
    kg_auto(run_free) struct run *run =
        run_with("java", "#!/bin/bash\n"
                         "java -Xmx64m -XX:+UseSerialGC -Xshare:auto -version \\\n"
                         "  >/tmp/out 2>&1 && echo ok || { read -r x </tmp/out;\n"
                         "  echo $x; }\n");
    assert_string_equal(run_line(run), "ok");
}

static void expect_copy_not_run(const char *folder)
{
    const struct grants write = {{"w:data"}};
    kg_auto(run_free) struct run *run = start(&write, COMMAND("./probe", "copy-and-exec", folder));
    assert_string_equal(run_line(run), "EACCES");
}

static void program_that_the_plugin_writes_cannot_be_run(void **state)
{
    (void)state;
    if (lacks_landlock(__func__))
        return;
    kg_auto(kg_free) char *data = at("data");
    expect_copy_not_run("/tmp");
    expect_copy_not_run("/dev/shm");
    expect_copy_not_run(data);
}

static void undeclared_program_in_the_libraries_cannot_be_run(void **state)
{
    (void)state;
    static const char program[] = "/usr/lib/git-core/git";
    if (lacks_landlock(__func__) || lacks(__func__, program))
        return;
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", "exec", program));
    assert_string_equal(run_line(run), "EACCES");
}

/* The program lies in a folder that the plugin may write: it runs, and stays as it is. */
static void program_below_a_writable_path_runs_and_cannot_be_changed(void **state)
{
    (void)state;
    kg_auto(kg_free) char *data = at("data");
    kg_auto(kg_free) char *tool = at("data/inner/tool");
    kg_auto(kg_free) char *copy = kg_format("cp %s/probe %s", world->folder, tool);
    assert_int_equal(system(copy), 0);
    const struct cage_program grant = {tool, data};
    const struct cage_path path = {data, true, false};
    const char *const *commands[] = {COMMAND(tool, "hello"), COMMAND("./probe", "write", tool),
                                     COMMAND("./probe", "remove", tool)};
    static const char *const answers[] = {"hello", "EROFS", "EBUSY"};
    for (size_t i = 0; i < KG_COUNT(commands); i++) {
        struct cage_policy policy = world_policy(world, commands[i]);
        policy.programs = &grant;
        policy.program_count = 1;
        policy.paths = &path;
        policy.path_count = 1;
        policy.root_writable = base_folders;
        kg_auto(run_free) struct run *run = run_policy(world, &policy);
        assert_string_equal(run_line(run), answers[i]);
    }
}

static void plugin_cannot_signal_out_of_its_domain(void **state)
{
    (void)state;
    if (world->facts->landlock < 6) {
        printf("SKIP %s: Landlock of this kernel knows no scopes\n", __func__);
        return;
    }
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", "signal", "1"));
    assert_string_equal(run_line(run), "EPERM");
}

/* -- generated files --------------------------------------------------------------------------- */

static void text_of_the_plan_is_a_file_in_the_cage(void **state)
{
    (void)state;
    struct cage_plan *plan = world_plan(world, COMMAND("./probe", "show", "/etc/motd"));
    cage_steps_add(&plan->steps, CAGE_STEP_TEXT, "/etc/motd", "127.0.0.1 localhost\n", 0);
    /* Before the root is closed. */
    struct cage_step text = plan->steps.items[plan->steps.count - 1];
    memmove(plan->steps.items + 1, plan->steps.items,
            (plan->steps.count - 1) * sizeof(*plan->steps.items));
    plan->steps.items[0] = text;
    struct run *run = run_plan(world, plan);
    assert_string_equal(run_line(run), "127.0.0.1 localhost");
    run_free(&run);
    cage_plan_free(plan);
}

/* -- the second layer -------------------------------------------------------------------------- */

static void without_landlock_the_mounts_still_hold(void **state)
{
    (void)state;
    unsigned version = world->facts->landlock;
    world->facts->landlock = 0;
    const struct grants read = {{"r:data"}};
    expect("EROFS", &read, "write", "data/file");
    expect("ENOENT", &read, "read", "other/file");
    world->facts->landlock = version;
}

/* The rules alone refuse what a mount would let through. */
static void landlock_refuses_to_change_what_is_not_listed(void **state)
{
    (void)state;
    if (lacks_landlock(__func__))
        return;
    struct cage_plan *plan = world_plan(world, COMMAND("./probe", "create", "/tmp/x"));
    free(plan->writables.items[0]);
    plan->writables.items[0] = kg_strdup("/none");
    struct run *run = run_plan(world, plan);
    assert_string_equal(run_line(run), "EACCES");
    run_free(&run);
    cage_plan_free(plan);
}

static void cage_whose_rules_cannot_be_applied_is_not_built(void **state)
{
    (void)state;
    if (lacks_landlock(__func__))
        return;
    struct cage_plan *plan = world_plan(world, COMMAND("./probe", "hello"));
    char name[300] = "/";
    memset(name + 1, 'x', sizeof(name) - 2);
    cage_words_add(&plan->writables, name);
    struct run *run = run_plan(world, plan);
    run_wait_exit(run);
    assert_false(run->how.built);
    assert_int_equal(run->out.length, 0);
    assert_string_equal(kg_buf_terminate(&run->err),
                        "kaged: cannot build the cage: landlock: File name too long\n");
    run_free(&run);
    cage_plan_free(plan);
}

static void all_of_it_holds_for_an_ordinary_user_too(void **state)
{
    (void)state;
    world_again_as_ordinary_user();
}

static void all_of_it_holds_while_it_is_watched(void **state)
{
    (void)state;
    world_again_watched();
}

/* -- the suite --------------------------------------------------------------------------------- */

static int make_world(void **state)
{
    (void)state;
    world = world_new();
    return 0;
}

static int free_world(void **state)
{
    (void)state;
    world_free(world);
    return 0;
}

#define IN_BASE(test) cmocka_unit_test_setup_teardown(test, make_base, remove_base)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        IN_BASE(what_was_not_granted_is_not_there),
        IN_BASE(granted_folder_can_be_read_and_not_written),
        IN_BASE(what_is_written_lands_on_disk_as_the_owners),
        IN_BASE(folder_of_another_user_is_written_as_that_user),
        IN_BASE(folder_of_the_cages_user_is_written_as_that_user),
        IN_BASE(readable_folder_in_a_writable_one_is_read_only),
        IN_BASE(writable_folder_in_a_readable_one_can_be_written),
        IN_BASE(single_file_is_granted_alone),
        IN_BASE(install_folder_stays_read_only_below_a_writable_one),
        IN_BASE(link_that_leads_out_of_a_granted_folder_dangles),
        IN_BASE(mount_below_a_folder_is_not_there_for_a_root_daemon),
        IN_BASE(mount_that_comes_later_is_not_there_for_a_root_daemon),
        IN_BASE(missing_path_is_named),
        IN_BASE(link_in_a_path_is_refused),
        IN_BASE(path_around_a_folder_of_kaged_is_refused),
        IN_BASE(folder_of_root_is_not_written_unless_listed),
        IN_BASE(folder_of_root_that_took_the_place_of_another_is_refused),
        IN_BASE(link_that_took_the_place_of_a_granted_folder_is_refused),
        IN_BASE(link_that_is_swapped_in_during_the_start_never_shows_the_other_folder),
        IN_BASE(granted_program_runs_in_its_folder_and_no_other_does),
        IN_BASE(program_without_a_grant_is_not_there),
        IN_BASE(granted_compiler_compiles),
        IN_BASE(granted_java_starts),
        IN_BASE(program_that_the_plugin_writes_cannot_be_run),
        IN_BASE(undeclared_program_in_the_libraries_cannot_be_run),
        IN_BASE(program_below_a_writable_path_runs_and_cannot_be_changed),
        IN_BASE(plugin_cannot_signal_out_of_its_domain),
        IN_BASE(text_of_the_plan_is_a_file_in_the_cage),
        IN_BASE(without_landlock_the_mounts_still_hold),
        IN_BASE(landlock_refuses_to_change_what_is_not_listed),
        IN_BASE(cage_whose_rules_cannot_be_applied_is_not_built),
        cmocka_unit_test(all_of_it_holds_for_an_ordinary_user_too),
        cmocka_unit_test(all_of_it_holds_while_it_is_watched),
    };
    return cmocka_run_group_tests_name("cage files", tests, make_world, free_world);
}
