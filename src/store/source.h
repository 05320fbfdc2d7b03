/* What the parts of the store share about sources; see store.h for the rest. */
#ifndef KAGED_STORE_SOURCE_H
#define KAGED_STORE_SOURCE_H

#include "store/store.h"

/* What kaged-unpack calls the format of an archive of this name; NULL: none that it opens. */
const char *source_archive_format(const char *path);
/* Host and port of an https:// URL; the host is owned. False for any other. */
bool source_host(const char *url, char **ret_host, uint16_t *ret_port);
/* The same of an http:// or https:// URL, with a user name or without. */
bool source_web_host(const char *url, char **ret_host, uint16_t *ret_port);

#endif
