/*
 * Failed attempts: each is counted by where it came from, and told in the audit log at a bounded
 * rate. What guards the door is 256 bits of chance, which nobody guesses; so the count only wears
 * on those who fail, and a stranger on this machine cannot lock the operator out. The table has a
 * fixed size: a new source takes the place of the one whose minute began first.
 */
#include "http/auth_internal.h"

#include <stdio.h>

#define WINDOW_MS    60000
#define TOLD_PER_SEC 10
#define REST_MS      1000

/* The slot of the source, its count at 0 if its minute is over. */
static size_t slot_of(struct http_attempts *attempts, const unsigned char *key, uint64_t now_ms)
{
    size_t oldest = 0;
    for (size_t i = 0; i < HTTP_SOURCES_MAX; i++) {
        bool theirs = attempts->sources[i].failures > 0 &&
                      memcmp(attempts->sources[i].key, key, HTTP_SOURCE_KEY) == 0;
        if (theirs && now_ms - attempts->sources[i].began_ms < WINDOW_MS)
            return i;
        if (theirs || attempts->sources[i].failures == 0) {
            oldest = i;
            break;
        }
        if (attempts->sources[i].began_ms < attempts->sources[oldest].began_ms)
            oldest = i;
    }
    memcpy(attempts->sources[oldest].key, key, HTTP_SOURCE_KEY);
    attempts->sources[oldest].began_ms = now_ms;
    attempts->sources[oldest].failures = 0;
    return oldest;
}

/* -- the audit log ----------------------------------------------------------------------------- */

static void http_attempts_own_tell(struct http_attempts *attempts, const char *via,
                                   const char *reason, const char *source, uint32_t suppressed)
{
    kg_log(KG_WARN, "http: a request from %s was refused: %s", source, reason);
    if (suppressed > 0)
        kg_log(KG_WARN, "http: %u more were", (unsigned)suppressed);
    audit_emit(attempts->audit, AUDIT_AUTH_FAILED, KG_STR_NULL, AUDIT_V_TEXT(via),
               AUDIT_V_TEXT(reason), AUDIT_V_TEXT(source), AUDIT_V_INT(suppressed));
}

/* The last of those that were only counted, and how many others there were. */
static void http_attempts_tell_rest(struct http_attempts *attempts)
{
    if (attempts->suppressed > 0)
        http_attempts_own_tell(attempts, attempts->last_via, attempts->last_reason,
                               attempts->last_source, attempts->suppressed - 1);
    attempts->suppressed = 0;
}

static void http_attempts_on_rest(struct loop_timer *timer)
{
    http_attempts_tell_rest(KG_CONTAINER(timer, struct http_attempts, rest));
}

static void suppress(struct http_attempts *attempts, const char *via, const char *reason,
                     const char *source)
{
    attempts->suppressed++;
    attempts->last_via = via;
    snprintf(attempts->last_reason, sizeof(attempts->last_reason), "%s", reason);
    snprintf(attempts->last_source, sizeof(attempts->last_source), "%s", source);
    if (!loop_timer_running(&attempts->rest))
        loop_timer_start(attempts->loop, &attempts->rest, REST_MS, http_attempts_on_rest);
}

void http_attempts_tell(struct http_attempts *attempts, const struct http_source *source,
                        const char *via, const char *reason)
{
    uint32_t dropped;
    if (kg_rate_pass(&attempts->told, TOLD_PER_SEC, loop_now_ms(attempts->loop), &dropped))
        http_attempts_own_tell(attempts, via, reason, source->text, 0);
    else
        suppress(attempts, via, reason, source->text);
}

bool http_attempts_fail(struct http_attempts *attempts, const struct http_source *source,
                        const char *via, const char *reason, unsigned *ret_wait_sec)
{
    uint64_t now_ms = loop_now_ms(attempts->loop);
    size_t slot = slot_of(attempts, source->key, now_ms);
    uint32_t *failures = &attempts->sources[slot].failures;
    bool few = *failures < attempts->failures_per_min;
    if (few)
        ++*failures;
    else
        *ret_wait_sec =
            (unsigned)((attempts->sources[slot].began_ms + WINDOW_MS - now_ms + 999) / 1000);
    if (few)
        http_attempts_tell(attempts, source, via, reason);
    else
        suppress(attempts, via, reason, source->text);
    return few;
}

void http_attempts_close(struct http_attempts *attempts)
{
    loop_timer_stop(attempts->loop, &attempts->rest);
    http_attempts_tell_rest(attempts);
}
