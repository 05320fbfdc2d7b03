/*
 * Any lines of a host to a plugin made with the SDK for C: it goes on, and whatever it says is a
 * line of JSON-RPC that the daemon takes. Each line that is a request is answered, and no other but
 * bad ones.
 */
#include "internal.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* -- the plugin -------------------------------------------------------------------------------- */

static int echo(struct kaged_call *call)
{
    kaged_put(kaged_result(call), kaged_json(kaged_params(call)));
    return 0;
}

static int store(struct kaged_call *call)
{
    const struct kaged_json *text = kaged_json_get(kaged_params(call), "text"), *result;
    size_t length;
    if (kaged_exec(call, "INSERT INTO n VALUES (?)", KAGED_PARAMS(kaged_json(text)), &result) < 0)
        return -1;
    kaged_json_blob(call, result, &length);
    kaged_put(kaged_result(call), kaged_json(result));
    return 0;
}

static const struct kaged_plugin plugin = {
    .name = "p",
    .version = "1.0.0",
    .methods = (const struct kaged_entry[]){{"a.echo", echo}, {"a.store", store}, {NULL, NULL}},
    .tools = (const struct kaged_entry[]){{"t", echo}, {NULL, NULL}},
    .hooks = (const struct kaged_entry[]){{"pre_compact", echo}, {NULL, NULL}},
};

/* -- the host ---------------------------------------------------------------------------------- */

struct host {
    struct kg_str rest; /* lines to come */
    size_t answers;
};

static enum link_read read_line(void *data, int timeout_ms, struct kg_str *ret_line)
{
    (void)timeout_ms; /* all that will come is there */
    struct host *host = data;
    const char *newline =
        host->rest.length ? memchr(host->rest.data, '\n', host->rest.length) : NULL;
    if (newline == NULL)
        return LINK_END;
    *ret_line = (struct kg_str){host->rest.data, (size_t)(newline - host->rest.data)};
    host->rest.data += ret_line->length + 1;
    host->rest.length -= ret_line->length + 1;
    return LINK_LINE;
}

static bool take_line(void *data, struct kg_str line)
{
    struct host *host = data;
    struct kg_str version;
    must(line.length > 0 && line.data[line.length - 1] == '\n');
    line.length--;
    must(memchr(line.data, '\n', line.length) == NULL);
    must(kg_json_check(line, NULL) == KG_JSON_OK);
    must(kg_json_member(line, "jsonrpc", &version) && kg_str_is(version, "\"2.0\""));
    host->answers += !kg_json_member(line, "method", &version);
    return true;
}

/* How many answers these lines deserve: one for each request and each bad line. */
static size_t count_deserving(struct kg_str lines)
{
    struct host host = {.rest = lines};
    struct kg_str line;
    size_t count = 0;
    while (read_line(&host, -1, &line) == LINK_LINE) {
        struct message message;
        message_read(line, &message);
        count += message.kind == MESSAGE_REFUSED || message.kind == MESSAGE_REQUEST;
        message_free(&message);
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host host = {.rest = {(const char *)data, size}};
    struct engine engine;
    engine_init(&engine, &plugin,
                (struct link){.read = read_line, .write = take_line, .data = &host});
    engine_loop(&engine);
    size_t read = size - host.rest.length;
    must(host.answers == count_deserving((struct kg_str){(const char *)data, read}));
    engine_free(&engine);
    return 0;
}
