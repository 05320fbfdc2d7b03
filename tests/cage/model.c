/*
 * Calls of models through the real kaged-model in its real cage, to a small provider of ours. That
 * is a process of its own, since the gatekeeper refuses what listens in the daemon's. Started by
 * root, all of it runs a second time as an ordinary user.
 */
#include "model/model.h"
#include "world.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct world *world;
static struct gate *gate;
static uint16_t provider_port;

/* -- the provider ------------------------------------------------------------------------------ */

static const char whole_answer[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\",\"function\":"
    "{\"name\":\"fs__list\",\"arguments\":\"{\\\"path\\\":\\\"/\\\"}\"}}]}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}],"
    "\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4}}\n\n"
    "data: [DONE]\n\n";
static const char half_answer[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
                                  "data: {\"choices\":[{\"delta\":{\"content\":\"Hm\"}}]}\n\n";

/* Under /half an answer begins and never ends, elsewhere it is whole. */
static void answer_one(int fd)
{
    char request[65536];
    size_t length = 0;
    ssize_t got;
    do {
        got = read(fd, request + length, sizeof(request) - 1 - length);
        length += got > 0 ? (size_t)got : 0;
        request[length] = '\0';
    } while (got > 0 && strstr(request, "\"stream\":true") == NULL);
    bool half = strncmp(request, "POST /half/", 11) == 0;
    const char *answer = half ? half_answer : whole_answer;
    (void)kg_write_all(fd, answer, strlen(answer));
    while (half && read(fd, request, sizeof(request)) > 0)
        ;
}

static void be_the_provider(int listener)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0 && fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            answer_one(fd);
            _exit(0);
        }
        kg_close(&fd);
    }
}

static void start_provider(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 64), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    provider_port = ntohs(address.sin_port);
    if (fork() == 0)
        be_the_provider(listener);
    close(listener);
}

/* -- calls ------------------------------------------------------------------------------------- */

/* What a call told, as text: "text Hello|tool c1 fs__list ...|usage 9 0 4|" and its end. */
struct caller {
    struct kg_buf told;
    struct model_call *call; /* NULL after its end */
    struct model_end end;
    bool done;
};

static void on_event(void *data, const struct model_event *event)
{
    struct caller *caller = data;
    struct kg_buf *told = &caller->told;
    switch (event->kind) {
    case MODEL_TEXT:
    case MODEL_REASONING:
        kg_buf_printf(told, "text %.*s|", KG_STR_ARG(event->text));
        return;
    case MODEL_TOOL_CALL: {
        struct kg_json_writer json = kg_json_writer(told);
        kg_buf_printf(told, "tool %.*s %.*s ", KG_STR_ARG(event->call.id),
                      KG_STR_ARG(event->call.name));
        kg_json_node(&json, event->call.arguments);
        kg_buf_char(told, '|');
        return;
    }
    case MODEL_USAGE:
        kg_buf_printf(told, "usage %d %d %d|", (int)event->usage.input_tokens,
                      (int)event->usage.cached_tokens, (int)event->usage.output_tokens);
        return;
    case MODEL_RETRY:
        kg_buf_text(told, "retry|");
        return;
    }
}

static void on_done(void *data, const struct model_end *end)
{
    struct caller *caller = data;
    assert_false(caller->done);
    caller->end = *end;
    caller->call = NULL;
    caller->done = true;
}

static const struct model_ops ops = {.on_event = on_event, .on_done = on_done};

static void caller_free(struct caller *caller)
{
    kg_buf_free(&caller->told);
}

static struct local_provider provider;
static struct local_model model = {.provider = &provider, .model = {"m", 1}};

static int ask(struct helper_pool *client, const char *path, struct caller *caller,
               struct kg_err *err)
{
    char url[64];
    int length = snprintf(url, sizeof(url), "http://127.0.0.1:%u/%s", provider_port, path);
    provider = (struct local_provider){
        .name = KG_STR("mine"),
        .base_url = {url, (size_t)length},
        .host = "127.0.0.1",
        .port = provider_port,
        .api_key = KG_STR("s3cret"),
        .connect_timeout_ms = 10000,
        .idle_timeout_ms = 60000,
        .timeout_ms = 60000,
    };
    const struct model_request request = {.model = &model, .messages = KG_STR("[]")};
    return model_ask(client, &request, &ops, caller, &caller->call, err);
}

static void must_ask(struct helper_pool *client, const char *path, struct caller *caller)
{
    struct kg_err err;
    if (ask(client, path, caller, &err) < 0)
        fail_msg("%s", err.message);
}

static bool is_done(void *data)
{
    return ((struct caller *)data)->done;
}

static bool has_told(void *data)
{
    return ((struct caller *)data)->told.length > 0;
}

#define wait_until(condition, data)                                                                \
    assert_true(loop_run_until(world->loop, condition, data, WORLD_WAIT_MS))

