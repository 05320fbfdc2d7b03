/*
 * The routes of authentication: a browser comes in by its launch URL and leaves by logging out; the
 * operator makes, lists and revokes API tokens. A token's text is in the answer that makes it, and
 * nowhere else.
 */
#include "http/auth_internal.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#define DAY_MS         ((int64_t)24 * 60 * 60 * 1000)
#define EXPIRY_MAX_MS  (3660 * DAY_MS)
#define DEFAULT_SCOPES "plugins:read,plugins:call"

static struct http_server *server_of(const struct http_request *request)
{
    return http_connection_server(request->connection);
}

/* Without it the server has a unix socket only, and nothing to manage. */
static struct http_auth *auth_of(struct http_request *request)
{
    struct kg_err err;
    struct http_auth *auth = server_of(request)->auth;
    if (auth != NULL)
        return auth;
    kg_fail(&err, KG_E_NOT_FOUND, "this server keeps no credentials");
    http_reply_error(request, &err);
    return NULL;
}

/* 0: never */
static const char *time_text(int64_t wall_ms, char ret_text[KG_TIME_TEXT])
{
    if (wall_ms == 0)
        return NULL;
    kg_time_format(wall_ms, ret_text);
    return ret_text;
}

static void put_scopes(struct kg_json_writer *json, uint64_t scopes)
{
    kg_json_named_begin(json, "scopes", '[');
    for (size_t i = 0; http_scope_name(i) != NULL; i++)
        if (scopes & UINT64_C(1) << i)
            kg_json_text(json, http_scope_name(i));
    kg_json_end(json, ']');
}

/* -- the launch URL ---------------------------------------------------------------------------- */

/* "" unless it listens on TCP. */
static void put_base_url(const struct http_server *server, struct kg_buf *out)
{
    if (server->address[0] != '\0')
        kg_buf_printf(out, "http://%s", server->address);
}

static int auth_routes_make_url(struct http_server *server, const char *operator_id,
                                struct kg_buf *ret_url, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf base = {0};
    put_base_url(server, &base);
    if (base.length == 0) {
        kg_fail(err, KG_E_CONFLICT, "the daemon does not listen on TCP, so no browser reaches it");
        return kg_hint(err, "set daemon.bind, or free its port, and start the daemon again");
    }
    if (server->auth->mode == HTTP_AUTH_PROXY) {
        kg_fail(err, KG_E_CONFLICT, "auth.mode is proxy: browsers have to use the proxy");
        return -EINVAL;
    }
    if (server->auth->mode == HTTP_AUTH_LOCAL)
        return http_launch_make(server->auth, kg_buf_terminate(&base), operator_id, ret_url, err);
    kg_buf_printf(ret_url, "%s/", kg_buf_terminate(&base));
    return 0;
}

int http_server_offer_launch(struct http_server *server, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf url = {0};
    if (server->address[0] == '\0' || server->auth->mode != HTTP_AUTH_LOCAL)
        return 0;
    return auth_routes_make_url(server, server->own_name, &url, err);
}

void http_handle_launch_make(struct http_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf url = {0}, body = {0};
    struct kg_err err = {0};
    const char *operator_id = http_operator(request);
    struct http_auth *auth = auth_of(request);
    if (auth == NULL)
        return;
    if (auth_routes_make_url(server_of(request), operator_id ? operator_id : "", &url, &err) < 0) {
        http_reply_error(request, &err);
        return;
    }
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, "url", kg_buf_view(&url));
    kg_json_named_time(&json, "expires_at",
                       auth->mode == HTTP_AUTH_LOCAL ? auth->launch.expires_ms : 0);
    kg_json_end(&json, '}');
    http_reply(request, 201, kg_buf_view(&body));
}

/* A secret that is answered once its hash is kept. */
struct entry {
    struct http_request *request;
    char secret[HTTP_TOKEN_TEXT];
};

static struct entry *auth_routes_entry_new(struct http_request *request)
{
    struct entry *entry = kg_alloc(sizeof(*entry));
    entry->request = request;
    return entry;
}

static void entry_free(struct entry *entry)
{
    sodium_memzero(entry, sizeof(*entry));
    free(entry);
}

