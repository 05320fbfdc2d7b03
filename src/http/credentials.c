/*
 * API tokens and browsers' sessions. All are in memory, so that a request costs no question to the
 * disk. One that is new is on the disk before it counts; one that goes does not count from the
 * moment on in which that is asked for, unless the disk refuses. A secret is never kept: it is
 * known by its hash, and found by it, so what a lookup's time tells is of the hash and not of the
 * secret.
 */
#include "http/auth_internal.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#define TOKENS_MAX   1000
#define SESSIONS_MAX 100

void http_secret_make(char ret_text[HTTP_SECRET_TEXT])
{
    unsigned char bytes[HTTP_SECRET_BYTES];
    randombytes_buf(bytes, sizeof(bytes));
    sodium_bin2base64(ret_text, HTTP_SECRET_TEXT, bytes, sizeof(bytes),
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    sodium_memzero(bytes, sizeof(bytes));
}

bool http_secret_equal(struct kg_str a, struct kg_str b)
{
    return a.length == b.length && a.length > 0 && sodium_memcmp(a.data, b.data, a.length) == 0;
}

static struct kg_str hash_secret(struct kg_str secret, unsigned char ret_hash[STATE_HASH_BYTES])
{
    crypto_generichash(ret_hash, STATE_HASH_BYTES, (const unsigned char *)secret.data,
                       secret.length, NULL, 0);
    return (struct kg_str){(const char *)ret_hash, STATE_HASH_BYTES};
}

bool http_credential_has_expired(const struct http_credential *credential)
{
    return credential->expires_ms != 0 && kg_wall_ms() >= credential->expires_ms;
}

static struct kg_str credentials_key_of(const struct http_credential *credential)
{
    return (struct kg_str){(const char *)credential->hash, STATE_HASH_BYTES};
}

/* -- the list ---------------------------------------------------------------------------------- */

static void credentials_keep(struct http_credentials *credentials,
                             struct http_credential *credential)
{
    credentials->items =
        kg_realloc(credentials->items, (credentials->count + 1) * sizeof(*credentials->items));
    credentials->items[credentials->count++] = credential;
    kg_map_set(credentials->by_hash, credentials_key_of(credential), credential);
}

static void credential_free(struct http_credential *credential)
{
    free(credential->name);
    free(credential);
}

static void credentials_forget(struct http_credentials *credentials,
                               struct http_credential *credential)
{
    size_t at = 0;
    while (credentials->items[at] != credential)
        at++;
    memmove(&credentials->items[at], &credentials->items[at + 1],
            (credentials->count - at - 1) * sizeof(*credentials->items));
    credentials->count--;
    kg_map_remove(credentials->by_hash, credentials_key_of(credential));
    credential_free(credential);
}

static void credentials_take_stored(void *data, const struct state_credential *stored)
{
    uint64_t scopes;
    struct kg_err err;
    if (http_scopes_parse(kg_str(stored->scopes), &scopes, &err) < 0) {
        kg_log(KG_WARN, "credential %s: %s; it is not used", stored->id, err.message);
        return;
    }
    struct http_credential *credential = kg_alloc(sizeof(*credential));
    credential->kind = stored->kind;
    credential->name = kg_strdup(stored->name);
    credential->scopes = scopes;
    credential->created_ms = stored->created_ms;
    credential->expires_ms = stored->expires_ms;
    memcpy(credential->hash, stored->hash, STATE_HASH_BYTES);
    snprintf(credential->id.text, sizeof(credential->id.text), "%s", stored->id);
    snprintf(credential->operator_id, HTTP_OPERATOR_MAX, "%s", stored->operator_id);
    kg_str_copy(kg_str(stored->profile), credential->profile, sizeof(credential->profile));
    kg_str_copy(kg_str(stored->principal), credential->principal, sizeof(credential->principal));
    credential->counts = true;
    credentials_keep(data, credential);
}

static void credentials_clear(struct http_credentials *credentials)
{
    for (size_t i = 0; i < credentials->count; i++)
        credential_free(credentials->items[i]);
    free(credentials->items);
    kg_map_free(credentials->by_hash);
}

/* -- what other nodes change ------------------------------------------------------------------- */

static int credentials_read(struct cluster_follow *follow, struct state *state, struct kg_err *err)
{
    struct http_credentials *credentials = KG_CONTAINER(follow, struct http_credentials, follow);
    credentials->fresh = kg_alloc(sizeof(*credentials->fresh));
    credentials->fresh->by_hash = kg_map_new();
    return state_credentials(state, credentials_take_stored, credentials->fresh, err);
}

/* What is on its way to the disk, or off it, is this node's own doing, and stays as it is. */
static void credentials_merge(struct http_credentials *credentials, struct http_credentials *fresh)
{
    bool any_gone = false;
    for (size_t i = credentials->count; i-- > 0;) {
        struct http_credential *item = credentials->items[i];
        if (!item->counts || kg_map_get(fresh->by_hash, credentials_key_of(item)) != NULL)
            continue;
        credentials_forget(credentials, item);
        any_gone = true;
    }
    size_t left = 0;
    for (size_t i = 0; i < fresh->count; i++) {
        if (kg_map_get(credentials->by_hash, credentials_key_of(fresh->items[i])) == NULL)
            credentials_keep(credentials, fresh->items[i]);
        else
            fresh->items[left++] = fresh->items[i];
    }
    fresh->count = left;
    if (any_gone && credentials->on_gone != NULL)
        credentials->on_gone(credentials->data);
}

static void credentials_take(struct cluster_follow *follow, bool take)
{
    struct http_credentials *credentials = KG_CONTAINER(follow, struct http_credentials, follow);
    struct http_credentials *fresh = kg_steal(&credentials->fresh);
    if (fresh == NULL)
        return;
    if (take)
        credentials_merge(credentials, fresh);
    credentials_clear(fresh);
    free(fresh);
}

int http_credentials_load(struct http_credentials *credentials, struct state_keeper *keeper,
                          struct cluster *nodes_or_null, struct kg_err *err)
{
    credentials->keeper = keeper;
    credentials->by_hash = kg_map_new();
    int result =
        state_credentials(state_keeper_state(keeper), credentials_take_stored, credentials, err);
    credentials->follow.read = credentials_read;
    credentials->follow.take = credentials_take;
    cluster_follow_begin(&credentials->follow, nodes_or_null, keeper, 1 << CLUSTER_CREDENTIAL);
    return result;
}

void http_credentials_free(struct http_credentials *credentials)
{
    state_keeper_drain(credentials->keeper); /* which still speaks of them */
    cluster_follow_end(&credentials->follow);
    credentials_clear(credentials);
}

/* -- finding ----------------------------------------------------------------------------------- */

struct http_credential *http_credentials_find(const struct http_credentials *credentials,
                                              enum state_credential_kind kind, struct kg_str secret)
{
    unsigned char hash[STATE_HASH_BYTES];
    struct http_credential *found = kg_map_get(credentials->by_hash, hash_secret(secret, hash));
    bool right = found != NULL && found->counts && found->kind == kind &&
                 sodium_memcmp(found->hash, hash, STATE_HASH_BYTES) == 0;
    return right ? found : NULL;
}

static bool credentials_has_name(const struct http_credential *item, struct kg_str id_or_name)
{
    return kg_str_is(id_or_name, item->id.text) ||
           (item->name[0] != '\0' && kg_str_is(id_or_name, item->name));
}

struct http_credential *http_credentials_named(const struct http_credentials *credentials,
                                               enum state_credential_kind kind,
                                               struct kg_str id_or_name)
{
    for (size_t i = 0; i < credentials->count; i++) {
        struct http_credential *item = credentials->items[i];
        if (item->counts && item->kind == kind && credentials_has_name(item, id_or_name))
            return item;
    }
    return NULL;
}

/* -- changing ---------------------------------------------------------------------------------- */

/* A change that is on its way to the disk. */
struct change {
    struct http_credentials *credentials;
    struct http_credential *credential;
    http_credential_fn *on_done;
    void *data;
};

static struct change *credentials_change_new(struct http_credentials *credentials,
                                             struct http_credential *credential,
                                             http_credential_fn *on_done, void *data)
{
    struct change *change = kg_alloc(sizeof(*change));
    *change = (struct change){credentials, credential, on_done, data};
    return change;
}

static void credentials_on_removed(void *data, const struct kg_err *err_or_null)
{
    struct change *change = data;
    change->credential->counts = err_or_null != NULL;
    change->on_done(change->data, change->credential, err_or_null);
    if (err_or_null == NULL)
        credentials_forget(change->credentials, change->credential);
    free(change);
}

void http_credentials_remove(struct http_credentials *credentials,
                             struct http_credential *credential, http_credential_fn *on_done,
                             void *data)
{
    credential->counts = false;
    state_forget_credential(credentials->keeper, credential->id.text, credentials_on_removed,
                            credentials_change_new(credentials, credential, on_done, data));
}

static size_t count_kind(const struct http_credentials *credentials,
                         enum state_credential_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < credentials->count; i++)
        count += credentials->items[i]->counts && credentials->items[i]->kind == kind;
    return count;
}