static void assert_whole_answer(struct helper_pool *client)
{
    kg_auto(caller_free) struct caller caller = {0};
    must_ask(client, "v1", &caller);
    wait_until(is_done, &caller);
    if (caller.end.failure != MODEL_OK)
        fail_msg("%s", caller.end.err.message);
    assert_int_equal(caller.end.stop, MODEL_STOP_TOOLS);
    assert_string_equal(kg_buf_terminate(&caller.told),
                        "text Hello|tool c1 fs__list {\"path\":\"/\"}|usage 9 0 4|");
}

/* -- clients ----------------------------------------------------------------------------------- */

static struct helper_pool_place place;

static void on_closed(void *data)
{
    *(bool *)data = true;
}

static bool is_set(void *data)
{
    return *(bool *)data;
}

static struct helper_pool *client_new(void)
{
    place = (struct helper_pool_place){
        .where = {world->loop, world->spawner, gate},
        .facts = world->facts,
        .calls_max = 8,
        .idle_ms = 60000,
    };
    return model_pool_new(&place);
}

static void client_end(struct helper_pool *client)
{
    bool closed = false;
    helper_pool_close(client, on_closed, &closed);
    wait_until(is_set, &closed);
    assert_int_equal(helper_pool_processes(client), 0);
    helper_pool_free(client);
}

static bool has_no_process(void *data)
{
    return helper_pool_processes(data) == 0;
}

/* -- tests ------------------------------------------------------------------------------------- */

static void an_answer_comes_through_the_cage(void **state)
{
    (void)state;
    struct helper_pool *client = client_new();
    assert_int_equal(helper_pool_processes(client), 0);
    assert_whole_answer(client);
    assert_whole_answer(client);
    assert_int_equal(helper_pool_processes(client), 1);
    client_end(client);
}

static void an_idle_process_ends_and_comes_back(void **state)
{
    (void)state;
    struct helper_pool *client = client_new();
    place.idle_ms = 1;
    assert_whole_answer(client);
    wait_until(has_no_process, client);
    assert_whole_answer(client);
    client_end(client);
}

static void calls_go_side_by_side_up_to_the_bound(void **state)
{
    (void)state;
    struct helper_pool *client = client_new();
    struct kg_err err;
    place.calls_max = 2;
    kg_auto(caller_free) struct caller slow = {0}, other = {0};
    must_ask(client, "half", &slow);
    wait_until(has_told, &slow);
    assert_whole_answer(client);
    must_ask(client, "half", &other);
    assert_int_equal(ask(client, "v1", &other, &err), -EINVAL);
    assert_int_equal(err.code, KG_E_BUSY);
    assert_string_equal(err.message, "provider mine is asked 2 things already");
    client_end(client);
    assert_int_equal(slow.end.failure, MODEL_CANCELLED);
    assert_string_equal(slow.end.err.message, "provider mine: the daemon is stopping");
}

static void a_cancelled_call_is_not_heard_of_again(void **state)
{
    (void)state;
    struct helper_pool *client = client_new();
    kg_auto(caller_free) struct caller unsent = {0}, sent = {0};
    must_ask(client, "v1", &unsent);
    model_cancel(unsent.call);
    must_ask(client, "half", &sent);
    wait_until(has_told, &sent);
    model_cancel(sent.call);
    assert_whole_answer(client);
    assert_int_equal(helper_pool_processes(client), 1);
    assert_false(unsent.done || sent.done);
    assert_int_equal(unsent.told.length, 0);
    client_end(client);
}

static void a_call_has_its_time_and_no_more(void **state)
{
    (void)state;
    struct helper_pool *client = client_new();
    kg_auto(caller_free) struct caller caller = {0};
    struct kg_err err;
    must_ask(client, "v1", &caller); /* fills in the provider */
    model_cancel(caller.call);
    kg_auto(kg_free) char *url = kg_format("http://127.0.0.1:%u/half", provider_port);
    provider.base_url = kg_str(url);
    const struct model_request request = {
        .model = &model, .messages = KG_STR("[]"), .timeout_ms = 300};
    assert_int_equal(model_ask(client, &request, &ops, &caller, &caller.call, &err), 0);
    wait_until(is_done, &caller);
    assert_int_equal(caller.end.failure, MODEL_TIMEOUT);
    assert_string_equal(caller.end.err.message,
                        "provider mine: the answer took longer than 300 ms");
    client_end(client);
}

/* Who stands between the process and us: the number of its parent, or 0. */
static pid_t parent_of(pid_t pid, char ret_name[32])
{
    kg_auto(kg_free) char *path = kg_format("/proc/%d/stat", pid);
    kg_auto(kg_buf_free) struct kg_buf stat = {0};
    int parent = 0;
    ret_name[0] = '\0';
    if (kg_read_file(path, 4096, &stat, NULL) == 0)
        (void)sscanf(kg_buf_terminate(&stat), "%*d (%31[^)]) %*c %d", ret_name, &parent);
    return parent;
}

