/*
 * What is said with a plugin, for whoever listens, and what of it is secret. A line is redacted and
 * written down once, however many listen; while nobody does, no recorder is on and no secret can
 * come by it, the plugin's wire is not tapped at all. The recorder keeps the last records, over
 * restarts of the plugin, and what it holds when the plugin dies is kept for the report of that
 * exit.
 */
#include "base/doc.h"
#include "host/internal.h"

#include <errno.h>
#include <stdlib.h>

struct host_trace {
    struct host_process *process;
    struct trace_redactor *redactor; /* owned; NULL while the wire is not tapped */
    bool learns;                     /* it is tapped whoever listens: secrets come by it */
    struct host_trace_listener *listeners;
    struct host_trace_listener *next; /* to be told after the one that is being told */
    size_t listener_count;
    struct trace_ring *ring;  /* owned; NULL: the recorder is off */
    struct trace_ring *crash; /* owned; NULL: none was kept */
    int64_t crash_at_ms;      /* wall clock: of that exit */
    struct kg_buf record;     /* the last one; kept for reuse */
};

static struct host_trace *trace_of(struct host_process *process)
{
    if (process->trace == NULL) {
        process->trace = kg_alloc(sizeof(*process->trace));
        process->trace->process = process;
    }
    return process->trace;
}

/* -- records ----------------------------------------------------------------------------------- */

/* A listener may leave while it is told, and so may others. */
static void host_trace_tell(struct host_trace *trace)
{
    struct kg_str body = kg_buf_view(&trace->record);
    uint64_t now_ns = kg_monotonic_ns();
    if (trace->ring != NULL)
        trace_ring_add(trace->ring, now_ns, body);
    for (struct host_trace_listener *at = trace->listeners; at != NULL; at = trace->next) {
        trace->next = at->next;
        at->on_record(at, now_ns, body);
    }
}

static bool host_trace_is_wanted(const struct host_trace *trace)
{
    return trace->listeners != NULL || trace->ring != NULL;
}

static void on_tapped(void *data, enum instance_way way, struct kg_str line)
{
    static const enum trace_kind kinds[] = {
        [INSTANCE_TO] = TRACE_TO, [INSTANCE_FROM] = TRACE_FROM, [INSTANCE_STDERR] = TRACE_STDERR};
    struct host_trace *trace = data;
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    bool redacted = trace_redact(trace->redactor, kinds[way], line, &shown);
    if (!host_trace_is_wanted(trace))
        return; /* it was only to be learnt from */
    trace->record.length = 0;
    trace_put_line(&trace->record, kinds[way], kg_buf_view(&shown), redacted,
                   (size_t)trace->process->plugin->host->config->limits_trace_line_bytes);
    host_trace_tell(trace);
}

/* -- the tap ----------------------------------------------------------------------------------- */

static struct trace_redactor *new_redactor(const struct host_process *process)
{
    const struct local_plugin *local =
        local_plugin_find(process->plugin->host->local, kg_str(process->manifest->package));
    const struct trace_secret_parts parts = {
        .manifest = process->manifest,
        .system = local ? local->system : NULL,
        .config = instance_config(process->instance),
    };
    return trace_redactor_new(&parts, process->secrets);
}

/* The wire is tapped exactly while somebody wants it, or has to hear it. */
static void follow_interest(struct host_trace *trace)
{
    struct host_process *process = trace->process;
    bool wanted = host_trace_is_wanted(trace) || trace->learns;
    if (wanted == (trace->redactor != NULL))
        return;
    if (wanted)
        trace->redactor = new_redactor(process);
    else
        trace_redactor_free(kg_steal(&trace->redactor));
    instance_set_tap(process->instance, wanted ? on_tapped : NULL, trace);
}

/* Another manifest or configuration may have other secrets. */
void host_trace_loaded(struct host_process *process)
{
    struct trace_redactor *redactor = new_redactor(process);
    bool learns = trace_redactor_learns(redactor);
    struct host_trace *trace = learns ? trace_of(process) : process->trace;
    if (trace == NULL || trace->redactor == NULL) {
        trace_redactor_free(redactor);
    } else {
        trace_redactor_free(trace->redactor);
        trace->redactor = redactor;
    }
    if (trace == NULL)
        return;
    trace->learns = learns;
    follow_interest(trace);
}

void host_trace_configured(struct host_process *process)
{
    trace_redactor_free(new_redactor(process)); /* its secrets stay in the set */
}

/* Whether the exit is one that somebody will ask about. */
static bool is_bad_end(const struct host_process *process, enum instance_state from,
                       enum instance_state to)
{
    const struct exit_report *last = instance_facts(process->instance).last_exit;
    return to == INSTANCE_CRASHED || (from == INSTANCE_STOPPED && to == INSTANCE_FAILED) ||
           (to == INSTANCE_STOPPED && last != NULL && last->signal != 0);
}

void host_trace_moved(struct host_process *process, enum instance_state from,
                      enum instance_state to, const char *reason)
{
    struct host_trace *trace = process->trace;
    if (trace == NULL)
        return;
    if (to == INSTANCE_SPAWNING)
        host_trace_loaded(process);
    if (!host_trace_is_wanted(trace))
        return;
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    trace_redact(trace->redactor, TRACE_STATE, kg_str(reason), &shown);
    trace->record.length = 0;
    trace_put_state(&trace->record, instance_state_name(from), instance_state_name(to),
                    kg_buf_terminate(&shown));
    host_trace_tell(trace);
    if (trace->ring == NULL || !is_bad_end(process, from, to))
        return;
    trace_ring_free(trace->crash);
    trace->crash = trace_ring_copy(trace->ring);
    trace->crash_at_ms = instance_facts(process->instance).last_exit->at_ms;
}

