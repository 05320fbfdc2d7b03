/* What the files of secret/ share. */
#ifndef KAGED_SECRET_INTERNAL_H
#define KAGED_SECRET_INTERNAL_H

#include "secret/secret.h"

#define SECRET_KEY_BYTES 32
#define SECRET_KEY_ID    16 /* hexadecimal digits */

struct secret_key {
    unsigned char bytes[SECRET_KEY_BYTES];
    char id[SECRET_KEY_ID + 1]; /* tells keys apart, and nothing of what they are */
};
void secret_key_forget(struct secret_key *key); /* for kg_auto */
/* -ENOENT: there is no such file. */
int secret_key_read(const char *path, struct secret_key *ret_key, struct kg_err *err);
/* Writes a new one, in place of what is there or only if there is none. */
enum secret_key_make { SECRET_KEY_IF_MISSING, SECRET_KEY_ALWAYS };
int secret_key_make(const char *path, enum secret_key_make when, struct kg_err *err);
/* The one of all that are there which has this id; id NULL: the one to seal with first. */
int secret_key_find(const struct secret_places *places, const char *id_or_null,
                    struct secret_key *ret_key, struct kg_err *err);

/* -- box.c ------------------------------------------------------------------------------------- */

void secret_box_seal(const struct secret_key *key, struct kg_str context, struct kg_str value,
                     struct kg_buf *ret_text);
/* False: it was not sealed with this key for this context. The buffer must be an empty one. */
bool secret_box_open(const struct secret_key *key, struct kg_str context, struct kg_str text,
                     struct kg_buf *ret_value);

/*
 * The operator's own program, without a cage and with no other variables than those listed. In its
 * words {name} is the name, which is added at the end if no word has it. What it prints, without
 * the last line end, is the value; it is killed with its children at its deadline, or when it
 * prints too much.
 */
int secret_ask_program(const struct local_secrets *program, struct kg_str name,
                       struct kg_buf *ret_value, struct kg_err *err);

#endif
