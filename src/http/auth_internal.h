/* What the files of authentication share; the rest of the server sees internal.h only. */
#ifndef KAGED_HTTP_AUTH_INTERNAL_H
#define KAGED_HTTP_AUTH_INTERNAL_H

#include "cluster/cluster.h"
#include "http/internal.h"

#define HTTP_SECRET_BYTES   32
#define HTTP_SECRET_TEXT    44 /* in base64, and NUL */
#define HTTP_TOKEN_PREFIX   "kgd_"
#define HTTP_TOKEN_TEXT     (HTTP_SECRET_TEXT + sizeof(HTTP_TOKEN_PREFIX) - 1)
#define HTTP_SESSION_COOKIE "kaged_session"

/* 256 bits of chance, as text that is fit for a URL, a header and a cookie. */
void http_secret_make(char ret_text[HTTP_SECRET_TEXT]);
/* Whether they are equal, in a time that does not depend on where they differ. */
bool http_secret_equal(struct kg_str a, struct kg_str b);

/* -- scopes.c ---------------------------------------------------------------------------------- */

#define HTTP_SCOPES_MAX 63
#define HTTP_SCOPES_ALL ((UINT64_C(1) << HTTP_SCOPES_MAX) - 1)
const char *http_scope_name(size_t index); /* of the bit; NULL: there is none */
uint64_t http_scopes_of_role(enum catalog_role role);
/* The bits of scopes that are separated by commas; admin has them all. */
int http_scopes_parse(struct kg_str text, uint64_t *ret_scopes, struct kg_err *err);
/* Appends them, separated by commas: admin alone if it is among them. */
void http_scopes_print(uint64_t scopes, struct kg_buf *out);
bool http_scopes_allow(uint64_t scopes, const char *permission);

/* -- attempts.c -------------------------------------------------------------------------------- */

#define HTTP_SOURCES_MAX 256

struct http_attempts {
    struct loop *loop;   /* borrowed */
    struct audit *audit; /* borrowed */
    uint32_t failures_per_min;
    struct {
        unsigned char key[HTTP_SOURCE_KEY];
        uint64_t began_ms;
        uint32_t failures; /* 0: nobody's */
    } sources[HTTP_SOURCES_MAX];
    struct kg_rate told;
    struct loop_timer rest; /* after which those that were only counted are told */
    uint32_t suppressed;
    const char *last_via;
    char last_source[HTTP_SOURCE_TEXT];
    char last_reason[KG_ERR_MESSAGE_MAX];
};
/*
 * Counts one failure and audits it. False if there are too many from there: *ret_wait_sec is then
 * how long the source should stay away. The texts live as long as the process (via), or are copied.
 */
bool http_attempts_fail(struct http_attempts *attempts, const struct http_source *source,
                        const char *via, const char *reason, unsigned *ret_wait_sec);
/* Audits a refusal that is no failed attempt. */
void http_attempts_tell(struct http_attempts *attempts, const struct http_source *source,
                        const char *via, const char *reason);
/* Tells what was only counted so far. */
void http_attempts_close(struct http_attempts *attempts);

/* -- credentials.c ----------------------------------------------------------------------------- */

struct http_credential {
    struct kg_id id;
    enum state_credential_kind kind;
    unsigned char hash[STATE_HASH_BYTES];
    char *name; /* owned */
    uint64_t scopes;
    char operator_id[HTTP_OPERATOR_MAX];
    int64_t created_ms, expires_ms;
    int64_t last_used_ms;               /* since the daemon started; 0: never */
    char profile[HTTP_PROFILE_MAX + 1]; /* that a token is confined to; "": it is not */
    char principal[CATALOG_ID_TEXT];    /* whose it is; "": the operator's own */
    bool counts;                        /* false: it is not on the disk yet, or is being removed */
};

struct http_credentials {
    struct state_keeper *keeper;    /* borrowed */
    struct http_credential **items; /* owned, the oldest first */
    size_t count;
    struct kg_map *by_hash;
    struct cluster_follow follow;   /* what other nodes change */
    struct http_credentials *fresh; /* owned; what that has read */
    void (*on_gone)(void *data);    /* some were taken back by another node; may be NULL */
    void *data;
};
int http_credentials_load(struct http_credentials *credentials, struct state_keeper *keeper,
                          struct cluster *nodes_or_null, struct kg_err *err);
void http_credentials_free(struct http_credentials *credentials);
/* What the secret belongs to, also if it has expired; NULL: to nothing of this kind. */
struct http_credential *http_credentials_find(const struct http_credentials *credentials,
                                              enum state_credential_kind kind,
                                              struct kg_str secret);
struct http_credential *http_credentials_named(const struct http_credentials *credentials,
                                               enum state_credential_kind kind,
                                               struct kg_str id_or_name);
/* Never before who asked has returned. With an error nothing has changed. */
typedef void http_credential_fn(void *data, struct http_credential *credential,
                                const struct kg_err *err_or_null);
/*
 * Adds one for the secret; takes kind, name, scopes, operator_id and expires_ms of `wanted`. On
 * failure on_done is not called.
 */
int http_credentials_add(struct http_credentials *credentials, const struct http_credential *wanted,
                         struct kg_str secret, http_credential_fn *on_done, void *data,
                         struct kg_err *err);
/* It is gone after on_done. */
void http_credentials_remove(struct http_credentials *credentials,
                             struct http_credential *credential, http_credential_fn *on_done,
                             void *data);
bool http_credential_has_expired(const struct http_credential *credential);

/* -- launch.c ---------------------------------------------------------------------------------- */

/* At most one launch URL waits to be used. */
struct http_launch {
    char *file;                   /* owned; run/launch-url */
    char token[HTTP_SECRET_TEXT]; /* "": none waits */
    char operator_id[HTTP_OPERATOR_MAX];
    int64_t expires_ms;
};
/* The URL that waits for this operator, or a new one; it is in the file then. */
int http_launch_make(struct http_auth *auth, const char *base_url, const char *operator_id,
                     struct kg_buf *ret_url, struct kg_err *err);
/* Whether it is the token that waits, which is used up then. */
bool http_launch_use(struct http_launch *launch, struct kg_str token,
                     char ret_operator[HTTP_OPERATOR_MAX]);
/* Forgets it, and removes the file. */
void http_launch_drop(struct http_launch *launch);

/* -- auth.c ------------------------------------------------------------------------------------ */

struct http_auth {
    struct loop *loop;             /* borrowed */
    struct audit *audit;           /* borrowed */
    struct native *native;         /* the same, or NULL */
    const struct catalog *catalog; /* the same */
    enum http_auth_mode mode;
    char *nonce;  /* owned; of the proxy, or NULL */
    char **hosts; /* owned */
    int64_t session_ms;
    struct http_credentials credentials;
    struct http_launch launch;
    struct http_attempts attempts;
    struct kg_map *accepted; /* ids and proxy users that were audited */
};
/* Makes the error the answer, after counting and auditing it. */
void http_auth_deny(struct http_request *request, const char *via, const struct kg_err *err);
/* The secret of the request's cookie; empty if it has none. */
struct kg_str http_auth_cookie(const struct http_request *request);
/* What X-Kaged-CSRF must be in requests of the session with this secret. */
void http_auth_csrf(struct kg_str secret, char ret_text[HTTP_SECRET_TEXT]);
/* Sets what the client is to keep; empty: is to forget. */
void http_auth_set_cookie(struct http_request *request, struct kg_str secret, int64_t max_age_sec);

#endif
