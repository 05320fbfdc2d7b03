/*
 * The sealed file: JSON, with a name, a time and a box for each secret. A box is bound
 * to the name. The file says by its id which key opens it, and is replaced whole.
 */
#include "secret/internal.h"

#include "base/doc.h"
#include "config/edit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define VERSION 1
#define CONTEXT "kaged secret "

/* -- in memory --------------------------------------------------------------------------------- */

void secrets_free(struct secrets *secrets)
{
    for (size_t i = 0; i < secrets->count; i++) {
        free(secrets->items[i].name);
        secret_wipe(&secrets->items[i].value);
    }
    free(secrets->items);
    *secrets = (struct secrets){0};
}

const struct secret *secrets_find(const struct secrets *secrets, struct kg_str name)
{
    for (size_t i = 0; i < secrets->count; i++)
        if (kg_str_is(name, secrets->items[i].name))
            return &secrets->items[i];
    return NULL;
}

static int secret_store_by_name(const void *a, const void *b)
{
    return strcmp(((const struct secret *)a)->name, ((const struct secret *)b)->name);
}

static struct secret *secret_store_add(struct secrets *secrets, struct kg_str name)
{
    secrets->items = kg_realloc(secrets->items, (secrets->count + 1) * sizeof(*secrets->items));
    struct secret *secret = &secrets->items[secrets->count++];
    *secret = (struct secret){.name = kg_str_dup(name)};
    return secret;
}

int secret_check(struct kg_str name, struct kg_str value, struct kg_err *err)
{
    if (!local_is_secret_name(name)) {
        kg_fail(err, KG_E_USAGE, "\"%.*s\" cannot be the name of a secret",
                KG_STR_CUT(name, KG_CUT_NAME));
        kg_hint(err, "1 to %d letters, digits, \"_\", \"-\" and \".\"", LOCAL_SECRET_NAME_MAX);
        return -EINVAL;
    }
    if (value.length > SECRET_BYTES_MAX)
        return kg_fail(err, KG_E_TOO_LARGE, "secret %.*s: a secret may have at most %d bytes",
                       KG_STR_ARG(name), SECRET_BYTES_MAX);
    if (value.length == 0)
        return kg_fail(err, KG_E_USAGE, "secret %.*s: its value is empty", KG_STR_ARG(name));
    if (memchr(value.data, '\0', value.length) != NULL || kg_utf8_valid(value) != value.length) {
        kg_fail(err, KG_E_USAGE, "secret %.*s: its value is not text: it contains %s",
                KG_STR_ARG(name),
                kg_utf8_valid(value) == value.length ? "a NUL byte" : "bytes that are not UTF-8");
        return kg_hint(err, "store it as base64");
    }
    return 0;
}

/* -- one box ----------------------------------------------------------------------------------- */

static void bind_to_name(const struct secret *secret, struct kg_buf *ret_bound)
{
    kg_buf_text(ret_bound, CONTEXT);
    kg_buf_text(ret_bound, secret->name);
}

static void seal(const struct secret *secret, const struct secret_key *key, struct kg_buf *ret_text)
{
    kg_auto(kg_buf_free) struct kg_buf bound = {0};
    bind_to_name(secret, &bound);
    secret_box_seal(key, kg_buf_view(&bound), kg_buf_view(&secret->value), ret_text);
}

static bool unseal(struct kg_str text, const struct secret_key *key, struct secret *secret)
{
    kg_auto(kg_buf_free) struct kg_buf bound = {0};
    bind_to_name(secret, &bound);
    return secret_box_open(key, kg_buf_view(&bound), text, &secret->value);
}

/* -- the file ---------------------------------------------------------------------------------- */

/* What it was read from, opened. */
struct opened {
    struct secrets secrets;
    struct secret_key key;
    bool has_key; /* an empty file has none yet */
};

static void opened_free(struct opened *opened)
{
    secrets_free(&opened->secrets);
    secret_key_forget(&opened->key);
}

static int damaged(const char *path, struct kg_err *err)
{
    kg_fail(err, KG_E_IO, "secrets %s: the file is damaged or was changed", path);
    kg_hint(err, "restore it from a backup, or remove it and set the secrets again");
    return -EBADMSG;
}

/* The document, its version checked; *ret_id is in it. */
static struct kg_doc *secret_store_read_text(const char *path, struct kg_str text,
                                             struct kg_str *ret_id, struct kg_err *err)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(text, NULL);
    int64_t version = doc ? kg_node_number(doc->root, "version") : 0;
    if (version > VERSION) {
        kg_fail(err, KG_E_CONFLICT, "secrets %s: a newer version of kaged wrote it", path);
        return NULL;
    }
    *ret_id = doc ? kg_node_text(doc->root, "key") : KG_STR_NULL;
    if (version != VERSION || ret_id->length != SECRET_KEY_ID ||
        kg_node_list(doc->root, "secrets")->count > SECRET_COUNT_MAX) {
        damaged(path, err);
        return NULL;
    }
    return kg_steal(&doc);
}

