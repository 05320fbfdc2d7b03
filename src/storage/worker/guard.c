/*
 * What a plugin's SQL may reach: its own tables in the file's main schema, and functions that touch
 * nothing else. The authorizer asks here about every object that a statement names, wherever it is
 * named: in a view, a trigger, a common table expression. What the authorizer is never asked about,
 * since SQLite fails before, is told by SQLite's words. The connection's own settings (defensive,
 * no extensions, few modules) stand behind all of this.
 *
 * SQLite works by SQL too: a CREATE writes the schema table, full text reads its shadow tables. The
 * authorizer is asked about those statements as well, and the checks below tell them apart.
 */
#include "storage/worker/internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* -- rules ------------------------------------------------------------------------------------- */

struct guard_rule {
    const char *name;
    enum kg_code code;
    const char *sentence; /* with the object in it */
};

static const struct guard_rule rule_attach = {
    "attach", KG_E_STORAGE_DENIED, "a plugin has one database: %s cannot be attached or detached"};
static const struct guard_rule rule_vacuum_into = {"vacuum_into", KG_E_STORAGE_DENIED,
                                                   "VACUUM cannot write to another file: %s"};
static const struct guard_rule rule_schema = {
    "other_schema", KG_E_STORAGE_DENIED,
    "a plugin's tables are all in the schema main; %s is another one"};
static const struct guard_rule rule_temp = {
    "temp_schema", KG_E_STORAGE_DENIED,
    "%s: there are no temporary tables, since requests share nothing but the database"};
static const struct guard_rule rule_schema_table = {
    "schema_table", KG_E_STORAGE_DENIED,
    "%s cannot be read or written; use the schema method or PRAGMA table_list and table_info"};
static const struct guard_rule rule_shadow = {
    "shadow_table", KG_E_STORAGE_DENIED,
    "%s belongs to a virtual table and can be used only through that"};
static const struct guard_rule rule_other_plugin = {"other_plugin", KG_E_STORAGE_DENIED,
                                                    "table %s is not in this plugin's own storage"};
static const struct guard_rule rule_module = {
    "virtual_table", KG_E_STORAGE_DENIED,
    "the virtual table %s is not available; fts5, rtree, json_each and json_tree are"};
static const struct guard_rule rule_pragma = {
    "pragma", KG_E_STORAGE_DENIED,
    "PRAGMA %s is not available, or not with this value: the settings of the database are the "
    "host's"};
static const struct guard_rule rule_function = {"function", KG_E_STORAGE_DENIED,
                                                "the function %s is not available to plugins"};
static const struct guard_rule rule_action = {"action", KG_E_STORAGE_DENIED,
                                              "SQLite's action %s is not available to plugins"};
static const struct guard_rule rule_transaction = {
    "transaction", KG_E_INVALID_PARAMS,
    "%s: each request is a transaction of its own; send several statements as one batch"};
static const struct guard_rule rule_read_only = {
    "read_only", KG_E_STORAGE_DENIED, "the statement writes, and this request may only read%s"};

static void storage_guard_explain(const struct guard_rule *rule, const char *object,
                                  struct failure *failure)
{
    failure_set(failure, rule->code, rule->name, rule->sentence, object);
}

void guard_refuse_write(struct failure *failure)
{
    storage_guard_explain(&rule_read_only, "", failure);
}

static int guard_refuse(struct guard *guard, const struct guard_rule *rule, const char *object)
{
    if (guard->broken == NULL) {
        guard->broken = rule;
        snprintf(guard->object, sizeof(guard->object), "%s", object ? object : "");
    }
    return SQLITE_DENY;
}

/* -- names ------------------------------------------------------------------------------------- */

static bool guard_same(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcasecmp(a, b) == 0;
}

static bool guard_is_listed(const char *name, const char *const *list)
{
    for (; *list != NULL; list++)
        if (guard_same(name, *list))
            return true;
    return false;
}

static const char *const schema_tables[] = {"sqlite_master", "sqlite_schema", "sqlite_temp_master",
                                            "sqlite_temp_schema", NULL};

static const char *denied_functions[] = {"load_extension", "fts3_tokenizer", "readfile",
                                         "writefile",      "edit",           "lsmode",
                                         "sqlite_log",     "zipfile",        NULL};

