/*
 * Bytes only: the text of a seal, the hash of a block, the key and what it signs. A seal that was
 * not written by audit_seal_put does not parse, so nothing in it can change unseen.
 */
#include "audit/internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static_assert(sizeof(((struct audit_key *)0)->secret) == crypto_sign_SECRETKEYBYTES, "Ed25519");
static_assert(sizeof(((struct state_audit_head *)0)->signature) == crypto_sign_BYTES, "Ed25519");

#define HASH_HEX 64

/* -- the seal's line --------------------------------------------------------------------------- */

static void seal_put_hex(struct kg_buf *buf, const unsigned char hash[32])
{
    char hex[HASH_HEX + 1];
    sodium_bin2hex(hex, sizeof(hex), hash, 32);
    kg_buf_append(buf, hex, HASH_HEX);
}

bool audit_is_seal(struct kg_str line)
{
    return kg_str_starts(line, "{\"seal\":");
}

void audit_seal_put(struct kg_buf *buf, const struct audit_seal *seal)
{
    kg_buf_printf(buf, "{\"seal\":{\"block\":%" PRIu64 ",\"events\":%" PRIu64 ",\"prev\":\"",
                  seal->block, seal->events);
    seal_put_hex(buf, seal->prev);
    kg_buf_char(buf, '"');
    if (seal->recovered)
        kg_buf_text(buf, ",\"recovered\":true");
    if (seal->broken)
        kg_buf_text(buf, ",\"broken\":true");
}

void audit_seal_put_hash(struct kg_buf *buf, const struct audit_seal *seal)
{
    kg_buf_text(buf, ",\"hash\":\"");
    seal_put_hex(buf, seal->hash);
    kg_buf_text(buf, "\"}}\n");
}

static bool seal_take(struct kg_str *rest, const char *literal)
{
    if (!kg_str_starts(*rest, literal))
        return false;
    size_t length = strlen(literal);
    *rest = (struct kg_str){rest->data + length, rest->length - length};
    return true;
}

static bool seal_take_number(struct kg_str *rest, uint64_t *ret_number)
{
    size_t digits = 0;
    while (digits < rest->length && kg_is_digit(rest->data[digits]))
        digits++;
    int64_t number;
    if (!kg_str_to_int((struct kg_str){rest->data, digits}, &number))
        return false;
    *ret_number = (uint64_t)number;
    *rest = (struct kg_str){rest->data + digits, rest->length - digits};
    return true;
}

/* Lower case only: a seal has one spelling. */
static bool seal_take_hex(struct kg_str *rest, unsigned char ret_hash[32])
{
    size_t used;
    char same[HASH_HEX + 1];
    if (rest->length < HASH_HEX ||
        sodium_hex2bin(ret_hash, 32, rest->data, HASH_HEX, NULL, &used, NULL) != 0 || used != 32)
        return false;
    sodium_bin2hex(same, sizeof(same), ret_hash, 32);
    if (memcmp(same, rest->data, HASH_HEX) != 0)
        return false;
    *rest = (struct kg_str){rest->data + HASH_HEX, rest->length - HASH_HEX};
    return true;
}

bool audit_seal_parse(struct kg_str line, struct audit_seal *ret_seal, size_t *ret_covered)
{
    struct audit_seal seal = {0};
    struct kg_str rest = line;
    if (!seal_take(&rest, "{\"seal\":{\"block\":") || !seal_take_number(&rest, &seal.block) ||
        !seal_take(&rest, ",\"events\":") || !seal_take_number(&rest, &seal.events) ||
        !seal_take(&rest, ",\"prev\":\"") || !seal_take_hex(&rest, seal.prev) ||
        !seal_take(&rest, "\""))
        return false;
    seal.recovered = seal_take(&rest, ",\"recovered\":true");
    seal.broken = seal_take(&rest, ",\"broken\":true");
    size_t covered = line.length - rest.length;
    if (!seal_take(&rest, ",\"hash\":\"") || !seal_take_hex(&rest, seal.hash) ||
        !kg_str_is(rest, "\"}}\n"))
        return false;
    *ret_seal = seal;
    *ret_covered = covered;
    return true;
}

