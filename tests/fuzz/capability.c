/*
 * Any bytes as a capability: refused with a reason, or printed to a string that parses to the same,
 * covers itself and is safe to show. The lines of the bytes as a list: what parses covers itself,
 * and differs from itself in nothing.
 */
#include "manifest/capability.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void must_be_plain(const struct kg_buf *text)
{
    kg_auto(kg_buf_free) struct kg_buf escaped = {0};
    kg_buf_escaped(&escaped, kg_buf_view(text));
    must(kg_str_equal(kg_buf_view(&escaped), kg_buf_view(text)));
}

static void check_one(struct kg_str text)
{
    struct kg_err err = {0};
    const char *reason = NULL;
    kg_auto(capability_free) struct capability once = {0}, twice = {0};
    kg_auto(kg_buf_free) struct kg_buf printed = {0}, again = {0}, words = {0};
    if (capability_parse(text, &once, &err) < 0) {
        must(err.code == KG_E_INVALID_MANIFEST && kg_str_starts(kg_str(err.message), "capability"));
        return;
    }
    capability_print(&once, &printed);
    must(capability_parse(kg_buf_view(&printed), &twice, NULL) == 0);
    must(capability_equal(&once, &twice) && capability_covers(&once, &twice));
    capability_print(&twice, &again);
    must(kg_str_equal(kg_buf_view(&printed), kg_buf_view(&again)));
    capability_words(&once, &words);
    must_be_plain(&printed);
    must_be_plain(&words);
    must(capability_is_dangerous(&once, &reason) == (reason != NULL));
}

static void check_set(char *const *list)
{
    kg_auto(capability_set_free) struct capability_set set = {0};
    kg_auto(capability_remarks_free) struct capability_remarks remarks = {0};
    int result = capability_set_parse(list, &set, &remarks, NULL);
    for (size_t i = 0; i < remarks.count; i++)
        must(remarks.items[i].index < kg_list_count(list));
    if (result < 0)
        return;
    for (size_t i = 0; i < set.count; i++)
        must(capability_set_covers(&set, &set.items[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kg_str rest = {(const char *)data, size};
    char **list = kg_list_new(0);
    check_one(rest);
    while (rest.length > 0) {
        const char *end = memchr(rest.data, '\n', rest.length);
        struct kg_str line = {rest.data, end != NULL ? (size_t)(end - rest.data) : rest.length};
        size_t used = line.length + (end != NULL);
        check_one(line);
        kg_list_add(&list, kg_str_dup(line));
        rest = (struct kg_str){rest.data + used, rest.length - used};
    }
    if (kg_list_count(list) <= CAPABILITY_COUNT_MAX)
        check_set(list);
    kg_list_free(list);
    return 0;
}
