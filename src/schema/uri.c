/*
 * URI references after RFC 3986: taken apart, put onto a base, checked to the letter. Texts are
 * never changed beyond that, so two spellings of one URI are two URIs.
 */
#include "schema/internal.h"

/* data NULL: the part is absent, which is not the same as empty. */
struct uri {
    struct kg_str scheme, authority, path, query, fragment;
};

static bool is_scheme_mark(char c)
{
    return c == '+' || c == '-' || c == '.';
}

/* Length of the longest start of the text without any of the stops. */
static size_t length_until(struct kg_str text, const char *stops)
{
    size_t length = 0;
    while (length < text.length && (text.data[length] == '\0' || !strchr(stops, text.data[length])))
        length++;
    return length;
}

/* Cuts off what stands behind the mark, if the mark is there. */
static struct kg_str cut_tail(struct kg_str *text, const char *mark)
{
    size_t length = length_until(*text, mark);
    if (length == text->length)
        return KG_STR_NULL;
    struct kg_str tail = kg_str_from(*text, length + 1);
    text->length = length;
    return tail;
}

static size_t scheme_length(struct kg_str text)
{
    size_t length = 0;
    while (length < text.length &&
           (kg_is_letter(text.data[length]) ||
            (length > 0 && (kg_is_digit(text.data[length]) || is_scheme_mark(text.data[length])))))
        length++;
    return length > 0 && length < text.length && text.data[length] == ':' ? length : 0;
}

static struct uri uri_split(struct kg_str text)
{
    struct uri uri = {0};
    if (text.data == NULL)
        text.data = "";
    uri.fragment = cut_tail(&text, "#");
    uri.query = cut_tail(&text, "?");
    size_t scheme = scheme_length(text);
    if (scheme > 0) {
        uri.scheme = (struct kg_str){text.data, scheme};
        text = kg_str_from(text, scheme + 1);
    }
    if (kg_str_starts(text, "//")) {
        text = kg_str_from(text, 2);
        uri.authority = (struct kg_str){text.data, length_until(text, "/")};
        text = kg_str_from(text, uri.authority.length);
    }
    uri.path = text;
    return uri;
}

/* -- resolving --------------------------------------------------------------------------------- */

static void drop_last_segment(struct kg_buf *out, size_t start)
{
    while (out->length > start && out->data[out->length - 1] != '/')
        out->length--;
    if (out->length > start)
        out->length--;
}

/* RFC 3986, 5.2.4. Segments with their leading slash move from path to out. */
static void put_without_dots(struct kg_str path, struct kg_buf *out)
{
    size_t start = out->length;
    while (path.length > 0) {
        size_t slash = path.data[0] == '/';
        size_t end = slash + length_until(kg_str_from(path, slash), "/");
        struct kg_str name = {path.data + slash, end - slash};
        bool last = end == path.length;
        bool up = kg_str_is(name, "..");
        if (up)
            drop_last_segment(out, start);
        if (!up && !kg_str_is(name, "."))
            kg_buf_append(out, path.data, end);
        else if (last && slash)
            kg_buf_char(out, '/');
        path = kg_str_from(path, end);
    }
}

static void put_merged(const struct uri *base, struct kg_str path, struct kg_buf *out)
{
    kg_auto(kg_buf_free) struct kg_buf merged = {0};
    size_t keep = base->path.length;
    while (keep > 0 && base->path.data[keep - 1] != '/')
        keep--;
    if (base->authority.data != NULL && base->path.length == 0)
        kg_buf_char(&merged, '/');
    kg_buf_append(&merged, base->path.data, keep);
    kg_buf_str(&merged, path);
    put_without_dots(kg_buf_view(&merged), out);
}

static void uri_put_path(const struct uri *base, const struct uri *ref, bool own,
                         struct kg_buf *out)
{
    if (!own && ref->path.length == 0)
        kg_buf_str(out, base->path);
    else if (own || ref->path.data[0] == '/')
        put_without_dots(ref->path, out);
    else
        put_merged(base, ref->path, out);
}

/* RFC 3986, 5.2.2. */
static void put_resolved(const struct uri *base, const struct uri *ref, struct kg_buf *out)
{
    bool own = ref->scheme.data != NULL || ref->authority.data != NULL;
    struct kg_str scheme = ref->scheme.data != NULL ? ref->scheme : base->scheme;
    struct kg_str authority = own ? ref->authority : base->authority;
    struct kg_str query = ref->query;
    if (!own && ref->path.length == 0 && query.data == NULL)
        query = base->query;
    if (scheme.data != NULL) {
        kg_buf_str(out, scheme);
        kg_buf_char(out, ':');
    }
    if (authority.data != NULL) {
        kg_buf_text(out, "//");
        kg_buf_str(out, authority);
    }
    uri_put_path(base, ref, own, out);
    if (query.data != NULL) {
        kg_buf_char(out, '?');
        kg_buf_str(out, query);
    }
}

