/*
 * What the walls of a running plugin's cage tell: its sockets go to the gate, and what the gate
 * lets through or refuses goes to the audit log, as does what the kernel says that it refused.
 */
#include "supervisor/internal.h"

#include <stdlib.h>

#define GATE_TEXT(text) ((text)[0] != '\0' ? AUDIT_V_TEXT(text) : AUDIT_V_NULL)
#define GATE_PORT(port) ((port) != 0 ? AUDIT_V_INT(port) : AUDIT_V_NULL)

#define LOOKED_UP_PORT 443 /* what a name that is looked up is most likely for */

/* The line that would have let it through; NULL: none would. Owned. */
static char *missing_line(const struct gate_event *event)
{
    const char *host = event->declare;
    if (host == NULL || host[0] == '\0')
        return NULL;
    return kg_format(strchr(host, ':') ? "net:[%s]:%u" : "net:%s:%u", host,
                     event->port != 0 ? event->port : LOOKED_UP_PORT);
}

static void log_denied(const struct instance *instance, const struct gate_event *event)
{
    kg_auto(kg_free) char *line = missing_line(event);
    kg_auto(kg_free) char *command =
        line ? kg_format("; to allow it: kaged plugin grant %.*s %s",
                         (int)strcspn(instance->name, "@"), instance->name, line)
             : kg_strdup("");
    if (event->port != 0)
        kg_log_about(KG_WARN, instance->name, "refused to connect to %s port %u: %s%s", event->host,
                     event->port, event->reason, command);
    else
        kg_log_about(KG_WARN, instance->name, "refused to look up %s: %s%s", event->host,
                     event->reason, command);
}

static void note_denied(struct instance *instance, const struct gate_event *event)
{
    char *line = missing_line(event);
    if (line == NULL)
        return;
    free(instance->denied);
    instance->denied = line;
    instance->denied_ns = loop_now_ns(instance->supervisor->loop);
}

const char *instance_denied_since(const struct instance *instance, uint64_t since_ns)
{
    return instance->denied_ns >= since_ns ? instance->denied : NULL;
}

/* -- what is told one by one, and what is counted ---------------------------------------------- */

#define BURST       200   /* events of one sort that are told one by one, */
#define REFILL_MS   10000 /* and one more after each of these */
#define TALLIES_MAX 64    /* what is not among them shares one */

/*
 * Events of one kind, and of what is allowed to one place. A plugin that connects in a loop would
 * fill the disk with them.
 */
struct walls_tally {
    struct walls_tally *next;
    enum gate_event_kind kind;
    char *place; /* owned; "" for all */
    struct kg_burst burst;
    uint32_t counted;       /* that were not told */
    struct gate_event last; /* of them; its texts are owned; bytes and time are of all */
};

static void forget_texts(struct walls_tally *tally)
{
    free((char *)tally->last.host);
    free((char *)tally->last.address);
    free((char *)tally->last.reason);
    free((char *)tally->last.declare);
    tally->last = (struct gate_event){0};
    tally->counted = 0;
}

void walls_forget(struct instance *instance)
{
    while (instance->tallies != NULL) {
        struct walls_tally *tally = instance->tallies;
        instance->tallies = tally->next;
        forget_texts(tally);
        free(tally->place);
        free(tally);
    }
    kg_free(&instance->denied);
}

static struct walls_tally *find_tally(struct instance *instance, enum gate_event_kind kind,
                                      const char *place, size_t *ret_count)
{
    *ret_count = 0;
    for (struct walls_tally *at = instance->tallies; at != NULL; at = at->next, ++*ret_count)
        if (at->kind == kind && strcmp(at->place, place) == 0)
            return at;
    return NULL;
}

/* What is refused names hosts of the plugin's own choice: it is counted together. */
static struct walls_tally *tally_of(struct instance *instance, const struct gate_event *event)
{
    bool by_place = event->kind == GATE_CONNECTED || event->kind == GATE_ENDED;
    kg_auto(kg_free) char *place =
        by_place ? kg_format("%s %u", event->host, event->port) : kg_strdup("");
    size_t count;
    struct walls_tally *tally = find_tally(instance, event->kind, place, &count);
    if (tally == NULL && count >= TALLIES_MAX) {
        place[0] = '\0';
        tally = find_tally(instance, event->kind, place, &count);
    }
    if (tally != NULL)
        return tally;
    tally = kg_alloc(sizeof(*tally));
    tally->kind = event->kind;
    tally->place = kg_steal(&place);
    tally->next = instance->tallies;
    instance->tallies = tally;
    return tally;
}

static void count(struct walls_tally *tally, const struct gate_event *event)
{
    uint32_t counted = tally->counted + 1 + event->suppressed;
    struct gate_event kept = *event;
    kept.host = kg_strdup(event->host);
    kept.address = kg_strdup(event->address);
    kept.reason = kg_strdup(event->reason);
    kept.declare = kg_strdup(event->declare);
    kept.bytes_out += tally->last.bytes_out;
    kept.bytes_in += tally->last.bytes_in;
    kept.duration_ms += tally->last.duration_ms;
    forget_texts(tally);
    tally->last = kept;
    tally->counted = counted;
}

