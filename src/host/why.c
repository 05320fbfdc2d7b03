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
    char *closed_by;  /* the operator's line that closes it; NULL: none does */
    char *reason;
    const char *source;
    int64_t count;
    char *first, *last; /* as in the log */
};

struct why {
    struct loop_message settled;
    struct host *host;
    char *name;           /* owned */
    char *plugin;         /* the same, without its project */
    struct grants grants; /* what it may do now */
    bool explained;       /* its next cage is watched */
    size_t next;          /* of the kinds of events */
    struct refusal items[REFUSALS_MAX];
    size_t count;
    host_audit_done_fn *on_done;
    void *data;
};

/* -- what a plugin itself names -----------------------------------------------------------------
 */

#define NAMED_MAX  1024 /* bytes of a path that is looked at */
#define HINTED_MAX 120  /* of a capability that fits into a hint, whole */

static const char own_word[] = "its cage does not show it so";

/* The first absolute path in a text, in quotes or alone; empty: none. */
static struct kg_str why_path_in(struct kg_str text)
{
    static const char before[] = " '\"`(=:", after[] = " '\"`),;:";
    for (size_t i = 0; i < text.length; i++) {
        if (text.data[i] != '/' || (i > 0 && strchr(before, text.data[i - 1]) == NULL))
            continue;
        bool quoted = i > 0 && strchr("'\"`", text.data[i - 1]) != NULL;
        char quote[] = {quoted ? text.data[i - 1] : '\0', '\0'};
        const char *ends = quoted ? quote : after;
        size_t end = i;
        while (end < text.length && strchr(ends, text.data[end]) == NULL)
            end++;
        while (end > i + 1 && (text.data[end - 1] == '.' || text.data[end - 1] == '/'))
            end--;
        if (end - i > 1 && end - i <= NAMED_MAX)
            return (struct kg_str){text.data + i, end - i};
    }
    return KG_STR_NULL;
}

/* As its lines would name it: what is in its project is told so. */
static char *named_as(const struct host_process *process, const char *path)
{
    const char *root = process->whom.root;
    if (root == NULL || !kg_path_within(path, root))
        return kg_strdup(path);
    const char *rest = path + strlen(root);
    return kg_format("project:/%s", rest + (rest[0] == '/'));
}

/* What it would take to have the path: to read it, or if it may, to write it. NULL: it has both. */
static const char *missing_access(const struct host_process *process, const char *path)
{
    static const char *const accesses[] = {"read", "write"};
    for (size_t i = 0; i < KG_COUNT(accesses); i++) {
        kg_auto(capability_free) struct capability wanted = {0};
        kg_auto(kg_free) char *text = kg_format("%s:fs:%s", accesses[i], path);
        if (capability_parse(kg_str(text), &wanted, NULL) < 0)
            return NULL;
        if (!grants_cover(&process->grants, &wanted))
            return accesses[i];
    }
    return NULL;
}

/* The command that gives it the line, or opens what the operator closed. */
static bool hint_grant(const struct host_process *process, const char *act, const char *line,
                       struct kg_err *err)
{
    kg_auto(capability_free) struct capability wanted = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0}, word = {0};
    if (capability_parse(kg_str(line), &wanted, NULL) < 0)
        return false;
    const struct capability *closed = grants_closing(&process->grants, &wanted);
    capability_print(closed ? closed : &wanted, &text);
    kg_buf_shell(&word, kg_buf_view(&text));
    if (word.length >= HINTED_MAX)
        return false;
    kg_hint(err, "%sif it may %s: kaged plugin grant %s %s", closed ? "you closed it; " : "", act,
            process->plugin->name, kg_buf_terminate(&word));
    return true;
}

