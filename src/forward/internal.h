/* What the files of this folder share. */
#ifndef KAGED_FORWARD_INTERNAL_H
#define KAGED_FORWARD_INTERNAL_H

#include "forward/forward.h"

/* -- socket.c: datagrams to the journal and to syslog; functions block for a bounded time -------
 */

struct forward_socket {
    char *path; /* owned */
    bool is_journal;
    int fd; /* -1: not connected */
};
/* False: the target is not a socket. */
bool forward_socket_read(const char *target, struct forward_socket *ret_socket);
int forward_socket_send(struct forward_socket *where, struct kg_str line, struct kg_err *err);
void forward_socket_free(struct forward_socket *where);

/* -- position.c: what is kept over a restart ----------------------------------------------------
 */

struct forward_record {
    struct audit_position position;
    uint64_t sent;
};
/* -ENOENT: there is none yet. */
int forward_record_read(const char *file, struct forward_record *ret_record, struct kg_err *err);
int forward_record_write(const char *file, const struct forward_record *record, struct kg_err *err);

#endif
