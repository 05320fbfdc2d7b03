/* See state_place.h. The server is a child, tests/lib/postgres.py, and ends with its stdin. */
#include "state_place.h"

#include "state/postgres.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LOG_BYTES_MAX ((size_t)64 << 20)

static struct {
    pid_t child;
    int in;
    char url[160];
    struct state_cluster *cluster;
    struct postgres_target target;
    struct postgres admin;
    size_t heard; /* bytes of the server's log */
} world;

bool state_place_is_postgres(void)
{
    struct kg_str name = kg_str(program_invocation_short_name), end = KG_STR("-postgres");
    return name.length > end.length && strcmp(name.data + name.length - end.length, end.data) == 0;
}

static void must(int result, const struct kg_err *err)
{
    if (result < 0)
        fail_msg("%s", err->message);
}

static void be_server(const int in[2], const int out[2])
{
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    execlp("python3", "python3", "tests/lib/postgres.py", (char *)NULL);
    _exit(127);
}

static void start_server(char *ret_line, size_t size)
{
    int in[2], out[2];
    if (pipe(in) < 0 || pipe(out) < 0)
        abort();
    world.child = fork();
    if (world.child == 0)
        be_server(in, out);
    close(in[0]);
    close(out[1]);
    fcntl(in[1], F_SETFD, FD_CLOEXEC);
    world.in = in[1];
    FILE *lines = fdopen(out[0], "r");
    if (lines == NULL || fgets(ret_line, (int)size, lines) == NULL)
        snprintf(ret_line, size, "missing: tests/lib/postgres.py cannot be run");
    fclose(lines);
    ret_line[strcspn(ret_line, "\n")] = '\0';
}

bool state_place_open(const char *program, int *ret_exit)
{
    char line[256];
    struct kg_err err;
    const char *ci = getenv("CI");
    start_server(line, sizeof(line));
    if (kg_str_starts(kg_str(line), "missing: ")) {
        bool fails = ci != NULL && strcmp(ci, "true") == 0;
        printf("1..1\n%s 1 - %s%s%s\n", fails ? "not ok" : "ok", program,
               fails ? " needs what is not here: " : " # SKIP ", line + strlen("missing: "));
        *ret_exit = fails;
        return false;
    }
    snprintf(world.url, sizeof(world.url), "postgres://kaged@/postgres?host=%s", line);
    const struct state_cluster_options options = {.database = world.url, .node = "test"};
    world.admin = (struct postgres){.target = &world.target, .purpose = "test"};
    if (postgres_target_set(&world.target, &options, &err) < 0 ||
        postgres_ready(&world.admin, &err) < 0) {
        printf("Bail out! %s\n", err.message);
        *ret_exit = 1;
        return false;
    }
    return true;
}

void state_place_close(void)
{
    postgres_disconnect(&world.admin);
    postgres_target_clear(&world.target);
    close(world.in);
    waitpid(world.child, NULL, 0);
}

static void count_nothing(void *data, const struct state_carried *carried)
{
    (void)data, (void)carried;
}

void state_place_begin(const char *path)
{
    if (!state_place_is_postgres())
        return;
    struct kg_err err;
    const struct state_cluster_options options = {
        .database = world.url, .node = "test", .program = "test", .place = path, .wait_ms = 60000};
    kg_log_set(KG_ERROR_LEVEL, KG_LOG_TEXT);
    state_place_ask("DROP SCHEMA IF EXISTS kaged CASCADE");
    must(state_cluster_init(&options, STATE_CLUSTER_EMPTY, count_nothing, NULL, &err), &err);
    world.cluster = state_cluster_join(&options, &err);
    must(world.cluster != NULL ? 0 : -1, &err);
}

void state_place_end(void)
{
    state_cluster_leave(world.cluster);
    world.cluster = NULL;
}

const char *state_place_url(void)
{
    return world.url;
}

void state_place_ask(const char *sql)
{
    struct kg_err err;
    must(postgres_script(&world.admin, sql, "ask for a test", &err), &err);
}

static size_t log_read(struct kg_buf *text)
{
    struct kg_err err;
    kg_auto(kg_free) char *path = kg_format("%s/log", strstr(world.url, "?host=") + 6);
    must(kg_read_file(path, LOG_BYTES_MAX, text, &err), &err);
    return text->length;
}

void state_place_listen(void)
{
    state_place_ask("ALTER ROLE kaged SET log_statement = 'all'");
    state_place_cut();
}

void state_place_mark(void)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    world.heard = log_read(&text);
}

size_t state_place_asked(const char *part)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    size_t count = 0;
    log_read(&text);
    kg_buf_terminate(&text);
    for (char *line = strtok(text.data + world.heard, "\n"); line != NULL;
         line = strtok(NULL, "\n"))
        count += strstr(line, " LOG:  ") != NULL && strstr(line, "kaged.node") == NULL &&
                 strstr(line, part) != NULL;
    return count;
}

void state_place_cut(void)
{
    state_place_ask("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
                    "WHERE application_name LIKE 'kaged test %' AND pid <> pg_backend_pid()");
}

int state_place_run(const char *name, const struct CMUnitTest *tests, size_t count)
{
    int result = 0;
    if (!state_place_is_postgres())
        return _cmocka_run_group_tests(name, tests, count, NULL, NULL);
    if (!state_place_open(name, &result))
        return result;
    result = _cmocka_run_group_tests(name, tests, count, NULL, NULL);
    state_place_close();
    return result;
}