bool host_note_unseen(struct host_process *process, uint64_t since_ns, struct kg_str message,
                      struct kg_err *err)
{
    kg_auto(kg_free) char *path = kg_str_dup(why_path_in(message));
    const char *denied = instance_denied_since(process->instance, since_ns);
    bool is_named = path[0] != '\0' && !kg_path_within(path, process->plugin->dir);
    kg_auto(kg_free) char *named = is_named ? named_as(process, path) : NULL;
    const char *access = is_named ? missing_access(process, named) : NULL;
    uint32_t suppressed;
    if (access == NULL)
        return denied != NULL && hint_grant(process, "connect there", denied, err);
    kg_auto(kg_free) char *line = kg_format("%s:fs:%s", access, named);
    kg_auto(kg_free) char *act = kg_format("%s that", access);
    bool hinted = hint_grant(process, act, line, err);
    if (instance_may_complain(process->instance, &suppressed))
        audit_emit(process->plugin->host->audit, AUDIT_PLUGIN_ACCESS_DENIED, KG_STR_NULL,
                   AUDIT_V_TEXT(process->name), AUDIT_V_TEXT(access), AUDIT_V_TEXT(named),
                   AUDIT_V_TEXT(own_word), AUDIT_V_INT(suppressed));
    return hinted;
}

/* -- what would have allowed it ---------------------------------------------------------------- */

static char *why_text_of(const struct capability *capability)
{
    struct kg_buf text = {0};
    capability_print(capability, &text);
    return kg_buf_terminate(&text);
}

/* The text, which is taken over, names what is missing, if it is a capability, and not there now.
 */
static void set_missing(const struct why *why, char *text, struct refusal *refusal)
{
    kg_auto(kg_free) char *owned = text;
    kg_auto(capability_free) struct capability capability = {0};
    if (capability_parse(kg_str(owned), &capability, NULL) < 0)
        return;
    /* A host that net:* covers by its name may have to be declared all the same: where it leads. */
    if (capability.kind != CAPABILITY_NET_HOST && grants_cover(&why->grants, &capability))
        return;
    const struct capability *closed = grants_closing(&why->grants, &capability);
    refusal->capability = why_text_of(closed ? closed : &capability);
    refusal->closed_by = closed ? why_text_of(closed) : NULL;
}

static void set_missing_host(const struct why *why, struct kg_str host, int64_t port,
                             struct refusal *refusal)
{
    bool is_v6 = host.length > 0 && memchr(host.data, ':', host.length) != NULL;
    set_missing(why,
                kg_format(is_v6 ? "net:[%.*s]:%d" : "net:%.*s:%d", KG_STR_ARG(host), (int)port),
                refusal);
}

static void why_read_network(struct why *why, const struct kg_node *event,
                             struct refusal *ret_refusal)
{
    struct kg_str host = kg_node_text(event, "host"), declare = kg_node_text(event, "declare");
    int64_t port = kg_node_number(event, "port");
    ret_refusal->what = port ? kg_format("to connect to %.*s, port %d", KG_STR_ARG(host), (int)port)
                             : kg_format("to look up the host %.*s", KG_STR_ARG(host));
    if (declare.length > 0)
        set_missing_host(why, declare, port ? port : 443, ret_refusal);
    ret_refusal->source = "the gatekeeper of its network, which refused it";
}

static void read_access(struct why *why, const struct kg_node *event, struct refusal *ret_refusal)
{
    struct kg_str access = kg_node_text(event, "access"), path = kg_node_text(event, "path");
    kg_auto(kg_free) char *file = kg_str_dup(path);
    kg_auto(kg_free) char *folder = kg_str_dup(path);
    struct kg_str reason = kg_node_text(event, "reason");
    ret_refusal->what = kg_format("to %.*s %s", KG_STR_ARG(access), file);
    ret_refusal->source = kg_str_is(reason, own_word) ? "the plugin's own error, which names it"
                          : kg_str_is(reason, instance_seen_reason)
                              ? "kaged-watch, which saw it tried"
                              : "the kernel's audit log";
    if (kg_str_is(access, "execute"))
        set_missing(why, kg_format("exec:%s:%s", file, dirname(folder)), ret_refusal);
    else if (kg_str_is(access, "write") || kg_str_is(access, "read"))
        set_missing(why, kg_format("%.*s:fs:%s", KG_STR_ARG(access), file), ret_refusal);
}

