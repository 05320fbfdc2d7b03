/*
 * A plugin that costs next to nothing: it reads what is there, answers every line of it, and writes
 * all answers at once. What a benchmark sees beside it is the host. fast.back answers with its own
 * parameters, anything else with {"ok":true}.
 *
 * usage: fast [mcp]   (with the handshake and the results of the Model Context Protocol)
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES (8 << 20)
#define TOOLS                                                                                      \
    "{\"tools\":[{\"name\":\"say\",\"description\":\"Answers at "                                  \
    "once.\",\"inputSchema\":{\"type\":"                                                           \
    "\"object\",\"properties\":{\"text\":{\"type\":\"string\"},\"count\":{\"type\":\"integer\"}}," \
    "\"required\":[\"text\"]}}]}"

static char in[LINE_MAX_BYTES], out[2 * LINE_MAX_BYTES];
static char introduction[512];

struct text {
    const char *data;
    size_t length;
};
#define TEXT(literal) ((struct text){literal, sizeof(literal) - 1})

/* What the host's line has behind `key`, or NULL. */
static const char *find(const char *line, const char *key)
{
    const char *found = strstr(line, key);
    return found ? found + strlen(key) : NULL;
}

/* It may be installed under many names. */
static void introduce(bool mcp)
{
    const char *name = getenv("KAGED_PLUGIN_NAME");
    snprintf(introduction, sizeof(introduction),
             mcp ? "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},"
                   "\"serverInfo\":{\"name\":\"%s\",\"version\":\"1.0.0\"}}"
                 : "{\"name\":\"%s\",\"version\":\"1.0.0\",\"api_version\":1,\"methods\":["
                   "\"fast.echo\",\"fast.back\"],\"notifications\":[],\"capabilities_used\":[]}",
             name ? name : "fast");
}

static struct text result_of(const char *method, const char *line, size_t length)
{
    const struct {
        const char *method, *result;
    } known[] = {
        {"fast.echo\"", "{\"ok\":true}"},
        {"tools/list\"", TOOLS},
        {"tools/call\"", "{\"content\":[{\"type\":\"text\",\"text\":\"ok\"}]}"},
        {"initialize\"", introduction},
        {"ping\"", "{\"status\":\"ok\"}"},
        {"", "{\"ok\":true}"},
    };
    bool back = strncmp(method, "fast.back\"", strlen("fast.back\"")) == 0;
    const char *params = back ? find(line, "\"params\":") : NULL;
    if (params != NULL)
        return (struct text){params, (size_t)(line + length - 1 - params)};
    size_t i = 0;
    while (strncmp(method, known[i].method, strlen(known[i].method)) != 0)
        i++;
    return (struct text){known[i].result, strlen(known[i].result)};
}

static char *put(char *to, struct text text)
{
    memcpy(to, text.data, text.length);
    return to + text.length;
}

/* The answer to a line, behind `to`; a line without an id gets none. */
static char *answer(char *to, const char *line, size_t length)
{
    const char *method = find(line, "\"method\":\"");
    const char *id = find(line, "\"id\":");
    if (id == NULL || method == NULL)
        return to;
    to = put(to, TEXT("{\"jsonrpc\":\"2.0\",\"id\":"));
    to = put(to, (struct text){id, strspn(id, "0123456789")});
    to = put(to, TEXT(",\"result\":"));
    to = put(to, result_of(method, line, length));
    return put(to, TEXT("}\n"));
}

/* Writes until all is out; a full pipe holds it up. */
static void write_all(const char *data, const char *end)
{
    while (data < end) {
        ssize_t wrote = write(1, data, (size_t)(end - data));
        if (wrote <= 0)
            exit(1);
        data += wrote;
    }
}

int main(int argc, char **argv)
{
    size_t held = 0; /* bytes of a line whose end has not come */
    introduce(argc > 1 && strcmp(argv[1], "mcp") == 0);
    for (;;) {
        ssize_t got = read(0, in + held, sizeof(in) - held);
        if (got <= 0)
            return 0;
        char *end = in + held + got, *line = in, *from = in + held, *newline, *to = out;
        while ((newline = memchr(from, '\n', (size_t)(end - from))) != NULL) {
            *newline = '\0';
            to = answer(to, line, (size_t)(newline - line));
            line = from = newline + 1;
        }
        held = (size_t)(end - line);
        memmove(in, line, held);
        write_all(out, to);
    }
}
