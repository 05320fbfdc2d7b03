/*
 * local.toml: the operator's own file. It says which plugins are installed and holds what they must
 * not share: secrets. Values of secrets leave this module only toward the plugin, or the provider
 * of models, that they belong to.
 */
#ifndef KAGED_LOCAL_H
#define KAGED_LOCAL_H

#include "base/json/json.h"

/* [plugins."PACKAGE"]; nodes live in the document of the whole file. */
#define LOCAL_SYSTEM "system_config" /* where those keys of a plugin's table may stand, too */

struct local_plugin {
    struct kg_str package;
    struct kg_str installed; /* the version; empty if it does not say */
    struct kg_str from;      /* where it came from, see store_source_key; empty: not known */
    bool local;              /* for every project, and started with the daemon */
    struct kg_str hash;      /* of what was approved; empty if it does not say */
    struct kg_str process;   /* whom a process of it serves; empty: it was installed before that */
    const struct kg_node *config; /* the operator's defaults; NULL if there are none */
    const struct kg_node *system; /* all other keys, the operator's secrets; an object */
    const struct kg_err *problem; /* why what it names could not be looked up; NULL: all was */
};

/* What a provider of models speaks. */
enum local_kind { LOCAL_OPENAI, LOCAL_ANTHROPIC, LOCAL_DEMO, LOCAL_KINDS };
extern const char *const local_kind_names[LOCAL_KINDS];

/* [providers.NAME]: where models are, and the key for them. */
struct local_provider {
    struct kg_str name;
    enum local_kind kind;
    struct kg_str base_url; /* without a slash at its end */
    const char *host; /* of base_url: a name in lower case, an address without brackets; "": none */
    uint16_t port;
    struct kg_str api_key;         /* empty: none is sent */
    const struct kg_node *headers; /* sent with each request: an object of strings, or NULL */
    bool insecure;                 /* http:// to another machine is meant */
    int64_t connect_timeout_ms;
    int64_t idle_timeout_ms;      /* without a byte of the answer */
    int64_t timeout_ms;           /* of a whole answer, with all that is tried again */
    int64_t retries;              /* after 429, 5xx and lost connections */
    uint32_t calls_max;           /* at the same time, at most LOCAL_CALLS_MAX */
    uint32_t waiting_max;         /* more, that wait for it */
    const struct kg_err *problem; /* as of a plugin */
};

#define LOCAL_CALLS_MAX 256

/* [models.ALIAS]: what agents and knobs call a model. */
struct local_model {
    struct kg_str alias;
    const struct local_provider *provider;
    struct kg_str model;       /* the provider's own name of it */
    int64_t context_window;    /* tokens; 0: it does not say */
    int64_t max_tokens;        /* of an answer; 0: it does not say */
    struct kg_str temperature; /* a number as JSON writes it; empty if it does not say */
    bool reasoning;            /* it thinks before it answers */
    bool fast;
};

/*
 * [grants.PLUGIN], and [grants.PLUGIN.projects.PROJECT]: the operator's own lines over what the
 * plugin's manifest declares. What a line means is manifest/grants.h's to say.
 */
struct local_grant {
    struct kg_str plugin;
    struct kg_str project;        /* empty: wherever it runs */
    char **allow, **deny;         /* owned, like the next */
    char **env;                   /* NAME=VALUE, besides the manifest's; not for a project */
    const struct kg_err *problem; /* as of a plugin */
};
/* Whether a plugin can have a variable of that name in its environment. */
bool local_is_env_name(struct kg_str name);

/* [system_plugins.NAME]: a shared object that is loaded into the daemon. */
struct local_system_plugin {
    struct kg_str name;
    struct kg_str path;           /* absolute */
    struct kg_str hash;           /* of the file; empty if it does not say */
    bool required;                /* the daemon does not start without it */
    const struct kg_node *hooks;  /* that it may have, a list of texts; NULL: none */
    const struct kg_node *config; /* an object, or NULL */
    const struct kg_err *problem; /* as of a plugin */
};

/* [secrets]: the operator's own program, which knows what is not sealed. */
struct local_secrets {
    const struct kg_node *command;     /* its words, a list of strings; NULL: there is none */
    const struct kg_node *environment; /* names of variables that it gets; NULL: none */
    int64_t timeout_ms;
};

/* [services]: keys for what the daemon itself asks; texts are empty where it does not say. */
struct local_services {
    const struct kg_node *audit_headers; /* of audit.forward: an object of strings, or NULL */
    struct kg_str bucket_access_key, bucket_secret_key, bucket_session_token;
    const struct kg_err *audit_problem, *bucket_problem; /* as of a plugin */
};

struct local_problem;
struct local {
    struct kg_doc *doc; /* owned */
    struct local_grant *grants;
    size_t grant_count;
    struct local_plugin *plugins;
    size_t plugin_count;
    struct local_provider *providers; /* as the plugins */
    size_t provider_count;
    struct local_model *models;
    size_t model_count;
    struct local_system_plugin *system_plugins;
    size_t system_plugin_count;
    struct local_secrets secrets;
    struct kg_str cluster_password; /* [cluster]: of the database; empty: libpq looks for one */
    struct local_services services;
    const struct local_problem *problems; /* in the document */
};

/*
 * In every text of the file ${VAR} is a variable of the environment, ${secret:NAME} a secret and
 * ${file:PATH} what a file has. A variable that is not set makes the file unusable. The others are
 * looked up by the reader of the file, and one that cannot be found is the problem of the plugin or
 * the provider whose table names it, and of nobody else.
 */
enum local_reference_kind { LOCAL_SECRET, LOCAL_FILE, LOCAL_REFERENCE_KINDS };
struct local_reference {
    enum local_reference_kind kind;
    struct kg_str name;
    struct kg_str section, table; /* who names it: [plugins.echo]; of others table is empty */
};
struct local_lookup {
    /* Appends what it stands for. Messages name the reference, and never a value. */
    int (*find)(void *data, const struct local_reference *reference, struct kg_buf *ret_value,
                struct kg_err *err);
    void *data;
};
extern const struct local_lookup local_environment; /* finds variables alone */
#define LOCAL_REPLACE (&local_environment)
#define LOCAL_LEAVE   NULL /* all is left as it is written */

#define LOCAL_SECRET_NAME_MAX 64
/* 1 to 64 letters, digits, "_", "-" and ".", the first one neither of the last two. */
bool local_is_secret_name(struct kg_str name);

/* A missing file is an empty one. */
struct local *local_load(const char *path, const struct local_lookup *lookup_or_null,
                         struct kg_err *err);
struct local *local_read(struct kg_str text, const struct local_lookup *lookup_or_null,
                         struct kg_err *err);
/* Only what is needed to look up: each reference is asked for, and [secrets] is read. */
struct local *local_load_references(const char *path, const struct local_lookup *lookup,
                                    struct kg_err *err);
void local_free(struct local *local);
/* NULL if the file does not speak of it. */
const struct local_plugin *local_plugin_find(const struct local *local, struct kg_str package);
const struct local_provider *local_provider_find(const struct local *local, struct kg_str name);
const struct local_model *local_model_find(const struct local *local, struct kg_str alias);

/* The keys of a plugin's table that are not the plugin's own. */
bool local_key_is_reserved(struct kg_str key);

#endif
