/*
 * Fetches sources as the daemon does, for tests: a request on each line of stdin, an answer on
 * stdout. Both are JSON.
 *
 *   {"source": ..., "version": ..., "cancel": true}
 *   {"hash": ..., "listing": ..., "progress": [...], "network": [...], "left": names in quarantine}
 *   {"code": ..., "message": ..., "hint": ..., "left": ...}
 *
 * usage: fetcher HOME [owner=UID] [NAME=VALUE of the limits]...
 * owner: for root, whom it becomes, as a daemon with daemon.user does; its spawner stays root.
 */
#include "store/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LINE_BYTES 16384
#define WAIT_MS    120000

struct fetcher {
    struct loop *loop;
    struct store *store;
    struct config_paths paths;
    struct kg_buf progress, network; /* inner parts of JSON lists */
    struct store_fetched *fetched;   /* owned */
    struct kg_err error;
    bool done, cancel;
    struct store_fetch *fetch;
};

__attribute__((noreturn)) static void give_up(const struct kg_err *err)
{
    fprintf(stderr, "fetcher: %s\n", err->message);
    exit(1);
}

/* -- limits ------------------------------------------------------------------------------------ */

static void set_option(struct store_limits *limits, uid_t *owner, const char *word)
{
    const char *equals = strchr(word, '=');
    struct kg_str name = {word, (size_t)(equals - word)};
    uint64_t value = strtoull(equals + 1, NULL, 10);
    if (kg_str_is(name, "owner"))
        *owner = (uid_t)value;
    else if (kg_str_is(name, "bytes_max"))
        limits->bytes_max = value;
    else if (kg_str_is(name, "file_bytes_max"))
        limits->file_bytes_max = value;
    else if (kg_str_is(name, "files_max"))
        limits->files_max = (uint32_t)value;
    else if (kg_str_is(name, "depth_max"))
        limits->depth_max = (uint32_t)value;
    else if (kg_str_is(name, "source_bytes"))
        limits->source_bytes = value;
    else if (kg_str_is(name, "timeout_ms"))
        limits->timeout_ms = value;
}

/* -- one fetch --------------------------------------------------------------------------------- */

static void on_progress(void *data, const struct store_progress *progress)
{
    struct fetcher *fetcher = data;
    if (fetcher->progress.length == 0)
        fprintf(stderr, "progress %s\n", progress->phase); /* for who wants to disturb */
    kg_buf_printf(&fetcher->progress, "%s\"%s\"", fetcher->progress.length > 0 ? "," : "",
                  progress->phase);
    if (fetcher->cancel) {
        store_fetch_cancel(fetcher->fetch);
        kg_fail(&fetcher->error, KG_E_CANCELLED, "cancelled");
        fetcher->done = true;
    }
}

static void on_network(void *data, const struct store_source *source,
                       const struct gate_event *event)
{
    static const char *const kinds[] = {[GATE_CONNECTED] = "connected",
                                        [GATE_ENDED] = "ended",
                                        [GATE_DENIED] = "denied",
                                        [GATE_FAILED] = "failed"};
    struct fetcher *fetcher = data;
    (void)source;
    kg_buf_printf(&fetcher->network, "%s[\"%s\",\"%s\",%u]", fetcher->network.length > 0 ? "," : "",
                  kinds[event->kind], event->host, event->port);
}

static void on_done(void *data, struct store_fetched *fetched, const struct kg_err *err_or_null)
{
    struct fetcher *fetcher = data;
    fetcher->fetched = fetched;
    if (err_or_null != NULL)
        fetcher->error = *err_or_null;
    fetcher->done = true;
}

static bool is_done(void *data)
{
    return ((struct fetcher *)data)->done;
}

/* -- what is left ------------------------------------------------------------------------------ */

static int count_left(const struct fetcher *fetcher)
{
    kg_auto(kg_free) char *path = kg_format("%s/.store/quarantine", fetcher->paths.plugins_dir);
    DIR *dir = opendir(path);
    int count = 0;
    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        closedir(dir);
    return count > 2 ? count - 2 : 0;
}

static bool is_nothing_left(void *data)
{
    return count_left(data) == 0;
}

/* -- requests ---------------------------------------------------------------------------------- */

static char *text_of(const struct kg_doc *doc, const char *key)
{
    const struct kg_node *node = kg_node_get(doc->root, key);
    return node != NULL && node->type == KG_STRING ? kg_str_dup(node->text) : NULL;
}

static void run(struct fetcher *fetcher, const struct kg_doc *doc)
{
    kg_auto(kg_free) char *text = text_of(doc, "source"), *version = text_of(doc, "version");
    struct store_source *source = NULL;
    struct kg_err err = {0};
    fetcher->cancel = kg_node_get(doc->root, "cancel") != NULL;
    if (store_source_parse(text, version, "/", &source, &err) < 0 ||
        store_fetch(fetcher->store, source, on_progress, on_done, fetcher, &fetcher->fetch, &err) <
            0)
        fetcher->error = err;
    else if (!loop_run_until(fetcher->loop, is_done, fetcher, WAIT_MS))
        kg_fail(&fetcher->error, KG_E_INTERNAL, "the fetch does not end");
    store_source_free(source);
    if (fetcher->cancel)
        loop_run_until(fetcher->loop, is_nothing_left, fetcher, WAIT_MS);
}

