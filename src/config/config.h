/*
 * Where kaged's files are, and what config.toml says. A file is read whole, checked whole, and
 * taken whole or not at all.
 */
#ifndef KAGED_CONFIG_H
#define KAGED_CONFIG_H

#include "base/base.h"

/* -- folders ----------------------------------------------------------------------------------- */

/* Each is absolute and owned. */
struct config_paths {
    char *home; /* KAGED_HOME or --home; NULL in per-user and system mode */
    char *config_dir, *config_file, *local_file;
    char *plugins_dir, *plugin_data_dir;
    char *state_dir, *state_db, *storage_dir, *audit_dir, *audit_key, *logs_dir, *uids_file;
    char *audit_forward;
    char *secrets_file, *secrets_key, *catalog_key, *cluster_keys;
    char *run_dir, *socket, *pid_file, *launch_file;
    mode_t config_dir_mode; /* a user's own is for him alone; the system's daemon may be another */
};
/* home_or_null: from --home; else KAGED_HOME; else the user's folders, or the system's for root. */
int config_paths_find(const char *home_or_null, struct config_paths *ret_paths, struct kg_err *err);
void config_paths_system(struct config_paths *ret_paths); /* the system's, whoever asks */
void config_paths_free(struct config_paths *paths);
/* The folders that the daemon writes to, in no order; NULL-ended and borrowed. */
#define CONFIG_PATHS_FOLDERS 7
void config_paths_folders(const struct config_paths *paths,
                          const char *ret_folders[CONFIG_PATHS_FOLDERS + 1]);
/* Makes the folder of config.toml and local.toml, which only the operator's commands write to. */
int config_paths_make_config(const struct config_paths *paths, struct kg_err *err);
/* Makes that and them: 0700, but plugins are for all to read. One may belong to root or to user. */
int config_paths_make(const struct config_paths *paths, uid_t user, struct kg_err *err);
/* Where templates, SDKs and plugins are that came with this program; owned. */
char *config_share_dir(void);

/* -- config.toml ------------------------------------------------------------------------------- */

enum config_applies { CONFIG_LIVE, CONFIG_START, CONFIG_DAEMON };
enum config_type {
    CONFIG_TYPE_INT,
    CONFIG_TYPE_BOOL,
    CONFIG_TYPE_TEXT,
    CONFIG_TYPE_LIST,
    CONFIG_TYPE_INTS, /* a value for each of many names, like all that follow */
    CONFIG_TYPE_LISTS,
    CONFIG_TYPE_TABLES
};

/* Where in the file something stands. */
struct config_place {
    uint32_t line, column;
};

/* What texts of a key look like. */
struct config_form {
    const char *one, *many; /* in words */
    bool (*fits)(struct kg_str text);
    /* Says what is wrong with one that does not fit; NULL: the words above are all. */
    void (*explain)(struct kg_str text, struct kg_err *err);
};

/* What the file says for each name; in its order. */
struct config_named {
    char *name; /* owned */
    int64_t number;
    char **list; /* owned; NULL where a number is meant; of a table one text, which is JSON */
};
struct config_names {
    struct config_named *items; /* owned */
    size_t count;
};
const struct config_named *config_named_get(const struct config_names *names, struct kg_str name);
/* What is said for the name, or the fallback. */
int64_t config_int_for(const struct config_names *names, const char *name, int64_t fallback);

/* A field for each row of keys.def: `limits_call_timeout_ms`. Texts and lists are owned. */
struct config {
#define CONFIG_INT(section, key, fallback, min, max, applies, meaning) int64_t section##_##key;
#define CONFIG_BOOL(section, key, fallback, applies, meaning)          bool section##_##key;
#define CONFIG_TEXT(section, key, fallback, choices, applies, meaning) char *section##_##key;
#define CONFIG_FORM(section, key, form, applies, meaning)              char *section##_##key;
#define CONFIG_LIST(section, key, form, applies, meaning)              char **section##_##key;
#define CONFIG_DEEP(section, group, name, key, form, applies, meaning)                             \
    char *section##_##group##_##name##_##key;
#define CONFIG_INTS(section, group, key, min, max, applies, meaning)                               \
    struct config_names section##_##group##_##key;
#define CONFIG_LISTS(section, group, form, applies, meaning) struct config_names section##_##group;
#define CONFIG_TABLES(section, group, applies, meaning)      struct config_names section##_##group;
#include "config/keys.def"
#undef CONFIG_INT
#undef CONFIG_BOOL
#undef CONFIG_TEXT
#undef CONFIG_LIST
#undef CONFIG_FORM
#undef CONFIG_DEEP
#undef CONFIG_INTS
#undef CONFIG_LISTS
#undef CONFIG_TABLES
    struct config_place *places; /* owned; for each row of config_keys; line 0: not in the file */
};

