/*
 * Attacks on declared folders, each first where it succeeds, in a cage without the one defence, and
 * then in the real cage. The folders are declared by a policy, as the daemon does it. Started by
 * root, all of it runs a second time as an ordinary user.
 */
#include "weak.h"
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <pwd.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SECRET "kaged-attack-secret"
#define STARTS 40 /* while a link takes the place of a folder and gives it back */

static struct world *world;
static char top[64]; /* holds the folders below */
/* What is declared; what is not, with the secret; a link to that; each with a file `secret`. */
static char declared[96], hidden[96], link_to_hidden[96];
static char declared_secret[128], hidden_secret[128];

static void write_file(const char *path, const char *text)
{
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(kg_write_all(fd, text, strlen(text)), 0);
}

/* A weak cage of root's has nothing staged: its user has to be able to do it all. */
static void make_folder(const char *path)
{
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(chmod(path, 0777), 0);
}

static int make_folders(void **state)
{
    (void)state;
    strcpy(top, "/tmp/kaged-attack-XXXXXX");
    assert_non_null(mkdtemp(top));
    assert_int_equal(chmod(top, 0755), 0);
    snprintf(declared, sizeof(declared), "%s/declared", top);
    snprintf(hidden, sizeof(hidden), "%s/hidden", top);
    snprintf(link_to_hidden, sizeof(link_to_hidden), "%s/link", top);
    snprintf(declared_secret, sizeof(declared_secret), "%s/secret", declared);
    snprintf(hidden_secret, sizeof(hidden_secret), "%s/secret", hidden);
    make_folder(declared);
    make_folder(hidden);
    write_file(declared_secret, "nothing to see");
    write_file(hidden_secret, SECRET);
    assert_int_equal(symlink(hidden, link_to_hidden), 0);
    world = world_new();
    assert_int_equal(chmod(world->folder, 0755), 0);
    return 0;
}

static int free_folders(void **state)
{
    (void)state;
    world_free(world);
    kg_auto(kg_free) char *command = kg_format("rm -rf %s", top);
    return system(command);
}

/* The rest of the policy is filled in. */
static struct cage_plan *plan_policy(struct cage_policy policy)
{
    const char *const root_writable[] = {declared, NULL};
    policy.name = "probe";
    policy.install_dir = policy.install_dir ? policy.install_dir : world->folder;
    policy.root_writable = root_writable;
    policy.processes_max = WORLD_PROCESSES;
    policy.tmp_bytes = WORLD_TMP_BYTES;
    struct kg_err err = {0};
    struct cage_plan *plan = cage_plan_new(&policy, world->facts, &err);
    if (plan == NULL)
        fail_msg("%s (%s)", err.message, err.hint);
    return plan;
}

static struct cage_plan *plan_of(const struct cage_path *paths, size_t count,
                                 const char *const *command)
{
    return plan_policy(
        (struct cage_policy){.command = command, .paths = paths, .path_count = count});
}

static struct cage_plan *plan_with(bool write, const char *const *command)
{
    const struct cage_path path = {.path = declared, .write = write};
    return plan_of(&path, 1, command);
}

static void assert_weakly(const struct cage_plan *plan, const struct weak_cage *weak,
                          const char *answer)
{
    struct weak_run *run = weak_start(plan, weak);
    assert_string_equal(weak_line(run), answer);
    weak_free(run);
}

static void assert_really(const struct cage_plan *plan, const char *answer)
{
    kg_auto(run_free) struct run *run = run_plan(world, plan);
    assert_string_equal(run_line(run), answer);
}

/* -- links ------------------------------------------------------------------------------------- */

static void link_in_a_declared_folder_leads_nowhere(void **state)
{
    (void)state;
    kg_auto(kg_free) char *planted = kg_format("%s/planted", declared);
    assert_int_equal(symlink(hidden_secret, planted), 0);
    struct cage_plan *plan = plan_with(false, COMMAND("./probe", "find", planted, SECRET));
    assert_weakly(plan, &(struct weak_cage){.shown = hidden}, "found");
    assert_really(plan, "ENOENT");
    assert_int_equal(unlink(planted), 0);
    cage_plan_free(plan);
}

