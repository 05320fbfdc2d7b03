/* The daemon's way to its models: looks them up, asks them, and tells the audit log. */
#ifndef KAGED_SESSION_MODELS_H
#define KAGED_SESSION_MODELS_H

#include "host/host.h"
#include "session/model.h"

struct models;
struct models *models_new(struct host *host); /* which is borrowed */
/* Ends every call as cancelled, and takes no more; the processes end soon. */
void models_close(struct models *models);
/* Once, when they are gone: maybe before it returns. After models_close. */
void models_when_closed(struct models *models, void (*on_closed)(void *data), void *data);
/* After that, or if no model was ever asked. Takes NULL. */
void models_free(struct models *models);

/*
 * As local.toml has it now; until the next turn of the loop. `who` names it in messages: "agent
 * primary". KG_E_INVALID_CONFIG, with a hint, if there is no such model, or alias is NULL.
 */
int models_find(const struct models *models, const char *alias, const char *who,
                const struct local_model **ret_model, struct kg_err *err);

/* Why a model is asked. Texts are copied. */
struct models_purpose {
    const char *word; /* "turn" or "summary" */
    const char *session_id, *agent_path;
    const char *request_id; /* NULL: none */
};
struct models_call;
/* As model_ask; KG_E_AUDIT_UNAVAILABLE while nobody could say afterwards that it was asked. */
int models_ask(struct models *models, const struct models_purpose *purpose,
               const struct model_request *request, const struct model_ops *ops, void *data,
               struct models_call **ret_call, struct kg_err *err);
void models_cancel(struct models_call *call); /* nothing more is told of it */

#endif
