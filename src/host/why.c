/*
 * What a plugin was refused, from the audit log: one entry for each thing, with the capability that
 * would have allowed it. The log is what survives a restart, so nothing is kept besides it.
 */
#include "host/internal.h"

#include <libgen.h>
#include <stdlib.h>

#define REFUSALS_MAX 100
#define EVENTS_MAX   2000 /* of each kind, the last ones */

struct refusal {
    char *what;       /* owned, like the texts that follow */
    char *capability; /* NULL: none would allow it */
    char *reason;
    const char *source;
    int64_t count;
    char *first, *last; /* as in the log */
};

struct why {
    struct loop_message settled;
    struct host *host;
    char *name;                /* owned */
    struct manifest *manifest; /* one reference; NULL: it is broken */
    size_t next;               /* of the kinds of events */
    struct refusal items[REFUSALS_MAX];
    size_t count;
    host_audit_done_fn *on_done;
    void *data;
};

/* -- what would have allowed it ---------------------------------------------------------------- */

/* The text, which is taken over, if it is a capability that is not there already; owned. */
static char *allowing(const struct manifest *manifest_or_null, char *text)
{
    kg_auto(kg_free) char *owned = text;
    kg_auto(capability_free) struct capability capability = {0};
    kg_auto(kg_buf_free) struct kg_buf canonical = {0};
    if (capability_parse(kg_str(owned), &capability, NULL) < 0 ||
        (manifest_or_null != NULL &&
         capability_set_covers(&manifest_or_null->capability_set, &capability)))
        return NULL;
    capability_print(&capability, &canonical);
    return kg_str_dup(kg_buf_view(&canonical));
}

/* NULL: what was asked for is no host at all. */
static char *reaching(struct kg_str host, int64_t port)
{
    bool is_v6 = host.length > 0 && memchr(host.data, ':', host.length) != NULL;
    return allowing(
        NULL, kg_format(is_v6 ? "net:[%.*s]:%d" : "net:%.*s:%d", KG_STR_ARG(host), (int)port));
}

static void read_network(struct why *why, const struct kg_node *event, struct refusal *ret_refusal)
{
    (void)why;
    struct kg_str host = kg_node_text(event, "host"), declare = kg_node_text(event, "declare");
    int64_t port = kg_node_number(event, "port");
    ret_refusal->what = port ? kg_format("to connect to %.*s, port %d", KG_STR_ARG(host), (int)port)
                             : kg_format("to look up the host %.*s", KG_STR_ARG(host));
    if (declare.length > 0)
        ret_refusal->capability = reaching(declare, port ? port : 443);
    ret_refusal->source = "the gatekeeper of its network, which refused it";
}

static void read_access(struct why *why, const struct kg_node *event, struct refusal *ret_refusal)
{
    struct kg_str access = kg_node_text(event, "access"), path = kg_node_text(event, "path");
    kg_auto(kg_free) char *file = kg_str_dup(path);
    kg_auto(kg_free) char *folder = kg_str_dup(path);
    ret_refusal->what = kg_format("to %.*s %s", KG_STR_ARG(access), file);
    ret_refusal->source = "the kernel's audit log";
    if (kg_str_is(access, "execute"))
        ret_refusal->capability =
            allowing(why->manifest, kg_format("exec:%s:%s", file, dirname(folder)));
    else if (kg_str_is(access, "write"))
        ret_refusal->capability = allowing(why->manifest, kg_format("write:fs:%s", file));
}

static const struct {
    const char *event;
    void (*read)(struct why *why, const struct kg_node *event, struct refusal *ret_refusal);
} kinds[] = {
    {"plugin.net_denied", read_network},
    {"plugin.access_denied", read_access},
};

/* -- gathering --------------------------------------------------------------------------------- */

static void refusal_free(struct refusal *refusal)
{
    free(refusal->what);
    free(refusal->capability);
    free(refusal->reason);
    free(refusal->first);
    free(refusal->last);
}

