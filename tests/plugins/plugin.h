/*
 * What every C plugin here needs: read a line, tell its id and method, answer. It trusts the daemon
 * to write `id` and `method` before `params`, which is enough for tests.
 */
#ifndef KAGED_TEST_PLUGIN_H
#define KAGED_TEST_PLUGIN_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct message {
    char *line;
    size_t capacity;
    long id;          /* 0: a notification, or no answer to give; or a string */
    char id_text[64]; /* as it came; "" for a notification */
    char method[130];
};

static inline void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

static inline bool is_method(const struct message *message, const char *method)
{
    return strcmp(message->method, method) == 0;
}

/* The params of a request, as the daemon wrote them; cuts the closing brace off the line. */
static inline const char *params_of(struct message *message)
{
    char *params = strstr(message->line, "\"params\":");
    if (params == NULL)
        return "{}";
    message->line[strlen(message->line) - 1] = '\0';
    return params + strlen("\"params\":");
}

static inline long number_of(const struct message *message, const char *key)
{
    char quoted[64];
    snprintf(quoted, sizeof(quoted), "\"%s\":", key);
    const char *found = strstr(message->line, quoted);
    return found ? atol(found + strlen(quoted)) : 0;
}

/* What every plugin answers alike. True if that was all. */
static inline bool answer_system(const struct message *message, const char *methods)
{
    if (is_method(message, "initialize"))
        say("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"name\":\"%s\",\"version\":\"1.0.0\","
            "\"api_version\":1,\"methods\":[%s],\"capabilities_used\":[]}}",
            message->id_text, getenv("KAGED_PLUGIN_NAME"), methods);
    else if (is_method(message, "ping"))
        say("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"status\":\"ok\"}}", message->id_text);
    else if (is_method(message, "shutdown"))
        exit(0);
    else
        return is_method(message, "initialized");
    return true;
}

/* The next line from the daemon; false at the end of stdin. */
static inline bool next_message(struct message *message)
{
    ssize_t length = getline(&message->line, &message->capacity, stdin);
    if (length <= 0)
        return false;
    message->line[length - 1] = '\0';
    const char *id = strstr(message->line, "\"id\":");
    const char *method = strstr(message->line, "\"method\":\"");
    message->id = id && method && id < method ? atol(id + 5) : 0;
    message->id_text[0] = '\0';
    if (id && method && id < method)
        sscanf(id + 5, "%63[^,]", message->id_text);
    message->method[0] = '\0';
    if (method)
        sscanf(method + 10, "%129[^\"]", message->method);
    return true;
}

#endif
