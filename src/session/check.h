/* What may be written; see check.c. */
#ifndef KAGED_SESSION_CHECK_H
#define KAGED_SESSION_CHECK_H

#include "session/internal.h"

int session_check_agent(const char *agent, struct kg_err *err);
int session_check_draft(const struct session_draft *draft, struct kg_err *err);
int session_check_new(const struct session_new *new, struct kg_err *err);

#endif
