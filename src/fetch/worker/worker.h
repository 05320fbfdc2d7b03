/*
 * What our programs that speak HTTP outward have in common. Each lives in a cage that reaches one
 * host and port, takes lines on stdin, moves its transfers by one loop, and writes lines on stdout.
 *
 *   serve.c  the loop around stdin and stdout
 *   curl.c   how libcurl is set up, and how its transfers move
 */
#ifndef KAGED_FETCH_WORKER_H
#define KAGED_FETCH_WORKER_H

#include "base/base.h"

#include <curl/curl.h>

/* -- serve.c ----------------------------------------------------------------------------------- */

#define FETCH_OPEN_FILES 256 /* for kg_confine: more than all connections at the same time */

struct fetch_program {
    const char *name;     /* for its last words */
    size_t line_max;      /* bytes of a line on stdin */
    struct kg_buf *lines; /* to be written; borrowed */
    void (*on_line)(void *data, struct kg_str line);
    /* Moves all transfers until there is something to read on fd (true), or to write. */
    bool (*turn)(void *data, int fd);
    const char *(*problem)(void *data); /* why it cannot go on; NULL: it can. Or NULL */
    void *data;
};
/* Until stdin ends; returns the exit code, and says on stderr why it is not 0. */
int fetch_serve(const struct fetch_program *program);
/* "NAME: WHY" on stderr; returns the exit code of a failure. */
int fetch_leave(const char *name, const char *why);

/* -- curl.c ------------------------------------------------------------------------------------ */

/* NULL with err if libcurl does not start. */
CURLM *fetch_multi_new(struct kg_err *err);
void fetch_multi_free(CURLM *multi); /* after its transfers */

/*
 * HTTP alone, to the host that is named and to no other: no redirect and no proxy, since the cage
 * reaches one host, and a header may hold a key. URL and headers are borrowed.
 */
void fetch_set_options(CURL *easy, const char *url, struct curl_slist *headers, long connect_ms);
void fetch_set_body(CURL *easy, struct kg_str body); /* makes it a POST; borrowed */
typedef size_t fetch_bytes_fn(char *bytes, size_t size, size_t count, void *data);
/* Who hears of it; words has CURL_ERROR_SIZE bytes. */
void fetch_set_receiver(CURL *easy, fetch_bytes_fn *on_header, fetch_bytes_fn *on_body, char *words,
                        void *transfer);
/* What went wrong, in libcurl's words. */
const char *fetch_words(const char *words, CURLcode result);

/*
 * Waits for the network, for fd to be readable, or for the time to be over; then moves all, and
 * tells of each that ended, by what fetch_set_receiver was given. True if fd is readable.
 */
typedef void fetch_ended_fn(void *transfer, CURLcode result);
bool fetch_turn(CURLM *multi, int fd, int wait_ms, fetch_ended_fn *on_ended);

#endif
