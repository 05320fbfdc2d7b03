/*
 * Asks its storage again and again, with so many requests in flight, and answers the call with the
 * time that took and the worst but one in a hundred: {"ns":...,"p99_ns":...}.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES_MAX 100000

static char in[1 << 20], out[1 << 20];
static size_t out_length;

/* The run at hand. */
static struct {
    long call; /* id to answer; 0: none */
    char kind[16];
    long count, flight, asked, done;
    long long start_ns;
    long long asked_ns[4096]; /* of request n in slot n % 4096 */
    long long samples[SAMPLES_MAX];
} run;

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void flush_out(void)
{
    for (size_t at = 0; at < out_length;) {
        ssize_t wrote = write(1, out + at, out_length - at);
        if (wrote <= 0)
            exit(1);
        at += (size_t)wrote;
    }
    out_length = 0;
}

#define SAY(...)                                                                                   \
    do {                                                                                           \
        if (sizeof(out) - out_length < 4096)                                                       \
            flush_out();                                                                           \
        out_length += (size_t)snprintf(out + out_length, sizeof(out) - out_length, __VA_ARGS__);   \
    } while (0)

static const struct {
    const char *kind, *method, *params; /* %ld is the number of the request */
} requests[] = {
    {"setup", "exec", "{\"sql\":\"CREATE TABLE t(k INTEGER PRIMARY KEY, v TEXT)\"}"},
    {"fill", "exec",
     "{\"sql\":\"INSERT INTO t VALUES (?, 'a value of some length')\",\"params\":[%ld]}"},
    {"read", "query", "{\"sql\":\"SELECT v FROM t WHERE k = ?\",\"params\":[%ld]}"},
    {"write", "exec",
     "{\"sql\":\"UPDATE t SET v = 'another value' WHERE k = ?\",\"params\":[%ld]}"},
    {"slow", "query",
     "{\"sql\":\"WITH RECURSIVE c(n) AS (SELECT %ld UNION ALL SELECT n + 1 FROM c) "
     "SELECT max(n) FROM c\"}"},
};

static void ask_more(void)
{
    size_t which = 0;
    while (strcmp(requests[which].kind, run.kind) != 0)
        which++;
    while (run.asked < run.count && run.asked - run.done < run.flight) {
        long number = run.asked++;
        run.asked_ns[number % 4096] = now_ns();
        SAY("{\"jsonrpc\":\"2.0\",\"id\":%ld,\"method\":\"kaged.storage.%s\",\"params\":",
            number + 1, requests[which].method);
        char params[512];
        snprintf(params, sizeof(params), requests[which].params, number % 10000);
        SAY("%s}\n", params);
    }
}

static int compare(const void *a, const void *b)
{
    long long x = *(const long long *)a, y = *(const long long *)b;
    return x < y ? -1 : x > y;
}

static void take_answer(void)
{
    if (run.done < SAMPLES_MAX)
        run.samples[run.done] = now_ns() - run.asked_ns[run.done % 4096];
    if (++run.done < run.count)
        return;
    long sampled = run.count < SAMPLES_MAX ? run.count : SAMPLES_MAX;
    qsort(run.samples, (size_t)sampled, sizeof(run.samples[0]), compare);
    SAY("{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":{\"ns\":%lld,\"p99_ns\":%lld}}\n", run.call,
        now_ns() - run.start_ns, run.samples[sampled * 99 / 100]);
    run.call = 0;
}

static long number_after(const char *line, const char *key)
{
    const char *found = strstr(line, key);
    return found ? atol(found + strlen(key)) : 0;
}

static void begin_run(const char *line, long id)
{
    const char *kind = strstr(line, "\"kind\":\"");
    memset(&run, 0, offsetof(__typeof__(run), samples));
    run.call = id;
    if (kind != NULL)
        sscanf(kind + 8, "%15[a-z]", run.kind);
    run.count = number_after(line, "\"count\":");
    run.flight = number_after(line, "\"flight\":");
    run.start_ns = now_ns();
}

static void take_line(const char *line)
{
    long id = number_after(line, "\"id\":");
    if (strstr(line, "\"method\":") == NULL)
        take_answer();
    else if (strstr(line, "\"method\":\"initialize\"") != NULL)
        SAY("{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":{\"name\":\"%s\",\"version\":\"1.0.0\","
            "\"api_version\":1,\"methods\":[\"storing.run\"],\"notifications\":[],"
            "\"capabilities_used\":[]}}\n",
            id, getenv("KAGED_PLUGIN_NAME"));
    else if (strstr(line, "\"method\":\"storing.run\"") != NULL)
        begin_run(line, id);
    else if (id != 0)
        SAY("{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":{\"status\":\"ok\"}}\n", id);
}

int main(void)
{
    size_t held = 0;
    for (;;) {
        ssize_t got = read(0, in + held, sizeof(in) - 1 - held);
        if (got <= 0)
            return 0;
        held += (size_t)got;
        in[held] = '\0';
        char *line = in, *newline;
        while ((newline = memchr(line, '\n', held - (size_t)(line - in))) != NULL) {
            *newline = '\0';
            take_line(line);
            line = newline + 1;
        }
        held -= (size_t)(line - in);
        memmove(in, line, held);
        if (run.call != 0)
            ask_more();
        flush_out();
    }
}
