/*
 * MCP servers that come without a manifest of kaged's: what is known of one becomes a manifest, in
 * the same form whatever it comes as (a package, a bundle, an entry in a client's file).
 */
#ifndef KAGED_STORE_SERVER_H
#define KAGED_STORE_SERVER_H

#include "base/json/json.h"

/* All borrowed. A stranger wrote most of it: texts are cut, and made one line. */
struct store_server {
    const char *name;    /* as store_server_name makes it */
    const char *package; /* named in the manifest if it ends in the name; or NULL */
    const char *version; /* what is none becomes 0.0.0; or NULL */
    const char *description, *author, *license, *homepage; /* or NULL */
    char *const *command;                                  /* the program first; NULL-ended */
    const char *url;                                       /* of one somewhere else; or NULL */
    char *const *headers;                                  /* "Name=value", with url */
    char *const *env;                                      /* "NAME=value"; NULL-ended; or NULL */
    char *const *capabilities;                             /* NULL-ended; or NULL */
    const struct kg_node *config_schema, *system_config_schema; /* or NULL */
};

/* The text of kaged-plugin.yaml. What is wrong with it is seen when it is read. */
void store_server_manifest(const struct store_server *server, struct kg_buf *ret_text);

/*
 * The name of a plugin: letters, digits and hyphens. That of a package is its last part, with the
 * scope before it where that part says nothing: "@acme/mcp" is acme-mcp. Owned; NULL: nothing of it
 * can be in a name.
 */
char *store_server_name(const char *package_or_name);

/*
 * Proposes read:fs, or write:fs, for each argument that is an absolute path on this machine, alone
 * or behind "--option=", and puts its real path there. Blocks.
 */
void store_server_paths(char **args, bool write, char ***capabilities);

#endif
