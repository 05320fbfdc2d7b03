/*
 * GET /metrics: the figures of the daemon and of each plugin in the text format of Prometheus. The
 * samples of one name stand together, as the format wants it: one row of a table is one name.
 */
#include "cluster/cluster.h"
#include "http/internal.h"
#include "model/model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/resource.h>

/* One plugin, looked at once. */
struct sample {
    struct host_status status;
    struct instance_facts facts;
    uint64_t storage_bytes;
};

struct plugin_family {
    const char *name, *type, *help;
    /* One figure... */
    uint64_t (*value)(const struct sample *sample);
    /* ...or lines of its own. */
    void (*put)(struct kg_buf *out, const char *name, const struct sample *sample);
};

/* -- lines ------------------------------------------------------------------------------------- */

static void put_help(struct kg_buf *out, const char *name, const char *type, const char *help)
{
    kg_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void metrics_put_label(struct kg_buf *out, const char *label, const char *value)
{
    kg_buf_printf(out, "%s=\"", label);
    for (; *value != '\0'; value++) {
        if (*value == '\\' || *value == '"')
            kg_buf_char(out, '\\');
        if (*value == '\n')
            kg_buf_text(out, "\\n");
        else
            kg_buf_char(out, *value);
    }
    kg_buf_char(out, '"');
}

static void metrics_put_plugin(struct kg_buf *out, const char *name, const struct sample *sample)
{
    kg_buf_printf(out, "%s{", name);
    metrics_put_label(out, "plugin", sample->status.name);
}

static void put_labelled(struct kg_buf *out, const char *name, const struct sample *sample,
                         const char *label, const char *text, uint64_t value)
{
    metrics_put_plugin(out, name, sample);
    kg_buf_char(out, ',');
    metrics_put_label(out, label, text);
    kg_buf_printf(out, "} %" PRIu64 "\n", value);
}

/* labels: what stands in the braces, or "". */
static void put_histogram(struct kg_buf *out, const char *name, const char *labels,
                          const struct host_histogram *histogram)
{
    const char *comma = labels[0] != '\0' ? "," : "";
    uint64_t count = 0;
    for (size_t i = 0; i < HOST_BUCKETS; i++) {
        count += histogram->counts[i];
        kg_buf_printf(out, "%s_bucket{%s%sle=\"%.10g\"} %" PRIu64 "\n", name, labels, comma,
                      (double)host_bucket_us[i] / 1e6, count);
    }
    count += histogram->counts[HOST_BUCKETS];
    kg_buf_printf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma, count);
    kg_buf_printf(out, "%s_sum{%s} %.9f\n", name, labels, (double)histogram->sum_ns / 1e9);
    kg_buf_printf(out, "%s_count{%s} %" PRIu64 "\n", name, labels, count);
}

/* -- of a plugin ------------------------------------------------------------------------------- */

static void put_info(struct kg_buf *out, const char *name, const struct sample *sample)
{
    const struct manifest *manifest = sample->status.manifest;
    put_labelled(out, name, sample, "version", manifest ? manifest->version : "", 1);
}

static void put_state(struct kg_buf *out, const char *name, const struct sample *sample)
{
    for (enum instance_state state = 0; state < INSTANCE_STATE_COUNT; state++)
        put_labelled(out, name, sample, "state", instance_state_name(state),
                     state == sample->status.state);
}

static void put_errors(struct kg_buf *out, const char *name, const struct sample *sample)
{
    for (int code = 1; code < KG_CODE_COUNT; code++)
        if (sample->status.usage->errors_by_code[code] > 0)
            put_labelled(out, name, sample, "code", kg_error_row((enum kg_code)code)->name,
                         sample->status.usage->errors_by_code[code]);
}

static void put_latency(struct kg_buf *out, const char *name, const struct sample *sample)
{
    kg_auto(kg_buf_free) struct kg_buf labels = {0};
    metrics_put_label(&labels, "plugin", sample->status.name);
    put_histogram(out, name, kg_buf_terminate(&labels), &sample->status.usage->latency);
}

static uint64_t is_up(const struct sample *sample)
{
    return sample->status.state == INSTANCE_RUNNING;
}

static uint64_t calls(const struct sample *sample)
{
    return sample->status.usage->calls;
}

static uint64_t in_flight(const struct sample *sample)
{
    return sample->facts.in_flight;
}

static uint64_t restarts(const struct sample *sample)
{
    return sample->facts.starts > 0 ? sample->facts.starts - 1 : 0;
}

static uint64_t bytes_in(const struct sample *sample)
{
    return sample->facts.bytes_in;
}

static uint64_t bytes_out(const struct sample *sample)
{
    return sample->facts.bytes_out;
}

static uint64_t notifications_dropped(const struct sample *sample)
{
    return sample->facts.notifications_dropped;
}

static uint64_t storage_bytes(const struct sample *sample)
{
    return sample->storage_bytes;
}