/* The declared folder and the link change places, at once and as one act. */
static int swap(void)
{
    return renameat2(AT_FDCWD, declared, AT_FDCWD, link_to_hidden, RENAME_EXCHANGE);
}

static void link_that_took_the_place_of_a_declared_folder_is_refused(void **state)
{
    (void)state;
    struct cage_plan *plan = plan_with(false, COMMAND("./probe", "find", declared_secret, SECRET));
    assert_int_equal(swap(), 0);
    assert_weakly(plan, &(struct weak_cage){.without = WITHOUT_OPEN_SOURCE}, "found");
    struct run *run = run_plan(world, plan);
    run_wait_exit(run);
    assert_int_equal(swap(), 0);
    assert_false(run->spawned);
    assert_false(run->how.built);
    assert_non_null(strstr(run->error, "this path contains a symbolic link"));
    run_free(&run);
    cage_plan_free(plan);
}

static void swap_once(void)
{
    if (swap() < 0)
        _exit(127);
}

static void swap_inner(void)
{
    kg_auto(kg_free) char *inner = kg_format("%s/inner", declared);
    kg_auto(kg_free) char *upwards = kg_format("%s/upwards", declared);
    if (renameat2(AT_FDCWD, inner, AT_FDCWD, upwards, RENAME_EXCHANGE) < 0)
        _exit(127);
}

/* In a weak cage, where nothing is staged, it is the shim that notices. */
static void link_that_comes_between_opening_and_binding_is_noticed(void **state)
{
    (void)state;
    struct cage_plan *plan = plan_with(false, COMMAND("./probe", "find", declared_secret, SECRET));
    assert_weakly(plan, &(struct weak_cage){.without = WITHOUT_OPEN_SOURCE, .between = swap_once},
                  "found");
    assert_int_equal(swap(), 0);
    struct weak_run *run = weak_start(plan, &(struct weak_cage){.between = swap_once});
    weak_wait(run);
    assert_int_equal(swap(), 0);
    kg_auto(kg_free) char *message =
        kg_format("kaged: cannot build the cage: %s: Another file has taken its place\n", declared);
    assert_string_equal(kg_buf_terminate(&run->err), message);
    assert_int_equal(run->out.length, 0);
    weak_free(run);
    cage_plan_free(plan);
}

/* Another plugin that may write the folder makes what is declared in it a link, and takes it back.
 */
static void link_that_is_gone_when_the_shim_looks_is_noticed(void **state)
{
    (void)state;
    kg_auto(kg_free) char *inner = kg_format("%s/inner", declared);
    kg_auto(kg_free) char *upwards = kg_format("%s/upwards", declared);
    make_folder(inner);
    assert_int_equal(symlink("..", upwards), 0);
    const struct cage_path paths[] = {{.path = declared, .write = true}, {.path = inner}};
    struct cage_plan *plan = plan_of(paths, 2, COMMAND("./probe", "find", hidden_secret, SECRET));
    struct weak_cage weak = {
        .without = WITHOUT_OPEN_SOURCE, .between = swap_inner, .bound = swap_inner};
    struct weak_run *run = weak_start(plan, &weak);
    weak_wait(run);
    bool refuses = strncmp(kg_buf_terminate(&run->err), "bwrap: ", 7) == 0; /* since version 0.12 */
    assert_string_equal(kg_buf_terminate(&run->out), refuses ? "" : "found\n");
    weak_free(run);
    weak.without = 0;
    run = weak_start(plan, &weak);
    weak_wait(run);
    assert_int_equal(run->out.length, 0);
    assert_non_null(strstr(kg_buf_terminate(&run->err),
                           refuses ? "bwrap: " : "Another file has taken its place"));
    weak_free(run);
    cage_plan_free(plan);
    assert_int_equal(unlink(upwards), 0);
    assert_int_equal(rmdir(inner), 0);
}

static pid_t start_swapping(void)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        swap();
}

static void stop_swapping(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    struct stat status;
    assert_int_equal(lstat(declared, &status), 0);
    if (S_ISLNK(status.st_mode))
        assert_int_equal(swap(), 0);
}