static void on_pushed_out(void *data, struct http_credential *credential,
                          const struct kg_err *err_or_null)
{
    (void)data;
    if (err_or_null != NULL)
        kg_log(KG_ERROR_LEVEL, "session %s: forget it: %s", credential->id.text,
               err_or_null->message);
}

/* The oldest session goes, as do those that are over: nobody looks after them. */
static void credentials_make_room(struct http_credentials *credentials)
{
    size_t left = count_kind(credentials, STATE_SESSION);
    for (size_t i = 0; i < credentials->count; i++) {
        struct http_credential *item = credentials->items[i];
        bool goes = item->counts && item->kind == STATE_SESSION &&
                    (http_credential_has_expired(item) || left >= SESSIONS_MAX);
        if (goes)
            http_credentials_remove(credentials, item, on_pushed_out, NULL);
        left -= goes;
    }
}

/* A name that is on its way to the disk is taken, too. */
static bool credentials_has_token(const struct http_credentials *credentials, const char *name)
{
    for (size_t i = 0; i < credentials->count; i++)
        if (credentials->items[i]->kind == STATE_TOKEN &&
            credentials_has_name(credentials->items[i], kg_str(name)))
            return true;
    return false;
}

static int credentials_fail_taken(const char *name, struct kg_err *err)
{
    kg_fail(err, KG_E_CONFLICT, "there is a token %s already", name);
    return kg_hint(err, "choose another name, or revoke that one first");
}