/* Answers with the cookie, and sends the browser on to where the token is not in the URL. */
static void on_session_open(void *data, struct http_credential *session,
                            const struct kg_err *err_or_null)
{
    struct entry *entry = data;
    struct http_request *request = entry->request;
    struct http_auth *auth = server_of(request)->auth;
    char expires[KG_TIME_TEXT];
    if (err_or_null != NULL) {
        http_reply_error(request, err_or_null);
        entry_free(entry);
        return;
    }
    kg_map_set(auth->accepted, kg_str(session->id.text), auth);
    audit_emit(auth->audit, AUDIT_AUTH_SESSION_OPENED, kg_str(request->request_id),
               AUDIT_V_TEXT(session->operator_id), AUDIT_V_TEXT(session->id.text),
               AUDIT_V_TEXT(http_connection_source(request->connection)->text),
               AUDIT_V_TEXT(time_text(session->expires_ms, expires)));
    http_auth_set_cookie(request, kg_str(entry->secret), auth->session_ms / 1000);
    entry_free(entry);
    http_add_header(request, "Location", "/");
    http_reply_text(request, 303, "text/plain", KG_STR("welcome\n"));
}

static void auth_routes_launch(struct http_request *request, struct kg_str token)
{
    struct http_auth *auth = server_of(request)->auth;
    struct http_credential wanted = {
        .kind = STATE_SESSION,
        .name = "",
        .scopes = HTTP_SCOPES_ALL,
        .expires_ms = kg_wall_ms() + auth->session_ms,
    };
    struct kg_err err = {0};
    http_add_header(request, "Referrer-Policy", "no-referrer");
    if (!http_launch_use(&auth->launch, token, wanted.operator_id)) {
        kg_fail(&err, KG_E_UNAUTHENTICATED, "the launch URL was already used, or is not ours");
        kg_hint(&err, "kaged auth open makes a new one");
        http_auth_deny(request, "launch", &err);
        http_reply_error(request, &request->refusal->err);
        return;
    }
    struct entry *entry = auth_routes_entry_new(request);
    http_secret_make(entry->secret);
    if (http_credentials_add(&auth->credentials, &wanted, kg_str(entry->secret), on_session_open,
                             entry, &err) < 0) {
        http_reply_error(request, &err);
        entry_free(entry);
    }
}

/* A HEAD only looks: it must not use the token up. Nor is there a browser on the unix socket. */
static bool can_launch(const struct http_request *request, struct kg_str token)
{
    const struct http_server *server = server_of(request);
    return token.data != NULL && request->method == HTTP_GET &&
           http_connection_source(request->connection)->tcp &&
           server->auth->mode == HTTP_AUTH_LOCAL;
}

void http_handle_root(struct http_request *request)
{
    struct kg_str token = http_query_parameter(request, "token");
    if (can_launch(request, token))
        auth_routes_launch(request, token);
    else
        http_reply_page(request);
}

void http_handle_launch(struct http_request *request)
{
    struct kg_err err;
    struct kg_str token = http_query_parameter(request, "token");
    if (can_launch(request, token)) {
        auth_routes_launch(request, token);
        return;
    }
    kg_fail(&err, KG_E_USAGE, "there is no launch URL to use here");
    http_reply_error(request, &err);
}

/* -- the session ------------------------------------------------------------------------------- */

void http_handle_session(struct http_request *request)
{
    struct http_auth *auth = server_of(request)->auth;
    char csrf[HTTP_SECRET_TEXT];
    bool has_session = request->via == HTTP_VIA_SESSION;
    const struct http_credential *credential = NULL;
    if (has_session) {
        http_auth_csrf(http_auth_cookie(request), csrf);
        credential = http_credentials_named(&auth->credentials, STATE_SESSION,
                                            kg_str(request->credential_id.text));
    }
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "operator", http_operator(request));
    put_scopes(&json, request->scopes);
    kg_json_named_text(&json, "csrf", has_session ? csrf : NULL);
    kg_json_named_text(&json, "via", http_via_names[request->via]);
    kg_json_named_time(&json, "expires_at", credential ? credential->expires_ms : 0);
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

static void on_session_closed(void *data, struct http_credential *session,
                              const struct kg_err *err_or_null)
{
    struct http_request *request = data;
    if (err_or_null != NULL) {
        http_reply_error(request, err_or_null);
        return;
    }
    audit_emit(server_of(request)->auth->audit, AUDIT_AUTH_SESSION_CLOSED,
               kg_str(request->request_id), AUDIT_V_TEXT(request->operator_id),
               AUDIT_V_TEXT(session->id.text));
    http_server_doubt(server_of(request));
    http_auth_set_cookie(request, KG_STR(""), 0);
    http_reply_text(request, 204, NULL, KG_STR_NULL);
}