static void print_tree(const struct store_fetched *fetched, struct kg_json_writer *json)
{
    kg_auto(kg_buf_free) struct kg_buf listing = {0};
    store_tree_print(&fetched->tree, &listing);
    kg_json_key(json, "hash");
    kg_json_text(json, fetched->tree.hash);
    kg_json_key(json, "listing");
    kg_json_str(json, kg_buf_view(&listing));
    kg_json_key(json, "path");
    kg_json_text(json, fetched->quarantine->path);
}

static void print_error(const struct kg_err *err, struct kg_json_writer *json)
{
    kg_json_key(json, "code");
    kg_json_text(json, kg_error_row(err->code)->name);
    kg_json_key(json, "message");
    kg_json_text(json, err->message);
    kg_json_key(json, "hint");
    kg_json_text(json, err->hint);
}

static void answer(struct fetcher *fetcher)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = kg_json_writer(&line);
    kg_json_begin(&json, '{');
    if (fetcher->error.code != KG_OK)
        print_error(&fetcher->error, &json);
    else
        print_tree(fetcher->fetched, &json);
    store_fetched_free(kg_steal(&fetcher->fetched));
    kg_json_key(&json, "left");
    kg_json_int(&json, count_left(fetcher));
    kg_buf_printf(&line, ",\"progress\":[%s],\"network\":[%s]}",
                  kg_buf_terminate(&fetcher->progress), kg_buf_terminate(&fetcher->network));
    puts(kg_buf_terminate(&line));
    fflush(stdout);
    fetcher->progress.length = fetcher->network.length = 0;
    fetcher->error = (struct kg_err){0};
    fetcher->done = false;
}

static void serve(struct fetcher *fetcher)
{
    char line[LINE_BYTES];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        struct kg_err err = {0};
        kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_str(line), &err);
        if (doc == NULL)
            give_up(&err);
        run(fetcher, doc);
        answer(fetcher);
    }
}

/* -- cages ------------------------------------------------------------------------------------- */

static struct cage_spawner *start_spawner(uid_t owner, struct kg_err *err)
{
    const struct cage_owner whose = {.uid = owner, .gid = owner};
    struct cage_spawner *spawner =
        owner == geteuid() ? cage_spawner_start(err) : cage_spawner_start_for(&whose, err);
    if (spawner != NULL && owner != geteuid() &&
        (setgroups(0, NULL) < 0 || setresgid(owner, owner, owner) < 0 ||
         setresuid(owner, owner, owner) < 0))
        give_up(&(struct kg_err){.message = "cannot become the owner"});
    return spawner;
}

/* -- the whole --------------------------------------------------------------------------------- */

static void on_lost(void *data)
{
    (void)data;
    fprintf(stderr, "fetcher: the spawner is gone\n");
    exit(1);
}

int main(int count, char **words)
{
    static const struct gate_limits network = {.connections_max = 16,
                                               .connections_per_sec = 100,
                                               .events_per_sec = 100,
                                               .connect_timeout_ms = 5000,
                                               .private_networks = true};
    struct store_limits limits = {.bytes_max = 64 << 20,
                                  .file_bytes_max = 32 << 20,
                                  .files_max = 20000,
                                  .depth_max = 32,
                                  .source_bytes = 64 << 20,
                                  .timeout_ms = WAIT_MS};
    struct fetcher fetcher = {0};
    struct kg_err err = {0};
    if (count < 2)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    uid_t owner = geteuid();
    for (int i = 2; i < count; i++)
        set_option(&limits, &owner, words[i]);
    struct cage_facts *facts = cage_facts_probe(&err);
    struct cage_spawner *spawner = facts != NULL ? start_spawner(owner, &err) : NULL;
    if (spawner == NULL || config_paths_find(words[1], &fetcher.paths, &err) < 0 ||
        config_paths_make(&fetcher.paths, geteuid(), &err) < 0)
        give_up(&err);
    fetcher.loop = loop_new();
    struct gate *gate = gate_new(fetcher.loop, &network, &err);
    if (gate == NULL || cage_spawner_attach(spawner, fetcher.loop, on_lost, NULL, &err) < 0)
        give_up(&err);
    const struct store_parts parts = {.loop = fetcher.loop,
                                      .spawner = spawner,
                                      .facts = facts,
                                      .gate = gate,
                                      .on_network = on_network,
                                      .network_data = &fetcher,
                                      .paths = &fetcher.paths,
                                      .limits = limits};
    fetcher.store = store_new(&parts);
    if (store_recover(fetcher.store, &err) < 0)
        give_up(&err);
    serve(&fetcher);
    store_free(fetcher.store);
    gate_free(gate);
    cage_spawner_free(spawner);
    loop_free(fetcher.loop);
    cage_facts_free(facts);
    config_paths_free(&fetcher.paths);
    kg_buf_free(&fetcher.progress);
    kg_buf_free(&fetcher.network);
    return 0;
}
