/*
 * The command line: FORMAT SOURCE FOLDER NAME=VALUE... Every bound has a row here with its default
 * and the range that makes sense.
 */
#include "store/unpack/internal.h"

#define MIB (INT64_C(1) << 20)

static const struct kg_option rows[] = {
#define ROW(name, least, most, preset) KG_OPTION(struct options, name, least, most, preset)
    ROW(bytes_max, 1, INT64_C(1) << 42, 256 * MIB),
    ROW(file_bytes_max, 1, INT64_C(1) << 42, 128 * MIB),
    ROW(files_max, 1, 10000000, 20000),
    ROW(depth_max, 1, 256, 32),
    ROW(source_bytes, 1, INT64_C(1) << 42, 256 * MIB),
#undef ROW
    {0},
};

static int store_unpack_options_set_one(struct options *options, const char *word,
                                        struct kg_err *err)
{
    struct kg_str name;
    const char *value;
    int result = kg_option_split(word, &name, &value, err);
    if (result < 0)
        return result;
    const struct {
        const char *name, **value;
    } texts[] = {{"version", &options->version}, {"node", &options->node}, {"npm", &options->npm}};
    for (size_t i = 0; i < KG_COUNT(texts); i++) {
        if (!kg_str_is(name, texts[i].name))
            continue;
        *texts[i].value = value;
        return 0;
    }
    return kg_option_set(rows, name, value, options, err);
}

int options_parse(int count, char **words, struct options *ret_options, struct kg_err *err)
{
    if (count < 4)
        return kg_fail(err, KG_E_USAGE,
                       "usage: kaged-unpack zip|tar|folder|git|npm SOURCE FOLDER NAME=VALUE...");
    struct options options = {.format = words[1], .source = words[2], .folder = words[3]};
    kg_options_preset(rows, &options);
    for (int i = 4; i < count; i++) {
        int result = store_unpack_options_set_one(&options, words[i], err);
        if (result < 0)
            return result;
    }
    *ret_options = options;
    return 0;
}