void http_handle_session_end(struct http_request *request)
{
    struct http_auth *auth = auth_of(request);
    struct kg_err err = {0};
    if (auth == NULL)
        return;
    struct http_credential *session = http_credentials_named(&auth->credentials, STATE_SESSION,
                                                             kg_str(request->credential_id.text));
    if (session != NULL) {
        http_credentials_remove(&auth->credentials, session, on_session_closed, request);
        return;
    }
    kg_fail(&err, KG_E_CONFLICT, "the request has no session that could be closed");
    http_reply_error(request, &err);
}

/* -- tokens ------------------------------------------------------------------------------------ */

/* With its text in the answer that makes it. */
static void put_token(struct kg_json_writer *json, const struct http_credential *token,
                      const char *text_or_null)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "id", token->id.text);
    kg_json_named_text(json, "name", token->name);
    put_scopes(json, token->scopes);
    kg_json_named_text(json, "operator", token->operator_id);
    kg_json_named_time(json, "created_at", token->created_ms);
    kg_json_named_time(json, "expires_at", token->expires_ms);
    kg_json_named_time(json, "last_used_at", token->last_used_ms);
    kg_json_named_bool(json, "expired", http_credential_has_expired(token));
    kg_json_named_text(json, "profile", token->profile[0] != '\0' ? token->profile : NULL);
    kg_json_named_text(json, "user_id", token->principal[0] != '\0' ? token->principal : NULL);
    if (text_or_null != NULL)
        kg_json_named_text(json, "token", text_or_null);
    kg_json_end(json, '}');
}

void http_handle_tokens(struct http_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    const struct http_auth *auth = auth_of(request);
    if (auth == NULL)
        return;
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "tokens", '[');
    for (size_t i = 0; i < auth->credentials.count; i++)
        if (auth->credentials.items[i]->counts && auth->credentials.items[i]->kind == STATE_TOKEN)
            put_token(&json, auth->credentials.items[i], NULL);
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

static int take_scopes(const struct kg_node *node, struct http_credential *wanted,
                       struct kg_err *err)
{
    if (node == NULL)
        return http_scopes_parse(KG_STR(DEFAULT_SCOPES), &wanted->scopes, err);
    for (uint32_t i = 0; i < node->count; i++) {
        uint64_t scope = 0;
        if (http_scopes_parse(node->items[i].text, &scope, err) < 0)
            return -EINVAL;
        wanted->scopes |= scope;
    }
    return 0;
}

/* "30d" is from now on; a time is as it stands. */
static int take_expiry(struct kg_str text, struct http_credential *wanted, struct kg_err *err)
{
    int64_t now_ms = kg_wall_ms(), told_ms = 0;
    if (text.data == NULL)
        return 0;
    bool fits = kg_time_parse(text, &told_ms);
    bool span = fits && strchr("smhd", text.data[text.length - 1]) != NULL;
    int64_t left_ms = span ? now_ms - told_ms : told_ms - now_ms; /* a span is told backward */
    if (fits && left_ms > 0 && left_ms <= EXPIRY_MAX_MS) {
        wanted->expires_ms = now_ms + left_ms;
        return 0;
    }
    kg_fail(err, KG_E_USAGE, "\"expires\" must be a time to come within ten years");
    return kg_hint(err, "write a span like 12h or 30d, a date, or 2030-11-15T22:00:00Z");
}

/* A token of somebody's has what his roles have, unless it is to have less. */
static int auth_routes_take_principal(const struct http_auth *auth, struct kg_str principal,
                                      struct http_credential *wanted, struct kg_err *err)
{
    const char *name = NULL, *id = NULL;
    if (principal.data == NULL)
        return 0;
    id = auth->catalog ? catalog_principal_find(auth->catalog, principal, &name) : NULL;
    if (id == NULL) {
        kg_fail(err, KG_E_NOT_FOUND, "there is no user \"%.*s\"",
                KG_STR_CUT(principal, KG_CUT_NAME));
        return kg_hint(err, "kaged org users lists all users");
    }
    kg_str_copy(kg_str(id), wanted->principal, sizeof(wanted->principal));
    kg_str_copy(kg_str(name), wanted->operator_id, sizeof(wanted->operator_id));
    return 0;
}

