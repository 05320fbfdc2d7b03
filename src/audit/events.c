/* The table of events, as events.def has it: one row is the whole truth about one event. */
#include "audit/audit.h"

#include <assert.h>

static const struct audit_event_row rows[AUDIT_EVENT_COUNT] = {
#define AUDIT_EVENT(symbol, name, when, ...) [AUDIT_##symbol] = {name, when, {__VA_ARGS__, NULL}},
#include "audit/events.def"
#undef AUDIT_EVENT
};

const struct audit_event_row *audit_event_row(enum audit_event event)
{
    assert((unsigned)event < AUDIT_EVENT_COUNT);
    return &rows[event];
}