static const struct {
    const char *event;
    void (*read)(struct why *why, const struct kg_node *event, struct refusal *ret_refusal);
} kinds[] = {
    {"plugin.net_denied", why_read_network},
    {"plugin.access_denied", read_access},
};

/* -- gathering --------------------------------------------------------------------------------- */

static void refusal_free(struct refusal *refusal)
{
    free(refusal->what);
    free(refusal->capability);
    free(refusal->closed_by);
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

static void why_read_line(struct why *why, struct kg_str line)
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

/* The command that allows it, for whoever asks. */
static void why_put_command(struct kg_json_writer *json, const struct why *why,
                            const struct refusal *refusal)
{
    kg_auto(kg_buf_free) struct kg_buf command = {0};
    if (refusal->capability != NULL) {
        kg_buf_printf(&command, "kaged plugin grant %s ", why->plugin);
        kg_buf_shell(&command, kg_str(refusal->capability));
    }
    kg_json_named_text(json, "command",
                       refusal->capability != NULL ? kg_buf_terminate(&command) : NULL);
}

static void why_put_refusal(struct kg_json_writer *json, const struct why *why,
                            const struct refusal *refusal)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "what", refusal->what);
    kg_json_named_text(json, "reason", refusal->reason);
    kg_json_named_text(json, "capability", refusal->capability);
    kg_json_named_text(json, "closed_by", refusal->closed_by);
    why_put_command(json, why, refusal);
    kg_json_named_text(json, "source", refusal->source);
    kg_json_named_int(json, "count", refusal->count);
    kg_json_named_text(json, "first", refusal->first);
    kg_json_named_text(json, "last", refusal->last);
    kg_json_end(json, '}');
}

static void why_answer(struct why *why)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", why->name);
    kg_json_key(&json, "refusals");
    kg_json_begin(&json, '[');
    for (size_t i = why->count; i > 0; i--)
        why_put_refusal(&json, why, &why->items[i - 1]);
    kg_json_end(&json, ']');
    kg_json_named_text(
        &json, "knowledge",
        why->explained ? "Its cage is watched (sandbox.explain): what it tries and is not given, "
                         "though it is on this machine, is known. Hosts and ports are known from "
                         "the gatekeeper."
                       : cage_spawner_knowledge(why->host->supervisor.spawner));
    kg_json_end(&json, '}');
    why->on_done(why->data, kg_buf_view(&body), NULL);
}

static void why_free(struct why *why)
{
    for (size_t i = 0; i < why->count; i++)
        refusal_free(&why->items[i]);
    grants_free(&why->grants);
    free(why->plugin);
    free(why->name);
    free(why);
}

static void why_ask_next(struct why *why);

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
        why_read_line(why, (struct kg_str){lines.data, length});
        length += newline != NULL;
        lines = (struct kg_str){lines.data + length, lines.length - length};
    }
    why->next++;
    why_ask_next(why);
}

static void why_ask_next(struct why *why)
{
    if (why->next == KG_COUNT(kinds)) {
        why_answer(why);
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
static void why_on_settled(struct loop_message *message)
{
    struct why *why = KG_CONTAINER(message, struct why, settled);
    if (why->host->closing)
        on_lines(why, KG_STR_NULL, NULL);
    else
        why_ask_next(why);
}

void host_why(struct host *host, struct host_named named, host_audit_done_fn *on_done, void *data)
{
    struct manifest *manifest = named.process ? named.process->manifest : named.plugin->manifest;
    struct why *why = kg_alloc(sizeof(*why));
    why->host = host;
    why->name = kg_strdup(host_name(named));
    why->plugin = kg_strdup(named.plugin->name);
    why->explained = policy_is_explained(host->config, named.plugin->name);
    if (manifest != NULL)
        host_grants_make(host, manifest, named.process ? &named.process->whom : &host_nobody,
                         &why->grants);
    why->on_done = on_done;
    why->data = data;
    why->settled.deliver = why_on_settled;
    if (named.process != NULL)
        instance_settle_network(named.process->instance, &why->settled);
    else
        why_ask_next(why);
}
