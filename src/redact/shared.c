/* One set for the whole program, behind a lock, since every thread logs. */
#include "redact/shared.h"

#include "base/json/json.h"
#include "base/log_hide.h"
#include "redact/internal.h"

#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct redact_set shared;
static atomic_bool has_any;

void redact_share(struct kg_str secret)
{
    pthread_mutex_lock(&lock);
    redact_set_add(&shared, secret, REDACT_KEPT);
    pthread_mutex_unlock(&lock);
    atomic_store(&has_any, true);
}

bool redact_shares_any(void)
{
    return atomic_load_explicit(&has_any, memory_order_relaxed);
}

const struct redact_set *redact_shared(void)
{
    return &shared;
}

bool redact_put_shared(struct kg_str text, struct kg_buf *ret_text)
{
    size_t start = ret_text->length;
    if (!redact_shares_any())
        return false;
    pthread_mutex_lock(&lock);
    bool any = redact_put(&shared, text, false, ret_text);
    pthread_mutex_unlock(&lock);
    if (!any)
        ret_text->length = start;
    return any;
}

bool redact_put_shared_json(struct kg_str json, struct kg_buf *ret_json)
{
    size_t start = ret_json->length;
    if (!redact_put_shared(json, ret_json))
        return false;
    if (kg_str_is(kg_str_from(kg_buf_view(ret_json), start), REDACT_MARK)) {
        ret_json->length = start; /* nothing of it may be shown */
        kg_json_put_string(ret_json, KG_STR(REDACT_MARK));
    }
    return true;
}

void redact_log(void)
{
    kg_log_hide(redact_put_shared);
}