static uint64_t memory_bytes(const struct sample *sample)
{
    return sample->status.usage->memory_bytes;
}

static uint64_t net_connections(const struct sample *sample)
{
    return sample->facts.net_connections;
}

static const struct plugin_family plugin_families[] = {
    {"kaged_plugin_info", "gauge", "The version of the plugin.", NULL, put_info},
    {"kaged_plugin_up", "gauge", "Whether the plugin answers calls.", is_up, NULL},
    {"kaged_plugin_state", "gauge", "1 for the state that the plugin is in.", NULL, put_state},
    {"kaged_plugin_calls_total", "counter", "Calls that were sent to the plugin.", calls, NULL},
    {"kaged_plugin_call_errors_total", "counter", "Calls that ended with an error, by its code.",
     NULL, put_errors},
    {"kaged_plugin_call_duration_seconds", "histogram", "From a call to its end.", NULL,
     put_latency},
    {"kaged_plugin_calls_in_flight", "gauge", "Calls without an answer.", in_flight, NULL},
    {"kaged_plugin_restarts_total", "counter", "Starts of the plugin after its first.", restarts,
     NULL},
    {"kaged_plugin_received_bytes_total", "counter", "Bytes that the plugin wrote on stdout.",
     bytes_in, NULL},
    {"kaged_plugin_sent_bytes_total", "counter", "Bytes that were written to its stdin.", bytes_out,
     NULL},
    {"kaged_plugin_notifications_dropped_total", "counter",
     "Notifications of the plugin past its rate.", notifications_dropped, NULL},
    {"kaged_plugin_storage_bytes", "gauge", "Size of the plugin's database.", storage_bytes, NULL},
    {"kaged_plugin_memory_bytes", "gauge", "Resident memory of all processes of its cage.",
     memory_bytes, NULL},
    {"kaged_plugin_net_connections", "gauge", "Connections of the plugin into the network.",
     net_connections, NULL},
};

static void put_plugin_family(struct kg_buf *out, const struct plugin_family *family,
                              const struct sample *samples, size_t count)
{
    if (count == 0)
        return; /* a name without a sample says nothing */
    put_help(out, family->name, family->type, family->help);
    for (size_t i = 0; i < count; i++) {
        if (family->put != NULL) {
            family->put(out, family->name, &samples[i]);
            continue;
        }
        metrics_put_plugin(out, family->name, &samples[i]);
        kg_buf_printf(out, "} %" PRIu64 "\n", family->value(&samples[i]));
    }
}

static struct sample take_sample(struct host_named named)
{
    struct sample sample = {.status = host_status(named), .facts = host_run_facts(named)};
    if (named.process != NULL && host_stores(named.process))
        sample.storage_bytes = storage_facts(host_storage(named.process)).bytes;
    return sample;
}

static void metrics_put_plugins(struct kg_buf *out, struct host *host)
{
    size_t count;
    kg_auto(kg_free) struct host_named *names = host_names(host, &count);
    struct sample *samples = kg_alloc_array(count + 1, sizeof(*samples));
    for (size_t i = 0; i < count; i++)
        samples[i] = take_sample(names[i]);
    for (size_t i = 0; i < KG_COUNT(plugin_families); i++)
        put_plugin_family(out, &plugin_families[i], samples, count);
    free(samples);
}

/* -- of the daemon ----------------------------------------------------------------------------- */

static void metrics_put_figure(struct kg_buf *out, const char *name, const char *type,
                               const char *help, double value)
{
    put_help(out, name, type, help);
    kg_buf_printf(out, "%s %.15g\n", name, value);
}

static void put_forward(struct kg_buf *out, const struct forward *forward)
{
    if (forward == NULL)
        return;
    const struct forward_facts facts = forward_facts(forward);
    metrics_put_figure(out, "kaged_audit_forward_sent_total", "counter",
                       "Events that audit.forward sent on.", (double)facts.sent);
    metrics_put_figure(out, "kaged_audit_forward_lost_total", "counter",
                       "Events that it could not send before their file was rotated away.",
                       (double)facts.lost);
    metrics_put_figure(out, "kaged_audit_forward_lost_files_total", "counter",
                       "Files that were gone before it could count what was in them.",
                       (double)facts.lost_files);
    metrics_put_figure(out, "kaged_audit_forward_failures", "gauge",
                       "Attempts in a row that failed.", (double)facts.failures);
    metrics_put_figure(out, "kaged_audit_forward_waiting_bytes", "gauge",
                       "Bytes of the log that are not sent yet.", (double)facts.waiting_bytes);
}

