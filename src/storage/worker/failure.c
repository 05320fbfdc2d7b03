/*
 * A failure is what a request is answered with instead of a result. Its message never has more in
 * it than the plugin's own SQL and SQLite's words about that: no path, nothing of the host.
 */
#include "storage/worker/internal.h"

#include <stdio.h>

int failure_set(struct failure *failure, enum kg_code code, const char *rule, const char *format,
                ...)
{
    *failure = (struct failure){.code = code, .rule = rule, .index = -1};
    va_list args;
    va_start(args, format);
    vsnprintf(failure->message, sizeof(failure->message), format, args);
    va_end(args);
    return -1;
}

int failure_sqlite(struct failure *failure, int sqlite_code, const char *message)
{
    failure_set(failure, KG_E_PLUGIN, NULL, "%s", message);
    failure->sqlite_code = sqlite_code;
    return -1;
}

static const struct {
    int code;
    const char *name;
} codes[] = {
#define CODE(symbol) {symbol, #symbol},
#include "codes.def"
#undef CODE
};

/* "SQLITE_CONSTRAINT_UNIQUE"; that of the primary code for an extended one without a name. */
static const char *failure_sqlite_name(int sqlite_code)
{
    for (size_t i = 0; i < KG_COUNT(codes); i++)
        if (codes[i].code == sqlite_code)
            return codes[i].name;
    return sqlite_code > 0xFF ? failure_sqlite_name(sqlite_code & 0xFF) : "SQLITE_ERROR";
}

void failure_write(struct kg_json_writer *writer, const struct failure *failure)
{
    kg_json_begin(writer, '{');
    kg_json_named_int(writer, "code", kg_error_row(failure->code)->rpc_code);
    kg_json_named_text(writer, "message", failure->message);
    if (failure->rule != NULL || failure->sqlite_code != 0 || failure->index >= 0) {
        kg_json_key(writer, "data");
        kg_json_begin(writer, '{');
        if (failure->rule != NULL)
            kg_json_named_text(writer, "rule", failure->rule);
        if (failure->sqlite_code != 0) {
            kg_json_named_int(writer, "sqlite_code", failure->sqlite_code);
            kg_json_named_text(writer, "sqlite_name", failure_sqlite_name(failure->sqlite_code));
        }
        if (failure->index >= 0)
            kg_json_named_int(writer, "index", failure->index);
        kg_json_end(writer, '}');
    }
    kg_json_end(writer, '}');
}
