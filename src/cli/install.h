/*
 * What the commands that change the plugin store share. They reach it by a door: the API of the
 * daemon, or without one the store itself. Both answer with the same objects, so that a dialogue
 * is written once.
 */
#ifndef KAGED_CLI_INSTALL_H
#define KAGED_CLI_INSTALL_H

#include "cli/cli.h"
#include "store/store.h"

/* An object of the API, as text and as a tree. */
struct door_answer {
    struct kg_buf body;
    struct kg_doc *doc;
};
void door_answer_free(struct door_answer *answer); /* also for kg_auto; leaves an empty one */

struct door_wish {
    const char *kind;            /* "install", "approve" */
    const char *plugin;          /* of an approval */
    const char *source;          /* of an install: an absolute path, or a URL */
    const char *version;         /* or NULL */
    const struct store_own *own; /* what the operator adds to it; NULL: nothing */
    const char *server;          /* of an MCP server: {"name", "args"}, as JSON; or NULL */
    bool packages;               /* with what its package-lock.json names */
};
struct door_yes {
    const char *hash; /* of what was shown; NULL: it may be fetched */
    const char *path; /* where from, or NULL */
    bool packages;    /* with what its package-lock.json names */
    bool allow_new_capabilities, replace_source;
};

struct door;
/* Each prints what went wrong, if anything did, and returns the exit code, 0 on success. */
struct door_ops {
    int (*want)(struct door *door, const struct door_wish *wish, struct door_answer *ret_consent);
    /* The consent as it is, after a moment: a caller that waits for it asks repeatedly. */
    int (*look)(struct door *door, const char *id, struct door_answer *ret_consent);
    int (*approve)(struct door *door, const char *id, const struct door_yes *yes,
                   struct door_answer *ret_consent);
    void (*decline)(struct door *door, const char *id);
    /* With the options that the command was given. */
    int (*uninstall)(struct door *door, const char *name, struct door_answer *ret_removed);
    int (*promote)(struct door *door, const char *name, struct door_answer *ret_plugin);
    void (*close)(struct door *door);
};
struct door {
    const struct door_ops *ops;
    const struct cli *cli; /* borrowed */
    bool to_daemon;        /* else plugins can only be changed, and none can be started */
};

enum door_needs {
    DOOR_DAEMON, /* there is no other way */
    DOOR_STORE,
    DOOR_FETCH, /* the store, and something that is not in it yet */
};
/* A daemon that is there but cannot be asked runs, too. */
bool door_daemon_runs(const struct cli *cli);
struct door *door_to_daemon(const struct cli *cli);
int door_to_store(const struct cli *cli, bool fetches, struct door **ret_door);
/* Reads the answer's body into its tree. */
int door_answer_read(struct door_answer *answer);

/* The daemon has another folder to start from than the operator. Owned. */
char *door_absolute(const char *source);

/* -- the dialogue, see install.c --------------------------------------------------------------- */

/* About one consent, with one person or with none. */
struct dialogue {
    struct cli *cli;
    struct door *door;
    const struct door_wish *wish; /* what it began with; NULL: others did */
    int tty;                      /* where to ask; -1: nobody can be asked */
    bool mute;                    /* and nobody said yes: it is shown, and that is all */
    bool live;                    /* stdout is a terminal that can show progress */
    struct door_answer consent;
};
/* A flag that could be taken for a yes must not be given alone. */
int dialogue_check_flags(const struct cli *cli);
/* With a door that is to be closed. Fails if nobody can be asked about what others wanted. */
int dialogue_begin(struct cli *cli, enum door_needs needs, struct dialogue *ret_dialogue);
void dialogue_end(struct dialogue *dialogue); /* also for kg_auto */
/* Shows what the consent offers, asks, and answers it. What is declined is said. */
int dialogue_decide(struct dialogue *dialogue);

/* What a question is about stands where the question stands. */
void dialogue_say(const struct dialogue *dialogue, const struct kg_buf *text);
/* Starts a server that was installed, and asks about its tools. See install_tools.c. */
int dialogue_see_tools(struct dialogue *dialogue);

/* -- texts, see install_show.c ----------------------------------------------------------------- */

/* What is offered, and how it differs from what is there. */
void show_offer(struct kg_buf *out, const struct kg_node *consent, bool colors);
/* "Install NAME?" and the like, without " [y/N]". */
void show_question(struct kg_buf *out, const struct kg_node *consent);
/* "Allow its new capability X?" */
void show_widening_question(struct kg_buf *out, const struct kg_node *offer);
/* Whether it would take the place of a plugin from another source; and "Put it in its place?" */
bool show_is_of_other_source(const struct kg_node *offer);
void show_source_question(struct kg_buf *out, const struct kg_node *offer);
/* The new capabilities, comma-separated; how many there are. */
size_t show_new_capabilities(struct kg_buf *out, const struct kg_node *offer);
/* What was done, and what comes next. self: what to call kaged by; NULL: that goes on by itself. */
void show_done(struct kg_buf *out, const struct kg_node *consent, const char *self);
void show_uninstalled(struct kg_buf *out, const struct kg_node *removed);
/* Those of a server's tools that wait for a yes, with every word of them. See plugin_declared.c. */
void show_waiting_tools(struct kg_buf *out, const struct kg_node *tools);
/* "fetching, 12 files, 3.4M" */
void show_progress(struct kg_buf *out, const struct kg_node *consent);

#endif
