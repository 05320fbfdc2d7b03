/* Whoever knows what must not be shown tells the log, which lies below. */
#ifndef KAGED_LOG_HIDE_H
#define KAGED_LOG_HIDE_H

#include "base/base.h"

/* Appends the message as it may be shown; false: as it is. Called by every thread that logs. */
typedef bool kg_log_hide_fn(struct kg_str message, struct kg_buf *ret_message);
void kg_log_hide(kg_log_hide_fn *hide_or_null);

#endif
