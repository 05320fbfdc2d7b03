/* What the files of import/ share. */
#ifndef KAGED_IMPORT_INTERNAL_H
#define KAGED_IMPORT_INTERNAL_H

#include "import/import.h"

/* Comments and commas before a closing bracket become spaces: what editors allow in JSON. */
void jsonc_plain(struct kg_buf *text);
void import_server_free(struct import_server *server);

#endif
