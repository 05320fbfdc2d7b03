/*
 * Who asks: the operator, his request, and in a session the agent that acts for him. One is made
 * where a request comes in; all that is done for it holds a reference, down to the audit line.
 */
#ifndef KAGED_HOST_ASKER_H
#define KAGED_HOST_ASKER_H

#include "base/base.h"

/* To be read only. Texts live as long as it does. */
struct host_asker {
    const char *operator_id; /* NULL: unknown */
    const char *request_id;  /* NULL: none */
    /* Which agent of which session; none of the three goes without the others. NULL: no agent. */
    const char *project_id, *agent_path, *session_id;
    const char *branch;    /* that the session stands on; NULL: none is known */
    const char *caller_id; /* whose requests these are, where one makes several; NULL: not known */
    uint32_t operator_length, request_length; /* of the first two */
    uint32_t references;                      /* asker.c's, like the next */
    bool is_long;
};

/* Each call writes them several times: nobody counts them anew. Data NULL where there is none. */
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
struct host_asker *host_asker_ref(struct host_asker *asker);
void host_asker_unref(struct host_asker *asker);    /* takes NULL */
void host_asker_cleanup(struct host_asker **asker); /* for kg_auto */

#endif
