/*
 * Events on their way from the relay to the loop. A mailbox lives until the loop has nothing more
 * to deliver from it, which may be after its cage. What began is always told to its end; refusals
 * are told at a bounded rate; and while the loop is far behind, or nobody listens, nothing new
 * begins.
 */
#include "cage/gate_internal.h"

#include <stdio.h>
#include <stdlib.h>

#define BACKLOG_MAX 1024
#define REST_MS     1000 /* after which a refusal that was only counted is told */
#define POST_MS     5    /* how long an event may wait for others */

const char *const gate_outcomes[] = {
    [GATE_CONNECTED] = "connected", [GATE_ENDED] = "ended", [GATE_DENIED] = "denied",
    [GATE_FAILED] = "failed",       [GATE_ASKED] = "asked",
};

struct note {
    struct note *next;
    struct gate_event event;
    char host[GATE_HOST_TEXT];
    char address[GATE_ADDRESS_TEXT];
    char reason[GATE_REASON_TEXT];
    char declare[GATE_HOST_TEXT];
};

struct gate_mailbox {
    struct loop_message message;
    struct loop *loop; /* borrowed */
    gate_event_fn *on_event;
    void *data;

    uv_mutex_t lock; /* around what follows, up to the relay's part */
    struct note *notes, **notes_tail;
    size_t count;
    bool posted; /* the message is on its way */
    bool closed;

    /* The relay's: */
    struct loop_timer post; /* so that bytes go first, and many events wake the loop once */
    struct kg_rate told;
    struct note *last; /* owned; the newest that was only counted */
    uint32_t suppressed;
    struct loop_timer rest;
    struct gate_cage *cage; /* borrowed; whose refusals they are */
};

/* -- on the loop ------------------------------------------------------------------------------- */

static struct note *take_note(struct gate_mailbox *mailbox)
{
    uv_mutex_lock(&mailbox->lock);
    struct note *note = mailbox->notes;
    if (note != NULL) {
        mailbox->notes = note->next;
        mailbox->count--;
    }
    if (mailbox->notes == NULL)
        mailbox->notes_tail = &mailbox->notes;
    uv_mutex_unlock(&mailbox->lock);
    return note;
}

static void deliver_notes(struct gate_mailbox *mailbox)
{
    struct note *note;
    while ((note = take_note(mailbox)) != NULL) {
        mailbox->on_event(mailbox->data, &note->event);
        free(note);
    }
}

static void gate_events_destroy(struct gate_mailbox *mailbox)
{
    uv_mutex_destroy(&mailbox->lock);
    free(mailbox);
}

static void gate_events_on_message(struct loop_message *message)
{
    struct gate_mailbox *mailbox = KG_CONTAINER(message, struct gate_mailbox, message);
    uv_mutex_lock(&mailbox->lock);
    mailbox->posted = false;
    bool closed = mailbox->closed;
    uv_mutex_unlock(&mailbox->lock);
    if (closed)
        gate_events_destroy(mailbox);
    else
        deliver_notes(mailbox);
}

/* On the relay. */
static void gate_events_on_post(struct loop_timer *timer)
{
    struct gate_mailbox *mailbox = KG_CONTAINER(timer, struct gate_mailbox, post);
    uv_mutex_lock(&mailbox->lock);
    bool posted = mailbox->posted;
    mailbox->posted = true;
    uv_mutex_unlock(&mailbox->lock);
    if (!posted)
        loop_post(mailbox->loop, &mailbox->message);
}

struct gate_mailbox *gate_mailbox_new(struct gate_cage *cage, struct loop *loop,
                                      gate_event_fn *on_event, void *data)
{
    struct gate_mailbox *mailbox = kg_alloc(sizeof(*mailbox));
    mailbox->message.deliver = gate_events_on_message;
    mailbox->loop = loop;
    mailbox->on_event = on_event;
    mailbox->data = data;
    mailbox->cage = cage;
    mailbox->notes_tail = &mailbox->notes;
    if (uv_mutex_init(&mailbox->lock))
        abort(); /* it only fails without memory */
    return mailbox;
}

void gate_mailbox_close(struct gate_mailbox *mailbox)
{
    deliver_notes(mailbox);
    uv_mutex_lock(&mailbox->lock);
    mailbox->closed = true;
    bool posted = mailbox->posted;
    uv_mutex_unlock(&mailbox->lock);
    if (!posted)
        gate_events_destroy(mailbox);
}

