/* What the files of helper/ share. */
#ifndef KAGED_HELPER_INTERNAL_H
#define KAGED_HELPER_INTERNAL_H

#include "helper/helper.h"

/* -- an output of a child, read while it comes and kept up to a bound, see child.c ------------- */

struct helper_output {
    struct loop *loop;
    struct loop_fd end;
    struct kg_buf text;
    struct helper_errors kept;
    bool truncated;
    void (*on_bytes)(void *data, struct kg_str bytes); /* gets them instead; or NULL */
    void *data;
};
void helper_output_begin(struct helper_output *output, struct loop *loop, int fd);
/* Reads what is there now, and closes it: for when nobody is left who could write more. */
void helper_output_finish(struct helper_output *output);

/* Whether more was said on stderr than is kept. */
bool helper_child_said_more(const struct helper_child *child);

/* Its caller left: on_done is not called, and the process is told by "cancel" with its id. */
void helper_withdraw(struct helper_call *call);
/* The data of the call that has this id on the wire, or NULL. */
void *helper_find(const struct helper *helper, int64_t id);
/* It did what it should not: tells on_misfit, and kills it. */
void helper_give_up(struct helper *helper, const char *what);

#endif
