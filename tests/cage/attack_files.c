/*
 * Attacks on declared folders, each first where it succeeds, in a cage without the one defence, and
 * then in the real cage. The folders are declared by a policy, as the daemon does it. Started by
 * root, all of it runs a second time as an ordinary user.
 */
#include "weak.h"
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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

static struct cage_plan *plan_of(const struct cage_path *paths, size_t count,
                                 const char *const *command)
{
    const char *const root_writable[] = {declared, NULL};
    const struct cage_policy policy = {.name = "probe",
                                       .install_dir = world->folder,
                                       .command = command,
                                       .paths = paths,
                                       .path_count = count,
                                       .root_writable = root_writable,
                                       .processes_max = WORLD_PROCESSES,
                                       .tmp_bytes = WORLD_TMP_BYTES};
    struct kg_err err = {0};
    struct cage_plan *plan = cage_plan_new(&policy, world->facts, &err);
    if (plan == NULL)
        fail_msg("%s (%s)", err.message, err.hint);
    return plan;
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
    assert_non_null(strstr(run->error, "there is a link in this path"));
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
    assert_weakly(plan, &weak, "found");
    weak.without = 0;
    struct weak_run *run = weak_start(plan, &weak);
    weak_wait(run);
    assert_int_equal(run->out.length, 0);
    assert_non_null(strstr(kg_buf_terminate(&run->err), "Another file has taken its place"));
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
        cmocka_unit_test(socket_in_a_declared_folder_is_not_connected),
        cmocka_unit_test(program_in_tmp_is_not_run),
        cmocka_unit_test(program_in_a_folder_that_may_be_written_is_not_run),
        cmocka_unit_test(every_attack_on_files_fails_for_an_ordinary_user_too),
    };
    return cmocka_run_group_tests_name("cage attack files", tests, make_folders, free_folders);
}
