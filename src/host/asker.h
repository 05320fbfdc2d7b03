/*
 * Who asks: the operator, his request, and in a session the agent that acts for him. One is made
 * where a request comes in; all that is done for it holds a reference, down to the audit line.
 */
#ifndef KAGED_HOST_ASKER_H
#define KAGED_HOST_ASKER_H

#include "audit/audit.h"

/* To be read only. Texts live as long as it does. */
struct host_asker {
    const char *operator_id; /* NULL: unknown */
    const char *request_id;  /* NULL: none */
    /* Which agent of which session; none of the three goes without the others. NULL: no agent. */
    const char *project_id, *agent_path, *session_id;
    const char *branch;    /* that the session stands on; NULL: none is known */
    const char *caller_id; /* whose requests these are, where one makes several; NULL: not known */
    const char *traceparent; /* the trace that it is part of; NULL: none is known */
    uint32_t operator_length, request_length; /* of the first two */
    uint32_t references;                      /* asker.c's, like the next */
    bool is_long;
};

/* Each call writes them several times: nobody counts them again. Data NULL where there is none. */
static inline struct kg_str host_asker_operator(const struct host_asker *asker)
{
    return (struct kg_str){asker->operator_id, asker->operator_length};
}
static inline struct kg_str host_asker_request(const struct host_asker *asker)
{
    return (struct kg_str){asker->request_id, asker->request_length};
}

/* Texts are copied; the caller has the first reference. */
struct host_asker *host_asker_new(const char *operator_id, const char *request_id);
/* The same, for an agent of a session: those texts are `agent`'s. */
struct host_asker *host_asker_for(const struct host_asker *asker, const struct host_asker *agent);
/* The same, as one of several requests of that caller. */
struct host_asker *host_asker_called(const struct host_asker *asker, const char *caller_id);
/* The same, as part of that trace. */
struct host_asker *host_asker_traced(const struct host_asker *asker, const char *traceparent);
struct host_asker *host_asker_ref(struct host_asker *asker);
void host_asker_unref(struct host_asker *asker);    /* takes NULL */
void host_asker_cleanup(struct host_asker **asker); /* for kg_auto */

/* audit_emit, for what was asked: with the request's id and its trace. */
void host_asker_emit_traced(const struct host_asker *asker, struct audit *audit,
                            enum audit_event event, const struct audit_value *values, size_t count);
static inline void host_asker_emit_values(const struct host_asker *asker, struct audit *audit,
                                          enum audit_event event, const struct audit_value *values,
                                          size_t count)
{
    if (asker->traceparent == NULL)
        audit_emit_values(audit, event, host_asker_request(asker), values, count);
    else
        host_asker_emit_traced(asker, audit, event, values, count);
}
#define host_asker_emit(asker, audit, event, ...)                                                  \
    host_asker_emit_values(asker, audit, event, (const struct audit_value[]){__VA_ARGS__},         \
                           sizeof((const struct audit_value[]){__VA_ARGS__}) /                     \
                               sizeof(struct audit_value))

#endif
