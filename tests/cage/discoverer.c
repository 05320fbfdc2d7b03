/*
 * Looks at packages as the daemon does, for tests: a folder on each line of stdin, an answer on
 * stdout, {"package": ...} or {"code", "message", "hint"}.
 *
 * usage: discoverer CONFIG.TOML
 */
#include "config/config.h"
#include "package/package.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE_BYTES 8192
#define WAIT_MS    300000

struct discoverer {
    struct package_place place;
    struct kg_buf answer;
    bool done;
};

__attribute__((noreturn)) static void give_up(const struct kg_err *err)
{
    fprintf(stderr, "discoverer: %s\n", err->message);
    exit(1);
}

static void on_discovered(void *data, const struct kg_node *package_or_null, char *const *missing,
                          const struct kg_err *err_or_null)
{
    struct discoverer *discoverer = data;
    (void)missing;
    struct kg_json_writer json = kg_json_writer(&discoverer->answer);
    kg_json_begin(&json, '{');
    if (package_or_null != NULL) {
        kg_json_named_node(&json, "package", package_or_null);
    } else {
        kg_json_named_text(&json, "code", kg_error_row(err_or_null->code)->name);
        kg_json_named_text(&json, "message", err_or_null->message);
        kg_json_named_text(&json, "hint", err_or_null->hint);
    }
    kg_json_end(&json, '}');
    discoverer->done = true;
}

static bool is_done(void *data)
{
    return ((struct discoverer *)data)->done;
}

static void on_lost(void *data)
{
    (void)data;
    give_up(&(struct kg_err){.message = "the spawner is gone"});
}

static void serve(struct discoverer *discoverer)
{
    char line[LINE_BYTES];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        discoverer->done = false;
        discoverer->answer.length = 0;
        package_discover(&discoverer->place, line, on_discovered, discoverer);
        if (!loop_run_until(discoverer->place.helper.loop, is_done, discoverer, WAIT_MS))
            give_up(&(struct kg_err){.message = "it does not end"});
        puts(kg_buf_terminate(&discoverer->answer));
        fflush(stdout);
    }
}

int main(int count, char **words)
{
    struct kg_err err = {0};
    struct discoverer discoverer = {0};
    if (count != 2)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    struct cage_facts *facts = cage_facts_probe(&err);
    struct cage_spawner *spawner = facts != NULL ? cage_spawner_start(&err) : NULL;
    struct config *config = spawner != NULL ? config_load(words[1], &err) : NULL;
    struct loop *loop = loop_new();
    if (config == NULL || cage_spawner_attach(spawner, loop, on_lost, NULL, &err) < 0)
        give_up(&err);
    discoverer.place = (struct package_place){
        .helper = {.loop = loop, .spawner = spawner},
        .facts = facts,
        .config = config,
        .worker = loop_worker_new(loop, "packages"),
    };
    serve(&discoverer);
    loop_worker_free(discoverer.place.worker);
    cage_spawner_free(spawner);
    loop_free(loop);
    cage_facts_free(facts);
    config_free(config);
    kg_buf_free(&discoverer.answer);
    return 0;
}
