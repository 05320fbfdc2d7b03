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
    struct kg_str installed;      /* the version; empty if it does not say */
    bool local;                   /* for every project, and started with the daemon */
    struct kg_str hash;           /* of what was approved; empty if it does not say */
    const struct kg_node *config; /* the operator's defaults; NULL if there are none */
    const struct kg_node *system; /* all other keys, the operator's secrets; an object */
};

/* What a provider of models speaks. */
enum local_kind { LOCAL_OPENAI, LOCAL_ANTHROPIC, LOCAL_KINDS };
extern const char *const local_kind_names[LOCAL_KINDS];

/* [providers.NAME]: where models are, and the key for them. */
struct local_provider {
    struct kg_str name;
    enum local_kind kind;
    struct kg_str base_url; /* without a slash at its end */
    const char *host;       /* of base_url: a name in lower case, or an address without brackets */
    uint16_t port;
    struct kg_str api_key;         /* empty: none is sent */
    const struct kg_node *headers; /* sent with each request: an object of strings, or NULL */
    bool insecure;                 /* http:// to another machine is meant */
    int64_t connect_timeout_ms;
    int64_t idle_timeout_ms; /* without a byte of the answer */
    int64_t timeout_ms;      /* of a whole answer, with all that is tried again */
    int64_t retries;         /* after 429, 5xx and lost connections */
};

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

struct local {
    struct kg_doc *doc; /* owned */
    struct local_plugin *plugins;
    size_t plugin_count;
    struct local_provider *providers; /* as the plugins */
    size_t provider_count;
    struct local_model *models;
    size_t model_count;
};

/* Whether ${VAR} is replaced; a variable that is not set is then an error. */
enum local_variables { LOCAL_REPLACE, LOCAL_LEAVE };

/* A missing file is an empty one. */
struct local *local_load(const char *path, enum local_variables variables, struct kg_err *err);
struct local *local_read(struct kg_str text, enum local_variables variables, struct kg_err *err);
void local_free(struct local *local);
/* NULL if the file does not speak of it. */
const struct local_plugin *local_plugin_find(const struct local *local, struct kg_str package);
const struct local_provider *local_provider_find(const struct local *local, struct kg_str name);
const struct local_model *local_model_find(const struct local *local, struct kg_str alias);

/* The keys of a plugin's table that are not the plugin's own. */
bool local_key_is_reserved(struct kg_str key);

#endif