/* -- the hash of a block ----------------------------------------------------------------------- */

void audit_digest_add(struct sha256_ctx *digest, struct kg_str bytes)
{
    sha256_update(digest, bytes.length, (const uint8_t *)bytes.data);
}

void audit_digest_end(struct sha256_ctx *digest, unsigned char ret_hash[SHA256_DIGEST_SIZE])
{
    sha256_digest(digest, SHA256_DIGEST_SIZE, ret_hash);
    sha256_init(digest);
}

/* -- the key and the head ---------------------------------------------------------------------- */

/* Under its name only once it is whole and on the disk. */
static int seal_make_key(const char *path, struct audit_key *ret_key, struct kg_err *err)
{
    struct audit_key key;
    unsigned char public[crypto_sign_PUBLICKEYBYTES];
    crypto_sign_keypair(public, key.secret);
    kg_auto(kg_free) char *temporary = kg_format("%s.new", path);
    kg_auto(kg_close) int fd =
        open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return kg_fail_errno(err, errno, "audit key %s: make", temporary);
    int result = kg_write_all(fd, key.secret, sizeof(key.secret));
    if (result < 0)
        return kg_fail_errno(err, -result, "audit key %s: write", temporary);
    if (fsync(fd) < 0 || rename(temporary, path) < 0)
        return kg_fail_errno(err, errno, "audit key %s: make", path);
    *ret_key = key;
    kg_auto(kg_free) char *folder = kg_path_folder(path);
    return audit_sync_dir(folder, err);
}

int audit_key_load(const char *path, bool make, struct audit_key *ret_key, struct kg_err *err)
{
    if (sodium_init() < 0)
        return kg_fail(err, KG_E_INTERNAL, "audit key %s: libsodium does not start", path);
    if (make && access(path, F_OK) < 0 && errno == ENOENT)
        return seal_make_key(path, ret_key, err);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    int result = kg_read_file(path, 4096, &text, err);
    if (result < 0)
        return kg_wrap(err, result, "audit key");
    if (text.length != sizeof(ret_key->secret))
        return kg_fail(err, KG_E_IO, "audit key %s: it has %zu bytes, a key has %zu", path,
                       text.length, sizeof(ret_key->secret));
    memcpy(ret_key->secret, text.data, text.length);
    sodium_memzero(text.data, text.length);
    return 0;
}

static void seal_put_number(struct kg_buf *buf, uint64_t number)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(number >> (56 - 8 * i));
    kg_buf_append(buf, bytes, sizeof(bytes));
}

/* What is signed: a name that no other use of the key has, then each field, numbers big-endian. */
static void put_signed_bytes(struct kg_buf *buf, const struct state_audit_head *head)
{
    kg_buf_text(buf, "kaged audit head 1\n");
    seal_put_number(buf, head->first_block);
    kg_buf_append(buf, head->first_prev, sizeof(head->first_prev));
    seal_put_number(buf, head->block);
    seal_put_number(buf, head->events);
    kg_buf_append(buf, head->hash, sizeof(head->hash));
}

void audit_head_sign(const struct audit_key *key, struct state_audit_head *head)
{
    kg_auto(kg_buf_free) struct kg_buf bytes = {0};
    put_signed_bytes(&bytes, head);
    crypto_sign_detached(head->signature, NULL, (const unsigned char *)bytes.data, bytes.length,
                         key->secret);
}

bool audit_head_is_signed(const struct audit_key *key, const struct state_audit_head *head)
{
    unsigned char public[crypto_sign_PUBLICKEYBYTES];
    crypto_sign_ed25519_sk_to_pk(public, key->secret);
    kg_auto(kg_buf_free) struct kg_buf bytes = {0};
    put_signed_bytes(&bytes, head);
    return crypto_sign_verify_detached(head->signature, (const unsigned char *)bytes.data,
                                       bytes.length, public) == 0;
}