struct config_key {
    const char *section, *key; /* "*" in them stands for any name */
    enum config_type type;
    enum config_applies applies;
    size_t offset;              /* in struct config */
    int64_t fallback, min, max; /* of a bool: 0 or 1 */
    const char *text_fallback, *choices;
    const struct config_form *form; /* of a text, or each text of a list; NULL: any */
    const char *meaning;
};
extern const struct config_key config_keys[];
extern const size_t config_key_count;
bool config_key_is_named(const struct config_key *key); /* it has a value for each of many names */
const char *config_applies_words(enum config_applies applies);
/* The key that a path leads to, or NULL. *ret_name is what stands for its "*", or empty. */
const struct config_key *config_key_find(const struct kg_str *path, size_t path_count,
                                         struct kg_str *ret_name);
/* Appends the key as it is written with dots, with the name in the place of its "*". */
void config_key_print(const struct config_key *key, struct kg_str name, struct kg_buf *out);

/* -- what scripts may be granted, see powers.c ------------------------------------------------- */

enum config_power {
    POWER_SESSION_WRITE,
    POWER_EXEC,
    POWER_FS_WRITE,
    POWER_CONTEXT,
    POWER_PROVIDER,
    POWER_ENV,
    POWER_NET,
    POWER_CRYPTO,
    POWER_COUNT
};
extern const char *const config_power_names[POWER_COUNT];
/* Whether it is a power, with what it is narrowed to: "exec", "exec:git". */
bool config_grant_fits(struct kg_str grant);
void config_grant_explain(struct kg_str grant, struct kg_err *err); /* why it is none */
/* Whether one of the grants, a list or NULL, gives the power, be it narrowed. */
bool config_grants_have(char *const *grants, enum config_power power);
/* Whether one gives it for that: a program, a host, a name. */
bool config_grants_cover(char *const *grants, enum config_power power, struct kg_str what);
/* Whether one gives it for that alone, by its name. */
bool config_grants_name(char *const *grants, enum config_power power, struct kg_str what);
/* Appends what that grant means, in words. */
void config_grant_words(struct kg_str grant, struct kg_buf *out);

/* The defaults, then the text over them. */
struct config *config_read(struct kg_str text, struct kg_err *err);
/* The defaults, then the file over them; a missing file is fine. Errors name file, line and key. */
struct config *config_load(const char *path, struct kg_err *err);
/* The log of this process is as [logging] says from now on. */
void config_apply_logging(const struct config *config);
void config_free(struct config *config);
/* Where plugins are: as configured, else as the paths have it. */
const char *config_plugins_dir(const struct config *config, const struct config_paths *paths);
/* Where the file has the key, as "FILE:LINE:COLUMN", before the message; else only the file. */
void config_wrap_place(const struct config *config, const char *path, const char *section,
                       const char *key, struct kg_err *err);
/* Whether the file has a value for the key, be it the default or not. */
bool config_says(const struct config *config, const char *section, const char *key);
/* Appends "section.key" of each key that differs, with how it applies, as a JSON array. */
void config_diff(const struct config *before, const struct config *after, struct kg_buf *ret_json);
/* Whether a key differs that applies at the start of every plugin; not one that names a plugin. */
bool config_start_differs(const struct config *before, const struct config *after);
/* config.toml with every key at its default, commented, for a new operator to start from. */
void config_print_example(struct kg_buf *out);

#endif