static int auth_routes_read_wish(const struct http_auth *auth, const struct kg_node *body,
                                 struct http_credential *wanted, struct kg_err *err)
{
    const struct kg_node *scopes = kg_node_get(body, "scopes");
    struct kg_str principal = kg_node_text(body, "user");
    int result = auth_routes_take_principal(auth, principal, wanted, err);
    if (result == 0 && principal.data != NULL && scopes == NULL)
        wanted->scopes = http_scopes_of_role(CATALOG_SYS_ADMIN);
    else if (result == 0)
        result = take_scopes(scopes, wanted, err);
    kg_str_copy(kg_node_text(body, "profile"), wanted->profile, sizeof(wanted->profile));
    return result < 0 ? result : take_expiry(kg_node_text(body, "expires"), wanted, err);
}

static void tell_created(struct http_auth *auth, const struct http_request *request,
                         const struct http_credential *token)
{
    kg_auto(kg_buf_free) struct kg_buf scopes = {0};
    char expires[KG_TIME_TEXT];
    http_scopes_print(token->scopes, &scopes);
    audit_emit(auth->audit, AUDIT_AUTH_TOKEN_CREATED, kg_str(request->request_id),
               AUDIT_V_TEXT(http_operator(request)), AUDIT_V_TEXT(token->id.text),
               AUDIT_V_TEXT(token->name), AUDIT_V_STR(kg_buf_view(&scopes)),
               AUDIT_V_TEXT(time_text(token->expires_ms, expires)));
}

static void on_token_created(void *data, struct http_credential *token,
                             const struct kg_err *err_or_null)
{
    struct entry *entry = data;
    struct http_request *request = entry->request;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    if (err_or_null != NULL) {
        http_reply_error(request, err_or_null);
        entry_free(entry);
        return;
    }
    tell_created(server_of(request)->auth, request, token);
    struct kg_json_writer json = kg_json_writer(&body);
    put_token(&json, token, entry->secret);
    entry_free(entry);
    http_reply(request, 201, kg_buf_view(&body));
    sodium_memzero(body.data, body.length);
}

void http_handle_token_create(struct http_request *request)
{
    kg_auto(kg_free) char *name = http_body_text(request, "name");
    struct http_credential wanted = {.kind = STATE_TOKEN, .name = name};
    struct kg_err err = {0};
    struct http_auth *auth = auth_of(request);
    if (auth == NULL)
        return;
    struct entry *entry = auth_routes_entry_new(request);
    memcpy(wanted.operator_id, request->operator_id, HTTP_OPERATOR_MAX);
    memcpy(entry->secret, HTTP_TOKEN_PREFIX, sizeof(HTTP_TOKEN_PREFIX));
    http_secret_make(entry->secret + sizeof(HTTP_TOKEN_PREFIX) - 1);
    if (auth_routes_read_wish(auth, http_body_tree(request), &wanted, &err) < 0 ||
        http_credentials_add(&auth->credentials, &wanted, kg_str(entry->secret), on_token_created,
                             entry, &err) < 0) {
        http_reply_error(request, &err);
        entry_free(entry);
    }
}

static void on_token_revoked(void *data, struct http_credential *token,
                             const struct kg_err *err_or_null)
{
    struct http_request *request = data;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    if (err_or_null != NULL) {
        http_reply_error(request, err_or_null);
        return;
    }
    audit_emit(server_of(request)->auth->audit, AUDIT_AUTH_TOKEN_REVOKED,
               kg_str(request->request_id), AUDIT_V_TEXT(http_operator(request)),
               AUDIT_V_TEXT(token->id.text), AUDIT_V_TEXT(token->name));
    http_server_doubt(server_of(request));
    put_token(&json, token, NULL);
    http_reply(request, 200, kg_buf_view(&body));
}

void http_handle_token_revoke(struct http_request *request)
{
    struct kg_str id = http_path_parameter(request, "id");
    struct kg_err err = {0};
    struct http_auth *auth = auth_of(request);
    if (auth == NULL)
        return;
    struct http_credential *token = http_credentials_named(&auth->credentials, STATE_TOKEN, id);
    if (token != NULL) {
        http_credentials_remove(&auth->credentials, token, on_token_revoked, request);
        return;
    }
    kg_fail(&err, KG_E_NOT_FOUND, "there is no token \"%.*s\"", KG_STR_CUT(id, KG_CUT_NAME));
    kg_hint(&err, "kaged auth token list shows all tokens");
    http_reply_error(request, &err);
}
