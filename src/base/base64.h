/* Bytes as text, in the alphabet of RFC 4648 with its padding. See base64.c. */
#ifndef KAGED_BASE64_H
#define KAGED_BASE64_H

#include "base/json/json.h"

void kg_base64_put(struct kg_buf *out, struct kg_str bytes);
/* Groups of four with their padding, and no stray bits; out may be the text itself. */
bool kg_base64_read(struct kg_str text, unsigned char *out, size_t *ret_length);

/*
 * Bytes in JSON: as the text KEY where they are one that JSON does not make much longer, else as
 * KEY_base64.
 */
void kg_json_named_bytes(struct kg_json_writer *json, const char *key, struct kg_str bytes);
/* Appends them, of either; none are none. */
int kg_node_bytes(const struct kg_node *node, const char *key, size_t max, struct kg_buf *ret_bytes,
                  struct kg_err *err);

#endif
