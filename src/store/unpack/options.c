/*
 * The command line: FORMAT SOURCE FOLDER NAME=VALUE... Every bound has a row here with its default
 * and the range that makes sense.
 */
#include "store/unpack/internal.h"

#define MIB (INT64_C(1) << 20)

static const struct {
    const char *name;
    size_t at; /* in struct options */
    int64_t least, most, preset;
} rows[] = {
#define ROW(name, least, most, preset)                                                             \
    {                                                                                              \
#name, offsetof(struct options, name), least, most, preset                                 \
    }
    ROW(bytes_max, 1, INT64_C(1) << 42, 256 * MIB),
    ROW(file_bytes_max, 1, INT64_C(1) << 42, 128 * MIB),
    ROW(files_max, 1, 10000000, 20000),
    ROW(depth_max, 1, 256, 32),
    ROW(source_bytes, 1, INT64_C(1) << 42, 256 * MIB),
#undef ROW
};

static int64_t *field(struct options *options, size_t row)
{
    return (int64_t *)(void *)((char *)options + rows[row].at);
}

static int set_one(struct options *options, const char *word, struct kg_err *err)
{
    const char *equals = strchr(word, '=');
    if (equals == NULL)
        return kg_fail(err, KG_E_USAGE, "%s: an option is NAME=VALUE", word);
    struct kg_str name = {word, (size_t)(equals - word)};
    if (kg_str_is(name, "version")) {
        options->version = equals + 1;
        return 0;
    }
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        int64_t number;
        if (!kg_str_is(name, rows[i].name))
            continue;
        if (!kg_str_to_int(kg_str(equals + 1), &number) || number < rows[i].least ||
            number > rows[i].most)
            return kg_fail(err, KG_E_USAGE, "%s is a number from %lld to %lld", rows[i].name,
                           (long long)rows[i].least, (long long)rows[i].most);
        *field(options, i) = number;
        return 0;
    }
    return kg_fail(err, KG_E_USAGE, "there is no option %.*s", KG_STR_CUT(name, 64));
}

int options_parse(int count, char **words, struct options *ret_options, struct kg_err *err)
{
    if (count < 4)
        return kg_fail(err, KG_E_USAGE,
                       "usage: kaged-unpack zip|tar|folder|git SOURCE FOLDER NAME=VALUE...");
    struct options options = {.format = words[1], .source = words[2], .folder = words[3]};
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        *field(&options, i) = rows[i].preset;
    for (int i = 4; i < count; i++) {
        int result = set_one(&options, words[i], err);
        if (result < 0)
            return result;
    }
    *ret_options = options;
    return 0;
}