static int credentials_check_room(struct http_credentials *credentials,
                                  const struct http_credential *wanted, struct kg_err *err)
{
    if (wanted->kind == STATE_SESSION) {
        credentials_make_room(credentials);
        return 0;
    }
    if (credentials_has_token(credentials, wanted->name))
        return credentials_fail_taken(wanted->name, err);
    if (count_kind(credentials, STATE_TOKEN) < TOKENS_MAX)
        return 0;
    kg_fail(err, KG_E_CONFLICT, "there are %d tokens already", TOKENS_MAX);
    return kg_hint(err, "revoke those that are not used any more");
}

static void credentials_on_added(void *data, const struct kg_err *err_or_null)
{
    struct change *change = data;
    struct kg_err err = err_or_null != NULL ? *err_or_null : (struct kg_err){0};
    if (err.errnum == EEXIST) /* another node was first */
        credentials_fail_taken(change->credential->name, &err);
    change->credential->counts = err_or_null == NULL;
    change->on_done(change->data, change->credential, err_or_null != NULL ? &err : NULL);
    if (err_or_null != NULL)
        credentials_forget(change->credentials, change->credential);
    free(change);
}

static void store(struct change *change)
{
    const struct http_credential *credential = change->credential;
    kg_auto(kg_buf_free) struct kg_buf scopes = {0};
    http_scopes_print(credential->scopes, &scopes);
    struct state_credential stored = {
        .id = credential->id.text,
        .kind = credential->kind,
        .name = credential->name,
        .scopes = kg_buf_terminate(&scopes),
        .operator_id = credential->operator_id,
        .created_ms = credential->created_ms,
        .expires_ms = credential->expires_ms,
        .profile = credential->profile[0] != '\0' ? credential->profile : NULL,
        .principal = credential->principal[0] != '\0' ? credential->principal : NULL,
    };
    memcpy(stored.hash, credential->hash, STATE_HASH_BYTES);
    state_keep_credential(change->credentials->keeper, &stored, credentials_on_added, change);
}

int http_credentials_add(struct http_credentials *credentials, const struct http_credential *wanted,
                         struct kg_str secret, http_credential_fn *on_done, void *data,
                         struct kg_err *err)
{
    int result = credentials_check_room(credentials, wanted, err);
    if (result < 0)
        return result;
    struct http_credential *credential = kg_alloc(sizeof(*credential));
    *credential = *wanted;
    credential->id = kg_id_new(wanted->kind == STATE_TOKEN ? "tok_" : "web_");
    credential->name = kg_strdup(wanted->name);
    credential->created_ms = kg_wall_ms();
    credential->counts = false;
    hash_secret(secret, credential->hash);
    credentials_keep(credentials, credential);
    store(credentials_change_new(credentials, credential, on_done, data));
    return 0;
}
