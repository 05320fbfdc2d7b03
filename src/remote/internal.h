/*
 * kaged-remote: an MCP server somewhere else as a child on stdio, so that it is caged, bounded and
 * audited like every other. Its cage reaches one host and port.
 *
 *   stdin line -> message.c: what it is -> exchange.c: a POST -> the server
 *   the server -> JSON, or a stream of events -> stdout lines
 */
#ifndef KAGED_REMOTE_INTERNAL_H
#define KAGED_REMOTE_INTERNAL_H

#include "base/json/json.h"

#define REMOTE_LINE_BYTES ((size_t)32 << 20) /* of a message, either way */

/* -- messages, see message.c ------------------------------------------------------------------- */

enum remote_kind { REMOTE_REQUEST, REMOTE_NOTIFICATION, REMOTE_ANSWER };

/* What a line of ours is, as far as HTTP has to know it. */
struct remote_message {
    enum remote_kind kind;
    int64_t id; /* of a request */
    char method[160];
    char revision[32];  /* of a modern one, in its _meta; "": legacy */
    struct kg_buf name; /* of the tool, prompt or resource that it is about; owned */
};
/* False: it is none. */
bool remote_message_read(struct kg_str line, struct remote_message *ret_message);
void remote_message_free(struct remote_message *message); /* also for kg_auto */
/* The request that a notifications/cancelled is about; 0: none. */
int64_t remote_cancelled(struct kg_str line);

/* What a server sent becomes lines: one for each message of it, whatever white space it has. */
void remote_put_lines(struct kg_buf *lines, struct kg_str json);
/* Whether it answers the request of that id. */
bool remote_answers(struct kg_str json, int64_t id);
/* The revision that an answer to initialize names; "" if it names none. */
void remote_read_revision(struct kg_str json, char *revision, size_t size);
/* The error of a request: what the server said of it in JSON-RPC, or else our own words. */
void remote_put_error(struct kg_buf *lines, int64_t id, struct kg_str body, const char *words);

/* -- exchanges, see exchange.c ----------------------------------------------------------------- */

struct remote;
/* url and headers ("Name: value", NULL-ended) are borrowed, like lines, where answers go. */
struct remote *remote_new(const char *url, char *const *headers, struct kg_buf *lines,
                          struct kg_err *err);
/* One line from our side. */
void remote_send(struct remote *remote, struct kg_str line);
/* Moves all of them until there is something to read on fd (true), or to write. */
bool remote_turn(struct remote *remote, int fd);
/* Why it cannot go on; NULL: it can. */
const char *remote_problem(const struct remote *remote);
/* Ends the session, if there is one, and frees all. */
void remote_free(struct remote *remote);

#endif
