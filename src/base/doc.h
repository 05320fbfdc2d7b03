/*
 * The YAML and TOML readers: two more ways into the tree of json.h, with the same rules (positions,
 * no key twice, everything bounded).
 */
#ifndef KAGED_DOC_H
#define KAGED_DOC_H

#include "base/json/json.h"

#define KG_DOC_BYTES_MAX  1048576
#define KG_DOC_DEPTH_MAX  64
#define KG_YAML_ALIAS_MAX 64 /* in one document; what they repeat counts against the bounds */

/*
 * One YAML 1.1 document as libyaml reads it, scalars resolved by the JSON-like core rules (null,
 * true, false, numbers; quoted ones are strings). Refused: a key twice, tags, a second document,
 * too many aliases, nesting past KG_DOC_DEPTH_MAX, text past KG_DOC_BYTES_MAX.
 */
struct kg_doc *kg_yaml_read(struct kg_str text, struct kg_err *err);

/* TOML 1.0. The root is an object. Integers are in decimal, dates and times keep their flavor. */
struct kg_doc *kg_toml_read(struct kg_str text, struct kg_err *err);

#endif
