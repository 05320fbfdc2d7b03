/*
 * The routes of packages: one is uploaded in pieces, which are passed on as fast as the disk takes
 * them; the others hand on what their path says.
 */
#include "http/internal.h"
#include "http/multipart.h"

#include <stdlib.h>

/* -- uploading --------------------------------------------------------------------------------- */

struct package_body {
    struct http_request *request;
    struct catalog_upload *upload;
    struct multipart multipart;
};

static void body_free(struct package_body *body)
{
    multipart_free(&body->multipart);
    free(body);
}

static void on_body_room(void *data)
{
    struct package_body *body = data;
    http_pause_body(body->request, false);
}

static void on_file_bytes(void *data, struct kg_str bytes)
{
    struct package_body *body = data;
    if (!catalog_upload_bytes(body->upload, body->multipart.file_name, bytes))
        http_pause_body(body->request, true);
}

/* The answer comes from the upload, when it has cleaned up. */
static void body_end(struct package_body *body, const struct kg_err *err_or_null)
{
    struct catalog_upload *upload = body->upload;
    http_on_gone(body->request, NULL, NULL);
    body_free(body);
    catalog_upload_end(upload, err_or_null);
}

static void on_body_piece(void *data, struct kg_str piece)
{
    struct package_body *body = data;
    struct kg_err err = {0};
    if (body->multipart.failed || multipart_feed(&body->multipart, piece, &err) == 0)
        return;
    body->multipart.failed = true;
    body->multipart.err = err;
}

static void on_body_end(void *data, const struct kg_err *err_or_null)
{
    struct package_body *body = data;
    struct kg_err err = {0};
    if (err_or_null != NULL)
        err = *err_or_null;
    else if (body->multipart.failed)
        err = body->multipart.err;
    else
        multipart_end(&body->multipart, &err);
    body_end(body, err.code != KG_OK ? &err : NULL);
}

static void on_body_gone(void *data)
{
    struct package_body *body = data;
    struct kg_err err = {0};
    kg_fail(&err, KG_E_CANCELLED, "the client left before the package had arrived");
    body->request->body_ops = NULL;
    body_end(body, &err);
}

static const struct http_body_ops body_ops = {on_body_piece, on_body_end};

void http_handle_package_upload(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    struct kg_err err = {0};
    struct multipart multipart = {0};
    if (multipart_begin(&multipart, http_header(request, "content-type"), "file", &err) < 0) {
        http_reply_error(request, &err);
        return;
    }
    struct package_body *body = kg_alloc(sizeof(*body));
    body->request = request;
    body->multipart = multipart;
    body->multipart.on_bytes = on_file_bytes;
    body->multipart.data = body;
    body->upload = catalog_upload_begin(&asked, on_body_room, body);
    if (body->upload == NULL) {
        body_free(body);
    } else if (!request->streams) {
        on_body_end(body, NULL);
    } else {
        http_on_gone(request, on_body_gone, body);
        http_read_body(request, &body_ops, body);
    }
}

/* -- the rest ---------------------------------------------------------------------------------- */

void http_handle_packages(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    struct kg_str disabled = http_query_parameter(request, "include_disabled");
    catalog_packages_list(&asked, http_query_parameter(request, "tag"),
                          !kg_str_is(disabled, "false"));
}

void http_handle_package_versions(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_package_versions(&asked, http_path_parameter(request, "pid"),
                             http_query_parameter(request, "source"));
}

void http_handle_package(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_package_show(&asked, http_path_parameter(request, "plugin_id"));
}

void http_handle_package_schema(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_package_schema(&asked, http_path_parameter(request, "pid"));
}

void http_handle_package_change(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_package_enable(&asked, http_path_parameter(request, "plugin_id"),
                           http_body_flag(request, "enabled", true));
}

void http_handle_package_delete(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_package_enable(&asked, http_path_parameter(request, "plugin_id"), false);
}

/* -- what an org sets -------------------------------------------------------------------------- */

void http_handle_package_settings(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_package_settings(&asked, http_path_parameter(request, "pid"),
                             http_query_parameter(request, "version"));
}

void http_handle_package_settings_change(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_package_settings_change(&asked, http_path_parameter(request, "pid"),
                                    http_query_parameter(request, "version"));
}

void http_handle_package_grants(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_grants(&asked, http_path_parameter(request, "pid"));
}

void http_handle_package_grant(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_grant(&asked, http_path_parameter(request, "pid"));
}

void http_handle_package_revoke(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_revoke(&asked, http_path_parameter(request, "pid"),
                   http_query_parameter(request, "capability"));
}

void http_handle_catalog_rotate(struct http_request *request)
{
    const struct catalog_request asked = http_catalog_request(request);
    catalog_rotate(&asked);
}

/* -- what was uploaded, as it was -------------------------------------------------------------- */

static void on_package_bytes(void *data, struct kg_str bytes, const struct kg_err *err_or_null)
{
    if (err_or_null != NULL)
        http_reply_error(data, err_or_null);
    else
        http_reply_text(data, 200, "application/zip", bytes);
}

void http_handle_package_download(struct http_request *request)
{
    struct catalog_request asked = http_catalog_request(request);
    asked.on_answer = on_package_bytes;
    catalog_package_download(&asked, http_path_parameter(request, "plugin_id"));
}
