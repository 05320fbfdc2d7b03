/* Numbers in a helper's command line, NAME=VALUE each, by a table of names, bounds and defaults. */
#include "base/base.h"

static int64_t *base_options_field(void *options, const struct kg_option *row)
{
    return (int64_t *)(void *)((char *)options + row->at);
}

void kg_options_preset(const struct kg_option *rows, void *options)
{
    for (; rows->name != NULL; rows++)
        *base_options_field(options, rows) = rows->preset;
}

int kg_option_split(const char *word, struct kg_str *ret_name, const char **ret_value,
                    struct kg_err *err)
{
    const char *equals = strchr(word, '=');
    if (equals == NULL)
        return kg_fail(err, KG_E_USAGE, "%s: an option is NAME=VALUE", word);
    *ret_name = (struct kg_str){word, (size_t)(equals - word)};
    *ret_value = equals + 1;
    return 0;
}

int kg_option_set(const struct kg_option *rows, struct kg_str name, const char *value,
                  void *options, struct kg_err *err)
{
    int64_t number;
    while (rows->name != NULL && !kg_str_is(name, rows->name))
        rows++;
    if (rows->name == NULL)
        return kg_fail(err, KG_E_USAGE, "there is no option %.*s", KG_STR_CUT(name, KG_CUT_NAME));
    if (!kg_str_to_int(kg_str(value), &number) || number < rows->least || number > rows->most)
        return kg_fail(err, KG_E_USAGE, "%s is a number from %lld to %lld", rows->name,
                       (long long)rows->least, (long long)rows->most);
    *base_options_field(options, rows) = number;
    return 0;
}