/* -- listeners --------------------------------------------------------------------------------- */

int host_trace_listen(struct host_process *process, struct host_trace_listener *listener,
                      struct kg_err *err)
{
    if (process->plugin->host->stopping)
        return kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
    struct host_trace *trace = trace_of(process);
    size_t most = (size_t)process->plugin->host->config->limits_trace_readers;
    if (trace->listener_count >= most) {
        kg_fail(err, KG_E_BUSY, "plugin %s: %zu clients already read its trace", process->name,
                trace->listener_count);
        return kg_hint(err, "limits.trace_readers is the limit");
    }
    listener->process = process;
    listener->next = trace->listeners;
    trace->listeners = listener;
    trace->listener_count++;
    follow_interest(trace);
    return 0;
}

void host_trace_unlisten(struct host_trace_listener *listener)
{
    struct host_trace *trace = listener->process->trace;
    KG_UNLINK(trace->listeners, listener);
    if (trace->next == listener)
        trace->next = listener->next;
    trace->listener_count--;
    follow_interest(trace);
}

void host_trace_end(struct host_process *process)
{
    struct host_trace *trace = process->trace;
    while (trace != NULL && trace->listeners != NULL) {
        struct host_trace_listener *listener = trace->listeners;
        host_trace_unlisten(listener);
        listener->on_end(listener);
    }
}

void host_trace_free(struct host_process *process)
{
    struct host_trace *trace = process->trace;
    if (trace == NULL)
        return;
    host_trace_end(process);
    instance_set_tap(process->instance, NULL, NULL);
    trace_redactor_free(trace->redactor);
    trace_ring_free(trace->ring);
    trace_ring_free(trace->crash);
    kg_buf_free(&trace->record);
    free(trace);
    process->trace = NULL;
}

/* -- the header -------------------------------------------------------------------------------- */

/* Of what lies in its folder now; empty if that cannot be read. */
static void hash_manifest(const struct host_process *process, char ret_hash[STORE_HASH_TEXT])
{
    kg_auto(kg_free) char *path = kg_format("%s/%s", process->dir, MANIFEST_FILE);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    ret_hash[0] = '\0';
    if (kg_read_file(path, KG_DOC_BYTES_MAX, &text, NULL) == 0)
        store_hash_text(kg_buf_view(&text), ret_hash);
}

void host_trace_put_header(struct host_process *process, int64_t at_ms, struct kg_buf *out)
{
    kg_auto(kg_buf_free) struct kg_buf greeting = {0}, config = {0};
    kg_auto(kg_free) char *config_root =
        kg_format("%s/%s", process->plugin->host->paths->plugin_data_dir,
                  host_plugin_parts_homes(process->plugin) ? process->name : process->plugin->name);
    char hash[STORE_HASH_TEXT];
    hash_manifest(process, hash);
    struct trace_header header = {
        .plugin = process->plugin->name,
        .process = process->name,
        .version = process->manifest->version,
        .manifest_hash = hash[0] != '\0' ? hash : NULL,
        .at_ms = at_ms,
        .config_root = config_root,
        .project_root = process->whom.root,
    };
    struct kg_str told = instance_config(process->instance);
    struct trace_redactor *redactor = new_redactor(process);
    instance_put_greeting(process->instance, &greeting);
    if (told.length > 0)
        trace_redact_config(redactor, told, &config);
    trace_redactor_free(redactor);
    header.greeting = kg_buf_view(&greeting);
    header.config = kg_buf_view(&config);
    trace_put_header(out, &header);
}

/* -- payloads for the audit log ---------------------------------------------------------------- */

void host_trace_put_payload(struct host_process *process, const char *method, bool is_params,
                            struct kg_str json, struct kg_buf *ret_json)
{
    struct trace_redactor *redactor = process->trace ? process->trace->redactor : NULL;
    struct trace_redactor *own = redactor == NULL ? new_redactor(process) : NULL;
    if (redactor == NULL)
        redactor = own;
    if (is_params)
        trace_redact_params(redactor, method, json, ret_json);
    else
        trace_redact_result(redactor, method, json, ret_json);
    trace_redactor_free(own);
}

/* -- the recorder ------------------------------------------------------------------------------ */

static void set_ring_limits(struct host_trace *trace)
{
    const struct config *config = trace->process->plugin->host->config;
    trace_ring_set_limits(trace->ring, (size_t)config->limits_trace_records,
                          (size_t)config->limits_trace_bytes);
}

void host_trace_record(struct host_process *process, bool on)
{
    struct host_trace *trace = trace_of(process);
    if (on == (trace->ring != NULL))
        return;
    if (on) {
        trace->ring = trace_ring_new();
        set_ring_limits(trace);
    } else {
        trace_ring_free(kg_steal(&trace->ring));
    }
    follow_interest(trace);
}

void host_traces_set_limits(struct host *host)
{
    for (struct host_process *at = NULL; (at = host_process_after(host, at)) != NULL;)
        if (at->trace != NULL && at->trace->ring != NULL)
            set_ring_limits(at->trace);
}

const struct trace_ring *host_trace_recorded(const struct host_process *process)
{
    return process->trace ? process->trace->ring : NULL;
}

const struct trace_ring *host_trace_crash(const struct host_process *process, int64_t *ret_at_ms)
{
    const struct host_trace *trace = process->trace;
    if (trace == NULL || trace->crash == NULL)
        return NULL;
    *ret_at_ms = trace->crash_at_ms;
    return trace->crash;
}
