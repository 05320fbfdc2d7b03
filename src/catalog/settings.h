/*
 * Values of a package's settings. Whoever keeps some keeps a text of this form, and hands it back:
 *
 *   {"plain": {KEY: VALUE}, "sealed": {KEY: BOX}}
 *
 * What the schema calls sensitive is sealed, shown as CATALOG_MASK, and left as it is where that
 * comes back. A schema is the settings_schema of a package, which was checked when it was uploaded.
 * Texts go by key from one version of a package to the next: what does not fit a version is not
 * used there, and named. Sealing and opening read a key, so they are for threads that may wait.
 */
#ifndef KAGED_CATALOG_SETTINGS_H
#define KAGED_CATALOG_SETTINGS_H

#include "base/json/json.h"
#include "secret/secret.h"

#define CATALOG_MASK       "***MASKED***"
#define SETTINGS_BYTES_MAX ((size_t)256 * 1024) /* of one such text */

/* What they are sealed with, and whose they are; a box of one scope does not open in another. */
struct settings_seal {
    const struct secret_places *places; /* borrowed, like the scope */
    const char *scope;                  /* ids, without line ends: "ORG PID" */
};

/*
 * The stored text with what was sent in it: {KEY: VALUE}, null takes a value away, a masked one
 * stays. KG_E_INVALID_PARAMS: there is no such setting, or it has another type.
 */
int settings_change(const struct kg_node *schema, const char *stored_or_null,
                    const struct kg_node *sent, const struct settings_seal *seal,
                    struct kg_buf *ret_stored, struct kg_err *err);
/* All of it sealed with the key that is now to be used. */
int settings_reseal(const char *stored, const struct settings_seal *seal, struct kg_buf *ret_stored,
                    struct kg_err *err);

/* What was stored, by key and masked: {KEY: VALUE}. */
void settings_put(struct kg_json_writer *json, const struct kg_node *schema,
                  const char *stored_or_null);
/* The schema as it is shown, all fields there; and as a form: its items, each with "value", masked
 * or null, and "is_set". */
void settings_put_schema(struct kg_json_writer *json, const struct kg_node *schema);
void settings_put_form(struct kg_json_writer *json, const struct kg_node *schema,
                       const char *stored_or_null);
/* Names of required settings that have neither a value here nor a default; owned. */
char **settings_missing(const struct kg_node *schema, const char *stored_or_null);
/* Keys whose values do not fit this schema, or that it does not have; owned. */
char **settings_dropped(const struct kg_node *schema, const char *stored_or_null);

/* One of the texts that are merged, from weak to strong: the org's, then an orchestrator's. */
struct settings_layer {
    const char *stored; /* or NULL */
    struct settings_seal seal;
};
/*
 * What a package is told: its defaults, and over them the layers. All keys of the schema are there,
 * sorted; one without a value is null. It has secrets in it: secret_wipe is for it.
 */
int settings_merge(const struct kg_node *schema, const struct settings_layer *layers, size_t count,
                   struct kg_buf *ret_values, char ***ret_missing, struct kg_err *err);
/* KG_E_CONFIG_INVALID with the names, if there are any. */
int settings_need(const char *pid, char *const *missing, struct kg_err *err);

#endif
