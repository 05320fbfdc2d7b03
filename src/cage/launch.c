/*
 * From a plan to a bwrap at work: what is bound is opened and checked, and staged where we are
 * root; the options and the orders are written, and the gate is opened.
 */
#include "cage/cgroup.h"
#include "cage/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* What one launch owns until the gate is open. */
struct launch {
    const struct cage_plan *plan;
    struct cage_stage *stage;    /* borrowed; NULL: not root */
    struct cage_source *sources; /* one for each step */
    struct cage_ready *ready;    /* borrowed */
    int next_file;
};

static void launch_free(struct launch *launch)
{
    for (size_t i = 0; i < launch->plan->steps.count; i++) {
        if (launch->sources[i].staged != NULL)
            cage_stage_remove(launch->sources[i].staged);
        free(launch->sources[i].staged);
        kg_close(&launch->sources[i].fd);
    }
    free(launch->sources);
}

/* -- opening ----------------------------------------------------------------------------------- */

int cage_program_open(const char *name, struct kg_err *err)
{
    kg_auto(kg_free) char *path = cage_helper_path(name);
    if (path == NULL)
        return kg_fail(err, KG_E_CAGE, "%s is neither beside this program nor in %s", name,
                       KAGED_LIBEXEC);
    int fd = open(path, O_PATH | O_CLOEXEC);
    return fd < 0 ? kg_fail_errno(err, errno, "open %s", path) : fd;
}

static int open_source(const struct cage_step *step, struct kg_err *err)
{
    const char *path = step->source;
    bool reads = step->kind == CAGE_STEP_COPY;
    struct open_how how = {.flags = (reads ? O_RDONLY | O_NONBLOCK : O_PATH) | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    kg_auto(kg_close) int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
    if (fd < 0 && errno == ELOOP)
        return kg_fail(err, KG_E_REFUSED, "open %s: this path contains a symbolic link", path);
    if (fd < 0)
        return kg_fail_errno(err, errno, "open %s", path);
    struct stat status;
    if (fstat(fd, &status) < 0)
        return kg_fail_errno(err, errno, "stat %s", path);
    if (!S_ISREG(status.st_mode) && (reads || !S_ISDIR(status.st_mode)))
        return kg_fail(err, KG_E_REFUSED, "open %s: neither a folder nor a file", path);
    return kg_steal_fd(&fd);
}

/*
 * Another folder may have taken the place of the one that was planned for. A daemon that is not
 * root's is held to its own user's rights instead.
 */
static int check_not_roots(const struct cage_step *step, const struct cage_stage *stage, int source,
                           struct kg_err *err)
{
    struct stat status;
    if (step->kind != CAGE_STEP_WRITE || step->roots || step->part || geteuid() != 0 ||
        (stage != NULL && cage_stage_owner(stage)->uid != 0))
        return 0;
    if (fstat(source, &status) < 0)
        return kg_fail_errno(err, errno, "stat %s", step->source);
    if (status.st_uid != 0)
        return 0;
    return kg_fail(err, KG_E_REFUSED, "write %s: it belongs to root", step->source);
}

/* O_PATH asks for no right to the thing itself; a cage of it would. */
static int check_owner_may(int fd, bool write)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -errno;
    int rights = R_OK | (write ? W_OK : 0) | (S_ISDIR(status.st_mode) ? X_OK : 0);
    return faccessat(fd, "", rights, AT_EMPTY_PATH | AT_EACCESS) < 0 ? -errno : 0;
}

/* A daemon that is not root's gets nothing into a cage that its own user may not have. */
static int open_for_owner(const struct cage_stage *stage, const struct cage_step *step,
                          struct kg_err *err)
{
    const struct cage_owner *owner = stage != NULL ? cage_stage_owner(stage) : NULL;
    if (owner == NULL || owner->uid == 0)
        return open_source(step, err);
    int result = cage_owner_enter(owner, err);
    if (result < 0)
        return result;
    kg_auto(kg_close) int fd = open_source(step, err);
    int allowed = fd < 0 || step->part ? 0 : check_owner_may(fd, step->kind == CAGE_STEP_WRITE);
    cage_owner_leave();
    if (allowed < 0)
        return kg_fail_errno(err, -allowed, "open %s as uid %u", step->source,
                             (unsigned)owner->uid);
    return fd < 0 ? -EACCES : kg_steal_fd(&fd);
}

/* -- sources ----------------------------------------------------------------------------------- */

/*
 * bwrap binds by a path, which somebody may change meanwhile. So the shim looks, before anything of
 * the plugin's runs, whether what was opened here is what is mounted there.
 */
static int identify(struct cage_source *source, struct kg_err *err)
{
    struct stat status;
    if (fstat(source->fd, &status) < 0)
        return kg_fail_errno(err, errno, "stat");
    source->major = major(status.st_dev);
    source->minor = minor(status.st_dev);
    source->inode = status.st_ino;
    return 0;
}

/* What a part belongs to: its fd in *ret_whole, which is -1 for what is not a part. */
static int find_whole(const struct launch *launch, size_t at, int *ret_whole, struct kg_err *err)
{
    const struct cage_step *steps = launch->plan->steps.items;
    *ret_whole = -1;
    if (!steps[at].part)
        return 0;
    for (size_t i = at; i-- > 0 && *ret_whole < 0;)
        if (steps[i].kind == CAGE_STEP_WRITE && !steps[i].part &&
            kg_path_within(steps[at].path, steps[i].path))
            *ret_whole = launch->sources[i].fd;
    return *ret_whole >= 0 ? 0 : kg_fail(err, KG_E_CAGE, "it is a part of nothing");
}

