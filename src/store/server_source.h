/* A program of this machine, or a server somewhere else, as a source. See server_source.c. */
#ifndef KAGED_STORE_SERVER_SOURCE_H
#define KAGED_STORE_SERVER_SOURCE_H

#include "store/store.h"

/* Blocks. Writes its manifest into an empty tree; remarks as store_complete has them. */
int server_source_make(const struct store_source *source, int tree_fd, char ***ret_remarks,
                       struct kg_err *err);

#endif
