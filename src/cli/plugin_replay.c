/*
 * kaged plugin replay: a trace against a build of the plugin, and where its answers differ. Needs
 * no daemon. The file may come from anywhere, and what it holds is escaped when it is shown.
 */
#include "cli/cli.h"

#include "kit/replay.h"
#include "store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define IGNORED_MAX 32

static const struct {
    const char *words, *color;
} looks[KIT_OUTCOME_COUNT] = {
    [KIT_SAME] = {"same", "\033[32m"},
    [KIT_DIFFERS] = {"differs", "\033[31m"},
    [KIT_UNANSWERED] = {"no answer", "\033[31m"},
    [KIT_ANSWERED] = {"answers now", "\033[31m"},
    [KIT_ASKS_OTHER] = {"asks otherwise", "\033[31m"},
    [KIT_ASKS_NEW] = {"asks for more", "\033[31m"},
    [KIT_NOT_COMPARED] = {"not compared", "\033[2m"},
};

struct shown {
    const struct cli *cli;
    struct kg_buf steps; /* with --json: the list */
    struct kg_json_writer json;
};

/* -- steps ------------------------------------------------------------------------------------- */

static void plugin_replay_put_times(struct kg_buf *out, const struct kit_step *step)
{
    if (step->is_us < 0 && step->was_us < 0)
        return;
    kg_buf_text(out, " in ");
    if (step->is_us >= 0)
        print_latency(out, step->is_us);
    else
        kg_buf_char(out, '-');
    kg_buf_text(out, ", was ");
    if (step->was_us >= 0)
        print_latency(out, step->was_us);
    else
        kg_buf_char(out, '-');
}

static void put_difference(struct kg_buf *out, const struct kit_difference *difference)
{
    kg_buf_text(out, "    ");
    kg_buf_escaped(out, difference->path[0] != '\0' ? kg_str(difference->path) : KG_STR("/"));
    kg_buf_text(out, "\n        was ");
    kg_buf_escaped(out, difference->was[0] != '\0' ? kg_str(difference->was) : KG_STR("nothing"));
    kg_buf_text(out, "\n        is  ");
    kg_buf_escaped(out, difference->is[0] != '\0' ? kg_str(difference->is) : KG_STR("nothing"));
    kg_buf_char(out, '\n');
}

static void put_step(struct kg_buf *out, const struct kit_step *step)
{
    bool colors = print_colors();
    if (step->number > 0)
        kg_buf_printf(out, "line %zu ", step->number);
    kg_buf_escaped(out, kg_str(step->method));
    kg_buf_printf(out, ": %s%s%s", colors ? looks[step->outcome].color : "",
                  looks[step->outcome].words, colors ? "\033[0m" : "");
    plugin_replay_put_times(out, step);
    if (step->note[0] != '\0')
        kg_buf_printf(out, " (%s)", step->note);
    if (step->redacted)
        kg_buf_text(out, " (with values that the trace does not have)");
    kg_buf_char(out, '\n');
    for (size_t i = 0; step->comparison != NULL && i < step->comparison->count; i++)
        put_difference(out, &step->comparison->differences[i]);
    if (step->comparison != NULL && step->comparison->left_out > 0)
        kg_buf_printf(out, "    and %zu more\n", step->comparison->left_out);
}

static void put_time_json(struct kg_json_writer *json, const char *key, int64_t us)
{
    kg_json_key(json, key);
    if (us >= 0)
        kg_json_int(json, us);
    else
        kg_json_null(json);
}

static void put_differences_json(struct kg_json_writer *json, const struct kit_comparison *found)
{
    kg_json_named_begin(json, "differences", '[');
    for (size_t i = 0; found != NULL && i < found->count; i++) {
        kg_json_begin(json, '{');
        kg_json_named_text(json, "path", found->differences[i].path);
        kg_json_named_text(json, "was", found->differences[i].was);
        kg_json_named_text(json, "is", found->differences[i].is);
        kg_json_end(json, '}');
    }
    kg_json_end(json, ']');
    kg_json_named_int(json, "left_out", found != NULL ? (int64_t)found->left_out : 0);
}