/* Each start finds the folder or refuses the link: what is behind the link is never seen. */
static void link_swapped_during_the_start_shows_nothing(void **state)
{
    (void)state;
    struct cage_plan *plan = plan_with(false, COMMAND("./probe", "find", declared_secret, SECRET));
    pid_t swapper = start_swapping();
    unsigned seen = 0;
    for (unsigned i = 0; i < STARTS; i++) {
        kg_auto(run_free) struct run *run = run_plan(world, plan);
        run_wait_exit(run);
        seen += strstr(kg_buf_terminate(&run->out), "found\n") == run->out.data;
    }
    stop_swapping(swapper);
    assert_int_equal(seen, 0);
    cage_plan_free(plan);
}

/* -- what can be done in a declared folder ----------------------------------------------------- */

static void file_in_a_folder_that_may_be_read_is_not_made(void **state)
{
    (void)state;
    kg_auto(kg_free) char *path = kg_format("%s/new", declared);
    struct cage_plan *plan = plan_with(false, COMMAND("./probe", "create", path));
    assert_weakly(plan, &(struct weak_cage){.without = WITHOUT_READ_ONLY_BINDS | WITHOUT_LANDLOCK},
                  "ok");
    assert_int_equal(unlink(path), 0);
    assert_really(plan, "EROFS");
    assert_int_equal(access(path, F_OK), -1);
    cage_plan_free(plan);
}

/* Through the mapped mount of a root daemon such a file would be root's own. */
static void setuid_program_is_not_made_on_the_disk_of_the_host(void **state)
{
    (void)state;
    struct stat status;
    kg_auto(kg_free) char *path = kg_format("%s/setuid", declared);
    struct cage_plan *plan = plan_with(true, COMMAND("./probe", "setuid", path));
    assert_weakly(plan, &(struct weak_cage){.without = WITHOUT_ARGUMENT_FILTER}, "ok");
    assert_int_equal(stat(path, &status), 0);
    assert_true((status.st_mode & S_ISUID) != 0);
    assert_int_equal(unlink(path), 0);
    assert_really(plan, "EPERM");
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & (S_ISUID | S_ISGID), 0);
    assert_int_equal(unlink(path), 0);
    cage_plan_free(plan);
}

/* File systems that are laid over others take such a node for a deletion. */
static void device_node_is_not_made_on_the_disk_of_the_host(void **state)
{
    (void)state;
    static const char *const ways[][2] = {{"whiteout", "EINVAL"}, {"whiteout-node", "EPERM"}};
    kg_auto(kg_free) char *path = kg_format("%s/node", declared);
    kg_auto(kg_free) char *old = kg_format("%s/node.moved", declared);
    for (size_t i = 0; i < KG_COUNT(ways); i++) {
        struct stat status;
        struct cage_plan *plan = plan_with(true, COMMAND("./probe", ways[i][0], path));
        assert_weakly(
            plan, &(struct weak_cage){.without = WITHOUT_ARGUMENT_FILTER | WITHOUT_LANDLOCK}, "ok");
        assert_int_equal(stat(path, &status), 0);
        assert_true(S_ISCHR(status.st_mode));
        assert_int_equal(unlink(path), 0);
        unlink(old);
        assert_really(plan, ways[i][1]);
        assert_false(stat(path, &status) == 0 && S_ISCHR(status.st_mode));
        unlink(path);
        cage_plan_free(plan);
    }
}

static void socket_in_a_declared_folder_is_not_connected(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%.90s/bus", declared);
    kg_auto(kg_close) int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(chmod(address.sun_path, 0777), 0);
    assert_int_equal(listen(listener, 8), 0);
    struct cage_plan *plan = plan_with(false, COMMAND("./probe", "connect-unix", address.sun_path));
    assert_weakly(plan, &(struct weak_cage){.without = WITHOUT_ARGUMENT_FILTER}, "ok");
    assert_really(plan, "EAFNOSUPPORT");
    assert_int_equal(unlink(address.sun_path), 0);
    cage_plan_free(plan);
}

/* -- what lies read-only in a folder that may be written --------------------------------------- */

/* declared/between/inner, which a policy keeps from being written, and the name it would get. */
static char between[128], moved[128], inner[160], inner_moved[160];

static void make_between(void)
{
    snprintf(between, sizeof(between), "%s/between", declared);
    snprintf(moved, sizeof(moved), "%s/moved", declared);
    snprintf(inner, sizeof(inner), "%s/inner", between);
    snprintf(inner_moved, sizeof(inner_moved), "%s/inner", moved);
    make_folder(between);
}

