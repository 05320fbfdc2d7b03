/* Any text as a config of git: the values that are found of it are bounded, and none is empty. */
#include "host/internal.h"

#include <stdlib.h>

#define VALUES_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(char **values, size_t size)
{
    if (kg_list_count(values) > VALUES_MAX)
        abort();
    for (char **value = values; *value != NULL; value++)
        if ((*value)[0] == '\0' || strlen(*value) > size)
            abort();
    kg_list_free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char **hooks = kg_list_new(0), **includes = kg_list_new(0);
    guards_git_config((struct kg_str){(const char *)data, size}, &hooks, &includes);
    check(hooks, size);
    check(includes, size);
    return 0;
}
