/*
 * One process in a cage. Whatever it reaches goes through the gate as long as it lives; what it
 * says on stderr is read while it says it, so it cannot block there. Its end is told once, when its
 * whole tree is gone, or not at all if its owner left first; the memory waits for that end.
 */
#include "helper/internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define READS_AT_END 1024 /* of one pipe; however large its child made it */

struct helper_child {
    struct cage_child *cage; /* NULL before and after its life; freed by the cage */
    struct gate_cage *network;
    struct cage_attempts *attempts; /* NULL unless its plan is watched */
    struct helper_output errors;
    struct loop *loop;
    struct cage_exit how;
    bool ended;
    const struct helper_child_ops *ops; /* NULL: its owner left */
    void *data;
};

/* -- programs of ours -------------------------------------------------------------------------- */

char *helper_program(const char *name, struct kg_err *err)
{
    char *program = cage_helper_path(name);
    if (program == NULL) {
        kg_fail(err, KG_E_INTERNAL, "%s is not installed", name);
        kg_hint(err, "install all of kaged: make install");
    }
    return program;
}

const char *const helper_environment[] = {
    "PATH=/usr/bin:/usr/local/bin",
    "LANG=C.UTF-8",
#ifdef __SANITIZE_ADDRESS__
    "ASAN_OPTIONS=detect_leaks=0", /* it would trace the process, which no cage allows */
#endif
    NULL,
};

uint64_t helper_memory(uint64_t bytes)
{
#ifdef __SANITIZE_ADDRESS__
    (void)bytes;
    return 0;
#else
    return bytes;
#endif
}

struct cage_plan *helper_plan(const char *program, struct cage_policy policy,
                              const struct cage_facts *facts, struct kg_err *err)
{
    kg_auto(kg_free) char *folder = kg_path_folder(program);
    policy.install_dir = folder;
    policy.env = helper_environment;
    policy.memory_bytes = helper_memory(policy.memory_bytes);
    return cage_plan_new(&policy, facts, err);
}

/* -- outputs ----------------------------------------------------------------------------------- */

static void child_keep(struct helper_output *output, struct kg_str bytes)
{
    const struct helper_errors *kept = &output->kept;
    size_t room = kept->max_bytes - output->text.length;
    output->truncated = output->truncated || bytes.length > room;
    if (!kept->last && bytes.length > room)
        bytes.length = room;
    kg_buf_str(&output->text, bytes);
    if (output->text.length > kept->max_bytes)
        kg_buf_consume(&output->text, output->text.length - kept->max_bytes);
}

/* False when there is nothing more for now, or ever. */
static bool child_read_some(struct helper_output *output)
{
    char *bytes = loop_scratch(output->loop);
    ssize_t got = read(output->end.fd, bytes, LOOP_SCRATCH_BYTES);
    if (got > 0 && output->on_bytes != NULL)
        output->on_bytes(output->data, (struct kg_str){bytes, (size_t)got});
    else if (got > 0)
        child_keep(output, (struct kg_str){bytes, (size_t)got});
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        loop_fd_end(&output->end);
    return got > 0 || (got < 0 && errno == EINTR);
}

static void child_on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    child_read_some(KG_CONTAINER(poll->data, struct helper_output, end));
}

void helper_output_begin(struct helper_output *output, struct loop *loop, int fd)
{
    output->loop = loop;
    loop_fd_begin(loop, &output->end, fd);
    if (output->end.poll != NULL)
        uv_poll_start(output->end.poll, UV_READABLE, child_on_readable);
}

void helper_output_finish(struct helper_output *output)
{
    for (int i = 0; i < READS_AT_END && output->end.fd >= 0 && child_read_some(output); i++)
        ;
    loop_fd_end(&output->end);
}

/* -- life -------------------------------------------------------------------------------------- */

static void child_delete(struct helper_child *child)
{
    loop_fd_end(&child->errors.end);
    kg_buf_free(&child->errors.text);
    cage_attempts_free(child->attempts);
    free(child);
}

static void child_on_spawned(void *data, pid_t pid, int in_fd, int out_fd, int err_fd)
{
    struct helper_child *child = data;
    (void)pid;
    helper_output_begin(&child->errors, child->loop, err_fd);
    if (child->ops != NULL) {
        child->ops->on_spawned(child->data, in_fd, out_fd);
    } else {
        kg_close(&in_fd);
        kg_close(&out_fd);
    }
}

/* The owner may free the child when it hears of it. */
static void child_on_exited(void *data, const struct cage_exit *how, const char *error_or_null)
{
    struct helper_child *child = data;
    child->cage = NULL;
    child->ended = true;
    child->how = *how;
    if (child->network != NULL)
        gate_cage_free(kg_steal(&child->network));
    helper_output_finish(&child->errors);
    if (child->attempts != NULL)
        cage_attempts_finish(child->attempts);
    if (child->ops != NULL)
        child->ops->on_exited(child->data, how, error_or_null);
    else
        child_delete(child);
}

static void child_on_tried(void *data, const struct cage_attempt *attempt)
{
    struct helper_child *child = data;
    if (child->ops != NULL && child->ops->on_tried != NULL)
        child->ops->on_tried(child->data, attempt);
}

static void child_on_socket(void *data, uint32_t index, int fd)
{
    struct helper_child *child = data;
    if (index == CAGE_SOCKET_TRIED && child->attempts == NULL)
        child->attempts = cage_attempts_new(child->loop, fd, child_on_tried, child);
    else if (child->network != NULL)
        gate_cage_take(child->network, index, fd);
    else
        kg_close(&fd);
}

static void child_on_network(void *data, const struct gate_event *event)
{
    struct helper_child *child = data;
    if (child->ops != NULL && child->ops->on_network != NULL)
        child->ops->on_network(child->data, event);
}

struct helper_child *helper_child_new(const struct helper_place *place,
                                      const struct cage_plan *plan, struct helper_errors errors,
                                      const struct helper_child_ops *ops, void *data,
                                      struct kg_err *err)
{
    static const struct cage_child_ops cage_ops = {
        .on_spawned = child_on_spawned, .on_exited = child_on_exited, .on_socket = child_on_socket};
    struct helper_child *child = kg_alloc(sizeof(*child));
    child->loop = place->loop;
    child->errors = (struct helper_output){.end.fd = -1, .kept = errors};
    child->ops = ops;
    child->data = data;
    child->cage = cage_spawn(place->spawner, plan, &cage_ops, child, err);
    if (child->cage == NULL) {
        child_delete(child);
        return NULL;
    }
    if (place->gate != NULL && cage_plan_has_network(plan))
        child->network = gate_cage_new(place->gate, plan, child_on_network, child);
    if (child->network != NULL)
        gate_cage_is_ours(child->network);
    if (child->network != NULL && place->tells_later)
        gate_cage_tell_later(child->network);
    return child;
}

void helper_child_free(struct helper_child *child)
{
    if (child == NULL)
        return;
    child->ops = NULL;
    if (child->network != NULL)
        gate_cage_free(kg_steal(&child->network));
    if (child->cage != NULL)
        cage_signal(child->cage, SIGKILL);
    else
        child_delete(child);
}

void helper_child_signal(struct helper_child *child, int signal)
{
    if (child->cage != NULL)
        cage_signal(child->cage, signal);
}

const struct cage_exit *helper_child_exit(const struct helper_child *child)
{
    return child->ended ? &child->how : NULL;
}

struct kg_str helper_child_errors(const struct helper_child *child)
{
    return kg_buf_view(&child->errors.text);
}

bool helper_child_said_more(const struct helper_child *child)
{
    return child->errors.truncated;
}
