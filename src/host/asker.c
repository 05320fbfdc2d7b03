/* One block of memory for each asker, freed with the last reference. Askers belong to the loop.
 */
#include "host/asker.h"

#include <stdlib.h>

#define KEPT_BYTES 256 /* of a block that is kept for the next; longer ones are given back */
#define KEPT_MAX   256

/* Each call has one, and malloc would be a good part of what a call costs. */
static struct kept {
    struct kept *next;
} * kept;
static unsigned kept_count;

static struct host_asker *take_block(size_t size)
{
    struct kept *block = kept;
    if (size > KEPT_BYTES || block == NULL)
        return kg_realloc(NULL, size > KEPT_BYTES ? size : KEPT_BYTES);
    kept = block->next;
    kept_count--;
    return (struct host_asker *)block;
}

static void asker_give_back(struct host_asker *asker)
{
    if (asker->is_long || kept_count == KEPT_MAX) {
        free(asker);
        return;
    }
    struct kept *block = (struct kept *)asker;
    block->next = kept;
    kept = block;
    kept_count++;
}

static size_t size_of(const char *text_or_null)
{
    return text_or_null ? strlen(text_or_null) + 1 : 0;
}

static uint32_t length_of(size_t size)
{
    return size > 0 ? (uint32_t)size - 1 : 0;
}

static const char *asker_put(char **at, const char *text_or_null, size_t size)
{
    char *copy = *at;
    if (text_or_null == NULL)
        return NULL;
    memcpy(copy, text_or_null, size);
    *at += size;
    return copy;
}

static struct host_asker *asker_make(const struct host_asker *texts)
{
    size_t operator_size = size_of(texts->operator_id), request_size = size_of(texts->request_id);
    size_t project_size = size_of(texts->project_id), agent_size = size_of(texts->agent_path);
    size_t session_size = size_of(texts->session_id), branch_size = size_of(texts->branch);
    size_t caller_size = size_of(texts->caller_id), trace_size = size_of(texts->traceparent);
    size_t size = sizeof(struct host_asker) + operator_size + request_size + project_size +
                  agent_size + session_size + branch_size + caller_size + trace_size;
    struct host_asker *asker = take_block(size);
    char *at = (char *)(asker + 1);
    asker->operator_id = asker_put(&at, texts->operator_id, operator_size);
    asker->request_id = asker_put(&at, texts->request_id, request_size);
    asker->project_id = asker_put(&at, texts->project_id, project_size);
    asker->agent_path = asker_put(&at, texts->agent_path, agent_size);
    asker->session_id = asker_put(&at, texts->session_id, session_size);
    asker->branch = asker_put(&at, texts->branch, branch_size);
    asker->caller_id = asker_put(&at, texts->caller_id, caller_size);
    asker->traceparent = asker_put(&at, texts->traceparent, trace_size);
    asker->operator_length = length_of(operator_size);
    asker->request_length = length_of(request_size);
    asker->references = 1;
    asker->is_long = size > KEPT_BYTES;
    return asker;
}

/* Every call comes with one: what most of them lack is not looked at. */
struct host_asker *host_asker_new(const char *operator_id, const char *request_id)
{
    size_t operator_size = size_of(operator_id), request_size = size_of(request_id);
    size_t size = sizeof(struct host_asker) + operator_size + request_size;
    struct host_asker *asker = take_block(size);
    char *at = (char *)(asker + 1);
    *asker = (struct host_asker){
        .operator_id = asker_put(&at, operator_id, operator_size),
        .request_id = asker_put(&at, request_id, request_size),
        .operator_length = length_of(operator_size),
        .request_length = length_of(request_size),
        .references = 1,
        .is_long = size > KEPT_BYTES,
    };
    return asker;
}

struct host_asker *host_asker_for(const struct host_asker *asker, const struct host_asker *agent)
{
    return asker_make(&(struct host_asker){.operator_id = asker->operator_id,
                                           .request_id = asker->request_id,
                                           .project_id = agent->project_id,
                                           .agent_path = agent->agent_path,
                                           .session_id = agent->session_id,
                                           .branch = agent->branch,
                                           .caller_id = asker->caller_id,
                                           .traceparent = asker->traceparent});
}

struct host_asker *host_asker_called(const struct host_asker *asker, const char *caller_id)
{
    struct host_asker texts = *asker;
    texts.caller_id = caller_id;
    return asker_make(&texts);
}

struct host_asker *host_asker_traced(const struct host_asker *asker, const char *traceparent)
{
    struct host_asker texts = *asker;
    texts.traceparent = traceparent;
    return asker_make(&texts);
}

struct host_asker *host_asker_ref(struct host_asker *asker)
{
    asker->references++;
    return asker;
}

void host_asker_unref(struct host_asker *asker)
{
    if (asker != NULL && --asker->references == 0)
        asker_give_back(asker);
}

void host_asker_cleanup(struct host_asker **asker)
{
    host_asker_unref(*asker);
}

void host_asker_emit_traced(const struct host_asker *asker, struct audit *audit,
                            enum audit_event event, const struct audit_value *values, size_t count)
{
    struct kg_str id = host_asker_request(asker);
    if (id.length > AUDIT_REQUEST_MAX) {
        audit_emit_values(audit, event, id, values, count);
        return;
    }
    struct audit_request own = {0};
    kg_str_copy(id, own.id, sizeof(own.id));
    kg_str_copy(kg_str(asker->traceparent), own.traceparent, sizeof(own.traceparent));
    struct audit_request before = audit_swap_request(audit, own);
    audit_emit_values(audit, event, KG_STR_NULL, values, count);
    audit_swap_request(audit, before);
}
