/*
 * What a backend of kaged.db does: one row of functions each, chosen when the database is opened.
 * A backend's handle has a struct state in it, and its schema comes from numbered .sql files.
 */
#ifndef KAGED_STATE_INTERNAL_H
#define KAGED_STATE_INTERNAL_H

#include "storage/state/state.h"

struct state_backend {
    struct state *(*open)(const char *place, struct kg_err *err);
    struct state *(*open_readonly)(const char *place, struct kg_err *err);
    void (*close)(struct state *state); /* never NULL */
    int (*audit_head_get)(struct state *state, struct state_audit_head *ret_head, bool *ret_found,
                          struct kg_err *err);
    int (*audit_head_set)(struct state *state, const struct state_audit_head *head, bool synced,
                          struct kg_err *err);
    int (*plugin_choice_get)(struct state *state, struct kg_str plugin,
                             enum state_choice *ret_choice, struct kg_err *err);
    int (*plugin_choice_set)(struct state *state, struct kg_str plugin, enum state_choice choice,
                             struct kg_err *err);
};

struct state {
    const struct state_backend *backend;
};

extern const struct state_backend state_sqlite; /* the place is the path of a file */

#endif
