/* Messages with file descriptors between processes of ours; see message.c. */
#ifndef KAGED_CAGE_MESSAGE_H
#define KAGED_CAGE_MESSAGE_H

#include "base/base.h"

#define CAGE_MESSAGE_FDS 3

/* Sends one message with its fds. -EAGAIN if the socket is full and does not block. */
int cage_message_send(int socket, const void *data, size_t size, const int *fds, size_t fd_count);
/*
 * 1 for a message of exactly that size, 0 at the end of file, or a negative errno. The fds that
 * came with it are the caller's, the rest of ret_fds is -1.
 */
int cage_message_receive(int socket, void *ret_data, size_t size, int ret_fds[CAGE_MESSAGE_FDS]);

/* A file in memory with these bytes, to be read from its start; or a negative errno. */
int cage_memory_file(const char *name, const void *data, size_t length, struct kg_err *err);

#endif