static int open_boxes(const struct kg_node *list, struct opened *opened)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct kg_node *item = &list->items[i];
        struct kg_str name = kg_node_text(item, "name"), box = kg_node_text(item, "box");
        if (!local_is_secret_name(name) || secrets_find(&opened->secrets, name) != NULL)
            return -EBADMSG;
        struct secret *secret = secret_store_add(&opened->secrets, name);
        secret->set_ms = kg_node_number(item, "set_ms");
        if (!unseal(box, &opened->key, secret))
            return -EBADMSG;
    }
    return 0;
}

static int open_text(const struct secret_places *places, struct kg_str text,
                     struct opened *ret_opened, struct kg_err *err)
{
    struct kg_str id;
    if (text.length == 0)
        return 0;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        secret_store_read_text(places->store, text, &id, err);
    if (doc == NULL)
        return -EBADMSG;
    char wanted[SECRET_KEY_ID + 1];
    kg_str_copy(id, wanted, sizeof(wanted));
    int result = secret_key_find(places, wanted, &ret_opened->key, err);
    if (result < 0)
        return result;
    ret_opened->has_key = true;
    if (open_boxes(kg_node_list(doc->root, "secrets"), ret_opened) < 0)
        return damaged(places->store, err);
    return 0;
}

static int secret_store_put_text(struct secrets *secrets, const struct secret_key *key,
                                 struct kg_buf *text, struct kg_err *err)
{
    struct kg_json_writer json = kg_json_writer(text);
    if (secrets->count > 0)
        qsort(secrets->items, secrets->count, sizeof(*secrets->items), secret_store_by_name);
    text->length = 0;
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "version", VERSION);
    kg_json_named_text(&json, "key", key->id);
    kg_json_named_begin(&json, "secrets", '[');
    for (size_t i = 0; i < secrets->count; i++) {
        kg_auto(kg_buf_free) struct kg_buf box = {0};
        seal(&secrets->items[i], key, &box);
        kg_json_begin(&json, '{');
        kg_json_named_text(&json, "name", secrets->items[i].name);
        kg_json_named_int(&json, "set_ms", secrets->items[i].set_ms);
        kg_json_named_str(&json, "box", kg_buf_view(&box));
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    kg_buf_char(text, '\n');
    if (text->length > KG_DOC_BYTES_MAX)
        return kg_fail(err, KG_E_TOO_LARGE, "all secrets together have more than %d bytes, sealed",
                       KG_DOC_BYTES_MAX);
    return 0;
}

int secrets_read(const struct secret_places *places, struct secrets *ret_secrets,
                 struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(opened_free) struct opened opened = {0};
    int result = kg_read_file(places->store, KG_DOC_BYTES_MAX, &text, err);
    if (result == -ENOENT)
        result = 0;
    if (result == 0)
        result = open_text(places, kg_buf_view(&text), &opened, err);
    if (result < 0)
        return result;
    *ret_secrets = opened.secrets;
    opened.secrets = (struct secrets){0};
    return 0;
}

/* -- changes ----------------------------------------------------------------------------------- */

struct change {
    const struct secret_places *places;
    struct kg_str name, value; /* no value: it is removed */
    const char *key_file;      /* what all is sealed with from now on; NULL: as it was */
    size_t count;
};

static int no_secret(struct kg_str name, struct kg_err *err)
{
    return kg_fail(err, KG_E_NOT_FOUND, "there is no secret %.*s", KG_STR_CUT(name, KG_CUT_NAME));
}

static int secret_store_change_one(const struct change *change, struct secrets *secrets,
                                   struct kg_err *err)
{
    struct secret *there = (struct secret *)secrets_find(secrets, change->name);
    if (change->value.data == NULL) {
        if (there == NULL)
            return no_secret(change->name, err);
        free(there->name);
        secret_wipe(&there->value);
        *there = secrets->items[--secrets->count];
        return 0;
    }
    if (there == NULL && secrets->count == SECRET_COUNT_MAX)
        return kg_fail(err, KG_E_TOO_LARGE, "there are %d secrets, which is the maximum",
                       SECRET_COUNT_MAX);
    if (there == NULL)
        there = secret_store_add(secrets, change->name);
    there->set_ms = kg_wall_ms();
    there->value.length = 0;
    kg_buf_str(&there->value, change->value);
    return 0;
}

static int change_text(struct kg_buf *text, void *data, struct kg_err *err)
{
    struct change *change = data;
    kg_auto(opened_free) struct opened opened = {0};
    int result = open_text(change->places, kg_buf_view(text), &opened, err);
    if (result == 0 && change->name.length > 0)
        result = secret_store_change_one(change, &opened.secrets, err);
    if (result == 0 && change->key_file != NULL)
        result = secret_key_read(change->key_file, &opened.key, err);
    else if (result == 0 && !opened.has_key)
        result = secret_key_find(change->places, NULL, &opened.key, err);
    if (result < 0)
        return result;
    change->count = opened.secrets.count;
    return secret_store_put_text(&opened.secrets, &opened.key, text, err);
}

