/* What the files of the SQLite backend share: one connection, and how its failures are told. */
#ifndef KAGED_STATE_SQLITE_H
#define KAGED_STATE_SQLITE_H

#include "state/internal.h"

#include <sqlite3.h>

#define STATE_SQLITE_SESSIONS 40 /* room for the statements of sessions_sqlite.c */

sqlite3 *state_sqlite_handle(struct state *state);
sqlite3_stmt **state_sqlite_sessions(struct state *state);
/* Sets err of what SQLite says, and returns the negative errno. */
int state_sqlite_fail(struct state *state, int code, const char *act, struct kg_err *err);

#endif
