/*
 * API tokens and browsers' sessions. All are in memory, so that a request costs no question to the
 * disk, and each change is on the disk before it counts. A secret is never kept: it is known by its
 * hash, and found by it, so what a lookup's time tells is of the hash and not of the secret.
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

static struct kg_str key_of(const struct http_credential *credential)
{
    return (struct kg_str){(const char *)credential->hash, STATE_HASH_BYTES};
}

/* -- the list ---------------------------------------------------------------------------------- */

static void keep(struct http_credentials *credentials, struct http_credential *credential)
{
    credentials->items =
        kg_realloc(credentials->items, (credentials->count + 1) * sizeof(*credentials->items));
    credentials->items[credentials->count++] = credential;
    kg_map_set(credentials->by_hash, key_of(credential), credential);
}

static void credential_free(struct http_credential *credential)
{
    free(credential->name);
    free(credential);
}

static void forget(struct http_credentials *credentials, struct http_credential *credential)
{
    size_t at = 0;
    while (credentials->items[at] != credential)
        at++;
    memmove(&credentials->items[at], &credentials->items[at + 1],
            (credentials->count - at - 1) * sizeof(*credentials->items));
    credentials->count--;
    kg_map_remove(credentials->by_hash, key_of(credential));
    credential_free(credential);
}

static void take_stored(void *data, const struct state_credential *stored)
{
    uint32_t scopes;
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
    keep(data, credential);
}

int http_credentials_load(struct http_credentials *credentials, struct state *state,
                          struct kg_err *err)
{
    credentials->state = state;
    credentials->by_hash = kg_map_new();
    return state_credentials(state, take_stored, credentials, err);
}

void http_credentials_free(struct http_credentials *credentials)
{
    for (size_t i = 0; i < credentials->count; i++)
        credential_free(credentials->items[i]);
    free(credentials->items);
    kg_map_free(credentials->by_hash);
}

/* -- finding ----------------------------------------------------------------------------------- */

struct http_credential *http_credentials_find(const struct http_credentials *credentials,
                                              enum state_credential_kind kind, struct kg_str secret)
{
    unsigned char hash[STATE_HASH_BYTES];
    struct http_credential *found = kg_map_get(credentials->by_hash, hash_secret(secret, hash));
    bool right = found != NULL && found->kind == kind &&
                 sodium_memcmp(found->hash, hash, STATE_HASH_BYTES) == 0;
    return right ? found : NULL;
}

struct http_credential *http_credentials_named(const struct http_credentials *credentials,
                                               enum state_credential_kind kind,
                                               struct kg_str id_or_name)
{
    for (size_t i = 0; i < credentials->count; i++) {
        struct http_credential *item = credentials->items[i];
        if (item->kind == kind && (kg_str_is(id_or_name, item->id.text) ||
                                   (item->name[0] != '\0' && kg_str_is(id_or_name, item->name))))
            return item;
    }
    return NULL;
}

/* -- changing ---------------------------------------------------------------------------------- */

int http_credentials_remove(struct http_credentials *credentials,
                            struct http_credential *credential, struct kg_err *err)
{
    int result = state_credential_remove(credentials->state, credential->id.text, err);
    if (result == 0)
        forget(credentials, credential);
    return result;
}

static size_t count_kind(const struct http_credentials *credentials,
                         enum state_credential_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < credentials->count; i++)
        count += credentials->items[i]->kind == kind;
    return count;
}

/* The oldest session goes, as do those that are over: nobody looks after them. */
static int make_room(struct http_credentials *credentials, struct kg_err *err)
{
    int result = 0;
    for (size_t i = credentials->count; i-- > 0 && result == 0;) {
        struct http_credential *item = credentials->items[i];
        if (item->kind == STATE_SESSION && http_credential_has_expired(item))
            result = http_credentials_remove(credentials, item, err);
    }
    for (size_t i = 0; result == 0 && count_kind(credentials, STATE_SESSION) >= SESSIONS_MAX;) {
        if (credentials->items[i]->kind == STATE_SESSION)
            result = http_credentials_remove(credentials, credentials->items[i], err);
        else
            i++;
    }
    return result;
}

static int check_room(struct http_credentials *credentials, const struct http_credential *wanted,
                      struct kg_err *err)
{
    if (wanted->kind == STATE_SESSION)
        return make_room(credentials, err);
    if (http_credentials_named(credentials, STATE_TOKEN, kg_str(wanted->name)) != NULL) {
        int result = kg_fail(err, KG_E_CONFLICT, "there is a token %s already", wanted->name);
        kg_hint(err, "choose another name, or revoke that one first");
        return result;
    }
    if (count_kind(credentials, STATE_TOKEN) < TOKENS_MAX)
        return 0;
    int result = kg_fail(err, KG_E_CONFLICT, "there are %d tokens already", TOKENS_MAX);
    kg_hint(err, "revoke those that are not used any more");
    return result;
}

static int store(struct http_credentials *credentials, const struct http_credential *credential,
                 struct kg_err *err)
{
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
    };
    memcpy(stored.hash, credential->hash, STATE_HASH_BYTES);
    return state_credential_add(credentials->state, &stored, err);
}

struct http_credential *http_credentials_add(struct http_credentials *credentials,
                                             const struct http_credential *wanted,
                                             struct kg_str secret, struct kg_err *err)
{
    if (check_room(credentials, wanted, err) < 0)
        return NULL;
    struct http_credential *credential = kg_alloc(sizeof(*credential));
    *credential = *wanted;
    credential->id = kg_id_new(wanted->kind == STATE_TOKEN ? "tok_" : "web_");
    credential->name = kg_strdup(wanted->name);
    credential->created_ms = kg_wall_ms();
    hash_secret(secret, credential->hash);
    if (store(credentials, credential, err) < 0) {
        credential_free(credential);
        return NULL;
    }
    keep(credentials, credential);
    return credential;
}
