/*
 * One box: a nonce and what XChaCha20-Poly1305 made of a value, as base64, bound to a context, so
 * that boxes cannot change places. Those that lie elsewhere than in the sealed file say by its id
 * which key opens them, and have keys of their own.
 */
#include "secret/internal.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <unistd.h>

#define NONCE          crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG            crypto_aead_xchacha20poly1305_ietf_ABYTES
#define BASE64_VARIANT sodium_base64_VARIANT_ORIGINAL

void secret_box_seal(const struct secret_key *key, struct kg_str context, struct kg_str value,
                     struct kg_buf *ret_text)
{
    kg_auto(kg_buf_free) struct kg_buf box = {0};
    size_t size = NONCE + value.length + TAG;
    kg_buf_reserve(&box, size);
    unsigned char *bytes = (unsigned char *)box.data;
    randombytes_buf(bytes, NONCE);
    crypto_aead_xchacha20poly1305_ietf_encrypt(
        bytes + NONCE, NULL, (const unsigned char *)value.data, value.length,
        (const unsigned char *)context.data, context.length, NULL, bytes, key->bytes);
    size_t encoded = sodium_base64_encoded_len(size, BASE64_VARIANT);
    kg_buf_reserve(ret_text, encoded);
    sodium_bin2base64(ret_text->data + ret_text->length, encoded, bytes, size, BASE64_VARIANT);
    ret_text->length += encoded - 1;
}

bool secret_box_open(const struct secret_key *key, struct kg_str context, struct kg_str text,
                     struct kg_buf *ret_value)
{
    kg_auto(kg_buf_free) struct kg_buf box = {0};
    size_t size = 0;
    kg_buf_reserve(&box, text.length + 1);
    unsigned char *bytes = (unsigned char *)box.data;
    if (sodium_base642bin(bytes, text.length, text.data, text.length, NULL, &size, NULL,
                          BASE64_VARIANT) < 0 ||
        size < NONCE + TAG)
        return false;
    ret_value->length = size - NONCE - TAG;
    ret_value->capacity = ret_value->length + 1;
    ret_value->data = kg_alloc(ret_value->capacity);
    return crypto_aead_xchacha20poly1305_ietf_decrypt(
               (unsigned char *)ret_value->data, NULL, NULL, bytes + NONCE, size - NONCE,
               (const unsigned char *)context.data, context.length, bytes, key->bytes) == 0;
}

/* -- boxes that lie elsewhere ------------------------------------------------------------------ */

/* Once a rotation has begun, nothing more is sealed with the key that goes. */
static int boxes_key(const struct secret_places *places, struct secret_key *ret_key,
                     struct kg_err *err)
{
    int result = secret_key_read(places->next_key, ret_key, err);
    if (result != -ENOENT)
        return result;
    result = secret_key_make(places->key, SECRET_KEY_IF_MISSING, err);
    return result < 0 ? result : secret_key_read(places->key, ret_key, err);
}

int secret_seal(const struct secret_places *places, struct kg_str context, struct kg_str value,
                struct kg_buf *ret_text, struct kg_err *err)
{
    kg_auto(secret_key_forget) struct secret_key key = {0};
    int result = boxes_key(places, &key, err);
    if (result < 0)
        return result;
    kg_buf_printf(ret_text, "%s:", key.id);
    secret_box_seal(&key, context, value, ret_text);
    return 0;
}

int secret_unseal(const struct secret_places *places, struct kg_str context, struct kg_str text,
                  struct kg_buf *ret_value, struct kg_err *err)
{
    kg_auto(secret_key_forget) struct secret_key key = {0};
    kg_auto(secret_wipe) struct kg_buf value = {0};
    char id[SECRET_KEY_ID + 1];
    struct kg_str box = text, named = kg_str_cut(&box, ':');
    kg_str_copy(named, id, sizeof(id));
    int result = secret_key_find(places, id, &key, err);
    if (result == -ENOKEY) {
        kg_fail(err, KG_E_REFUSED, "%s: the key that a value was sealed with is missing",
                places->store);
        kg_hint(err, "put it into %s, or set the value again", places->key);
        return -ENOKEY;
    }
    if (result < 0)
        return result;
    if (!secret_box_open(&key, context, box, &value)) {
        kg_fail(err, KG_E_IO, "%s: a sealed value is damaged, or was moved", places->store);
        kg_hint(err, "set it again");
        return -EBADMSG;
    }
    kg_buf_str(ret_value, kg_buf_view(&value));
    return 0;
}

int secret_boxes_rotate(const struct secret_places *places, struct kg_err *err)
{
    return secret_key_make(places->next_key, SECRET_KEY_IF_MISSING, err);
}

int secret_boxes_rotated(const struct secret_places *places, struct kg_err *err)
{
    if (rename(places->next_key, places->key) < 0)
        return kg_fail_errno(err, errno, "rename %s to %s", places->next_key, places->key);
    return 0;
}
