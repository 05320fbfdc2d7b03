/*
 * The command line: FILE NAME=VALUE... Every bound has a row here with its default and the range
 * that makes sense; nothing else of the outside reaches the settings.
 */
#include "storage/worker/internal.h"

#include <limits.h>

#define KIB (INT64_C(1) << 10)
#define MIB (INT64_C(1) << 20)

/* The least leave room for the worker's own statements. */
static const struct kg_option rows[] = {
#define ROW(name, least, most, preset) KG_OPTION(struct options, name, least, most, preset)
    ROW(size_bytes, 64 * KIB, INT64_C(1) << 42, 256 * MIB),
    ROW(statement_ms, 1, INT64_C(3600000), 5000),
    ROW(rows_max, 1, INT_MAX, 10000),
    ROW(result_bytes, 64, 1024 * MIB, 4 * MIB - 4 * KIB),
    ROW(line_bytes, 256, 1024 * MIB, 5 * MIB),
    ROW(sql_bytes, KIB, 1024 * MIB, 1 * MIB),
    ROW(value_bytes, KIB, 1024 * MIB, 4 * MIB),
    ROW(batch_max, 1, INT_MAX, 1000),
    ROW(columns, 4, 32767, 2000),
    ROW(depth, 16, 1000, 1000),
    ROW(variables, 1, 250000, 32766),
    ROW(compounds, 1, 500, 500),
    ROW(arguments, 1, 127, 127),
    ROW(operations, 100, 250000000, 2500000),
    ROW(trigger_depth, 1, 1000, 1000),
    ROW(pattern_bytes, 1, 50000, 50000),
    ROW(heap_bytes, 4 * MIB, 16384 * MIB, 64 * MIB),
    ROW(cache_bytes, 64 * KIB, 4096 * MIB, 4 * MIB),
    ROW(statements_cached, 1, 10000, 100),
#undef ROW
    {0},
};

static int set_sync(struct options *options, struct kg_str value, struct kg_err *err)
{
    options->sync_full = kg_str_is(value, "full");
    if (options->sync_full || kg_str_is(value, "normal"))
        return 0;
    return kg_fail(err, KG_E_USAGE, "sync must be normal or full");
}

static int storage_options_set_one(struct options *options, const char *word, struct kg_err *err)
{
    struct kg_str name;
    const char *value;
    int result = kg_option_split(word, &name, &value, err);
    if (result < 0)
        return result;
    if (kg_str_is(name, "sync"))
        return set_sync(options, kg_str(value), err);
    return kg_option_set(rows, name, value, options, err);
}

int options_parse(int count, char **words, struct options *ret_options, struct kg_err *err)
{
    if (count < 2 || words[1][0] == '\0')
        return kg_fail(err, KG_E_USAGE, "usage: kaged-storage FILE NAME=VALUE...");
    struct options options = {.file = words[1]};
    kg_options_preset(rows, &options);
    for (int i = 2; i < count; i++) {
        int result = storage_options_set_one(&options, words[i], err);
        if (result < 0)
            return result;
    }
    *ret_options = options;
    return 0;
}
