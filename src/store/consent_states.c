/*
 * The whole life of a consent on one screen: what each event does in each state. An empty cell
 * means that the event is refused there. Only one cell leads into the store: a yes to an offer.
 */
#include "store/consent_internal.h"

struct cell {
    enum consent_state next;
    void (*action)(struct consent *consent); /* NULL: an empty cell */
};

static void consent_states_only_move(struct consent *consent)
{
    (void)consent;
}

#define TO(state, action)                                                                          \
    {                                                                                              \
        CONSENT_##state, action                                                                    \
    }

static const struct cell table[CONSENT_STATE_COUNT][CONSENT_EVENT_COUNT] = {
    [CONSENT_WANTED] =
        {
            [ON_FETCH] = TO(FETCHING, consent_forget_answer), /* why it failed before */
            [ON_NO] = TO(DECLINED, consent_forget_answer),
        },
    [CONSENT_FETCHING] =
        {
            [ON_OFFER] = TO(OFFERED, consent_begin_offer),
            [ON_NO] = TO(DECLINED, consent_stop_fetching),
            [ON_FAILED] = TO(FAILED, consent_states_only_move),
        },
    [CONSENT_OFFERED] =
        {
            [ON_YES] = TO(INSTALLING, consent_states_only_move),
            [ON_FETCH] = TO(FETCHING, consent_end_offer), /* with the packages that it lacks */
            [ON_NO] = TO(DECLINED, consent_end_offer),
            [ON_LATE] = TO(EXPIRED, consent_end_offer),
        },
    [CONSENT_INSTALLING] =
        {
            [ON_TAKEN] = TO(DONE, consent_states_only_move),
            [ON_FAILED] = TO(FAILED, consent_states_only_move),
        },
    [CONSENT_DONE] =
        {
            [ON_AGAIN] = TO(WANTED, consent_forget_answer),
        },
    [CONSENT_DECLINED] =
        {
            [ON_AGAIN] = TO(WANTED, consent_forget_answer),
        },
    [CONSENT_FAILED] =
        {
            [ON_AGAIN] = TO(WANTED, consent_forget_offer),
            [ON_FETCH] = TO(FETCHING, consent_forget_answer),
            [ON_NO] = TO(DECLINED, consent_forget_answer),
        },
    [CONSENT_EXPIRED] =
        {
            [ON_AGAIN] = TO(WANTED, consent_forget_answer),
            [ON_FETCH] = TO(FETCHING, consent_forget_answer),
            [ON_NO] = TO(DECLINED, consent_forget_answer),
        },
};

static const struct {
    const char *name, *meaning;
    bool settled;
} states[CONSENT_STATE_COUNT] = {
    [CONSENT_WANTED] = {"wanted", "nothing was fetched yet; the operator has to allow it", false},
    [CONSENT_FETCHING] = {"fetching", "its files are being fetched and checked", false},
    [CONSENT_OFFERED] = {"offered", "it was fetched and can be inspected; it waits for approval",
                         false},
    [CONSENT_INSTALLING] = {"installing", "the operator agreed, and it is being done", false},
    [CONSENT_DONE] = {"done", "it was done: it is in the store, or runs for its author", true},
    [CONSENT_DECLINED] = {"declined", "the operator said no", true},
    [CONSENT_FAILED] = {"failed", "it could not be fetched, or not be put into the store", true},
    [CONSENT_EXPIRED] = {"expired", "nobody answered in time; what was fetched was removed", true},
};

const char *consent_state_name(enum consent_state state)
{
    return states[state].name;
}

const char *consent_state_meaning(enum consent_state state)
{
    return states[state].meaning;
}

bool consent_state_is_settled(enum consent_state state)
{
    return states[state].settled;
}

bool consent_takes_event(const struct consent *consent, enum consent_event event)
{
    return table[consent->state][event].action != NULL;
}

static void consent_states_tell(struct consent *consent)
{
    for (struct consent_listener *at = consent->queue->listeners, *next; at != NULL; at = next) {
        next = at->next;
        at->on_change(at, consent);
    }
}

bool consent_raise_event(struct consent *consent, enum consent_event event)
{
    const struct cell *cell = &table[consent->state][event];
    if (cell->action == NULL)
        return false;
    consent->state = cell->next;
    consent->changed_ms = kg_wall_ms();
    consent->has_progress = false;
    cell->action(consent);
    consent_keep(consent);
    consent_states_tell(consent);
    return true;
}

static const char *const event_words[CONSENT_EVENT_COUNT] = {
    [ON_AGAIN] = "it is asked for again",
    [ON_FETCH] = "the operator lets it be fetched",
    [ON_OFFER] = "it was fetched and checked",
    [ON_YES] = "the operator takes what was shown",
    [ON_TAKEN] = "it is in the store",
    [ON_NO] = "the operator declines",
    [ON_LATE] = "the time for an answer is over",
    [ON_FAILED] = "something went wrong",
};

struct consent_transition consent_transition(enum consent_state state, size_t index)
{
    for (int event = 0; event < CONSENT_EVENT_COUNT; event++)
        if (table[state][event].action != NULL && index-- == 0)
            return (struct consent_transition){event_words[event], table[state][event].next};
    return (struct consent_transition){NULL, state};
}