static void put_step_json(struct kg_json_writer *json, const struct kit_step *step)
{
    kg_json_begin(json, '{');
    kg_json_named_int(json, "line", (int64_t)step->number);
    kg_json_named_text(json, "method", step->method);
    kg_json_named_text(json, "outcome", kit_outcome_names[step->outcome]);
    put_time_json(json, "was_us", step->was_us);
    put_time_json(json, "is_us", step->is_us);
    kg_json_named_text(json, "note", step->note);
    kg_json_named_bool(json, "redacted", step->redacted);
    put_differences_json(json, step->comparison);
    kg_json_end(json, '}');
}

static void plugin_replay_on_step(void *data, const struct kit_step *step)
{
    struct shown *shown = data;
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    if (shown->cli->json) {
        put_step_json(&shown->json, step);
        return;
    }
    put_step(&out, step);
    print_out(&out);
    fflush(stdout);
}

/* -- the end ----------------------------------------------------------------------------------- */

static uint64_t different(const struct kit_replay_counts *counts)
{
    return counts->outcomes[KIT_DIFFERS] + counts->outcomes[KIT_UNANSWERED] +
           counts->outcomes[KIT_ANSWERED] + counts->outcomes[KIT_ASKS_OTHER] +
           counts->outcomes[KIT_ASKS_NEW];
}

static void put_counts(struct kg_buf *out, const struct kit_replay_counts *counts)
{
    kg_buf_printf(out, "%llu same, %llu different, %llu not compared",
                  (unsigned long long)counts->outcomes[KIT_SAME],
                  (unsigned long long)different(counts),
                  (unsigned long long)counts->outcomes[KIT_NOT_COMPARED]);
    if (counts->redacted > 0)
        kg_buf_printf(out, "; %llu messages were sent with [redacted] in the place of values",
                      (unsigned long long)counts->redacted);
    if (counts->missed > 0)
        kg_buf_printf(out, "; the trace lacks %lld records", (long long)counts->missed);
    kg_buf_char(out, '\n');
}

static void plugin_replay_put_json(struct kg_buf *out, struct shown *shown,
                                   const struct manifest *manifest, const struct trace *trace,
                                   const struct kit_replay_counts *counts)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "plugin", manifest->name);
    kg_json_named_text(&json, "version", manifest->version);
    kg_json_named_str(&json, "recorded_version", trace->version);
    kg_json_named_bool(&json, "same", different(counts) == 0);
    kg_json_key(&json, "steps");
    kg_json_end(&shown->json, ']');
    kg_json_raw(&json, kg_buf_view(&shown->steps));
    kg_json_named_begin(&json, "counts", '{');
    for (enum kit_outcome outcome = 0; outcome < KIT_OUTCOME_COUNT; outcome++)
        kg_json_named_int(&json, kit_outcome_names[outcome], (int64_t)counts->outcomes[outcome]);
    kg_json_end(&json, '}');
    kg_json_named_int(&json, "redacted", (int64_t)counts->redacted);
    kg_json_named_int(&json, "missed", counts->missed);
    kg_json_end(&json, '}');
    kg_buf_char(out, '\n');
}

/* -- the command ------------------------------------------------------------------------------- */

static struct trace *read_trace(const char *path, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    int result = kg_read_file(path, TRACE_FILE_MAX, &text, err);
    if (result == -ENOENT)
        err->code = KG_E_NOT_FOUND;
    if (result < 0)
        return NULL;
    struct trace *trace = trace_read(kg_buf_view(&text), err);
    if (trace == NULL)
        kg_wrap(err, 0, "%s", path);
    return trace;
}