static const char *allowed_modules[] = {"fts5",      "fts5vocab", "rtree", "rtree_i32",
                                        "json_each", "json_tree", NULL};

/* Tables that some builds of SQLite have without anybody creating them. */
static const char *const denied_tables[] = {
    "dbstat",       "sqlite_dbpage",  "sqlite_stmt",   "bytecode",     "tables_used",
    "fts3tokenize", "fts4aux",        "fsdir",         "zipfile",      "csv",
    "completion",   "sqlite_memstat", "sqlite_dbdata", "sqlite_dbptr", NULL};

/* Harmless PRAGMAs. Most only show; what can be set is the plugin's own, or what holds already. */
static const struct {
    const char *name;
    bool any_value;        /* its value names what to look at, or is the plugin's own number */
    bool writes;           /* though SQLite may call it a reader */
    const char *values[5]; /* without any_value: those that change nothing */
} pragmas[] = {
    {"application_id", true},
    {"auto_vacuum", false},
    {"cache_size", false},
    {"data_version", false},
    {"defer_foreign_keys", true}, /* until the end of the transaction */
    {"encoding", false},
    {"foreign_key_check", true},
    {"foreign_key_list", true},
    {"foreign_keys", false, false, {"on", "1", "yes", "true"}},
    {"freelist_count", false},
    {"incremental_vacuum", true, true},
    {"index_info", true},
    {"index_list", true},
    {"index_xinfo", true},
    {"integrity_check", true},
    {"journal_mode", false, false, {"wal"}},
    {"max_page_count", false},
    {"optimize", false, true},
    {"page_count", false},
    {"page_size", false},
    {"quick_check", true},
    {"schema_version", false},
    {"synchronous", false},
    {"table_info", true},
    {"table_list", true},
    {"table_xinfo", true},
    {"user_version", true},
};

static bool is_shadow(const struct guard *guard, const char *name)
{
    char lower[256];
    size_t length = name ? strlen(name) : 0;
    if (length == 0 || length >= sizeof(lower))
        return false;
    for (size_t i = 0; i < length; i++)
        lower[i] = (char)tolower((unsigned char)name[i]);
    return kg_map_get(guard->shadows, (struct kg_str){lower, length}) != NULL;
}

static bool is_name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (c & 0x80) != 0;
}

/* Whether the text has the name in it as a word of its own, in whatever quotes. */
static bool mentions(struct kg_str sql, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i + length <= sql.length; i++) {
        if (strncasecmp(sql.data + i, name, length) != 0)
            continue;
        bool starts = i == 0 || !is_name_byte(sql.data[i - 1]);
        bool ends = i + length == sql.length || !is_name_byte(sql.data[i + length]);
        if (starts && ends)
            return true;
    }
    return false;
}

/* -- checks: one for each way in which an action names objects --------------------------------- */

/* What the authorizer was asked about. */
struct question {
    int action;
    const char *first, *second; /* as SQLite documents for the action */
    const char *schema;
    const char *inside; /* the view or trigger that asks, or NULL */
};

/*
 * A shadow table is read by its virtual table's own statements, which come from no view and from no
 * word of the plugin's text.
 */
static int check_table_named(struct guard *guard, const struct question *question,
                             const char *table)
{
    if (is_shadow(guard, table) && (question->inside != NULL || mentions(guard->sql, table)))
        return guard_refuse(guard, &rule_shadow, table);
    return SQLITE_OK;
}

static int check_first_table(struct guard *guard, const struct question *question)
{
    return check_table_named(guard, question, question->first);
}

static int check_second_table(struct guard *guard, const struct question *question)
{
    return check_table_named(guard, question, question->second);
}

/*
 * SQLite asks about its own work on the schema table: as part of DROP and ALTER, and when it has
 * written the row of a new object and finds it by its rowid.
 */
static int check_read(struct guard *guard, const struct question *question)
{
    if (!guard_is_listed(question->first, schema_tables))
        return check_first_table(guard, question);
    bool by_rowid = guard->schema_rowid && guard_same(question->second, "ROWID");
    guard->schema_rowid = false;
    if (by_rowid || (guard->seen & GUARD_READS_SCHEMA) != 0)
        return SQLITE_OK;
    return guard_refuse(guard, &rule_schema_table, question->first);
}

