/*
 * Any bytes as versions, one a line, and as a range on the last one: what parses equals itself, two
 * versions compare one way only, and ^V and =V have V in them.
 */
#include "base/semver.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void must_have(const char *sign, struct kg_str text, const struct kg_semver *version)
{
    kg_auto(kg_buf_free) struct kg_buf range_text = {0};
    kg_buf_text(&range_text, sign);
    kg_buf_str(&range_text, text);
    struct kg_semver_range *range = kg_semver_range_parse(kg_buf_view(&range_text), NULL);
    must(text.length >= KG_SEMVER_BYTES_MAX || range != NULL);
    must(range == NULL || kg_semver_range_has(range, version));
    kg_semver_range_free(range);
}

static int sign_of(int order)
{
    return (order > 0) - (order < 0);
}

static void check_version(struct kg_str text, const struct kg_semver *before)
{
    struct kg_semver version;
    if (!kg_semver_parse(text, &version))
        return;
    must(kg_semver_compare(&version, &version) == 0);
    must(sign_of(kg_semver_compare(&version, before)) ==
         -sign_of(kg_semver_compare(before, &version)));
    must_have("^", text, &version);
    must_have("=", text, &version);
    must_have("~", text, &version);
}

static void check_range(struct kg_str text, const struct kg_semver *version)
{
    struct kg_err err = {0};
    struct kg_semver_range *range = kg_semver_range_parse(text, &err);
    must(range != NULL || err.code == KG_E_USAGE);
    if (range != NULL)
        (void)kg_semver_range_has(range, version);
    kg_semver_range_free(range);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kg_semver before = {.number = {1, 2, 3}};
    const char *at = (const char *)data, *end = at + size;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        struct kg_str line = {at, (size_t)((line_end ? line_end : end) - at)};
        check_version(line, &before);
        check_range(line, &before);
        (void)kg_semver_parse(line, &before);
        at += line.length + 1;
    }
    return 0;
}