/* -- events ------------------------------------------------------------------------------------ */

static void tell(const struct instance *instance, const struct gate_event *event)
{
    struct audit *audit = instance->supervisor->audit;
    switch (event->kind) {
    case GATE_CONNECTED:
        audit_emit(audit, AUDIT_PLUGIN_NET_CONNECTED, KG_STR_NULL, AUDIT_V_TEXT(instance->name),
                   AUDIT_V_TEXT(event->host), GATE_PORT(event->port), GATE_TEXT(event->address),
                   AUDIT_V_INT(event->suppressed));
        return;
    case GATE_ENDED:
        audit_emit(audit, AUDIT_PLUGIN_NET_ALLOWED, KG_STR_NULL, AUDIT_V_TEXT(instance->name),
                   AUDIT_V_TEXT(event->host), GATE_PORT(event->port), GATE_TEXT(event->address),
                   AUDIT_V_INT((int64_t)event->bytes_out), AUDIT_V_INT((int64_t)event->bytes_in),
                   AUDIT_V_INT((int64_t)event->duration_ms), AUDIT_V_INT(event->suppressed));
        return;
    case GATE_DENIED:
        log_denied(instance, event);
        audit_emit(audit, AUDIT_PLUGIN_NET_DENIED, KG_STR_NULL, AUDIT_V_TEXT(instance->name),
                   AUDIT_V_TEXT(event->host), GATE_PORT(event->port), GATE_TEXT(event->address),
                   AUDIT_V_TEXT(event->reason), GATE_TEXT(event->declare),
                   AUDIT_V_INT(event->suppressed));
        return;
    case GATE_FAILED:
        audit_emit(audit, AUDIT_PLUGIN_NET_FAILED, KG_STR_NULL, AUDIT_V_TEXT(instance->name),
                   AUDIT_V_TEXT(event->host), GATE_PORT(event->port), GATE_TEXT(event->address),
                   AUDIT_V_TEXT(event->reason), AUDIT_V_INT(event->suppressed));
        return;
    case GATE_ASKED: /* by cages of kaged plugin observe alone */
        return;
    }
}

static void on_event(void *data, const struct gate_event *event)
{
    struct instance *instance = data;
    struct walls_tally *tally = tally_of(instance, event);
    if (event->kind == GATE_DENIED)
        note_denied(instance, event);
    if (kg_burst_pass(&tally->burst, BURST, REFILL_MS, loop_now_ms(instance->supervisor->loop))) {
        tell(instance, event);
        return;
    }
    count(tally, event);
    instance_counted(instance);
}

void instance_heard_network(struct instance *instance, const struct gate_event *event)
{
    on_event(instance, event);
}

void walls_tell_counts(struct instance *instance)
{
    for (struct walls_tally *tally = instance->tallies; tally != NULL; tally = tally->next) {
        if (tally->counted == 0)
            continue;
        tally->last.suppressed = tally->counted - 1; /* it was counted itself */
        tell(instance, &tally->last);
        forget_texts(tally);
    }
}

void walls_begin(struct instance *instance, const struct cage_plan *plan)
{
    if (cage_plan_has_network(plan))
        instance->network = gate_cage_new(instance->supervisor->gate, plan, on_event, instance);
}

void walls_take(void *data, uint32_t index, int fd)
{
    struct instance *instance = data;
    if (index == CAGE_SOCKET_TRIED)
        explain_take(instance, fd);
    else if (instance->network != NULL)
        gate_cage_take(instance->network, index, fd);
    else
        kg_close(&fd);
}

void instance_settle_network(struct instance *instance, struct loop_message *when_told)
{
    if (instance->network != NULL)
        gate_cage_settle(instance->network, when_told);
    else
        loop_post(instance->supervisor->loop, when_told);
}

void walls_end(struct instance *instance)
{
    if (instance->network != NULL)
        gate_cage_free(instance->network);
    instance->network = NULL;
    explain_end(instance);
}

void walls_denied(void *data, enum cage_access access, const char *path)
{
    static const char *const names[] = {
        [CAGE_ACCESS_EXECUTE] = "execute",
        [CAGE_ACCESS_WRITE] = "write",
        [CAGE_ACCESS_PROCESS] = "reach",
    };
    struct instance *instance = data;
    uint32_t suppressed;
    if (!instance_may_complain(instance, &suppressed))
        return;
    audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_ACCESS_DENIED, KG_STR_NULL,
               AUDIT_V_TEXT(instance->name), AUDIT_V_TEXT(names[access]), AUDIT_V_TEXT(path),
               AUDIT_V_TEXT("none of its capabilities allows it"), AUDIT_V_INT(suppressed));
}
