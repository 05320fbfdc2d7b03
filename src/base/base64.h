/* Bytes as text, in the alphabet of RFC 4648 with its padding. See base64.c. */
#ifndef KAGED_BASE64_H
#define KAGED_BASE64_H

#include "base/base.h"

void kg_base64_put(struct kg_buf *out, struct kg_str bytes);
/* Groups of four with their padding, and no stray bits; out may be the text itself. */
bool kg_base64_read(struct kg_str text, unsigned char *out, size_t *ret_length);

#endif
