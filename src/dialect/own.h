/* What is the same in the dialects of our own: of plugins (kaged.c) and of scripts (script.c). */
#ifndef KAGED_DIALECT_OWN_H
#define KAGED_DIALECT_OWN_H

#include "dialect/dialect.h"

/* How a child is judged by what it sends. */
#define DIALECT_OWN_RULES                                                                          \
    {                                                                                              \
        .begins = PEER_SILENT, .takes_any_id = false, .rate_limited = "system.rate_limited",       \
        .verdicts = {                                                                              \
            [PEER_OVERSIZE] = PEER_FATAL,     [PEER_UNKNOWN_ID] = PEER_FATAL,                      \
            [PEER_BAD_RESPONSE] = PEER_FATAL, [PEER_TOO_EARLY] = PEER_FATAL,                       \
            [PEER_BAD_REQUEST] = PEER_MILD,   [PEER_BATCH] = PEER_MILD,                            \
            [PEER_UNREAD] = PEER_FATAL,                                                            \
        },                                                                                         \
    }

/* Who we are, and as whom it is started; into the open object of a greeting. */
void dialect_put_identity(const struct dialect_talk *talk, struct kg_json_writer *json);
/* Why it is not an answer to a ping; NULL: it is one. */
const char *dialect_check_pong(struct kg_str result);

#endif
