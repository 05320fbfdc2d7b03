/*
 * Keys: 32 bytes, in a file as 64 hexadecimal digits. A key file is the operator's alone to read,
 * and is put in its place whole.
 */
#include "secret/internal.h"

#include "config/edit.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define CREDENTIAL     "kaged-key"
#define KEY_FILE_BYTES 4096 /* with white space around it, and more than anybody writes */
#define ID_CONTEXT     "kaged secrets: the id of a key"

static_assert(SECRET_KEY_BYTES == crypto_aead_xchacha20poly1305_ietf_KEYBYTES, "XChaCha20");

void secret_places_find(const struct config_paths *paths, struct secret_places *ret_places)
{
    const char *credentials = getenv("CREDENTIALS_DIRECTORY");
    kg_auto(kg_free) char *credential =
        credentials && credentials[0] == '/' ? kg_path_join(credentials, CREDENTIAL) : NULL;
    *ret_places = (struct secret_places){
        .store = kg_strdup(paths->secrets_file),
        .key = kg_strdup(paths->secrets_key),
        .next_key = kg_format("%s.next", paths->secrets_key),
    };
    if (credential != NULL && access(credential, F_OK) == 0)
        ret_places->credential = kg_steal(&credential);
}

void secret_places_free(struct secret_places *places)
{
    kg_free(&places->store);
    kg_free(&places->key);
    kg_free(&places->next_key);
    kg_free(&places->credential);
}

void secret_key_forget(struct secret_key *key)
{
    sodium_memzero(key, sizeof(*key));
}

void secret_wipe(struct kg_buf *buf)
{
    if (buf->data != NULL)
        sodium_memzero(buf->data, buf->capacity);
    kg_buf_free(buf);
}

static void name_key(struct secret_key *key)
{
    unsigned char hash[crypto_generichash_BYTES];
    crypto_generichash(hash, sizeof(hash), key->bytes, sizeof(key->bytes),
                       (const unsigned char *)ID_CONTEXT, sizeof(ID_CONTEXT) - 1);
    sodium_bin2hex(key->id, sizeof(key->id), hash, SECRET_KEY_ID / 2);
}

/* The service manager and root hand out files that are theirs; ours must be nobody else's. */
static int check_private(const char *path, struct kg_err *err)
{
    struct stat there;
    if (stat(path, &there) < 0)
        return kg_fail_errno(err, errno, "key %s: stat it", path);
    if ((there.st_mode & 077) == 0 || (there.st_uid == 0 && (there.st_mode & 027) == 0))
        return 0;
    kg_fail(err, KG_E_REFUSED, "key %s: others than its owner can read it", path);
    return kg_hint(err, "chmod 600 %s, and kaged secret rotate, since it may be known", path);
}

int secret_key_read(const char *path, struct secret_key *ret_key, struct kg_err *err)
{
    kg_auto(secret_wipe) struct kg_buf text = {0};
    kg_auto(secret_key_forget) struct secret_key key = {0};
    const char *end;
    size_t length = 0;
    if (sodium_init() < 0)
        return kg_fail(err, KG_E_INTERNAL, "key %s: libsodium failed to initialize", path);
    int result = kg_read_file(path, KEY_FILE_BYTES, &text, err);
    if (result == 0)
        result = check_private(path, err);
    if (result < 0)
        return result;
    if (text.length > 0 &&
        sodium_hex2bin(key.bytes, sizeof(key.bytes), text.data, text.length, " \r\n", &length,
                       &end) == 0 &&
        length == sizeof(key.bytes) && end == text.data + text.length) {
        name_key(&key);
        *ret_key = key;
        return 0;
    }
    kg_fail(err, KG_E_INVALID_CONFIG, "key %s: a key must be %d hexadecimal digits", path,
            SECRET_KEY_BYTES * 2);
    return -EINVAL;
}

static int key_write_key(struct kg_buf *text, void *data, struct kg_err *err)
{
    const enum secret_key_make *when = data;
    kg_auto(secret_key_forget) struct secret_key key;
    char digits[SECRET_KEY_BYTES * 2 + 1];
    (void)err;
    if (text->length > 0 && *when == SECRET_KEY_IF_MISSING)
        return 0;
    randombytes_buf(key.bytes, sizeof(key.bytes));
    sodium_bin2hex(digits, sizeof(digits), key.bytes, sizeof(key.bytes));
    text->length = 0;
    kg_buf_text(text, digits);
    kg_buf_char(text, '\n');
    sodium_memzero(digits, sizeof(digits));
    return 0;
}

int secret_key_make(const char *path, enum secret_key_make when, struct kg_err *err)
{
    if (sodium_init() < 0)
        return kg_fail(err, KG_E_INTERNAL, "key %s: libsodium failed to initialize", path);
    return edit_file(path, key_write_key, &when, err);
}

/* Tried in this order; what is not there is passed over, what cannot be read is told. */
static int try_all(const struct secret_places *places, const char *id_or_null,
                   struct secret_key *ret_key, struct kg_err *err)
{
    const char *const paths[] = {places->credential, places->key, places->next_key};
    for (size_t i = 0; i < KG_COUNT(paths); i++) {
        kg_auto(secret_key_forget) struct secret_key key = {0};
        int result = paths[i] ? secret_key_read(paths[i], &key, err) : -ENOENT;
        if (result < 0 && result != -ENOENT)
            return result;
        if (result == 0 && (id_or_null == NULL || strcmp(key.id, id_or_null) == 0)) {
            *ret_key = key;
            return 0;
        }
    }
    return -ENOENT;
}

int secret_key_find(const struct secret_places *places, const char *id_or_null,
                    struct secret_key *ret_key, struct kg_err *err)
{
    int result = try_all(places, id_or_null, ret_key, err);
    if (result == -ENOENT) /* a rotation may have renamed one between two looks */
        result = try_all(places, id_or_null, ret_key, err);
    if (result != -ENOENT)
        return result;
    kg_fail(err, KG_E_REFUSED, "secrets %s: the key that they were sealed with is missing",
            places->store);
    kg_hint(err, "put it into %s, or remove %s and set the secrets again", places->key,
            places->store);
    return -ENOKEY;
}
