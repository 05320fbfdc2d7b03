/*
 * Texts that must not be shown, wherever they stand: in what a plugin says or writes, in a log, in
 * an answer. There is one way to hide them, for all who show something.
 */
#ifndef KAGED_REDACT_H
#define KAGED_REDACT_H

#include "base/base.h"

#define REDACT_MARK "[redacted]"

/* A set may grow at any time; what was added stays until the set goes. It belongs to one thread. */
struct redact_set;
/* What another set has is hidden, too; that one is borrowed, and may grow as well. */
struct redact_set *redact_set_new(const struct redact_set *more_or_null);
void redact_set_free(struct redact_set *set); /* takes NULL */

enum redact_kind {
    REDACT_KEPT, /* a secret that we were told: also as base64, in a URL, in JSON */
    REDACT_SEEN, /* what was seen in a place that is secret: only the latest are remembered */
};
/* Texts that are too short to mean anything by themselves are passed over. */
void redact_set_add(struct redact_set *set, struct kg_str text, enum redact_kind kind);

/*
 * Appends the text with all of them hidden; true if one was in it. Valid JSON stays that. Of a text
 * that was cut, the beginning of one at its end is hidden, too. A NULL set hides nothing.
 */
bool redact_put(const struct redact_set *set, struct kg_str text, bool is_cut,
                struct kg_buf *ret_text);

#endif
