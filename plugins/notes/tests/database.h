/* Storage for tests: a SQLite database in memory that answers kaged.storage.* as the host does. */
#ifndef DATABASE_H
#define DATABASE_H

#include <kaged-plugin.h>

struct database;
struct database *database_new(void);
void database_free(struct database *database);
/* For kaged_test_on_request(); data is the database. */
kaged_test_answer database_answer;
void database_run(struct database *database, const char *sql);
/* The next requests fail, as many as that. */
void database_break(struct database *database, int requests);

#endif
