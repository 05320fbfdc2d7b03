/*
 * local.toml: the operator's own file. It says which plugins are installed and holds what they must
 * not share: secrets. Values of secrets leave this module only toward the plugin that they belong
 * to.
 */
#ifndef KAGED_LOCAL_H
#define KAGED_LOCAL_H

#include "base/json/json.h"

/* [plugins."PACKAGE"]; nodes live in the document of the whole file. */
struct local_plugin {
    struct kg_str package;
    struct kg_str installed;      /* the version; empty if it does not say */
    bool local;                   /* for every project, and started with the daemon */
    struct kg_str hash;           /* of what was approved; empty if it does not say */
    const struct kg_node *config; /* the operator's defaults; NULL if there are none */
    const struct kg_node *system; /* all other keys, the operator's secrets; an object */
};

struct local {
    struct kg_doc *doc; /* owned */
    struct local_plugin *plugins;
    size_t plugin_count;
};

/* Whether ${VAR} is replaced; a variable that is not set is then an error. */
enum local_variables { LOCAL_REPLACE, LOCAL_LEAVE };

/* A missing file is an empty one. */
struct local *local_load(const char *path, enum local_variables variables, struct kg_err *err);
struct local *local_read(struct kg_str text, enum local_variables variables, struct kg_err *err);
void local_free(struct local *local);
/* NULL if the file does not speak of it. */
const struct local_plugin *local_plugin_find(const struct local *local, struct kg_str package);

/* The keys of a plugin's table that are not the plugin's own. */
bool local_key_is_reserved(struct kg_str key);

#endif