static void remove_between(void)
{
    kg_auto(kg_free) char *command = kg_format("rm -rf %s %s", between, moved);
    assert_int_equal(system(command), 0);
}

/* The folder above the inner one is moved, in a cage without and in one with the defence. */
static void assert_stays(struct cage_policy policy)
{
    policy.command = COMMAND("./probe", "displace", between, moved);
    struct cage_plan *plan = plan_policy(policy);
    assert_weakly(plan, &(struct weak_cage){.without = WITHOUT_PARTS}, "ok");
    assert_int_equal(rmdir(between), 0);
    assert_int_equal(rename(moved, between), 0);
    assert_really(plan, "EBUSY");
    assert_int_equal(access(moved, F_OK), -1);
    cage_plan_free(plan);
}

/* After its restart the plugin would find what it may only read under a name of its own. */
static void folder_to_be_read_is_not_made_writable_by_moving_the_one_above(void **state)
{
    (void)state;
    make_between();
    make_folder(inner);
    kg_auto(kg_free) char *new = kg_format("%s/new", inner);
    kg_auto(kg_free) char *new_moved = kg_format("%s/new", inner_moved);
    const struct cage_path paths[] = {{.path = declared, .write = true}, {.path = inner}};
    const struct cage_policy policy = {.paths = paths, .path_count = 2};
    assert_stays(policy);
    struct cage_plan *first = plan_of(paths, 2, COMMAND("./probe", "displace", between, moved));
    struct cage_plan *second = plan_of(paths, 2, COMMAND("./probe", "create", new_moved));
    assert_weakly(first, &(struct weak_cage){.without = WITHOUT_PARTS}, "ok");
    make_folder(inner);
    assert_weakly(second, &(struct weak_cage){.without = WITHOUT_PARTS}, "ok");
    remove_between();
    make_between();
    make_folder(inner);
    assert_really(first, "EBUSY");
    assert_really(second, "ENOENT");
    struct cage_plan *third = plan_of(paths, 2, COMMAND("./probe", "create", new));
    assert_really(third, "EROFS");
    cage_plan_free(first);
    cage_plan_free(second);
    cage_plan_free(third);
    remove_between();
}

static void program_is_not_replaced_by_moving_the_folder_above(void **state)
{
    (void)state;
    make_between();
    kg_auto(kg_free) char *command = kg_format("cp %s/probe %s", world->folder, inner);
    assert_int_equal(system(command), 0);
    const struct cage_path path = {.path = declared, .write = true};
    const struct cage_program program = {.program = inner, .folder = declared};
    assert_stays((struct cage_policy){
        .paths = &path, .path_count = 1, .programs = &program, .program_count = 1});
    remove_between();
}

/* As under `plugin dev`, where a plugin's folder may lie in one that it writes. */
static void own_code_is_not_replaced_by_moving_the_folder_above(void **state)
{
    (void)state;
    make_between();
    make_folder(inner);
    kg_auto(kg_free) char *command = kg_format("cp %s/probe %s", world->folder, inner);
    assert_int_equal(system(command), 0);
    const struct cage_path path = {.path = declared, .write = true};
    assert_stays((struct cage_policy){.install_dir = inner, .paths = &path, .path_count = 1});
    remove_between();
}

static void cover_is_neither_moved_nor_written(void **state)
{
    (void)state;
    make_between();
    make_folder(inner);
    kg_auto(kg_free) char *new = kg_format("%s/new", inner);
    const struct cage_path path = {.path = declared, .write = true};
    const struct cage_cover cover = {.path = inner, .note = "a test's"};
    struct cage_policy policy = {
        .paths = &path, .path_count = 1, .covers = &cover, .cover_count = 1};
    assert_stays(policy);
    policy.command = COMMAND("./probe", "create", new);
    struct cage_plan *plan = plan_policy(policy);
    assert_weakly(plan, &(struct weak_cage){.without = WITHOUT_READ_ONLY_BINDS}, "ok");
    assert_int_equal(unlink(new), 0);
    assert_really(plan, "EROFS");
    cage_plan_free(plan);
    remove_between();
}