/* A plugin's own UPDATE of the schema table is refused by SQLite itself; see guard_explain. */
static int check_update(struct guard *guard, const struct question *question)
{
    if (guard_is_listed(question->first, schema_tables))
        guard->schema_rowid = true;
    return check_first_table(guard, question);
}

static int check_alter(struct guard *guard, const struct question *question)
{
    if (!guard_same(question->first, "main"))
        return guard_refuse(guard, guard_same(question->first, "temp") ? &rule_temp : &rule_schema,
                            question->first);
    return check_second_table(guard, question);
}

static int check_module(struct guard *guard, const struct question *question)
{
    if (!guard_is_listed(question->second, allowed_modules))
        return guard_refuse(guard, &rule_module, question->second);
    return SQLITE_OK;
}

static int check_function(struct guard *guard, const struct question *question)
{
    if (guard_is_listed(question->second, denied_functions))
        return guard_refuse(guard, &rule_function, question->second);
    return SQLITE_OK;
}

static int check_pragma(struct guard *guard, const struct question *question)
{
    for (size_t i = 0; i < KG_COUNT(pragmas); i++) {
        if (!guard_same(question->first, pragmas[i].name))
            continue;
        if (pragmas[i].writes && guard->read_only)
            return guard_refuse(guard, &rule_read_only, "");
        if (question->second == NULL || pragmas[i].any_value ||
            guard_is_listed(question->second, pragmas[i].values))
            return SQLITE_OK;
        break;
    }
    return guard_refuse(guard, &rule_pragma, question->first);
}

static int check_attach(struct guard *guard, const struct question *question)
{
    if (!guard->vacuuming)
        return guard_refuse(guard, &rule_attach, question->first);
    if (question->first == NULL || question->first[0] != '\0')
        return guard_refuse(guard, &rule_vacuum_into, question->first);
    return SQLITE_OK;
}

static int check_transaction(struct guard *guard, const struct question *question)
{
    if (guard->vacuuming)
        return SQLITE_OK;
    return guard_refuse(guard, &rule_transaction,
                        question->action == SQLITE_SAVEPOINT ? "SAVEPOINT" : question->first);
}

static int check_temp(struct guard *guard, const struct question *question)
{
    return guard_refuse(guard, &rule_temp, question->first);
}

/* -- the authorizer ---------------------------------------------------------------------------- */

#define CREATES GUARD_CHANGED_SCHEMA
#define DROPS   (GUARD_CHANGED_SCHEMA | GUARD_READS_SCHEMA)

static const struct {
    int (*check)(struct guard *guard, const struct question *question); /* NULL: refused */
    unsigned marks;                                                     /* enum guard_seen */
} actions[] = {
    [SQLITE_SELECT] = {check_first_table, 0},
    [SQLITE_READ] = {check_read, 0},
    [SQLITE_RECURSIVE] = {check_first_table, 0},
    [SQLITE_FUNCTION] = {check_function, 0},
    [SQLITE_INSERT] = {check_first_table, GUARD_WROTE | GUARD_INSERTED},
    [SQLITE_UPDATE] = {check_update, GUARD_WROTE},
    [SQLITE_DELETE] = {check_first_table, GUARD_WROTE},
    [SQLITE_CREATE_TABLE] = {check_first_table, CREATES},
    [SQLITE_CREATE_INDEX] = {check_second_table, CREATES},
    [SQLITE_CREATE_TRIGGER] = {check_second_table, CREATES},
    [SQLITE_CREATE_VIEW] = {check_first_table, CREATES},
    [SQLITE_CREATE_VTABLE] = {check_module, CREATES},
    [SQLITE_DROP_TABLE] = {check_first_table, DROPS},
    [SQLITE_DROP_INDEX] = {check_second_table, DROPS},
    [SQLITE_DROP_TRIGGER] = {check_second_table, DROPS},
    [SQLITE_DROP_VIEW] = {check_first_table, DROPS},
    [SQLITE_DROP_VTABLE] = {check_first_table, DROPS},
    [SQLITE_ALTER_TABLE] = {check_alter, DROPS},
    [SQLITE_REINDEX] = {check_first_table, GUARD_CHANGED_SCHEMA},
    [SQLITE_ANALYZE] = {check_first_table, GUARD_CHANGED_SCHEMA},
    [SQLITE_PRAGMA] = {check_pragma, 0},
    [SQLITE_TRANSACTION] = {check_transaction, 0},
    [SQLITE_SAVEPOINT] = {check_transaction, 0},
    [SQLITE_ATTACH] = {check_attach, 0},
    [SQLITE_DETACH] = {check_attach, 0},
    [SQLITE_CREATE_TEMP_INDEX] = {check_temp, 0},
    [SQLITE_CREATE_TEMP_TABLE] = {check_temp, 0},
    [SQLITE_CREATE_TEMP_TRIGGER] = {check_temp, 0},
    [SQLITE_CREATE_TEMP_VIEW] = {check_temp, 0},
    [SQLITE_DROP_TEMP_INDEX] = {check_temp, 0},
    [SQLITE_DROP_TEMP_TABLE] = {check_temp, 0},
    [SQLITE_DROP_TEMP_TRIGGER] = {check_temp, 0},
    [SQLITE_DROP_TEMP_VIEW] = {check_temp, 0},
};