/* -- on the relay ------------------------------------------------------------------------------ */

bool gate_mailbox_is_full(struct gate_mailbox *mailbox)
{
    uv_mutex_lock(&mailbox->lock);
    bool full = mailbox->count >= BACKLOG_MAX;
    uv_mutex_unlock(&mailbox->lock);
    return full;
}

static bool may_tell(struct gate_mailbox *mailbox)
{
    return gate_hearing(mailbox->cage) == GATE_HEARS && !gate_mailbox_is_full(mailbox);
}

static const char *gate_events_copy(const char *text_or_null, char *ret_text, size_t size)
{
    snprintf(ret_text, size, "%s", text_or_null ? text_or_null : "");
    return ret_text;
}

static struct note *new_note(const struct gate_event *event)
{
    struct note *note = kg_alloc(sizeof(*note));
    note->event = *event;
    note->event.host = gate_events_copy(event->host, note->host, sizeof(note->host));
    note->event.address = gate_events_copy(event->address, note->address, sizeof(note->address));
    note->event.reason = gate_events_copy(event->reason, note->reason, sizeof(note->reason));
    note->event.declare = gate_events_copy(event->declare, note->declare, sizeof(note->declare));
    return note;
}

static void put_note(struct gate_mailbox *mailbox, struct note *note)
{
    uv_mutex_lock(&mailbox->lock);
    *mailbox->notes_tail = note;
    mailbox->notes_tail = &note->next;
    mailbox->count++;
    uv_mutex_unlock(&mailbox->lock);
    if (!loop_timer_running(&mailbox->post))
        loop_timer_start(mailbox->cage->gate->relay, &mailbox->post, POST_MS, gate_events_on_post);
}

void gate_tell(struct gate_cage *cage, const struct gate_event *event)
{
    put_note(cage->mailbox, new_note(event));
}

static void gate_events_tell_rest(struct gate_mailbox *mailbox)
{
    if (mailbox->last == NULL)
        return;
    mailbox->last->event.suppressed = mailbox->suppressed - 1; /* it was counted itself */
    mailbox->suppressed = 0;
    put_note(mailbox, kg_steal(&mailbox->last));
}

void gate_tell_last(struct gate_cage *cage)
{
    loop_timer_stop(cage->gate->relay, &cage->mailbox->rest);
    gate_events_tell_rest(cage->mailbox);
    /* Whoever closes it takes what is there. */
    loop_timer_stop(cage->gate->relay, &cage->mailbox->post);
}

void gate_tell_now(struct gate_cage *cage)
{
    struct gate_mailbox *mailbox = cage->mailbox;
    if (may_tell(mailbox))
        gate_events_tell_rest(mailbox);
    if (!loop_timer_running(&mailbox->post))
        return; /* there is nothing */
    loop_timer_stop(cage->gate->relay, &mailbox->post);
    gate_events_on_post(&mailbox->post);
}

static void gate_events_on_rest(struct loop_timer *timer)
{
    struct gate_mailbox *mailbox = KG_CONTAINER(timer, struct gate_mailbox, rest);
    if (!may_tell(mailbox))
        loop_timer_start(mailbox->cage->gate->relay, timer, REST_MS, gate_events_on_rest);
    else
        gate_events_tell_rest(mailbox);
}

/* Keeps the newest, to be told with the count of the others once the flood has passed. */
static void count_only(struct gate_cage *cage, struct note *note)
{
    struct gate_mailbox *mailbox = cage->mailbox;
    free(mailbox->last);
    mailbox->last = note;
    mailbox->suppressed++;
    if (!loop_timer_running(&mailbox->rest))
        loop_timer_start(cage->gate->relay, &mailbox->rest, REST_MS, gate_events_on_rest);
}

void gate_tell_refusal(struct gate_cage *cage, const struct gate_event *event)
{
    struct gate_mailbox *mailbox = cage->mailbox;
    struct note *note = new_note(event);
    if (!may_tell(mailbox) ||
        !kg_rate_pass(&mailbox->told, cage->gate->limits.events_per_sec, kg_monotonic_ms(), NULL)) {
        count_only(cage, note);
        return;
    }
    put_note(mailbox, note);
}
