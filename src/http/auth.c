/*
 * The one door: every request passes here before a handler sees it. Over the unix socket the kernel
 * has said who it is. Over TCP a request must name us as its host, must not come from another web
 * page, and must say who sends it: by a session's cookie, an API token, or a proxy's word; then the
 * route's scope is asked for. Messages and the audit log never have a secret in them.
 *
 *   Host, Origin -> open route? -> who -> scope -> CSRF (sessions) -> handler
 */
#include "http/auth_internal.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define SHOWN_MAX    100 /* bytes of a client's text that a message repeats */
#define ACCEPTED_MAX 1000
#define NONCE_MIN    32

/* -- life -------------------------------------------------------------------------------------- */

void http_auth_set_limits(struct http_auth *auth, const struct http_auth_limits *limits)
{
    kg_list_free(auth->hosts);
    auth->hosts = kg_list_copy((const char *const *)limits->hosts);
    auth->session_ms = limits->session_ms;
    auth->attempts.failures_per_min = limits->failures_per_min;
}

/* What a header can carry whole; a NUL would also cut it short. */
static bool http_auth_is_visible(struct kg_str text)
{
    for (size_t i = 0; i < text.length; i++)
        if (text.data[i] <= ' ' || text.data[i] >= 0x7F)
            return false;
    return true;
}

int http_nonce_check(struct kg_str nonce, struct kg_err *err)
{
    bool visible = http_auth_is_visible(nonce);
    if (visible && nonce.length >= NONCE_MIN)
        return 0;
    if (visible)
        kg_fail(err, KG_E_INVALID_CONFIG,
                "auth.mode is proxy: its secret has %zu characters, not %d or more", nonce.length,
                NONCE_MIN);
    else
        kg_fail(err, KG_E_INVALID_CONFIG,
                "auth.mode is proxy: its secret has others than ASCII letters, digits and "
                "signs in it");
    return kg_hint(err, "write one to the file of auth.nonce_file, as from: openssl rand -hex 32");
}

struct http_auth *http_auth_new(struct loop *loop, const struct http_auth_options *options,
                                const struct http_auth_limits *limits, struct kg_err *err)
{
    if (sodium_init() < 0) {
        kg_fail(err, KG_E_INTERNAL, "libsodium does not start");
        return NULL;
    }
    if (options->mode == HTTP_AUTH_PROXY && http_nonce_check(options->nonce, err) < 0)
        return NULL;
    struct http_auth *auth = kg_alloc(sizeof(*auth));
    auth->loop = loop;
    auth->audit = options->audit;
    auth->native = options->native;
    auth->catalog = options->catalog;
    auth->mode = options->mode;
    auth->nonce = kg_str_dup(options->nonce);
    auth->launch.file = kg_strdup(options->launch_file);
    auth->attempts.loop = loop;
    auth->attempts.audit = options->audit;
    auth->accepted = kg_map_new();
    http_auth_set_limits(auth, limits);
    auth->credentials.on_gone = options->on_gone;
    auth->credentials.data = options->data;
    if (http_credentials_load(&auth->credentials, options->keeper, options->nodes, err) == 0)
        return auth;
    http_auth_free(auth);
    return NULL;
}

void http_auth_free(struct http_auth *auth)
{
    if (auth == NULL)
        return;
    http_attempts_close(&auth->attempts);
    http_launch_drop(&auth->launch);
    http_credentials_free(&auth->credentials);
    kg_map_free(auth->accepted);
    kg_list_free(auth->hosts);
    sodium_memzero(auth->nonce, strlen(auth->nonce));
    free(auth->nonce);
    free(auth->launch.file);
    free(auth);
}

enum http_auth_mode http_auth_mode(const struct http_auth *auth)
{
    return auth != NULL ? auth->mode : HTTP_AUTH_LOCAL;
}

/* -- refusing, letting in ---------------------------------------------------------------------- */

static struct kg_err *http_auth_refuse(struct http_request *request, const struct kg_err *err)
{
    request->allow[0] = '\0'; /* whoever may not ask is not told what would be answered */
    struct kg_err *refusal = http_request_refuse(request, 0);
    *refusal = *err;
    return refusal;
}

