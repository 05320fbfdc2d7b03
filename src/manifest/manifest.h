/*
 * kaged-plugin.yaml: what a plugin says that it is, needs and offers. Hostile until checked; every
 * error has line and column.
 */
#ifndef KAGED_MANIFEST_H
#define KAGED_MANIFEST_H

#include "base/base.h"

#define MANIFEST_FILE      "kaged-plugin.yaml"
#define MANIFEST_BYTES_MAX 1048576

/* Lists are owned and NULL-ended, never NULL. */
struct manifest {
    char *name;
    char *version;
    int64_t kaged_api;
    char *description;
    char *author, *license, *homepage; /* NULL if absent */
    char **command;
    char **env; /* "NAME=value" */
    char **capabilities;
    char **methods;
    char **notifications;
    int64_t shutdown_timeout_sec; /* 0 if absent, like the two below */
    int64_t health_interval_sec;
    int64_t hook_timeout_sec;
};

struct manifest *manifest_read(struct kg_str text, struct kg_err *err);
/* Reads DIR/kaged-plugin.yaml. */
struct manifest *manifest_load(const char *dir, struct kg_err *err);
void manifest_free(struct manifest *manifest);

/* ^[a-z][a-z0-9-]*$, at most 64 characters. */
bool manifest_name_is_valid(struct kg_str name);
/* Dot-delimited, two to four segments, not in a reserved namespace. */
bool manifest_method_is_valid(struct kg_str method);

#endif