static bool is_ours(pid_t pid)
{
    char name[32];
    while (pid > 1 && pid != getpid())
        pid = parent_of(pid, name);
    return pid == getpid();
}

static bool kill_model_process(void *data)
{
    (void)data;
    DIR *proc = opendir("/proc");
    bool found = false;
    for (const struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        char name[32];
        if (pid > 1 && parent_of(pid, name) > 0 && strcmp(name, "kaged-model") == 0 && is_ours(pid))
            found = kill(pid, SIGKILL) == 0;
    }
    closedir(proc);
    return found;
}

static void a_process_that_dies_ends_its_calls_and_the_next_is_a_new_one(void **state)
{
    (void)state;
    struct helper_pool *client = client_new();
    kg_auto(caller_free) struct caller caller = {0};
    must_ask(client, "half", &caller);
    wait_until(has_told, &caller);
    assert_true(kill_model_process(NULL));
    wait_until(is_done, &caller);
    assert_int_equal(caller.end.failure, MODEL_UNAVAILABLE);
    assert_int_equal(caller.end.err.code, KG_E_MODEL);
    assert_string_equal(caller.end.err.message,
                        "provider mine: the process that asks it ended before the answer did");
    assert_whole_answer(client);
    client_end(client);
}

static void a_provider_with_another_address_gets_another_process(void **state)
{
    (void)state;
    struct helper_pool *client = client_new();
    kg_auto(caller_free) struct caller slow = {0}, lost = {0};
    struct kg_err err;
    must_ask(client, "half", &slow);
    wait_until(has_told, &slow);
    provider.base_url = KG_STR("http://127.0.0.1:1/");
    provider.port = 1;
    const struct model_request request = {.model = &model, .messages = KG_STR("[]")};
    assert_int_equal(model_ask(client, &request, &ops, &lost, &lost.call, &err), 0);
    wait_until(is_done, &lost);
    assert_int_equal(lost.end.failure, MODEL_LOST);
    assert_string_equal(lost.end.err.message, "provider mine: it could not be reached: 127.0.0.1 "
                                              "port 1: Connection refused");
    assert_int_equal(helper_pool_processes(client), 2);
    assert_false(slow.done);
    client_end(client);
}

static void freeing_the_client_leaves_nothing(void **state)
{
    (void)state;
    struct helper_pool *client = client_new();
    kg_auto(caller_free) struct caller caller = {0};
    must_ask(client, "half", &caller);
    wait_until(has_told, &caller);
    helper_pool_free(client);
    client = client_new();
    must_ask(client, "half", &caller);
    helper_pool_free(client);
    helper_pool_free(NULL);
    assert_false(caller.done);
}

static void without_a_cage_no_model_is_asked(void **state)
{
    (void)state;
    struct helper_pool *client = client_new();
    struct caller caller = {0};
    struct kg_err err;
    place.facts = NULL;
    assert_int_equal(ask(client, "v1", &caller, &err), -EINVAL);
    assert_int_equal(err.code, KG_E_STOPPING);
    helper_pool_free(client);
}

static void all_of_it_works_for_an_ordinary_user_too(void **state)
{
    (void)state;
    world_again_as_ordinary_user();
}

static int set_up(void **state)
{
    (void)state;
    static const struct gate_limits limits = {.connections_max = 64,
                                              .connections_per_sec = 1000,
                                              .events_per_sec = 100,
                                              .connect_timeout_ms = 10000};
    struct kg_err err;
    signal(SIGPIPE, SIG_IGN);
    start_provider();
    world = world_new();
    gate = gate_new(world->loop, &limits, &err);
    return gate != NULL ? 0 : -1;
}

static bool never(void *data)
{
    (void)data;
    return false;
}

static int tear_down(void **state)
{
    (void)state;
    loop_run_until(world->loop, never, NULL, 100); /* processes that were killed are reaped */
    gate_free(gate);
    world_free(world);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_comes_through_the_cage),
        cmocka_unit_test(an_idle_process_ends_and_comes_back),
        cmocka_unit_test(calls_go_side_by_side_up_to_the_bound),
        cmocka_unit_test(a_cancelled_call_is_not_heard_of_again),
        cmocka_unit_test(a_call_has_its_time_and_no_more),
        cmocka_unit_test(a_process_that_dies_ends_its_calls_and_the_next_is_a_new_one),
        cmocka_unit_test(a_provider_with_another_address_gets_another_process),
        cmocka_unit_test(freeing_the_client_leaves_nothing),
        cmocka_unit_test(without_a_cage_no_model_is_asked),
        cmocka_unit_test(all_of_it_works_for_an_ordinary_user_too),
    };
    return cmocka_run_group_tests_name("model", tests, set_up, tear_down);
}
