/* The parts of a fetch that its own files share. */
#ifndef KAGED_STORE_FETCH_H
#define KAGED_STORE_FETCH_H

#include "store/internal.h"
#include "store/npm.h"

/* What kaged-unpack says, line by line. Nothing of it is believed, and nothing of it is endless. */
struct fetch_words {
    struct kg_buf line; /* what has come of the next one */
    uint32_t lines;
    bool done;           /* it says that it is done */
    struct kg_err error; /* it says why it is not; code KG_OK: it does not */
    store_progress_fn *on_progress;
    void *data;
};
/* False: that was not a line that it should send, or one too many. */
bool fetch_words_take(struct fetch_words *words, struct kg_str bytes);
void fetch_words_free(struct fetch_words *words);

/* The cage of kaged-unpack: it sees the source and the folder, which it may write to. npm: of a
 * package. */
struct cage_plan *fetch_plan(const struct store *store, const struct store_source *source,
                             const struct npm *npm_or_null, const struct store_limits *limits,
                             const char *folder, struct kg_err *err);

#endif