int secret_set(const struct secret_places *places, struct kg_str name, struct kg_str value,
               struct kg_err *err)
{
    struct change change = {.places = places, .name = name, .value = value};
    int result = secret_check(name, value, err);
    if (result == 0 && places->credential == NULL && access(places->next_key, F_OK) < 0)
        result = secret_key_make(places->key, SECRET_KEY_IF_MISSING, err);
    return result < 0 ? result : edit_file(places->store, change_text, &change, err);
}

int secret_remove(const struct secret_places *places, struct kg_str name, struct kg_err *err)
{
    struct change change = {.places = places, .name = name};
    char **names = NULL;
    int result = secret_names(places->store, &names, err);
    if (result == 0 && !kg_list_has(names, name))
        result = no_secret(name, err);
    kg_list_free(names);
    return result < 0 ? result : edit_file(places->store, change_text, &change, err);
}

/* The one that the service manager has cannot be made again; what it has can be moved to. */
static int rotate_to_credential(struct change *change, struct kg_err *err)
{
    const struct secret_places *places = change->places;
    kg_auto(secret_key_forget) struct secret_key key = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_str id;
    int result = secret_key_read(places->credential, &key, err);
    if (result == 0)
        result = kg_read_file(places->store, KG_DOC_BYTES_MAX, &text, err);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        result == 0 ? secret_store_read_text(places->store, kg_buf_view(&text), &id, err) : NULL;
    if (doc == NULL)
        return result < 0 ? result : -EBADMSG;
    if (kg_str_is(id, key.id)) {
        kg_fail(err, KG_E_CONFLICT, "the key is the service manager's, which kaged cannot change");
        return kg_hint(err, "move the old key to %s, give kaged a new credential, then rotate",
                       places->key);
    }
    change->key_file = places->credential;
    result = edit_file(places->store, change_text, change, err);
    if (result == 0) {
        unlink(places->key);
        unlink(places->next_key);
    }
    return result;
}

/* A rotation that was cut off after it sealed: its key is the one in use, and takes its place. */
static int finish_rotation(const struct secret_places *places, struct kg_err *err)
{
    kg_auto(secret_key_forget) struct secret_key key = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_str id;
    if (secret_key_read(places->next_key, &key, NULL) < 0)
        return 0;
    int result = kg_read_file(places->store, KG_DOC_BYTES_MAX, &text, err);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        result == 0 ? secret_store_read_text(places->store, kg_buf_view(&text), &id, err) : NULL;
    if (doc == NULL)
        return result < 0 ? result : -EBADMSG;
    if (kg_str_is(id, key.id) && rename(places->next_key, places->key) < 0)
        return kg_fail_errno(err, errno, "rename %s to %s", places->next_key, places->key);
    return 0;
}

int secret_rotate(const struct secret_places *places, size_t *ret_count, struct kg_err *err)
{
    struct change change = {.places = places, .key_file = places->next_key};
    int result = 0;
    if (access(places->store, F_OK) < 0)
        return kg_fail(err, KG_E_NOT_FOUND, "there are no secrets to seal again");
    if (places->credential != NULL) {
        result = rotate_to_credential(&change, err);
    } else {
        result = finish_rotation(places, err);
        if (result == 0)
            result = secret_key_make(places->next_key, SECRET_KEY_ALWAYS, err);
        if (result == 0)
            result = edit_file(places->store, change_text, &change, err);
        if (result == 0)
            result = finish_rotation(places, err);
    }
    if (result == 0)
        *ret_count = change.count;
    return result;
}

/* -- of a backup ------------------------------------------------------------------------------- */

int secret_check_key(const char *store, const char *key_file, struct kg_err *err)
{
    const struct secret_places places = {
        .store = (char *)store, .key = (char *)key_file, .next_key = (char *)key_file};
    struct secrets secrets = {0};
    int result = secrets_read(&places, &secrets, err);
    secrets_free(&secrets);
    return result;
}

int secret_names(const char *store, char ***ret_names, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_str id;
    int result = kg_read_file(store, KG_DOC_BYTES_MAX, &text, err);
    if (result == -ENOENT) {
        *ret_names = kg_list_new(0);
        return 0;
    }
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        result == 0 ? secret_store_read_text(store, kg_buf_view(&text), &id, err) : NULL;
    if (doc == NULL)
        return result < 0 ? result : -EBADMSG;
    const struct kg_node *list = kg_node_list(doc->root, "secrets");
    char **names = kg_list_new(list->count);
    for (uint32_t i = 0; i < list->count; i++)
        names[i] = kg_str_dup(kg_node_text(&list->items[i], "name"));
    *ret_names = names;
    return 0;
}