static void put_objects(struct kg_buf *out, const struct catalog *catalog)
{
    const struct objects_facts facts = objects_facts(catalog_objects(catalog));
    if (facts.bucket == NULL)
        return;
    metrics_put_figure(out, "kaged_objects_hits_total", "counter",
                       "Objects that were in the cache.", (double)facts.hits);
    metrics_put_figure(out, "kaged_objects_misses_total", "counter",
                       "Objects that had to come from the bucket.", (double)facts.misses);
    metrics_put_figure(out, "kaged_objects_received_bytes_total", "counter",
                       "Bytes from the bucket.", (double)facts.bytes_in);
    metrics_put_figure(out, "kaged_objects_sent_bytes_total", "counter", "Bytes to the bucket.",
                       (double)facts.bytes_out);
    metrics_put_figure(out, "kaged_objects_errors_total", "counter",
                       "Objects that could not be read or written.", (double)facts.errors);
    metrics_put_figure(out, "kaged_objects_cache_bytes", "gauge",
                       "Bytes in the cache, when it was last written.", (double)facts.cache_bytes);
}

static void put_models(struct kg_buf *out, const struct models *models)
{
    const struct models_facts facts = models_facts(models);
    metrics_put_figure(out, "kaged_model_calls_in_flight", "gauge",
                       "Questions to models without an answer.", facts.asked);
    metrics_put_figure(out, "kaged_model_calls_waiting", "gauge",
                       "Questions that wait until their provider is asked less.", facts.waiting);
}

/* -- of the nodes of a cluster ----------------------------------------------------------------- */

static uint64_t node_is_up(const struct cluster_node *node)
{
    return node->is_alive;
}

static uint64_t node_leases(const struct cluster_node *node)
{
    return node->leases;
}

static const struct node_family {
    const char *name, *help;
    uint64_t (*value)(const struct cluster_node *node);
} node_families[] = {
    {"kaged_cluster_node_up", "Whether the node was seen lately.", node_is_up},
    {"kaged_cluster_node_leases", "Orchestrators that the node has.", node_leases},
};

struct node_lines {
    struct kg_buf *out;
    const struct node_family *family;
};

static void metrics_put_node(void *data, const struct cluster_node *node)
{
    const struct node_lines *lines = data;
    kg_buf_printf(lines->out, "%s{", lines->family->name);
    metrics_put_label(lines->out, "node", node->name);
    kg_buf_printf(lines->out, "} %" PRIu64 "\n", lines->family->value(node));
}

static void metrics_put_nodes(struct kg_buf *out, const struct cluster *cluster_or_null)
{
    for (size_t i = 0; cluster_or_null != NULL && i < KG_COUNT(node_families); i++) {
        struct node_lines lines = {out, &node_families[i]};
        put_help(out, lines.family->name, "gauge", lines.family->help);
        cluster_nodes(cluster_or_null, metrics_put_node, &lines);
    }
}

/* -- all of it --------------------------------------------------------------------------------- */

static void put_daemon(struct kg_buf *out, struct host *host)
{
    const struct host_figures *figures = host_figures(host);
    struct rlimit fds = {0};
    getrlimit(RLIMIT_NOFILE, &fds);
    put_help(out, "kaged_info", "gauge", "The version of the daemon.");
    kg_buf_text(out, "kaged_info{");
    metrics_put_label(out, "version", KAGED_VERSION);
    kg_buf_text(out, "} 1\n");
    metrics_put_figure(out, "kaged_uptime_seconds", "gauge", "Since the daemon started.",
                       (double)(kg_wall_ms() - host_started_at_ms(host)) / 1e3);
    metrics_put_figure(out, "kaged_resident_memory_bytes", "gauge",
                       "Resident memory of the daemon.", (double)figures->memory_bytes);
    metrics_put_figure(out, "kaged_open_fds", "gauge", "File descriptors that the daemon has open.",
                       figures->open_fds);
    metrics_put_figure(out, "kaged_max_fds", "gauge", "File descriptors that it may have open.",
                       (double)fds.rlim_cur);
    metrics_put_figure(out, "kaged_audit_events_total", "counter", "Events of the audit log.",
                       (double)host_audit_count(host));
    metrics_put_figure(out, "kaged_audit_queue_bytes", "gauge",
                       "Audit events that wait for the disk.",
                       (double)audit_waiting_bytes(host_audit(host)));
    put_forward(out, host_forward(host));
    put_help(out, "kaged_loop_lag_seconds", "histogram", "How late a timer of the loop was.");
    put_histogram(out, "kaged_loop_lag_seconds", "", &figures->lag);
}

static void metrics_on_measured(void *data)
{
    struct http_request *request = data;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    put_daemon(&text, http_host(request));
    const struct http_server *server = http_server_of(request);
    if (server != NULL && server->sessions != NULL)
        put_models(&text, sessions_models(server->sessions));
    if (server != NULL && server->catalog != NULL)
        put_objects(&text, server->catalog);
    metrics_put_nodes(&text, host_nodes(http_host(request)));
    metrics_put_plugins(&text, http_host(request));
    http_reply_text(request, 200, "text/plain; version=0.0.4; charset=utf-8", kg_buf_view(&text));
}

void http_handle_metrics(struct http_request *request)
{
    host_measure_plugins(http_host(request), NULL, metrics_on_measured, request);
}