static void add_refusal(struct why *why, struct refusal *refusal)
{
    for (size_t i = 0; i < why->count; i++) {
        struct refusal *known = &why->items[i];
        if (strcmp(known->what, refusal->what) != 0 || strcmp(known->reason, refusal->reason) != 0)
            continue;
        known->count += refusal->count;
        free(known->last);
        known->last = kg_steal(&refusal->last);
        refusal_free(refusal);
        return;
    }
    if (why->count == REFUSALS_MAX) {
        refusal_free(&why->items[0]);
        memmove(&why->items[0], &why->items[1], (REFUSALS_MAX - 1) * sizeof(why->items[0]));
        why->count--;
    }
    why->items[why->count++] = *refusal;
}

static void read_line(struct why *why, struct kg_str line)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(line, NULL);
    if (doc == NULL)
        return;
    struct refusal refusal = {
        .reason = kg_str_dup(kg_node_text(doc->root, "reason")),
        .count = 1 + kg_node_number(doc->root, "suppressed"),
        .first = kg_str_dup(kg_node_text(doc->root, "ts")),
        .last = kg_str_dup(kg_node_text(doc->root, "ts")),
    };
    kinds[why->next].read(why, doc->root, &refusal);
    add_refusal(why, &refusal);
}

static void put_refusal(struct kg_json_writer *json, const struct refusal *refusal)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "what", refusal->what);
    kg_json_named_text(json, "reason", refusal->reason);
    kg_json_named_text(json, "capability", refusal->capability);
    kg_json_named_text(json, "source", refusal->source);
    kg_json_named_int(json, "count", refusal->count);
    kg_json_named_text(json, "first", refusal->first);
    kg_json_named_text(json, "last", refusal->last);
    kg_json_end(json, '}');
}

static void answer(struct why *why)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", why->name);
    kg_json_key(&json, "refusals");
    kg_json_begin(&json, '[');
    for (size_t i = why->count; i > 0; i--)
        put_refusal(&json, &why->items[i - 1]);
    kg_json_end(&json, ']');
    kg_json_named_text(&json, "knowledge", cage_spawner_knowledge(why->host->supervisor.spawner));
    kg_json_end(&json, '}');
    why->on_done(why->data, kg_buf_view(&body), NULL);
}

static void why_free(struct why *why)
{
    for (size_t i = 0; i < why->count; i++)
        refusal_free(&why->items[i]);
    manifest_free(why->manifest);
    free(why->name);
    free(why);
}

static void ask_next(struct why *why);

static void on_lines(void *data, struct kg_str lines, const struct kg_err *err_or_null)
{
    struct why *why = data;
    struct kg_err err = {0};
    if (why->host->closing) /* the log can be asked no more */
        kg_fail(&err, KG_E_STOPPING, "the daemon is stopping");
    if (err_or_null != NULL || err.code != KG_OK) {
        why->on_done(why->data, KG_STR_NULL, err_or_null != NULL ? err_or_null : &err);
        why_free(why);
        return;
    }
    while (lines.length > 0) {
        const char *newline = memchr(lines.data, '\n', lines.length);
        size_t length = newline ? (size_t)(newline - lines.data) : lines.length;
        read_line(why, (struct kg_str){lines.data, length});
        length += newline != NULL;
        lines = (struct kg_str){lines.data + length, lines.length - length};
    }
    why->next++;
    ask_next(why);
}

static void ask_next(struct why *why)
{
    if (why->next == KG_COUNT(kinds)) {
        answer(why);
        why_free(why);
        return;
    }
    const struct audit_filter filter = {
        .plugin = kg_str(why->name),
        .event = kg_str(kinds[why->next].event),
        .limit = EVENTS_MAX,
    };
    host_audit_query(why->host, &filter, on_lines, why);
}

/* What the plugin was refused just now is in the log. */
static void on_settled(struct loop_message *message)
{
    struct why *why = KG_CONTAINER(message, struct why, settled);
    if (why->host->closing)
        on_lines(why, KG_STR_NULL, NULL);
    else
        ask_next(why);
}

void host_why(struct host *host, struct host_named named, host_audit_done_fn *on_done, void *data)
{
    struct manifest *manifest = named.process ? named.process->manifest : named.plugin->manifest;
    struct why *why = kg_alloc(sizeof(*why));
    why->host = host;
    why->name = kg_strdup(host_name(named));
    why->manifest = manifest ? manifest_keep(manifest) : NULL;
    why->on_done = on_done;
    why->data = data;
    why->settled.deliver = on_settled;
    if (named.process != NULL)
        instance_settle_network(named.process->instance, &why->settled);
    else
        ask_next(why);
}