/* As in a work tree: each is there, and somebody outside would run or believe what is in it. */
static void make_guarded(const char *path)
{
    make_between();
    kg_auto(kg_free) char *command =
        kg_format("mkdir -p %s && echo kept >%s/kept && chmod -R a+rwX %s", path, path, between);
    assert_int_equal(system(command), 0);
}

static void assert_guarded(const char *name, const struct cage_cover *cover, const char *answer)
{
    const struct cage_path path = {.path = declared, .write = true};
    make_guarded(name);
    struct cage_plan *plan = plan_policy(
        (struct cage_policy){.paths = &path,
                             .path_count = 1,
                             .covers = cover,
                             .cover_count = cover != NULL ? 1 : 0,
                             .command = COMMAND("./probe", "guarded", name, between, moved)});
    assert_really(plan, answer);
    remove_between();
    cage_plan_free(plan);
}

/* Without its cover each is made, linked around and renamed around. */
static void what_is_guarded_is_neither_made_linked_nor_renamed_around(void **state)
{
    (void)state;
    for (size_t i = 0; i < cage_guard_count; i++) {
        kg_auto(kg_free) char *path = kg_format("%s/between/%s", declared, cage_guards[i].path);
        const struct cage_cover cover = {.path = path, .note = cage_guards[i].why};
        assert_guarded(path, NULL, "ok ok ok");
        assert_guarded(path, &cover, "EROFS EXDEV EBUSY");
    }
}

/* What another plugin may only read, this one may write, but not move from under its name. */
static void cover_that_may_be_written_is_not_moved(void **state)
{
    (void)state;
    make_between();
    make_folder(inner);
    kg_auto(kg_free) char *new = kg_format("%s/new", inner);
    const struct cage_path path = {.path = declared, .write = true};
    const struct cage_cover cover = {.path = inner, .write = true};
    struct cage_policy policy = {
        .paths = &path, .path_count = 1, .covers = &cover, .cover_count = 1};
    assert_stays(policy);
    kg_auto(kg_free) char *beside = kg_format("%s/beside", between);
    policy.command = COMMAND("./probe", "displace", inner, beside);
    struct cage_plan *plan = plan_policy(policy);
    assert_really(plan, "EBUSY");
    cage_plan_free(plan);
    policy.command = COMMAND("./probe", "create", new);
    plan = plan_policy(policy);
    assert_really(plan, "ok");
    cage_plan_free(plan);
    remove_between();
}

/* A mount of its own is not the owner's all at once: root's folder stays root's. */
static void folder_between_gives_no_more_than_the_one_above(void **state)
{
    (void)state;
    if (geteuid() != 0)
        return;
    make_between();
    make_folder(inner);
    kg_auto(kg_free) char *new = kg_format("%s/new", between);
    assert_int_equal(chmod(between, 0755), 0);
    assert_int_equal(chown(declared, ORDINARY_UID, ORDINARY_UID), 0);
    const struct cage_path paths[] = {{.path = declared, .write = true}, {.path = inner}};
    struct cage_plan *plan = plan_of(paths, 2, COMMAND("./probe", "create", new));
    assert_really(plan, "EACCES");
    cage_plan_free(plan);
    assert_int_equal(chown(declared, 0, 0), 0);
    remove_between();
}

/* -- kaged's own under another name ------------------------------------------------------------ */

static void write_text(const char *path, const char *text)
{
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(kg_write_all(fd, text, strlen(text)), 0);
}

/* Mounts that nobody else sees. An ordinary user needs a namespace in which he may make them. */
static void unshare_mounts(void)
{
    uid_t uid = geteuid();
    kg_auto(kg_free) char *map = kg_format("%u %u 1", uid, uid);
    assert_int_equal(unshare(CLONE_NEWNS | (uid == 0 ? 0 : CLONE_NEWUSER)), 0);
    if (uid != 0) {
        write_text("/proc/self/setgroups", "deny");
        write_text("/proc/self/uid_map", map);
        write_text("/proc/self/gid_map", map);
    }
    assert_int_equal(mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL), 0);
}