/*
 * The schema must be main. ALTER names it elsewhere, and rewrites the temporary schema table as
 * well, which is empty; a VACUUM has a schema of its own.
 */
static int guard_check_schema(struct guard *guard, const struct question *question)
{
    if (question->schema == NULL || guard_same(question->schema, "main") ||
        question->action == SQLITE_ALTER_TABLE)
        return SQLITE_OK;
    if (guard->vacuuming && guard_same(question->schema, "vacuum_db"))
        return SQLITE_OK;
    if (!guard_same(question->schema, "temp"))
        return guard_refuse(guard, &rule_schema, question->schema);
    if ((guard->seen & GUARD_READS_SCHEMA) != 0 && guard_is_listed(question->first, schema_tables))
        return SQLITE_OK;
    if (guard_is_listed(question->first, schema_tables) && question->action == SQLITE_READ)
        return guard_refuse(guard, &rule_schema_table, question->first);
    return guard_refuse(guard, &rule_temp, "temp");
}

static int authorize(void *data, int action, const char *first, const char *second,
                     const char *schema, const char *inside)
{
    struct guard *guard = data;
    if (guard->trusted)
        return SQLITE_OK;
    struct question question = {action, first, second, schema, inside};
    if (action < 0 || (size_t)action >= KG_COUNT(actions) || actions[action].check == NULL) {
        char number[16];
        snprintf(number, sizeof(number), "%d", action);
        return guard_refuse(guard, &rule_action, number);
    }
    guard->seen |= actions[action].marks;
    int verdict = guard_check_schema(guard, &question);
    if (verdict == SQLITE_OK && !(guard->vacuuming && action == SQLITE_READ))
        verdict = actions[action].check(guard, &question);
    return verdict;
}

/* -- what SQLite says when the authorizer was not asked ---------------------------------------- */

static const struct guard_rule *rule_of_table(const char *name)
{
    const char *dot = strchr(name, '.');
    if (dot != NULL && strncasecmp(name, "temp.", 5) == 0)
        return &rule_temp;
    if (dot != NULL && strncasecmp(name, "main.", 5) != 0)
        return &rule_schema;
    const char *table = dot ? dot + 1 : name;
    if (strncasecmp(table, "plugin_", 7) == 0)
        return &rule_other_plugin;
    return guard_is_listed(table, denied_tables) ? &rule_module : NULL;
}

static const struct guard_rule *rule_of_module(const char *name)
{
    return guard_is_listed(name, allowed_modules) ? NULL : &rule_module;
}

static const struct guard_rule *rule_of_function(const char *name)
{
    return guard_is_listed(name, denied_functions) ? &rule_function : NULL;
}

static const struct guard_rule *rule_of_schema(const char *name)
{
    return guard_same(name, "temp") ? &rule_temp : &rule_schema;
}

