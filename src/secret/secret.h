/*
 * The operator's secrets: sealed in one file of the state folder, with a key that lies in a file of
 * its own or comes from the service manager. A value leaves this module only toward the plugin or
 * the provider of models whose table in local.toml names it, and for those who hide it.
 */
#ifndef KAGED_SECRET_H
#define KAGED_SECRET_H

#include "config/config.h"
#include "config/local.h"

#define SECRET_BYTES_MAX  32768
#define SECRET_COUNT_MAX  256
#define SECRET_HIDDEN_MIN 8 /* a shorter value would hide half of every text */

/* Frees what had a value, and overwrites it first; also for kg_auto. */
void secret_wipe(struct kg_buf *buf);

/* Where they are. */
struct secret_places {
    char *store;      /* owned, like the others */
    char *key;        /* made when a secret is set first */
    char *next_key;   /* of a rotation that is not finished */
    char *credential; /* the service manager's, which goes before the key file; NULL: it has none */
};
void secret_places_find(const struct config_paths *paths, struct secret_places *ret_places);
void secret_places_free(struct secret_places *places);

/* -- the sealed file; each call reads it again, and may wait for the disk ---------------------- */

struct secret {
    char *name;          /* owned */
    struct kg_buf value; /* owned, and overwritten when it is freed */
    int64_t set_ms;      /* wall clock */
};
struct secrets {
    struct secret *items; /* owned; sorted by name */
    size_t count;
};
/* A missing file has none. */
int secrets_read(const struct secret_places *places, struct secrets *ret_secrets,
                 struct kg_err *err);
void secrets_free(struct secrets *secrets);
const struct secret *secrets_find(const struct secrets *secrets, struct kg_str name);

/* Whether it can be a secret of that name, before anything is written. */
int secret_check(struct kg_str name, struct kg_str value, struct kg_err *err);
/* Each is written whole, and to stay, or not at all. */
int secret_set(const struct secret_places *places, struct kg_str name, struct kg_str value,
               struct kg_err *err);
int secret_remove(const struct secret_places *places, struct kg_str name, struct kg_err *err);
/*
 * Seals all of them with a new key, or with the service manager's, if they are not yet. Wherever it
 * is cut off, one of the keys that are there opens the file.
 */
int secret_rotate(const struct secret_places *places, size_t *ret_count, struct kg_err *err);
/* What a backup's file is sealed with; whether this key opens it, and what is in it by name. */
int secret_check_key(const char *store, const char *key_file, struct kg_err *err);
int secret_names(const char *store, char ***ret_names, struct kg_err *err);

/* -- boxes that others keep: each call reads the key again, and may wait for the disk ---------- */

/*
 * A box says which key opens it, and opens in its own context alone. Here the store of the places
 * is what messages call it, and there is no credential. The key is made when it is needed first.
 */
int secret_seal(const struct secret_places *places, struct kg_str context, struct kg_str value,
                struct kg_buf *ret_text, struct kg_err *err);
int secret_unseal(const struct secret_places *places, struct kg_str context, struct kg_str text,
                  struct kg_buf *ret_value, struct kg_err *err);
/*
 * From now on they are sealed with a next key, and those of both open; once all are sealed again,
 * and that is written to stay, the next key takes the place of the other. Cut off anywhere, it is
 * begun again.
 */
int secret_boxes_rotate(const struct secret_places *places, struct kg_err *err);
int secret_boxes_rotated(const struct secret_places *places, struct kg_err *err);

/* -- what local.toml names, looked up ---------------------------------------------------------- */

/* Does not change once it is read, so that any thread may look; freed with its last reference. */
struct secret_values;
/* Waits for the disk and for programs. NULL: the file cannot be used, whatever is looked up. */
struct secret_values *secret_values_read(const char *local_file, const struct secret_places *places,
                                         struct kg_err *err);
/* The same, but no program is asked and no file read: for whoever wants to know their names. */
struct secret_values *secret_values_list(const char *local_file, const struct secret_places *places,
                                         struct kg_err *err);
struct secret_values *secret_values_keep(struct secret_values *values);
void secret_values_drop(struct secret_values *values); /* takes NULL */
/* For local_load; what the file did not name when it was looked up is not found. */
struct local_lookup secret_values_lookup(const struct secret_values *values);

/* Sealed or not, each that is sealed or named, by name. */
struct secret_fact {
    const char *name;
    bool is_sealed;
    bool is_command;      /* it is left to the program to know it */
    bool is_known;        /* it has a value */
    bool is_hidden;       /* it is long enough to be */
    int64_t set_ms;       /* of a sealed one */
    char *const *used_by; /* "plugins.echo", "providers.local"; ended by NULL */
};
size_t secret_values_count(const struct secret_values *values);
struct secret_fact secret_values_fact(const struct secret_values *values, size_t index);
/* Visits the values of all, and of the files that are named. */
typedef void secret_value_fn(void *data, struct kg_str value);
void secret_values_each(const struct secret_values *values, secret_value_fn *visit, void *data);
/* Fails if local.toml names it, and says where. */
int secret_check_unused(const struct secret_values *values, struct kg_str name, struct kg_err *err);
/* One of them, or all: {"name","source","redacted","set_at","used_by"}; no value is in it. */
void secret_fact_json(const struct secret_fact *fact, struct kg_json_writer *json);
bool secret_values_find(const struct secret_values *values, struct kg_str name,
                        struct secret_fact *ret_fact);
void secret_values_json(const struct secret_values *values, struct kg_buf *ret_json);

#endif
