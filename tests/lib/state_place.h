/*
 * Tests of the state run on both of its kinds. A program whose name ends in "-postgres" has a
 * server of its own, and every kaged.db that its tests begin with shares its rows there; for all
 * other programs these do nothing.
 */
#ifndef KAGED_TEST_STATE_PLACE_H
#define KAGED_TEST_STATE_PLACE_H

#include "state/state.h"

bool state_place_is_postgres(void);
/* Starts the server. False: there can be none here, which was said, and counted as skipped; with
 * CI=true as failed. *ret_exit is the exit code. */
bool state_place_open(const char *program, int *ret_exit);
void state_place_close(void);
/* A test's kaged.db, in which there is nothing: around all handles on it. */
void state_place_begin(const char *path);
void state_place_end(void);
/* Of the server's database. */
const char *state_place_url(void);
void state_place_ask(const char *sql);
/* From now on the server notes what connections ask of it; those that there are end. */
void state_place_listen(void);
void state_place_mark(void);
/* How many with that part were noted since the mark, the daemon's signs of life aside. */
size_t state_place_asked(const char *part);
/* Ends every connection of the daemon at the server, as a restart of it does. */
void state_place_cut(void);

/* Runs the tests, and is main's exit code. */
#define STATE_PLACE_RUN(name, tests)                                                               \
    state_place_run(name, tests, sizeof(tests) / sizeof((tests)[0]))
struct CMUnitTest;
int state_place_run(const char *name, const struct CMUnitTest *tests, size_t count);

#endif