void http_auth_deny(struct http_request *request, const char *via, const struct kg_err *err)
{
    struct http_auth *auth = http_connection_server(request->connection)->auth;
    const struct http_source *source = http_connection_source(request->connection);
    unsigned wait_sec = 0;
    char wait[16];
    struct kg_err *refusal = http_auth_refuse(request, err);
    if (http_attempts_fail(&auth->attempts, source, via, err->message, &wait_sec)) {
        if (err->code == KG_E_UNAUTHENTICATED)
            http_add_header(request, "WWW-Authenticate", "Bearer realm=\"kaged\"");
        return;
    }
    kg_fail(refusal, KG_E_TOO_MANY_ATTEMPTS, "too many requests from %s were refused",
            source->text);
    kg_hint(refusal, "try again in %u s; the unix socket is not affected", wait_sec);
    snprintf(wait, sizeof(wait), "%u", wait_sec);
    http_add_header(request, "Retry-After", wait);
}

/* Told once in the life of the daemon, or again after very many others. */
static void tell_accepted(struct http_request *request, const char *via, const char *id)
{
    struct http_auth *auth = http_connection_server(request->connection)->auth;
    const char *key = id != NULL ? id : request->operator_id;
    if (kg_map_get(auth->accepted, kg_str(key)) != NULL)
        return;
    if (kg_map_count(auth->accepted) >= ACCEPTED_MAX) {
        kg_map_free(auth->accepted);
        auth->accepted = kg_map_new();
    }
    kg_map_set(auth->accepted, kg_str(key), auth);
    audit_emit(auth->audit, AUDIT_AUTH_ACCEPTED, kg_str(request->request_id), AUDIT_V_TEXT(via),
               AUDIT_V_TEXT(http_operator(request)), AUDIT_V_TEXT(id),
               AUDIT_V_TEXT(http_connection_source(request->connection)->text));
}

/* -- where the request was sent, and from which page ------------------------------------------- */

static bool http_auth_same_text(struct kg_str a, struct kg_str b)
{
    return a.length == b.length && a.length > 0 && strncasecmp(a.data, b.data, a.length) == 0;
}

/* "[::1]" of "[::1]:7777" */
static struct kg_str without_port(struct kg_str host)
{
    size_t length = 0;
    bool inside = false; /* the brackets */
    for (; length < host.length && (inside || host.data[length] != ':'); length++)
        inside = host.data[length] == '[' || (inside && host.data[length] != ']');
    return (struct kg_str){host.data, length};
}

/*
 * A page that has its own name lead to 127.0.0.1 still says that name here. The port does not
 * matter for this, and may be another one where it is forwarded.
 */
static int http_auth_check_host(struct http_server *server, struct http_request *request,
                                struct kg_err *err)
{
    struct kg_str host = http_header(request, "host");
    if (host.length > 0) {
        struct kg_str name = without_port(host);
        if (http_auth_same_text(name, KG_STR("localhost")) ||
            http_auth_same_text(name, kg_str(server->host_name)))
            return 0;
        for (char **known = server->auth->hosts; *known != NULL; known++)
            if (http_auth_same_text(name, kg_str(*known)) ||
                http_auth_same_text(host, kg_str(*known)))
                return 0;
    }
    kg_fail(err, KG_E_REFUSED, "the host \"%.*s\" is not this daemon's",
            KG_STR_CUT(host, SHOWN_MAX));
    return kg_hint(err, "use %s, or list the name in auth.hosts", server->address);
}

static bool is_same_origin(struct kg_str origin, struct kg_str host)
{
    static const char *const schemes[] = {"http://", "https://"}; /* a proxy may speak TLS */
    for (size_t i = 0; i < KG_COUNT(schemes); i++) {
        size_t length = strlen(schemes[i]);
        if (kg_str_starts(origin, schemes[i]) &&
            http_auth_same_text((struct kg_str){origin.data + length, origin.length - length},
                                host))
            return true;
    }
    return false;
}

static bool is_open(const struct http_request *request)
{
    return request->route != NULL && request->route->permission != NULL &&
           request->route->permission[0] == '\0';
}

/* Browsers send no Origin with an image's GET, but newer ones say where it comes from. */
static bool is_from_elsewhere(const struct http_request *request)
{
    struct kg_str site = http_header(request, "sec-fetch-site");
    return site.data != NULL && !kg_str_is(site, "same-origin") && !kg_str_is(site, "none");
}

static int check_origin(struct http_request *request, struct kg_err *err)
{
    struct kg_str origin = http_header(request, "origin");
    size_t count = http_header_count(request, "origin");
    if (count > 1 || (count == 1 && !is_same_origin(origin, http_header(request, "host"))))
        return kg_fail(err, KG_E_REFUSED, "the request comes from another web page: %.*s",
                       KG_STR_CUT(origin, SHOWN_MAX));
    if (!is_open(request) && is_from_elsewhere(request))
        return kg_fail(err, KG_E_REFUSED,
                       "the request comes from another web page: "
                       "Sec-Fetch-Site is %.*s",
                       KG_STR_CUT(http_header(request, "sec-fetch-site"), SHOWN_MAX));
    return 0;
}

