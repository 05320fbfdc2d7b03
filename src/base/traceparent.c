/*
 * W3C Trace Context: the header that says which trace a request belongs to. What does not fit the
 * standard is as if it had not come; one of a later version is read as far as this one goes.
 */
#include "base/base.h"

#define LENGTH  (KG_TRACEPARENT_TEXT - 1)
#define TRACE   3 /* where its parts begin */
#define SPAN    36
#define FLAGS   53
#define SAMPLED 1

static bool traceparent_is_hex(struct kg_str text)
{
    for (size_t i = 0; i < text.length; i++)
        if (!(text.data[i] >= '0' && text.data[i] <= '9') &&
            !(text.data[i] >= 'a' && text.data[i] <= 'f'))
            return false;
    return true;
}

/* An id: digits, and not all of them zero. */
static bool is_trace_id(struct kg_str text)
{
    for (size_t i = 0; i < text.length; i++)
        if (text.data[i] != '0')
            return traceparent_is_hex(text);
    return false;
}

bool kg_traceparent_read(struct kg_str given, char ret_text[KG_TRACEPARENT_TEXT])
{
    const char *at = given.data;
    if (given.length < LENGTH || at[TRACE - 1] != '-' || at[SPAN - 1] != '-' ||
        at[FLAGS - 1] != '-')
        return false;
    bool is_ours = memcmp(at, "00", 2) == 0;
    if (!traceparent_is_hex((struct kg_str){at, 2}) || memcmp(at, "ff", 2) == 0 ||
        (given.length > LENGTH && (is_ours || at[LENGTH] != '-')))
        return false;
    if (!is_trace_id((struct kg_str){at + TRACE, SPAN - 1 - TRACE}) ||
        !is_trace_id((struct kg_str){at + SPAN, FLAGS - 1 - SPAN}) ||
        !traceparent_is_hex((struct kg_str){at + FLAGS, 2}))
        return false;
    memcpy(ret_text, at, LENGTH);
    ret_text[LENGTH] = '\0';
    if (!is_ours) { /* of the flags of later versions one is known */
        bool is_sampled = (kg_hex_digit(at[FLAGS + 1]) & SAMPLED) != 0;
        memcpy(ret_text, "00", 2);
        memcpy(ret_text + FLAGS, is_sampled ? "01" : "00", 2);
    }
    return true;
}