static const struct guard_rule *rule_of_unsafe(const char *name)
{
    return name[0] != '\0' ? &rule_function : NULL;
}

static const struct guard_rule *rule_of_locked(const char *name)
{
    return guard_is_listed(name, schema_tables) ? &rule_schema_table : &rule_shadow;
}

static const struct {
    const char *before, *after; /* around the name */
    const struct guard_rule *(*rule)(const char *name);
} sayings[] = {
    {"no such table: ", "", rule_of_table},
    {"no such view: ", "", rule_of_table},
    {"no such module: ", "", rule_of_module},
    {"no such function: ", "", rule_of_function},
    {"unknown database ", "", rule_of_schema},
    {"unsafe use of ", "()", rule_of_unsafe},
    {"unsafe use of virtual table \"", "\"", rule_of_unsafe},
    {"table ", " may not be modified", rule_of_locked},
    {"table ", " may not be dropped", rule_of_locked},
    {"table ", " may not be altered", rule_of_locked},
};

/* Whether the message is made of these words around a name. */
static bool guard_find_name(const char *message, const char *before, const char *after,
                            char *ret_name, size_t size)
{
    size_t length = strlen(message), head = strlen(before), tail = strlen(after);
    if (length < head + tail || strncmp(message, before, head) != 0 ||
        strcmp(message + length - tail, after) != 0)
        return false;
    snprintf(ret_name, size, "%.*s", (int)(length - head - tail), message + head);
    return true;
}

bool guard_explain(const struct guard *guard, int sqlite_code, const char *message,
                   struct failure *failure)
{
    if (guard->broken != NULL && sqlite_code != SQLITE_OK) {
        storage_guard_explain(guard->broken, guard->object, failure);
        return true;
    }
    if ((sqlite_code & 0xFF) != SQLITE_ERROR)
        return false;
    for (size_t i = 0; i < KG_COUNT(sayings); i++) {
        char name[sizeof(guard->object)];
        if (!guard_find_name(message, sayings[i].before, sayings[i].after, name, sizeof(name)))
            continue;
        const struct guard_rule *rule = sayings[i].rule(name);
        if (rule == NULL)
            return false;
        storage_guard_explain(rule, name, failure);
        return true;
    }
    return false;
}

/* -- life -------------------------------------------------------------------------------------- */

/* Stands in for a denied function where the authorizer is not asked: in a CHECK of a hostile file.
 */
static void on_denied_function(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count, (void)values;
    char message[64];
    snprintf(message, sizeof(message), "no such function: %s",
             (const char *)sqlite3_user_data(context));
    sqlite3_result_error(context, message, -1);
}

static int replace_denied_functions(sqlite3 *handle)
{
    int code = SQLITE_OK;
    for (const char **name = denied_functions; *name != NULL && code == SQLITE_OK; name++)
        code = sqlite3_create_function(handle, *name, -1, SQLITE_UTF8 | SQLITE_DIRECTONLY,
                                       (void *)*name, on_denied_function, NULL, NULL);
    return code;
}

int guard_install(struct guard *guard, sqlite3 *handle)
{
    *guard = (struct guard){.trusted = true, .stale = true, .shadows = kg_map_new()};
    int code = sqlite3_drop_modules(handle, allowed_modules);
    if (code == SQLITE_OK)
        code = replace_denied_functions(handle);
    return code == SQLITE_OK ? sqlite3_set_authorizer(handle, authorize, guard) : code;
}

void guard_free(struct guard *guard)
{
    kg_map_free(guard->shadows);
    guard->shadows = NULL;
}

void guard_begin(struct guard *guard, struct kg_str sql)
{
    guard->trusted = false;
    guard->vacuuming = false;
    guard->schema_rowid = false;
    guard->seen = 0;
    guard->sql = sql;
    guard->broken = NULL;
}

void guard_forget_shadows(struct guard *guard)
{
    kg_map_free(guard->shadows);
    guard->shadows = kg_map_new();
}

void guard_add_shadow(struct guard *guard, const char *name)
{
    kg_auto(kg_free) char *lower = kg_strdup(name);
    for (char *c = lower; *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    kg_map_set(guard->shadows, kg_str(lower), guard);
}