/* -- who --------------------------------------------------------------------------------------- */

struct kg_str http_auth_cookie(const struct http_request *request)
{
    static const char name[] = HTTP_SESSION_COOKIE "=";
    struct kg_str rest = http_header(request, "cookie");
    while (rest.length > 0) {
        struct kg_str pair = kg_str_cut(&rest, ';');
        if (kg_str_starts(pair, name))
            return kg_str_from(pair, sizeof(name) - 1);
        while (kg_str_starts(rest, " "))
            rest = kg_str_from(rest, 1);
    }
    return KG_STR_NULL;
}

void http_auth_set_cookie(struct http_request *request, struct kg_str secret, int64_t max_age_sec)
{
    kg_auto(kg_buf_free) struct kg_buf cookie = {0};
    kg_buf_printf(&cookie,
                  HTTP_SESSION_COOKIE "=%.*s; Path=/; HttpOnly; SameSite=Strict; "
                                      "Max-Age=%lld",
                  KG_STR_ARG(secret), (long long)max_age_sec);
    http_add_header(request, "Set-Cookie", kg_buf_terminate(&cookie));
}

void http_auth_csrf(struct kg_str secret, char ret_text[HTTP_SECRET_TEXT])
{
    static const unsigned char purpose[] = "kaged csrf";
    unsigned char hash[HTTP_SECRET_BYTES];
    size_t key = secret.length < crypto_generichash_KEYBYTES_MAX ? secret.length
                                                                 : crypto_generichash_KEYBYTES_MAX;
    crypto_generichash(hash, sizeof(hash), purpose, sizeof(purpose) - 1,
                       (const unsigned char *)secret.data, key);
    sodium_bin2base64(ret_text, HTTP_SECRET_TEXT, hash, sizeof(hash),
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

static void http_auth_become(struct http_request *request, struct http_credential *credential,
                             enum http_via via)
{
    request->via = via;
    request->scopes = credential->scopes;
    request->credential_id = credential->id;
    memcpy(request->operator_id, credential->operator_id, HTTP_OPERATOR_MAX);
    memcpy(request->profile, credential->profile, sizeof(request->profile));
    memcpy(request->principal, credential->principal, sizeof(request->principal));
    credential->last_used_ms = kg_wall_ms();
    tell_accepted(request, http_via_names[via], credential->id.text);
}

/* The credential that the secret stands for, if it still counts. */
static int find_credential(struct http_auth *auth, struct http_request *request, enum http_via via,
                           struct kg_str secret, struct kg_err *err)
{
    enum state_credential_kind kind = via == HTTP_VIA_TOKEN ? STATE_TOKEN : STATE_SESSION;
    struct http_credential *found = http_credentials_find(&auth->credentials, kind, secret);
    const char *what = via == HTTP_VIA_TOKEN ? "API token" : "session";
    int result = 0;
    if (found == NULL)
        result = kg_fail(err, KG_E_UNAUTHENTICATED, "this daemon knows no such %s", what);
    else if (http_credential_has_expired(found))
        result = kg_fail(err, KG_E_UNAUTHENTICATED, "the %s %s has expired", what,
                         found->name[0] != '\0' ? found->name : found->id.text);
    if (result < 0) {
        kg_hint(err, via == HTTP_VIA_TOKEN ? "kaged auth token list shows those that there are"
                                           : "kaged auth open lets a browser in");
        return result;
    }
    http_auth_become(request, found, via);
    return 0;
}

/* As clients of other catalogs send it. */
static int find_api_key(struct http_auth *auth, struct http_request *request, struct kg_err *err)
{
    struct kg_str given = http_header(request, "x-api-key");
    if (http_header_count(request, "x-api-key") > 1 ||
        http_header_count(request, "authorization") > 0)
        return kg_fail(err, KG_E_UNAUTHENTICATED, "the request says twice who sends it");
    return find_credential(auth, request, HTTP_VIA_TOKEN, given, err);
}

static int find_token(struct http_auth *auth, struct http_request *request, struct kg_err *err)
{
    static const char scheme[] = "bearer ";
    struct kg_str given = http_header(request, "authorization");
    size_t length = sizeof(scheme) - 1;
    if (http_header_count(request, "authorization") > 1 || given.length <= length ||
        strncasecmp(given.data, scheme, length) != 0)
        return kg_fail(err, KG_E_UNAUTHENTICATED, "Authorization is not \"Bearer TOKEN\"");
    return find_credential(auth, request, HTTP_VIA_TOKEN,
                           (struct kg_str){given.data + length, given.length - length}, err);
}

static int identify_local(struct http_auth *auth, struct http_request *request,
                          const char **ret_via, struct kg_err *err)
{
    struct kg_str cookie = http_auth_cookie(request);
    if (http_header_count(request, "x-api-key") > 0) {
        *ret_via = http_via_names[HTTP_VIA_TOKEN];
        return find_api_key(auth, request, err);
    }
    if (http_header_count(request, "authorization") > 0) {
        *ret_via = http_via_names[HTTP_VIA_TOKEN];
        return find_token(auth, request, err);
    }
    if (cookie.data != NULL) {
        *ret_via = http_via_names[HTTP_VIA_SESSION];
        return find_credential(auth, request, HTTP_VIA_SESSION, cookie, err);
    }
    kg_fail(err, KG_E_UNAUTHENTICATED, "the request does not say who sends it");
    return kg_hint(err,
                   "kaged auth open lets a browser in, kaged auth token create makes a token for "
                   "Authorization: Bearer");
}

static bool is_user_name(struct kg_str name)
{
    return name.length > 0 && name.length < HTTP_OPERATOR_MAX && kg_utf8_valid(name) == name.length;
}

/* Given twice, one of them is a client's own, which the proxy let through. */
static int identify_by_proxy(struct http_auth *auth, struct http_request *request,
                             const char **ret_via, struct kg_err *err)
{
    struct kg_str user = http_header(request, "x-kaged-user-id");
    struct kg_str nonce = http_header(request, "x-kaged-auth-nonce");
    *ret_via = http_via_names[HTTP_VIA_PROXY];
    if (http_header_count(request, "x-kaged-auth-nonce") != 1 ||
        !http_secret_equal(nonce, kg_str(auth->nonce)))
        return kg_fail(err, KG_E_UNAUTHENTICATED,
                       "X-Kaged-Auth-Nonce is missing or wrong: it did not come by the proxy");
    if (http_header_count(request, "x-kaged-user-id") != 1 || !is_user_name(user))
        return kg_fail(err, KG_E_UNAUTHENTICATED,
                       "X-Kaged-User-Id must be there once, with 1 to %d bytes of UTF-8",
                       HTTP_OPERATOR_MAX - 1);
    request->via = HTTP_VIA_PROXY;
    request->scopes = HTTP_SCOPES_ALL;
    snprintf(request->operator_id, HTTP_OPERATOR_MAX, "%.*s", KG_STR_ARG(user));
    tell_accepted(request, *ret_via, NULL);
    return 0;
}

static int identify_nobody(struct http_auth *auth, struct http_request *request,
                           const char **ret_via, struct kg_err *err)
{
    (void)auth, (void)err;
    *ret_via = http_via_names[HTTP_VIA_INSECURE];
    request->via = HTTP_VIA_INSECURE;
    request->scopes = HTTP_SCOPES_ALL;
    tell_accepted(request, *ret_via, NULL);
    return 0;
}

static int (*const identify[])(struct http_auth *auth, struct http_request *request,
                               const char **ret_via, struct kg_err *err) = {
    [HTTP_AUTH_LOCAL] = identify_local,
    [HTTP_AUTH_PROXY] = identify_by_proxy,
    [HTTP_AUTH_INSECURE] = identify_nobody,
};

/* -- what for ---------------------------------------------------------------------------------- */

/* What a profile lets a client use is behind these doors, and only there. */
static bool is_within_profile(const struct http_request *request)
{
    return request->profile[0] == '\0' || request->route == NULL ||
           kg_str_starts(kg_str(request->route->pattern), "/mcp");
}

static int say_scope(const struct http_request *request, const char *token, struct kg_err *err)
{
    const struct http_route *route = request->route;
    if (!is_within_profile(request)) {
        kg_fail(err, KG_E_REFUSED, "%s %s: token %s is confined to the profile %s", route->method,
                route->pattern, token, request->profile);
        return kg_hint(err, "it may use /mcp, and what the profile names there");
    }
    if (request->principal[0] != '\0') {
        kg_fail(err, KG_E_REFUSED, "%s %s needs %s, which %s does not have here", route->method,
                route->pattern, route->permission, request->operator_id);
        return kg_hint(err, "an admin of the org can change his role");
    }
    kg_fail(err, KG_E_REFUSED, "%s %s needs the scope %s, which token %s lacks", route->method,
            route->pattern, route->permission, token);
    return kg_hint(err, "make one that has it: kaged auth token create --name NAME --scope %s",
                   route->permission);
}

/*
 * Of a token that belongs to somebody counts what its owner may do, in the org that the request is
 * about; for who is not in it there is no such org.
 */
static int narrow_to_role(const struct http_auth *auth, struct http_request *request,
                          struct kg_err *err)
{
    struct kg_str named = http_request_org(request);
    if (request->principal[0] == '\0')
        return 0;
    const struct catalog_org *org = catalog_org_find(auth->catalog, named);
    enum catalog_role role =
        catalog_role_of(auth->catalog, request->principal, org ? kg_str(org->id) : named);
    if (named.data == NULL && role == CATALOG_NOBODY) /* which org is left to the route */
        role = CATALOG_MEMBER;
    request->scopes &= http_scopes_of_role(role);
    bool is_admins = kg_str_starts(http_request_path(request), "/api/admin/");
    if (role == CATALOG_NOBODY && !is_admins)
        return kg_fail(err, KG_E_NOT_FOUND, "there is no org \"%.*s\"",
                       KG_STR_CUT(named, SHOWN_MAX));
    if (org != NULL && !org->active && role != CATALOG_SYS_ADMIN)
        return kg_fail(err, KG_E_REFUSED, "the org %s is not active", org->name);
    return 0;
}

/* Who has a valid token made no failed attempt to get in, whatever he asks for. */
static int check_scope(struct http_auth *auth, const struct http_source *source,
                       struct http_request *request)
{
    const char *permission = request->route ? request->route->permission : NULL;
    struct kg_err err = {0};
    if (narrow_to_role(auth, request, &err) < 0) {
        http_auth_refuse(request, &err);
        return -EACCES;
    }
    if (http_scopes_allow(request->scopes, permission) && is_within_profile(request))
        return 0;
    const struct http_credential *token = http_credentials_named(
        &auth->credentials, STATE_TOKEN, kg_str(request->credential_id.text));
    int result = say_scope(request, token ? token->name : "?", &err);
    http_auth_refuse(request, &err);
    http_attempts_tell(&auth->attempts, source, http_via_names[request->via], err.message);
    return result;
}

bool http_auth_allows(const struct http_request *request, const char *scope)
{
    return http_scopes_allow(request->scopes, scope);
}

bool http_auth_still_counts(const struct http_auth *auth_or_null, enum http_via via,
                            const struct kg_id *credential_id)
{
    static const enum state_credential_kind kinds[] = {
        [HTTP_VIA_SESSION] = STATE_SESSION,
        [HTTP_VIA_TOKEN] = STATE_TOKEN,
    };
    if (via != HTTP_VIA_SESSION && via != HTTP_VIA_TOKEN)
        return true;
    const struct http_credential *credential =
        http_credentials_named(&auth_or_null->credentials, kinds[via], kg_str(credential_id->text));
    return credential != NULL && !http_credential_has_expired(credential);
}

/* Only what reads can be asked without: another page can send our cookie, but not read this. */
static bool needs_csrf(const struct http_request *request)
{
    bool calls = request->route != NULL && request->route->permission != NULL &&
                 strcmp(request->route->permission, "plugins:call") == 0;
    return calls || (request->method != HTTP_GET && request->method != HTTP_HEAD &&
                     request->method != HTTP_OPTIONS);
}

static int check_csrf(const struct http_request *request, struct kg_err *err)
{
    char wanted[HTTP_SECRET_TEXT];
    if (request->via != HTTP_VIA_SESSION || !needs_csrf(request))
        return 0;
    http_auth_csrf(http_auth_cookie(request), wanted);
    struct kg_str given = http_header(request, "x-kaged-csrf");
    if (http_secret_equal(given, kg_str(wanted)))
        return 0;
    kg_fail(err, KG_E_REFUSED, "X-Kaged-CSRF is %s",
            given.data != NULL ? "not this session's" : "missing");
    return kg_hint(err, "GET /api/v1/session has the value for it");
}

int http_auth_check(struct http_server *server, const struct http_source *source,
                    struct http_request *request)
{
    struct http_auth *auth = server->auth;
    struct kg_err err = {0};
    const char *via = "none";
    if (source->is_node)
        return http_nodes_check(server, source, request);
    if (!source->tcp) {
        request->via = HTTP_VIA_UNIX;
        request->scopes = HTTP_SCOPES_ALL;
        return 0;
    }
    int result = http_auth_check_host(server, request, &err);
    if (result == 0)
        result = check_origin(request, &err);
    if (result == 0 && is_open(request))
        return 0;
    if (result == 0)
        result = identify[auth->mode](auth, request, &via, &err);
    if (result == 0 && check_scope(auth, source, request) < 0)
        return -EACCES;
    if (result == 0)
        result = check_csrf(request, &err);
    if (result < 0)
        http_auth_deny(request, via, &err);
    return result;
}
