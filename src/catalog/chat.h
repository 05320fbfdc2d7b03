/* A chat as its files share it. */
#ifndef KAGED_CATALOG_CHAT_H
#define KAGED_CATALOG_CHAT_H

#include "catalog/orchestrators.h"
#include "host/asker.h"

/* What is made of the lines of a turn: see chat_lines.c. */
struct chat_answer {
    struct kg_buf said; /* since the last tool was called */
    int64_t hops;       /* agents that work was handed to */
    int64_t input_tokens, output_tokens;
    char *stop;        /* owned; how the turn ended */
    struct kg_err err; /* why it failed; KG_OK: it did not */
    bool told;         /* something */
};

struct catalog_chat {
    struct catalog *catalog;
    struct catalog_orchestrator *orchestrator;
    struct host_asker *asker; /* one reference */
    const struct catalog_chat_ops *ops;
    void *data;
    char *message, *resource; /* owned; no resource: NULL */
    char *session;            /* owned; NULL: it is made */
    struct loop_task begin;   /* so that nothing comes before it was begun */
    struct kg_wait wait;      /* for the pool */
    struct pool_use use;
    size_t scoped;          /* which of the packages is asked */
    bool found;             /* one of them knows the resource */
    struct kg_buf grounds;  /* what they said of it */
    struct host_call *call; /* to one of them; NULL: none */
    struct turn *turn;      /* NULL: it does not run */
    struct chat_answer answer;
    bool cancelled;
    struct kg_err why; /* of that */
};

void chat_take_line(struct catalog_chat *chat, struct kg_str line);
void chat_tell_message(struct catalog_chat *chat, struct kg_str text);
void chat_tell_metadata(struct catalog_chat *chat);
void chat_tell_error(struct catalog_chat *chat, const struct kg_err *err);
void chat_put_answer(const struct catalog_chat *chat, struct kg_buf *out);

/* -- conversations.c --------------------------------------------------------------------------- */

/* Whether a session, as it is shown, is that one, in that project, and his. */
bool catalog_conversation_is_of(const struct kg_node *session, const char *id, const char *project,
                                const struct host_asker *asker);
int catalog_no_conversation(const char *id, struct kg_err *err);
/* Of the org by its id or name. */
struct catalog_orchestrator *catalog_request_orchestrator(const struct catalog *catalog,
                                                          struct kg_str org, struct kg_str id,
                                                          struct kg_err *err);

#endif
