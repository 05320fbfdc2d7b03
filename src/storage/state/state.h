/*
 * kaged.db, the daemon's own small database: the audit log's signed head, and what the operator
 * decided at run time. WAL, synchronous=NORMAL. A handle belongs to one thread. A place is the path
 * of a file.
 */
#ifndef KAGED_STATE_H
#define KAGED_STATE_H

#include "base/base.h"

struct state;
/* Makes the file and brings its schema up to date. */
struct state *state_open(const char *place, struct kg_err *err);
struct state *state_open_readonly(const char *place, struct kg_err *err);
void state_close(struct state *state);

/* The last word on the audit log: what `audit verify` compares the files with. */
struct state_audit_head {
    uint64_t first_block;         /* the oldest block that is still kept */
    unsigned char first_prev[32]; /* the hash before it */
    uint64_t block;               /* the newest sealed block */
    uint64_t events;              /* events in all sealed blocks, deleted files included */
    unsigned char hash[32];       /* of that block */
    unsigned char signature[64];
};
int state_audit_head_get(struct state *state, struct state_audit_head *ret_head, bool *ret_found,
                         struct kg_err *err);
int state_audit_head_set(struct state *state, const struct state_audit_head *head,
                         struct kg_err *err);
/* The same, and it survives a power failure from the moment this returns. */
int state_audit_head_set_synced(struct state *state, const struct state_audit_head *head,
                                struct kg_err *err);

/* What the operator said about a plugin with enable and disable; wins over config.toml. */
enum state_choice { STATE_UNSAID, STATE_ENABLED, STATE_DISABLED };
int state_plugin_choice_get(struct state *state, struct kg_str plugin,
                            enum state_choice *ret_choice, struct kg_err *err);
int state_plugin_choice_set(struct state *state, struct kg_str plugin, enum state_choice choice,
                            struct kg_err *err);

#endif
