/*
 * MCP servers in the files of clients: which there are, and what each becomes here.
 *   clients.c   the files that clients keep, and what is in them
 *   entry.c     one entry of such a file: a source of ours, or why it is none yet
 *   keys.c      what of it is a key, and belongs in the store of secrets
 *   wish.c      what it is asked for with, to be installed
 * Somebody wrote the files by hand, or copied an entry from a stranger: all of it is bounded, and
 * nothing is run.
 */
#ifndef KAGED_IMPORT_H
#define KAGED_IMPORT_H

#include "base/json/json.h"

/* -- keys -------------------------------------------------------------------------------------- */

/* What a server needs and no file should hold. Owned. */
struct import_key {
    char *name;  /* of the variable that holds it: ${env.NAME} in arguments and headers */
    char *value; /* NULL: the file only says that there is one; the operator has to set it */
};

/* Whether a variable or header of that name, with that value, is one. */
bool import_is_key(struct kg_str name, struct kg_str value);

/* -- entries ----------------------------------------------------------------------------------- */

/* One server as a client's file has it. Borrowed, but for the texts that `place` says. */
struct import_entry {
    struct kg_str name;
    const struct kg_node *node;
    const char *folder; /* that ${workspaceFolder} is */
};

enum import_kind {
    IMPORT_NPM,     /* npx PACKAGE */
    IMPORT_PROGRAM, /* something on this machine */
    IMPORT_REMOTE,  /* a URL */
    IMPORT_NOT_YET, /* docker, uvx and the like: nothing here starts such */
    IMPORT_BAD,     /* it says nothing that could be started */
};
extern const char *const import_kind_names[]; /* "npm", "program", "remote", "not-yet", "bad" */

/* What becomes of it. Owned; lists are NULL-ended and never NULL. */
struct import_server {
    char *name;   /* as the file has it */
    char *plugin; /* what it is called here */
    char *client; /* "Claude Desktop"; "" of a file that was named */
    char **files; /* that it is in; the first counts */
    enum import_kind kind;
    char *source;           /* "npm:PACKAGE", "program:/PATH", "mcp+https://..."; NULL: none */
    char *why;              /* there is none, in words; NULL */
    char *instead;          /* an npm package of the same server; NULL: none is known */
    char **args, **headers; /* "Name=value"; ${env.KEY} stands for a key */
    char **env;             /* "NAME=value", without keys */
    struct import_key *keys;
    size_t key_count;
    char **dangers; /* in words */
    bool disabled;  /* the client does not start it */
};

struct import_list {
    struct import_server *items; /* owned */
    size_t count;
    char **files;    /* that were read; owned, like the next */
    char **problems; /* files that could not be read, a line each */
};
void import_list_free(struct import_list *list); /* also for kg_auto */

/* -- what it is asked for with, see wish.c -------------------------------------------------------
 */

/* The secret that a key is kept as: PLUGIN.KEY, as long as a name may be. Owned. */
char *import_secret_name(const struct import_server *server, const struct import_key *key);
/* Its variables, and for each key one that names its secret. Owned. */
char **import_env(const struct import_server *server);
/* {"name","args","headers"?}, as the source of a server has it beside its text. */
void import_server_json(const struct import_server *server, struct kg_buf *out);

/* -- files ------------------------------------------------------------------------------------- */

/* Blocks. All that clients keep below a home and in a folder. Files that are not there are fine. */
void import_find(const char *home, const char *here, struct import_list *list);
/* Blocks. One that the operator names. */
int import_read(const char *path, struct import_list *list, struct kg_err *err);

/* Pure. The servers that a text holds; folder is that of its project. */
int import_parse(struct kg_str text, const char *path, const char *client, const char *folder,
                 struct import_list *list, struct kg_err *err);

#endif
