/* What the daemon and kaged-model write to each other, for the daemon's side. */
#ifndef KAGED_MODEL_INTERNAL_H
#define KAGED_MODEL_INTERNAL_H

#include "model/model.h"

/* The params of `chat`. total_ms is what the process will take at most. */
void model_wire_request(const struct model_request *request, int64_t total_ms, struct kg_buf *out);
/* The id of an event's call, or 0. */
int64_t model_wire_id(const struct kg_node *params);
/* False if it is none that we know: whoever sent it is not kaged-model any more. */
bool model_wire_event(const struct kg_node *params, struct model_event *ret_event);
bool model_wire_result(struct kg_str result, struct model_end *ret_end);
bool model_wire_error(struct kg_str error, struct model_end *ret_end);

#endif
