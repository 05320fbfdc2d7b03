/* Pure, and for texts of strangers: what could be read in two ways is not read. */
#include "base/url.h"

/* A name, an IPv4 address, or an IPv6 address in brackets, which it is returned without. */
static bool url_read_host(struct kg_str authority, struct kg_str *ret_host, struct kg_str *ret_port)
{
    const char *colon = memrchr(authority.data, ':', authority.length);
    struct kg_str host = authority;
    *ret_port = KG_STR_NULL;
    if (authority.length > 0 && authority.data[0] == '[') {
        const char *close = memchr(authority.data, ']', authority.length);
        if (close == NULL)
            return false;
        host = (struct kg_str){authority.data + 1, (size_t)(close - authority.data - 1)};
        if (colon != NULL && colon < close)
            colon = NULL;
        if (colon == NULL && close + 1 != authority.data + authority.length)
            return false;
        if (colon != NULL && colon != close + 1)
            return false;
    } else if (colon != NULL) {
        host.length = (size_t)(colon - authority.data);
    }
    if (colon != NULL)
        *ret_port =
            (struct kg_str){colon + 1, (size_t)(authority.data + authority.length - colon - 1)};
    *ret_host = host;
    return host.length > 0 && host.length <= KG_HOST_BYTES_MAX;
}

static bool host_is_plain(struct kg_str host)
{
    for (size_t i = 0; i < host.length; i++)
        if (!kg_is_letter_or_digit(host.data[i]) && strchr("-.:_", host.data[i]) == NULL)
            return false;
    return host.data[0] != '-' && host.data[0] != '.';
}

static bool read_authority(struct kg_str authority, int64_t usual_port, int64_t least,
                           char **ret_host, uint16_t *ret_port)
{
    struct kg_str host, port;
    int64_t number = usual_port;
    if (!url_read_host(authority, &host, &port) || !host_is_plain(host))
        return false;
    if (port.data == NULL && usual_port < 0)
        return false;
    if (port.data != NULL &&
        (!kg_str_to_int(port, &number) || number < least || number > UINT16_MAX))
        return false;
    char *name = kg_str_dup(host);
    for (char *at = name; *at != '\0'; at++)
        *at = kg_is_letter(*at) ? (char)(*at | 0x20) : *at;
    *ret_host = name;
    *ret_port = (uint16_t)number;
    return true;
}

bool kg_url_host(const char *url, char **ret_host, uint16_t *ret_port)
{
    static const struct {
        const char *scheme;
        uint16_t port;
    } schemes[] = {{"https://", 443}, {"http://", 80}};
    for (size_t i = 0; i < KG_COUNT(schemes); i++) {
        size_t length = strlen(schemes[i].scheme);
        if (strncasecmp(url, schemes[i].scheme, length) != 0)
            continue;
        struct kg_str authority = {url + length, strcspn(url + length, "/?#")};
        return read_authority(authority, schemes[i].port, 1, ret_host, ret_port);
    }
    return false;
}

bool kg_address_split(const char *address, char **ret_host, uint16_t *ret_port)
{
    return read_authority(kg_str(address), -1, 0, ret_host, ret_port);
}