bool schema_uri_resolve(struct kg_str base, struct kg_str reference, struct kg_buf *ret_uri,
                        struct kg_str *ret_fragment)
{
    if (reference.length > (size_t)2 * SCHEMA_URI_MAX)
        return false;
    struct uri base_parts = uri_split(base);
    struct uri parts = uri_split(reference);
    kg_auto(kg_buf_free) struct kg_buf uri = {0};
    put_resolved(&base_parts, &parts, &uri);
    if (uri.length > SCHEMA_URI_MAX)
        return false;
    kg_buf_str(ret_uri, kg_buf_view(&uri));
    *ret_fragment = parts.fragment;
    return true;
}

void schema_uri_decode(struct kg_str text, struct kg_buf *ret_text)
{
    for (size_t i = 0; i < text.length; i++) {
        int high = i + 2 < text.length ? kg_hex_digit(text.data[i + 1]) : -1;
        int low = i + 2 < text.length ? kg_hex_digit(text.data[i + 2]) : -1;
        bool encoded = text.data[i] == '%' && high >= 0 && low >= 0;
        kg_buf_char(ret_text, encoded ? (char)(high << 4 | low) : text.data[i]);
        i += encoded ? 2 : 0;
    }
}

/* -- checking to the letter -------------------------------------------------------------------- */

/* Unreserved characters, sub-delims, whole percent escapes, and those given. */
static bool consists_of(struct kg_str text, const char *more)
{
    for (size_t i = 0; i < text.length; i++) {
        char c = text.data[i];
        if (c == '%') {
            if (text.length - i < 3 || kg_hex_digit(text.data[i + 1]) < 0 ||
                kg_hex_digit(text.data[i + 2]) < 0)
                return false;
            i += 2;
        } else if (!kg_is_letter(c) && !kg_is_digit(c) &&
                   (c == '\0' || (!strchr("-._~!$&'()*+,;=", c) && !strchr(more, c)))) {
            return false;
        }
    }
    return true;
}

static bool is_port(struct kg_str text)
{
    for (size_t i = 0; i < text.length; i++)
        if (!kg_is_digit(text.data[i]))
            return false;
    return true;
}

/* "[::1]" or "[v1.x]", with nothing but a port behind it. */
static bool is_literal_host(struct kg_str host)
{
    size_t end = length_until(host, "]");
    if (end == host.length)
        return false;
    struct kg_str inner = {host.data + 1, end - 1};
    struct kg_str rest = kg_str_from(host, end + 1);
    if (rest.length > 0 && (rest.data[0] != ':' || !is_port(kg_str_from(rest, 1))))
        return false;
    if (inner.length > 0 && (inner.data[0] | 0x20) == 'v') {
        size_t dot = length_until(inner, ".");
        return dot > 1 && inner.length > dot + 1 && consists_of(kg_str_from(inner, dot + 1), ":");
    }
    return schema_is_ipv6(inner);
}

static bool is_authority(struct kg_str authority)
{
    size_t at = length_until(authority, "@");
    struct kg_str host = authority;
    if (at < authority.length) {
        if (!consists_of((struct kg_str){authority.data, at}, ":"))
            return false;
        host = kg_str_from(authority, at + 1);
    }
    if (host.length > 0 && host.data[0] == '[')
        return is_literal_host(host);
    size_t colon = length_until(host, ":");
    return consists_of((struct kg_str){host.data, colon}, "") &&
           (colon == host.length || is_port(kg_str_from(host, colon + 1)));
}

bool schema_uri_is_valid(struct kg_str text, bool relative_too)
{
    struct uri uri = uri_split(text);
    if (uri.scheme.data == NULL && !relative_too)
        return false;
    /* Without a scheme, a colon in the first segment would be taken for one. */
    size_t first = length_until(uri.path, "/");
    if (uri.scheme.data == NULL && uri.authority.data == NULL &&
        length_until(uri.path, ":") < first)
        return false;
    return (uri.authority.data == NULL || is_authority(uri.authority)) &&
           consists_of(uri.path, ":@/") && consists_of(uri.query, ":@/?") &&
           consists_of(uri.fragment, ":@/?");
}
