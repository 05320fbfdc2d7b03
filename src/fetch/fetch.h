/*
 * HTTP requests to the world outside, made by kaged-fetch: a process in a cage that reaches the one
 * host and port that the request is for, started on first use, ended when idle.
 */
#ifndef KAGED_FETCH_H
#define KAGED_FETCH_H

#include "helper/helper.h"

/* The processes. When it is closed, what is under way ends with an error. */
struct helper_pool *fetch_pool_new(const struct helper_pool_place *place);

#define FETCH_URL_BYTES    8192
#define FETCH_BODY_BYTES   ((size_t)1 << 20) /* of a request */
#define FETCH_ANSWER_BYTES ((size_t)2 << 20) /* the most that is kept of an answer */
#define FETCH_TYPE_BYTES   256
#define FETCH_HEADERS_MAX  64
#define FETCH_HEADER_BYTES 8192

struct fetch_request {
    const char *whose;  /* for names of cages, and the audit log */
    const char *method; /* "POST" */
    const char *url;
    char *const *headers; /* "Name: value", NULL-ended */
    struct kg_str body;
    uint64_t timeout_ms; /* of the whole exchange */
    size_t answer_max;   /* bytes kept of the answer's body */
    /* The process reaches every host but those in private networks, where that one must not be. */
    bool is_public;
};

/* All of it dies with the callback. */
struct fetch_answer {
    int status; /* of HTTP; 0: there is none, and error says why */
    struct kg_str body;
    struct kg_str content_type; /* empty: it said none */
    bool truncated;
    const char *error; /* "" if there is none */
};
/* Once, never before fetch_ask returns. The call is gone; it must not close or free the pool. */
typedef void fetch_done_fn(void *data, const struct fetch_answer *answer);
struct fetch_call;
/* Copies what it needs. */
int fetch_ask(struct helper_pool *pool, const struct fetch_request *request, fetch_done_fn *on_done,
              void *data, struct fetch_call **ret_call, struct kg_err *err);
void fetch_cancel(struct fetch_call *call); /* nothing more is told of it */
/* Whether such a request could be made at all; pure. */
int fetch_check(const struct fetch_request *request, struct kg_err *err);

#endif