/* Where the folder with the secret can be seen besides its own place, and what has to be kept. */
static const struct alias {
    const char *from, *at; /* what is mounted where; below top */
    const char *path;      /* what a plugin declares, and where it would find the secret in it */
    const char *secret;
    const char *kept;
} aliases[] = {
    {"hidden", "declared/inner", "declared/inner", "secret", "hidden"},      /* it itself */
    {"hidden/deep", "declared/inner", "declared/inner", "secret", "hidden"}, /* a part of it */
    {".", "declared/inner", "declared/inner/hidden", "secret", "hidden"},    /* what holds it */
    {".", "declared/inner", "declared/inner/hidden", "deep/secret", "hidden/deep"},
    {"hidden", "declared/inner", "declared", "inner/secret", "hidden"}, /* mounted below it */
};

static void try_alias(const struct alias *alias)
{
    kg_auto(kg_free) char *from = cage_path_join(top, alias->from);
    kg_auto(kg_free) char *at = cage_path_join(top, alias->at);
    kg_auto(kg_free) char *path = cage_path_join(top, alias->path);
    kg_auto(kg_free) char *secret = cage_path_join(path, alias->secret);
    kg_auto(kg_free) char *folder = cage_path_join(top, alias->kept);
    unshare_mounts();
    assert_int_equal(mount(from, at, NULL, MS_BIND | MS_REC, NULL), 0);
    const char *const kept[] = {folder, NULL};
    const struct cage_path declares = {.path = path};
    const struct cage_policy policy = {.name = "probe",
                                       .install_dir = world->folder,
                                       .command = COMMAND("./probe", "find", secret, SECRET),
                                       .paths = &declares,
                                       .path_count = 1,
                                       .kept = kept,
                                       .processes_max = WORLD_PROCESSES,
                                       .tmp_bytes = WORLD_TMP_BYTES};
    struct cage_host by_name = cage_real_host;
    by_name.mounted = NULL;
    struct cage_facts weak_facts = *world->facts;
    weak_facts.host = &by_name;
    struct kg_err err = {0};
    struct cage_plan *plan = cage_plan_new(&policy, &weak_facts, &err);
    if (plan == NULL)
        fail_msg("%s", err.message);
    assert_weakly(plan, &(struct weak_cage){0}, "found");
    cage_plan_free(plan);
    assert_null(cage_plan_new(&policy, world->facts, &err));
    assert_non_null(strstr(err.message, "it belongs to kaged itself"));
}

/* Each in a process of its own, which takes its mounts with it. */
static void folder_of_kaged_is_not_given_under_another_name(void **state)
{
    (void)state;
    kg_auto(kg_free) char *inner_folder = kg_format("%s/inner", declared);
    kg_auto(kg_free) char *deep = kg_format("%s/deep", hidden);
    kg_auto(kg_free) char *deep_secret = kg_format("%s/secret", deep);
    make_folder(inner_folder);
    make_folder(deep);
    write_file(deep_secret, SECRET);
    for (size_t i = 0; i < KG_COUNT(aliases); i++) {
        int status = -1;
        pid_t pid = fork();
        if (pid == 0) {
            try_alias(&aliases[i]);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status != 0)
            fail_msg("alias %zu: status %#x", i, (unsigned)status);
    }
    assert_int_equal(rmdir(inner_folder), 0);
    assert_int_equal(unlink(deep_secret), 0);
    assert_int_equal(rmdir(deep), 0);
}

/* -- the group of a folder --------------------------------------------------------------------- */

