/* What the files of redact/ share. */
#ifndef KAGED_REDACT_INTERNAL_H
#define KAGED_REDACT_INTERNAL_H

#include "redact/redact.h"

#define REDACT_MIN      4 /* shorter ones are hidden nowhere: the table is by so many bytes */
#define REDACT_WORD_MAX 8 /* shorter ones must stand alone, since they are parts of many words */

/* -- set.c ------------------------------------------------------------------------------------- */

struct redact_value {
    struct redact_value *next; /* in its bucket */
    size_t length;
    bool is_kept;
    char text[];
};

struct redact_set {
    const struct redact_set *more;
    struct redact_value **buckets; /* by the first bytes; NULL: the set is empty */
    size_t bucket_count;           /* a power of two */
    size_t count;
    struct redact_value **seen; /* a ring; owned are the values by their buckets */
    size_t seen_count;
    size_t kept_count;
    size_t longest;
    bool is_full; /* nothing can be shown any more */
};

/* Where values that begin with these REDACT_MIN bytes are. */
static inline size_t redact_bucket(const struct redact_set *set, const char *at)
{
    uint32_t first;
    memcpy(&first, at, sizeof(first));
    return (size_t)((first * 2654435761u) >> 8) & (set->bucket_count - 1);
}

/* -- forms.c ----------------------------------------------------------------------------------- */

/* Calls `take` with each way to write the text that is another than itself. */
void redact_forms(struct kg_str text, void (*take)(void *data, struct kg_str form), void *data);

#endif
