/*
 * A database as it is at one moment, while others write to it. Its content may be a stranger's:
 * pages are copied, and nothing in them is run.
 */
#include "state/state.h"

#include <sqlite3.h>

#define PAGES_AT_ONCE 4096
#define BUSY_WAIT_MS  10
#define BUSY_TRIES    1000

static int state_copy_fail(sqlite3 *db, int code, const char *path, struct kg_err *err)
{
    return kg_fail(err, KG_E_IO, "copy the database %s: %s", path,
                   db ? sqlite3_errmsg(db) : sqlite3_errstr(code));
}

/* A page that is written meanwhile begins it anew; a reader that holds all at once does not. */
static int copy_pages(sqlite3 *from, sqlite3 *to, const char *path, struct kg_err *err)
{
    int code, tries = 0;
    sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
    if (backup == NULL)
        return state_copy_fail(to, SQLITE_ERROR, path, err);
    do {
        code = sqlite3_backup_step(backup, tries == 0 ? -1 : PAGES_AT_ONCE);
        if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
            sqlite3_sleep(BUSY_WAIT_MS);
    } while (code == SQLITE_OK ||
             ((code == SQLITE_BUSY || code == SQLITE_LOCKED) && ++tries < BUSY_TRIES));
    sqlite3_backup_finish(backup);
    return code == SQLITE_DONE ? 0 : state_copy_fail(NULL, code, path, err);
}

int state_copy_file(const char *from, const char *to, struct kg_err *err)
{
    sqlite3 *source = NULL, *target = NULL;
    int result = 0;
    int code = sqlite3_open_v2(from, &source, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_open_v2(
            to, &target, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK) {
        sqlite3_db_config(source, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        sqlite3_db_config(source, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        result = copy_pages(source, target, from, err);
    } else {
        result = state_copy_fail(target ? target : source, code, from, err);
    }
    sqlite3_close(target);
    sqlite3_close(source);
    return result;
}
