/* What of a URL others have to know: whom it leads to. See url.c. */
#ifndef KAGED_URL_H
#define KAGED_URL_H

#include "base/base.h"

#define KG_HOST_BYTES_MAX 253

/*
 * Host and port of an https:// or http:// URL; the host is owned, in lower case, and an IPv6
 * address is without its brackets. False: it is none, or has a user, or cannot be read.
 */
bool kg_url_host(const char *url, char **ret_host, uint16_t *ret_port);
/* The same of HOST:PORT, whose port has to be there and may be 0. */
bool kg_address_split(const char *address, char **ret_host, uint16_t *ret_port);

#endif
