/*
 * Asks a model as the daemon does: the provider of a local.toml, kaged-model in its cage, the
 * gatekeeper. What is told is printed, one line each, for tests of the whole way.
 *
 * usage: model-ask LOCAL_TOML ALIAS REQUEST   (a file: an object with messages and tools)
 */
#include "model/model.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUEST_MAX ((size_t)1 << 20)
#define LONGEST_MS  60000

static bool is_over;

static void print_line(struct kg_buf *line)
{
    printf("%s\n", kg_buf_terminate(line));
    fflush(stdout);
}

static void put_call(struct kg_json_writer *json, const struct model_event *event)
{
    kg_json_str(json, event->call.id);
    kg_json_str(json, event->call.name);
    kg_json_node(json, event->call.arguments);
}

static void on_event(void *data, const struct model_event *event)
{
    static const char *const names[] = {"text", "reasoning", "tool_call", "usage", "retry"};
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = kg_json_writer(&line);
    (void)data;
    kg_json_begin(&json, '[');
    kg_json_text(&json, names[event->kind]);
    if (event->kind == MODEL_TOOL_CALL)
        put_call(&json, event);
    else if (event->kind == MODEL_TEXT || event->kind == MODEL_REASONING)
        kg_json_str(&json, event->text);
    kg_json_end(&json, ']');
    print_line(&line);
}

static void on_done(void *data, const struct model_end *end)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = kg_json_writer(&line);
    (void)data;
    kg_json_begin(&json, '[');
    if (end->failure == MODEL_OK) {
        kg_json_text(&json, "end");
        kg_json_text(&json, model_stop_names[end->stop]);
    } else {
        kg_json_text(&json, "error");
        kg_json_text(&json, model_failure_names[end->failure]);
        kg_json_text(&json, end->err.message);
    }
    kg_json_end(&json, ']');
    print_line(&line);
    is_over = true;
}

static void on_closed(void *data)
{
    *(bool *)data = true;
}

static void on_lost(void *data)
{
    (void)data;
    fputs("model-ask: the spawner is gone\n", stderr);
    exit(EXIT_FAILURE);
}

static bool is_true(void *data)
{
    return *(bool *)data;
}

static int ask(const struct helper_pool_place *place, const struct local_model *model,
               const struct kg_str request, struct kg_err *err)
{
    static const struct model_ops ops = {.on_event = on_event, .on_done = on_done};
    struct helper_pool *client = model_pool_new(place);
    struct model_request asked = {.model = model};
    struct model_call *call;
    bool closed = false;
    (void)kg_json_member(request, "messages", &asked.messages);
    (void)kg_json_member(request, "tools", &asked.tools);
    int result = model_ask(client, &asked, &ops, NULL, &call, err);
    if (result == 0)
        loop_run_until(place->where.loop, is_true, &is_over, LONGEST_MS);
    helper_pool_close(client, on_closed, &closed);
    loop_run_until(place->where.loop, is_true, &closed, LONGEST_MS);
    helper_pool_free(client);
    return result;
}

static int leave(const struct kg_err *err)
{
    fprintf(stderr, "model-ask: %s\n", err->message);
    return EXIT_FAILURE;
}

int main(int count, char **words)
{
    static const struct gate_limits limits = {.connections_max = 8,
                                              .connections_per_sec = 100,
                                              .events_per_sec = 100,
                                              .connect_timeout_ms = 5000};
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf request = {0};
    signal(SIGPIPE, SIG_IGN);
    struct local *local = count == 4 ? local_load(words[1], LOCAL_REPLACE, &err) : NULL;
    const struct local_model *model = local ? local_model_find(local, kg_str(words[2])) : NULL;
    if (model == NULL || kg_read_file(words[3], REQUEST_MAX, &request, &err) < 0)
        return leave(&err);
    struct helper_pool_place place = {.where.loop = loop_new(), .calls_max = 1, .idle_ms = 1000};
    struct cage_facts *facts = cage_facts_probe(&err);
    place.facts = facts;
    place.where.spawner = facts ? cage_spawner_start(&err) : NULL;
    if (place.where.spawner == NULL ||
        cage_spawner_attach(place.where.spawner, place.where.loop, on_lost, NULL, &err) < 0)
        return leave(&err);
    place.where.gate = gate_new(place.where.loop, &limits, &err);
    int result = place.where.gate ? ask(&place, model, kg_buf_view(&request), &err) : -1;
    gate_free(place.where.gate);
    cage_spawner_free(place.where.spawner);
    loop_free(place.where.loop);
    cage_facts_free(facts);
    local_free(local);
    return result < 0 ? leave(&err) : EXIT_SUCCESS;
}
