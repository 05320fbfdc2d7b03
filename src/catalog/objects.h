/* Objects by the hash of what they are; see objects.c. */
#ifndef KAGED_CATALOG_OBJECTS_H
#define KAGED_CATALOG_OBJECTS_H

#include "base/base.h"

#define OBJECTS_HASH_TEXT 65 /* SHA-256 in hexadecimal, and NUL */

struct objects;
struct objects *objects_new(const char *folder);
void objects_free(struct objects *objects); /* takes NULL */

/* Of an open file, from its start. */
int objects_hash(int fd, char ret_hash[OBJECTS_HASH_TEXT], struct kg_err *err);
/* Takes the file, whose hash that is; one that is there already is left alone, and the file too. */
int objects_put(struct objects *objects, const char *hash, const char *file, struct kg_err *err);
bool objects_has(const struct objects *objects, const char *hash);
/* An fd to read it from its start, or a negative errno. It was read once, and is what it should be.
 */
int objects_open(const struct objects *objects, const char *hash, struct kg_err *err);
/* Where it is, for a cage that reads it; owned. */
char *objects_path(const struct objects *objects, const char *hash);
/* One that is not there is no error. */
int objects_remove(struct objects *objects, const char *hash, struct kg_err *err);

#endif