/* What a plugin of root's would read in a folder if its group were the folder's. */
static void read_with_group(const char *folder, gid_t gid, const char *file, char *ret_text)
{
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char text[sizeof(SECRET)] = "";
        int map = cage_idmap_new(ORDINARY_UID, gid, CAGE_UID);
        struct mount_attr attributes = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)map};
        int tree = open_tree(AT_FDCWD, folder, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) < 0 ||
            !cage_become_user(CAGE_UID))
            _exit(1);
        int fd = openat(tree, file, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
            (void)!write(out[1], text, strlen(text));
        _exit(0);
    }
    close(out[1]);
    ssize_t got = read(out[0], ret_text, sizeof(SECRET) - 1);
    ret_text[got > 0 ? got : 0] = '\0';
    close(out[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A folder may have the group of root and belong to somebody who is not in it. */
static void group_of_a_folder_is_not_the_plugins(void **state)
{
    (void)state;
    if (geteuid() != 0)
        return;
    char text[sizeof(SECRET)];
    kg_auto(kg_free) char *file = kg_format("%s/of-root", declared);
    kg_auto(kg_free) char *new = kg_format("%s/new", declared);
    write_file(file, SECRET);
    assert_int_equal(chmod(file, 0640), 0);
    assert_int_equal(chown(declared, ORDINARY_UID, 0), 0);
    read_with_group(declared, 0, "of-root", text);
    assert_string_equal(text, SECRET);
    struct cage_plan *plan = plan_with(true, COMMAND("./probe", "find", file, SECRET));
    assert_really(plan, "EACCES");
    cage_plan_free(plan);
    struct stat status;
    const struct passwd *entry = getpwuid(ORDINARY_UID);
    plan = plan_with(true, COMMAND("./probe", "create", new));
    assert_really(plan, "ok");
    assert_int_equal(stat(new, &status), 0);
    assert_int_equal(status.st_uid, ORDINARY_UID);
    assert_int_equal(status.st_gid, entry != NULL ? entry->pw_gid : CAGE_GID);
    cage_plan_free(plan);
    assert_int_equal(chown(declared, 0, 0), 0);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(unlink(new), 0);
}

/* -- programs that a plugin brings itself ------------------------------------------------------ */

static void program_of_its_own_is_not_run_in(const char *test, const char *folder)
{
    if (world->facts->landlock == 0) {
        printf("SKIP %s: the kernel has no Landlock\n", test);
        return;
    }
    kg_auto(kg_free) char *path = kg_format("%s/program", folder);
    struct cage_plan *plan = plan_with(true, COMMAND("./probe", "run-copy", path));
    assert_weakly(plan, &(struct weak_cage){.without = WITHOUT_LANDLOCK}, "ok");
    unlink(path);
    assert_really(plan, "EACCES");
    unlink(path);
    cage_plan_free(plan);
}

static void program_in_tmp_is_not_run(void **state)
{
    (void)state;
    program_of_its_own_is_not_run_in(__func__, "/tmp");
}

static void program_in_a_folder_that_may_be_written_is_not_run(void **state)
{
    (void)state;
    program_of_its_own_is_not_run_in(__func__, declared);
}

static void every_attack_on_files_fails_for_an_ordinary_user_too(void **state)
{
    (void)state;
    world_again_as_ordinary_user();
}

static void all_of_it_holds_while_it_is_watched(void **state)
{
    (void)state;
    world_again_watched();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_in_a_declared_folder_leads_nowhere),
        cmocka_unit_test(link_that_took_the_place_of_a_declared_folder_is_refused),
        cmocka_unit_test(link_that_comes_between_opening_and_binding_is_noticed),
        cmocka_unit_test(link_that_is_gone_when_the_shim_looks_is_noticed),
        cmocka_unit_test(link_swapped_during_the_start_shows_nothing),
        cmocka_unit_test(file_in_a_folder_that_may_be_read_is_not_made),
        cmocka_unit_test(setuid_program_is_not_made_on_the_disk_of_the_host),
        cmocka_unit_test(device_node_is_not_made_on_the_disk_of_the_host),
        cmocka_unit_test(socket_in_a_declared_folder_is_not_connected),
        cmocka_unit_test(folder_to_be_read_is_not_made_writable_by_moving_the_one_above),
        cmocka_unit_test(program_is_not_replaced_by_moving_the_folder_above),
        cmocka_unit_test(own_code_is_not_replaced_by_moving_the_folder_above),
        cmocka_unit_test(cover_is_neither_moved_nor_written),
        cmocka_unit_test(what_is_guarded_is_neither_made_linked_nor_renamed_around),
        cmocka_unit_test(cover_that_may_be_written_is_not_moved),
        cmocka_unit_test(folder_between_gives_no_more_than_the_one_above),
        cmocka_unit_test(folder_of_kaged_is_not_given_under_another_name),
        cmocka_unit_test(group_of_a_folder_is_not_the_plugins),
        cmocka_unit_test(program_in_tmp_is_not_run),
        cmocka_unit_test(program_in_a_folder_that_may_be_written_is_not_run),
        cmocka_unit_test(every_attack_on_files_fails_for_an_ordinary_user_too),
        cmocka_unit_test(all_of_it_holds_while_it_is_watched),
    };
    return cmocka_run_group_tests_name("cage attack files", tests, make_folders, free_folders);
}
