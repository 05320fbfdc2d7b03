/* One block of memory for who asks, freed with the last reference. Askers belong to the loop. */
#include "host/asker.h"
#include "base/base.h"

#include <stdlib.h>

static size_t size_of(const char *text_or_null)
{
    return text_or_null ? strlen(text_or_null) + 1 : 0;
}

static const char *put(char **at, const char *text_or_null, size_t size)
{
    char *copy = *at;
    if (text_or_null == NULL)
        return NULL;
    memcpy(copy, text_or_null, size);
    *at += size;
    return copy;
}

static struct host_asker *make(const struct host_asker *texts)
{
    size_t operator_size = size_of(texts->operator_id), request_size = size_of(texts->request_id);
    size_t project_size = size_of(texts->project_id), agent_size = size_of(texts->agent_path);
    size_t session_size = size_of(texts->session_id);
    /* Each field is set below: calloc would pass by what was freed last, and each call pays. */
    struct host_asker *asker = kg_realloc(NULL, sizeof(*asker) + operator_size + request_size +
                                                    project_size + agent_size + session_size);
    char *at = (char *)(asker + 1);
    asker->operator_id = put(&at, texts->operator_id, operator_size);
    asker->request_id = put(&at, texts->request_id, request_size);
    asker->project_id = put(&at, texts->project_id, project_size);
    asker->agent_path = put(&at, texts->agent_path, agent_size);
    asker->session_id = put(&at, texts->session_id, session_size);
    asker->references = 1;
    return asker;
}

struct host_asker *host_asker_new(const char *operator_id, const char *request_id)
{
    return make(&(struct host_asker){.operator_id = operator_id, .request_id = request_id});
}

struct host_asker *host_asker_for(const struct host_asker *asker, const char *project_id,
                                  const char *agent_path, const char *session_id)
{
    return make(&(struct host_asker){.operator_id = asker->operator_id,
                                     .request_id = asker->request_id,
                                     .project_id = project_id,
                                     .agent_path = agent_path,
                                     .session_id = session_id});
}

struct host_asker *host_asker_ref(struct host_asker *asker)
{
    asker->references++;
    return asker;
}

void host_asker_unref(struct host_asker *asker)
{
    if (asker != NULL && --asker->references == 0)
        free(asker);
}

void host_asker_cleanup(struct host_asker **asker)
{
    host_asker_unref(*asker);
}
