/*
 * Knobs: settings of a plugin that its manifest lets the operator turn. A value is written into the
 * project's file, for one agent, if it is within the knob's own bounds and fits the plugin's
 * config_schema; then the project is read again, and the plugin is told.
 */
#ifndef KAGED_HOST_KNOBS_H
#define KAGED_HOST_KNOBS_H

#include "config/local.h"
#include "host/projects.h"

/* Whose knobs: a plugin's, by itself or as an agent of a project has it. */
struct host_knobs {
    const char *name, *plugin;       /* as it is found by, and the plugin's own; like the next */
    const struct manifest *manifest; /* that declares them; until the next turn of the loop */
    struct host_project *project;    /* NULL, like the next two: by itself */
    const struct project_resolved_agent *agent; /* until the next reload of the project */
    const struct project_use *use;
    struct kg_doc *settings; /* owned; of a plugin by itself, or NULL */
};
/* KG_E_NOT_FOUND: no such plugin, project or agent, or the agent does not declare the plugin. */
int host_knobs_find(struct host *host, struct kg_str plugin, struct kg_str project_or_none,
                    struct kg_str agent_path, struct host_knobs *ret_knobs, struct kg_err *err);
void host_knobs_free(struct host_knobs *knobs); /* also for kg_auto */
/* NULL with KG_E_NOT_FOUND, and the nearest name. */
const struct manifest_knob *host_knob_find(const struct host_knobs *knobs, struct kg_str name,
                                           struct kg_err *err);

struct host_knob_value {
    const struct kg_node *node; /* NULL: hidden */
    const char *origin;         /* of project_origin_names; "knob": what it declares itself */
    bool hidden;                /* its schema calls it sensitive */
};
struct host_knob_value host_knob_value(struct host *host, const struct host_knobs *knobs,
                                       const struct manifest_knob *knob);

/* Once, never before the call returns. Everything dies with the callback. */
typedef void host_knob_fn(void *data, const struct project_changes *changes_or_null,
                          const struct kg_err *err_or_null);
struct host_knob_write {
    const struct kg_node *value; /* null: back to what it is without the agent's word */
    const char *operator_id, *request_id;
    host_knob_fn *on_done; /* not called if the write is refused at once */
    void *data;
};
int host_knob_write(struct host *host, const struct host_knobs *knobs,
                    const struct manifest_knob *knob, const struct host_knob_write *write,
                    struct kg_err *err);

/* -- a value by itself, see knob_check.c ------------------------------------------------------- */

struct host_knob_check {
    const struct manifest_knob *knob;
    const struct kg_node *value;
    const struct local *local; /* where aliases of models are; NULL: there are none */
    bool hidden;               /* errors must not show it */
};
/* Whether it is within the knob's own bounds; KG_E_INVALID_PARAMS names the one that it is not. */
int host_knob_check(const struct host_knob_check *check, struct kg_err *err);
/* A value for a message: JSON, cut; owned. */
char *host_knob_shown(const struct kg_node *value, bool hidden);

#endif
