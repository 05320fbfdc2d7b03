/* git as a child process: one command to its end, or one that is spoken with. */
#ifndef KAGED_STORE_UNPACK_GIT_H
#define KAGED_STORE_UNPACK_GIT_H

#include "store/unpack/run.h"

/* Where git works; all owned. */
struct git_place {
    char *home, *repository;
    char **environment;
};
/* All that git sees of an environment; protocol is the one that it may fetch by. Owned. */
char **git_environment(const char *home, const char *config, const char *protocol);

/* Runs it to its end. What git says on stderr becomes the error. NULL: stdout is thrown away. */
int git_run(const struct git_place *place, const char *const *words,
            const struct run_output *output, const struct run_watch *watch, struct kg_err *err);

/* What a child says, read in pieces. */
struct git_stream {
    int fd;
    size_t at, length;
    char bytes[16384];
};
/* Whole, or false. */
bool git_stream_read(struct git_stream *stream, void *ret_data, size_t length);
/* Up to the end mark, which becomes NUL. False if there is none within size, or at the end. */
bool git_stream_until(struct git_stream *stream, char end, char *ret_text, size_t size);
bool git_stream_at_end(struct git_stream *stream);

struct git_child {
    pid_t pid; /* 0: none */
    int in;    /* to its stdin */
    struct git_stream out;
};
extern const struct git_child git_child_none;
int git_child_start(const struct git_place *place, const char *const *words,
                    struct git_child *ret_child, struct kg_err *err);
/* True if it leaves by itself with code 0; its stdin is closed first. */
bool git_child_end(struct git_child *child);
void git_child_free(struct git_child *child); /* kills it if it runs; for kg_auto */

#endif
