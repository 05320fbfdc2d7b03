/* What the files of import/ share. */
#ifndef KAGED_IMPORT_INTERNAL_H
#define KAGED_IMPORT_INTERNAL_H

#include "import/import.h"

/* Comments and commas before a closing bracket become spaces: what editors allow in JSON. */
void jsonc_plain(struct kg_buf *text);
void import_server_free(struct import_server *server);

/* Whether a word by itself is one: "ghp_...", "sk-...", a JSON web token. */
bool import_word_is_key(struct kg_str word);
/* Pure but for the environment and PATH. What becomes of one; it is taken over into the list. */
void import_add(struct import_list *list, const struct import_entry *entry, const char *client,
                const char *path);

#endif
