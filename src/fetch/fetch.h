/*
 * HTTP requests to the world outside, made by kaged-fetch: a process in a cage that reaches the one
 * host and port that the request is for, started on first use, ended when idle.
 */
#ifndef KAGED_FETCH_H
#define KAGED_FETCH_H

#include "helper/helper.h"

/* Borrowed; must outlive the client. */
struct fetch_place {
    struct helper_place where;
    const struct cage_facts *facts; /* NULL: no cage can be built here */
    uint32_t calls_max;             /* of one user at the same time */
    uint64_t idle_ms;
    void (*on_network)(void *data, const char *whose, const struct gate_event *event); /* or NULL */
    void *data;
};

struct fetch_client;
struct fetch_client *fetch_client_new(const struct fetch_place *place);
/* What is under way ends with an error; on_closed comes when no process is left. */
void fetch_client_close(struct fetch_client *client, void (*on_closed)(void *data), void *data);
void fetch_client_free(struct fetch_client *client); /* takes NULL */

#define FETCH_URL_BYTES    8192
#define FETCH_BODY_BYTES   ((size_t)1 << 20) /* of a request; UTF-8 */
#define FETCH_ANSWER_BYTES ((size_t)1 << 20) /* the most that is kept of an answer */
#define FETCH_HEADERS_MAX  32
#define FETCH_HEADER_BYTES 8192

struct fetch_request {
    const char *whose;  /* for names of cages, and the audit log */
    const char *method; /* "POST" */
    const char *url;
    char *const *headers; /* "Name: value", NULL-ended */
    struct kg_str body;
    uint64_t timeout_ms; /* of the whole exchange */
    size_t answer_max;   /* bytes kept of the answer's body */
};

/* All of it dies with the callback. */
struct fetch_answer {
    int status;         /* of HTTP; 0: there is none, and error says why */
    struct kg_str body; /* what is no UTF-8 in it was replaced */
    bool truncated;
    const char *error; /* "" if there is none */
};
/* Once, never before fetch_ask returns. */
typedef void fetch_done_fn(void *data, const struct fetch_answer *answer);
/* Copies what it needs. */
int fetch_ask(struct fetch_client *client, const struct fetch_request *request,
              fetch_done_fn *on_done, void *data, struct kg_err *err);
/* Whether such a request could be made at all; pure. */
int fetch_check(const struct fetch_request *request, struct kg_err *err);

#endif
