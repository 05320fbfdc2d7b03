/*
 * The operator's page: a few files that the program carries, made by scripts/web. They have no
 * secret in them, so that anybody may have them; what they show they ask of the API. Nothing of
 * them is asked of another host, and nothing but them runs in the page: its Content-Security-Policy
 * sees to it.
 */
#include "http/internal.h"

#include <stdlib.h>

struct page_file {
    const char *name; /* with its hash in it; "": the page itself */
    const char *type;
    const char *etag;
    bool gzipped;
    struct kg_str bytes;
};
#define PAGE_FILE(name, type, etag, gzipped, literal)                                              \
    {                                                                                              \
        name, type, etag, gzipped,                                                                 \
        {                                                                                          \
            literal, sizeof(literal) - 1                                                           \
        }                                                                                          \
    }
static const struct page_file files[] = {
#include "page-files.h"
};

static const struct {
    const char *name, *value;
} headers[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
     "require-trusted-types-for 'script'; trusted-types 'none'"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"},
};

/* Whether If-None-Match has it, among others or by "*". */
static bool page_is_known(const struct http_request *request, const char *etag)
{
    struct kg_str rest = http_header(request, "if-none-match");
    while (rest.length > 0) {
        struct kg_str one = kg_str_cut(&rest, ',');
        while (kg_str_starts(one, " "))
            one = kg_str_from(one, 1);
        if (kg_str_starts(one, "W/"))
            one = kg_str_from(one, 2);
        if (kg_str_is(one, etag) || kg_str_is(one, "*"))
            return true;
    }
    return false;
}

static void reply_file(struct http_request *request, const struct page_file *file)
{
    for (size_t i = 0; i < KG_COUNT(headers); i++)
        http_add_header(request, headers[i].name, headers[i].value);
    http_add_header(request, "ETag", file->etag);
    request->cache = file->name[0] != '\0' ? "public, max-age=31536000, immutable" : "no-cache";
    if (page_is_known(request, file->etag)) {
        http_reply_text(request, 304, NULL, KG_STR_NULL);
        return;
    }
    if (file->gzipped)
        http_add_header(request, "Content-Encoding", "gzip");
    http_reply_text(request, 200, file->type, file->bytes);
}

/* The first of them is the page. */
void http_reply_page(struct http_request *request)
{
    reply_file(request, &files[0]);
}

void http_handle_page_file(struct http_request *request)
{
    struct kg_str name = http_path_parameter(request, "file");
    struct kg_err err;
    for (size_t i = 1; i < KG_COUNT(files); i++) {
        if (kg_str_is(name, files[i].name)) {
            reply_file(request, &files[i]);
            return;
        }
    }
    kg_fail(&err, KG_E_NOT_FOUND, "the page has no file \"%.*s\"", KG_STR_CUT(name, KG_CUT_NAME));
    kg_hint(&err, "load the page again: another version of kaged may be running");
    http_reply_error(request, &err);
}