/* The folder that was named, or that of the installed plugin. */
static char *plugin_replay_find_folder(const struct cli *cli, const struct config *config,
                                       const struct trace *trace)
{
    const char *given = cli_argument(cli, 1);
    if (given != NULL)
        return kg_strdup(given);
    const struct store_parts parts = {.paths = &cli->paths,
                                      .plugins_dir = config_plugins_dir(config, &cli->paths)};
    struct store *store = store_new(&parts);
    kg_auto(kg_free) char *name = kg_str_dup(trace->plugin);
    char *place = store_place(store, name);
    store_free(store);
    return place;
}

static struct manifest *load_manifest(const char *dir, const struct trace *trace,
                                      struct kg_err *err)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    kg_auto(kg_free) char *path = kg_format("%s/%s", dir, MANIFEST_FILE);
    if (access(path, F_OK) < 0) {
        kg_fail(err, KG_E_NOT_FOUND, "there is no plugin in %s", dir);
        kg_hint(err, "name its folder after the trace");
        return NULL;
    }
    struct manifest *manifest = manifest_load(dir, &problems);
    if (manifest == NULL) {
        manifest_problems_fail(&problems, path, err);
    } else if (!kg_str_is(trace->plugin, manifest->name)) {
        kg_fail(err, KG_E_INVALID_MANIFEST, "the trace is of %.*s, and %s holds %s",
                KG_STR_ARG(trace->plugin), dir, manifest->name);
        manifest_free(kg_steal(&manifest));
    }
    return manifest;
}

/* "/result/at,/result/items/0/id" */
static int take_ignored(char *list, const char *ret_ignored[IGNORED_MAX + 1], struct kg_err *err)
{
    size_t count = 0;
    char *rest = NULL;
    for (char *path = strtok_r(list, ",", &rest); path != NULL; path = strtok_r(NULL, ",", &rest)) {
        if (path[0] != '/' || count == IGNORED_MAX) {
            kg_fail(err, KG_E_USAGE, "plugin replay: --ignore %s is not a path in an answer", path);
            return kg_hint(
                err, "a path starts with /result/ or /error/; give at most %d, separated by commas",
                IGNORED_MAX);
        }
        ret_ignored[count++] = path;
    }
    ret_ignored[count] = NULL;
    return 0;
}

static int replay(const struct cli *cli, const struct kit_replay_parts *parts, struct kg_err *err)
{
    struct shown shown = {.cli = cli};
    struct kit_replay_parts played = *parts;
    struct kit_replay_counts counts;
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    shown.json = kg_json_writer(&shown.steps);
    kg_json_begin(&shown.json, '[');
    played.on_step = plugin_replay_on_step;
    played.data = &shown;
    int result = kit_replay(&played, &counts, err);
    if (result == 0 && cli->json)
        plugin_replay_put_json(&out, &shown, parts->room.manifest, parts->trace, &counts);
    else if (result == 0)
        put_counts(&out, &counts);
    print_out(&out);
    kg_buf_free(&shown.steps);
    if (result < 0)
        return print_error(err);
    return different(&counts) == 0 ? CLI_DONE : CLI_FAILED;
}

int cli_plugin_replay(struct cli *cli)
{
    struct kg_err err = {0};
    const char *ignored[IGNORED_MAX + 1];
    const char *given = cli_option_value(cli, "ignore");
    kg_auto(kg_free) char *list = kg_strdup(given ? given : "");
    if (take_ignored(list, ignored, &err) < 0)
        return print_error(&err);
    struct trace *trace = read_trace(cli_argument(cli, 0), &err);
    struct config *config = trace ? config_load(cli->paths.config_file, &err) : NULL;
    kg_auto(kg_free) char *dir = config ? plugin_replay_find_folder(cli, config, trace) : NULL;
    struct manifest *manifest = dir ? load_manifest(dir, trace, &err) : NULL;
    const struct kit_replay_parts parts = {
        .room = {.manifest = manifest, .dir = dir, .config = config, .paths = &cli->paths},
        .trace = trace,
        .ignored = ignored,
        .timed = cli_has(cli, "timed"),
    };
    int code = manifest != NULL ? replay(cli, &parts, &err) : print_error(&err);
    manifest_free(manifest);
    config_free(config);
    trace_free(trace);
    return code;
}