static int prepare_bind(struct launch *launch, size_t at, struct kg_err *err)
{
    const struct cage_step *step = &launch->plan->steps.items[at];
    struct cage_source *source = &launch->sources[at];
    int whole;
    source->fd = open_for_owner(launch->stage, step, err);
    if (source->fd < 0)
        return source->fd;
    int result = check_not_roots(step, launch->stage, source->fd, err);
    if (result < 0)
        return result;
    result = identify(source, err);
    if (result == 0)
        result = find_whole(launch, at, &whole, err);
    if (result == 0 && launch->stage != NULL)
        result = cage_stage_add(launch->stage, cage_ready_room(launch->ready), source->fd, whole,
                                step->kind == CAGE_STEP_WRITE, cage_ready_user(launch->ready),
                                &source->staged, err);
    return result < 0 ? kg_wrap(err, result, "%s", step->source) : 0;
}

static int prepare_file(struct launch *launch, const struct cage_step *step, struct kg_err *err)
{
    int file = launch->next_file++;
    if (file == CAGE_FDS)
        return kg_fail(err, KG_E_CAGE, "more than %d files are to be made", CAGE_FILES_MAX);
    if (step->kind == CAGE_STEP_TEXT)
        return cage_ready_write(launch->ready, file, kg_str(step->source), err);
    kg_auto(kg_close) int fd = open_for_owner(launch->stage, step, err);
    if (fd < 0)
        return fd;
    int result = cage_ready_copy(launch->ready, file, fd, err);
    return result < 0 ? kg_wrap(err, result, "%s", step->source) : 0;
}

static int prepare_sources(struct launch *launch, struct kg_err *err)
{
    const struct cage_steps *steps = &launch->plan->steps;
    for (size_t i = 0; i < steps->count; i++) {
        const struct cage_step *step = &steps->items[i];
        int result = 0;
        if (step->kind == CAGE_STEP_BIND || step->kind == CAGE_STEP_WRITE)
            result = prepare_bind(launch, i, err);
        else if (step->kind == CAGE_STEP_COPY || step->kind == CAGE_STEP_TEXT)
            result = prepare_file(launch, step, err);
        if (result < 0)
            return result;
    }
    return 0;
}

/* -- the whole --------------------------------------------------------------------------------- */

/* The orders last: if we are killed on the way, the shim has none, and runs nothing. */
static int write_orders(struct launch *launch, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf options = {0}, orders = {0};
    cage_argv_options(launch->plan, launch->sources, cage_ready_ahead(launch->ready) > 0, &options);
    cage_argv_orders(launch->plan, launch->sources, cage_ready_group(launch->ready) != NULL,
                     &orders);
    int result =
        cage_ready_write(launch->ready, CAGE_FD_CALLS, cage_calls_filter(launch->plan), err);
    if (result == 0)
        result = cage_ready_write(launch->ready, CAGE_FD_ARGS, kg_buf_view(&options), err);
    if (result == 0)
        result = cage_ready_write(launch->ready, CAGE_FD_ORDERS, kg_buf_view(&orders), err);
    return result;
}

/* What the cage needs until it stands goes with it. */
static void cage_launch_hand_over(struct launch *launch, struct cage_launched *launched)
{
    size_t count = launch->plan->steps.count;
    launched->held = kg_alloc_array(count + 1, sizeof(int));
    for (size_t i = 0; i < count; i++) {
        struct cage_source *source = &launch->sources[i];
        if (source->staged != NULL)
            cage_words_add(&launched->staged, source->staged);
        kg_free(&source->staged);
        if (source->fd >= 0)
            launched->held[launched->held_count++] = kg_steal_fd(&source->fd);
    }
}

int cage_launch(const struct cage_plan *plan, struct cage_stage *stage, struct cage_ready *ready,
                struct cage_launched *ret_launched, struct kg_err *err)
{
    kg_auto(launch_free) struct launch launch = {
        .plan = plan,
        .stage = stage,
        .sources = kg_alloc_array(plan->steps.count + 1, sizeof(struct cage_source)),
        .ready = ready,
        .next_file = CAGE_FD_FILES,
    };
    for (size_t i = 0; i < plan->steps.count; i++)
        launch.sources[i].fd = -1;
    int result = prepare_sources(&launch, err);
    if (result == 0)
        result = write_orders(&launch, err);
    if (result < 0)
        return kg_wrap(err, result, "plugin %s", plan->name);
    *ret_launched = cage_ready_go(ready);
    cage_launch_hand_over(&launch, ret_launched);
    return 0;
}

void cage_launched_settle(struct cage_launched *launched)
{
    for (size_t i = 0; i < launched->staged.count; i++)
        cage_stage_remove(launched->staged.items[i]);
    cage_words_free(&launched->staged);
    for (size_t i = 0; i < launched->held_count; i++)
        kg_close(&launched->held[i]);
    free(launched->held);
    launched->held = NULL;
    launched->held_count = 0;
}
