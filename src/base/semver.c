/*
 * Versions and ranges. Every range becomes sets of plain comparisons (`^1.2.3` is `>=1.2.3` and
 * `<2.0.0-0`); a version is in the range if one set holds as a whole.
 */
#include "base/semver.h"

#include <errno.h>
#include <stdlib.h>

enum part { MAJOR, MINOR, PATCH, PART_COUNT };

/* -- reading ----------------------------------------------------------------------------------- */

struct reader {
    struct kg_str text;
    size_t at;
};

static char semver_peek(const struct reader *reader)
{
    return reader->at < reader->text.length ? reader->text.data[reader->at] : '\0';
}

static bool semver_take(struct reader *reader, const char *word)
{
    struct kg_str rest = {reader->text.data + reader->at, reader->text.length - reader->at};
    if (!kg_str_starts(rest, word))
        return false;
    reader->at += strlen(word);
    return true;
}

static void semver_skip_space(struct reader *reader)
{
    while (semver_peek(reader) == ' ' || semver_peek(reader) == '\t')
        reader->at++;
}

static bool semver_is_word(char c)
{
    return kg_is_letter_or_digit(c) || c == '-';
}

/* Without leading zeros, and not past the bound. */
static bool semver_read_number(struct reader *reader, uint64_t *ret_number)
{
    size_t start = reader->at;
    uint64_t number = 0;
    while (kg_is_digit(semver_peek(reader))) {
        number = number * 10 + (uint64_t)(semver_peek(reader) - '0');
        if (number > KG_SEMVER_NUMBER_MAX)
            return false;
        reader->at++;
    }
    size_t length = reader->at - start;
    if (length == 0 || (length > 1 && reader->text.data[start] == '0'))
        return false;
    *ret_number = number;
    return true;
}

static bool semver_is_numeric(struct kg_str identifier)
{
    for (size_t i = 0; i < identifier.length; i++)
        if (!kg_is_digit(identifier.data[i]))
            return false;
    return identifier.length > 0;
}

/* Words with dots between them. Of a prerelease a number has no leading zeros. */
static bool read_identifiers(struct reader *reader, bool is_prerelease, struct kg_str *ret_span)
{
    size_t start = reader->at;
    do {
        size_t word = reader->at;
        while (semver_is_word(semver_peek(reader)))
            reader->at++;
        struct kg_str identifier = {reader->text.data + word, reader->at - word};
        if (identifier.length == 0 || (is_prerelease && identifier.length > 1 &&
                                       identifier.data[0] == '0' && semver_is_numeric(identifier)))
            return false;
    } while (semver_take(reader, "."));
    *ret_span = (struct kg_str){reader->text.data + start, reader->at - start};
    return true;
}

static bool read_qualifiers(struct reader *reader, struct kg_semver *version)
{
    if (semver_take(reader, "-") && !read_identifiers(reader, true, &version->prerelease))
        return false;
    return !semver_take(reader, "+") || read_identifiers(reader, false, &version->build);
}

bool kg_semver_parse(struct kg_str text, struct kg_semver *ret_version)
{
    struct reader reader = {.text = text};
    struct kg_semver version = {0};
    if (text.length > KG_SEMVER_BYTES_MAX)
        return false;
    for (int part = MAJOR; part < PART_COUNT; part++)
        if ((part > MAJOR && !semver_take(&reader, ".")) ||
            !semver_read_number(&reader, &version.number[part]))
            return false;
    if (!read_qualifiers(&reader, &version) || reader.at != text.length)
        return false;
    *ret_version = version;
    return true;
}

/* -- precedence -------------------------------------------------------------------------------- */

static struct kg_str next_identifier(struct kg_str *rest)
{
    const char *dot = memchr(rest->data, '.', rest->length);
    struct kg_str identifier = {rest->data, dot ? (size_t)(dot - rest->data) : rest->length};
    size_t used = identifier.length + (dot != NULL);
    *rest = (struct kg_str){rest->data + used, rest->length - used};
    return identifier;
}

/* Numbers come before words; of two numbers without leading zeros the longer is the greater. */
static int compare_identifiers(struct kg_str a, struct kg_str b)
{
    bool a_numeric = semver_is_numeric(a), b_numeric = semver_is_numeric(b);
    if (a_numeric != b_numeric)
        return a_numeric ? -1 : 1;
    if (a_numeric && a.length != b.length)
        return a.length < b.length ? -1 : 1;
    return kg_str_compare(a, b);
}

static int compare_prereleases(struct kg_str a, struct kg_str b)
{
    if (a.length == 0 || b.length == 0)
        return (a.length == 0) - (b.length == 0);
    while (a.length > 0 && b.length > 0) {
        int order = compare_identifiers(next_identifier(&a), next_identifier(&b));
        if (order != 0)
            return order;
    }
    return (a.length > 0) - (b.length > 0);
}

static int compare_numbers(const struct kg_semver *a, const struct kg_semver *b)
{
    for (int part = MAJOR; part < PART_COUNT; part++)
        if (a->number[part] != b->number[part])
            return a->number[part] < b->number[part] ? -1 : 1;
    return 0;
}

int kg_semver_compare(const struct kg_semver *a, const struct kg_semver *b)
{
    int order = compare_numbers(a, b);
    return order != 0 ? order : compare_prereleases(a->prerelease, b->prerelease);
}

/* -- ranges ------------------------------------------------------------------------------------ */

enum comparator { LESS, LESS_OR_EQUAL, EQUAL, GREATER_OR_EQUAL, GREATER };

struct comparison {
    enum comparator comparator;
    struct kg_semver version;
    bool ends_set; /* the last one of its set */
};

struct kg_semver_range {
    char *text; /* owned; what the versions are spans of */
    struct comparison items[KG_SEMVER_RANGE_MAX];
    size_t count;
};

/* A version of which the last numbers may be missing, or "x". */
struct partial {
    struct kg_semver version;
    int given; /* how many of the three numbers */
};

/* Before every prerelease of that version. */
#define FIRST_OF_ALL KG_STR("0")

static bool semver_add(struct kg_semver_range *range, enum comparator comparator,
                       const struct kg_semver *version)
{
    if (range->count == KG_SEMVER_RANGE_MAX)
        return false;
    range->items[range->count++] = (struct comparison){comparator, *version, false};
    return true;
}

/* The first version after all that begin with the same numbers up to `part`. */
static struct kg_semver after(const struct kg_semver *version, int part)
{
    struct kg_semver next = {.prerelease = FIRST_OF_ALL};
    for (int i = MAJOR; i < part; i++)
        next.number[i] = version->number[i];
    next.number[part] = version->number[part] + 1;
    return next;
}

static bool add_everything(struct kg_semver_range *range)
{
    const struct kg_semver zero = {0};
    return semver_add(range, GREATER_OR_EQUAL, &zero);
}

static bool add_nothing(struct kg_semver_range *range)
{
    const struct kg_semver first = {.prerelease = FIRST_OF_ALL};
    return semver_add(range, LESS, &first);
}

/* From what is given up to, not with, the next of `part`. */
static bool add_between(struct kg_semver_range *range, const struct partial *partial, int part)
{
    struct kg_semver end = after(&partial->version, part);
    return semver_add(range, GREATER_OR_EQUAL, &partial->version) && semver_add(range, LESS, &end);
}

/* "1.2" is every 1.2.x. */
static bool add_partial(struct kg_semver_range *range, const struct partial *partial)
{
    if (partial->given == 0)
        return add_everything(range);
    if (partial->given == PART_COUNT)
        return semver_add(range, EQUAL, &partial->version);
    return add_between(range, partial, partial->given - 1);
}

static bool add_tilde(struct kg_semver_range *range, const struct partial *partial)
{
    if (partial->given == 0)
        return add_everything(range);
    return add_between(range, partial, partial->given == 1 ? MAJOR : MINOR);
}

/* The first number that is not zero may not grow; of those that are missing, the one before. */
static bool add_caret(struct kg_semver_range *range, const struct partial *partial)
{
    if (partial->given == 0)
        return add_everything(range);
    int part = MAJOR;
    while (part < partial->given - 1 && partial->version.number[part] == 0)
        part++;
    return add_between(range, partial, part);
}

/* "<1.2" is before every 1.2.x, ">1.2" is after all of them. */
static bool add_compared(struct kg_semver_range *range, enum comparator comparator,
                         const struct partial *partial)
{
    if (partial->given == PART_COUNT)
        return semver_add(range, comparator, &partial->version);
    if (partial->given == 0)
        return comparator == LESS || comparator == GREATER ? add_nothing(range)
                                                           : add_everything(range);
    struct kg_semver first = partial->version;
    struct kg_semver end = after(&partial->version, partial->given - 1);
    switch (comparator) {
    case LESS:
        first.prerelease = FIRST_OF_ALL;
        return semver_add(range, LESS, &first);
    case LESS_OR_EQUAL:
        return semver_add(range, LESS, &end);
    case GREATER:
        end.prerelease = KG_STR_NULL;
        return semver_add(range, GREATER_OR_EQUAL, &end);
    case GREATER_OR_EQUAL:
        return semver_add(range, GREATER_OR_EQUAL, &first);
    case EQUAL:
        break;
    }
    return add_partial(range, partial);
}

/* -- reading ranges ---------------------------------------------------------------------------- */

static bool take_wildcard(struct reader *reader)
{
    return semver_take(reader, "x") || semver_take(reader, "X") || semver_take(reader, "*");
}

/* What stands after an "x" counts for nothing. */
static bool read_partial(struct reader *reader, struct partial *ret_partial)
{
    struct partial partial = {0};
    bool open = false;
    semver_take(reader, "v");
    for (int part = MAJOR; part < PART_COUNT; part++) {
        uint64_t number = 0;
        if (part > MAJOR && !semver_take(reader, "."))
            break;
        if (take_wildcard(reader))
            open = true;
        else if (!semver_read_number(reader, &number))
            return false;
        if (!open)
            partial.version.number[partial.given++] = number;
    }
    if (partial.given == PART_COUNT && !read_qualifiers(reader, &partial.version))
        return false;
    *ret_partial = partial;
    return true;
}

static const struct {
    const char *sign;
    enum comparator comparator;
} comparators[] = {
    {"<=", LESS_OR_EQUAL}, {"<", LESS}, {">=", GREATER_OR_EQUAL}, {">", GREATER}, {"=", EQUAL},
};

static bool at_end_of_word(const struct reader *reader)
{
    char c = semver_peek(reader);
    return reader->at == reader->text.length || c == ' ' || c == '\t' || c == '|';
}

static bool read_operand(struct reader *reader, struct partial *ret_partial)
{
    semver_skip_space(reader);
    return read_partial(reader, ret_partial) && at_end_of_word(reader);
}

/* "A - B", of which A was just read. */
static bool read_hyphen(struct kg_semver_range *range, struct reader *reader,
                        const struct partial *from)
{
    struct partial to;
    return read_operand(reader, &to) && add_compared(range, GREATER_OR_EQUAL, from) &&
           add_compared(range, LESS_OR_EQUAL, &to);
}

static bool read_simple(struct kg_semver_range *range, struct reader *reader)
{
    struct partial partial;
    if (semver_take(reader, "^"))
        return read_operand(reader, &partial) && add_caret(range, &partial);
    if (semver_take(reader, "~")) {
        semver_take(reader, ">");
        return read_operand(reader, &partial) && add_tilde(range, &partial);
    }
    for (size_t i = 0; i < KG_COUNT(comparators); i++)
        if (semver_take(reader, comparators[i].sign))
            return read_operand(reader, &partial) &&
                   add_compared(range, comparators[i].comparator, &partial);
    if (!read_operand(reader, &partial))
        return false;
    struct reader ahead = *reader;
    semver_skip_space(&ahead);
    if (ahead.at > reader->at && (semver_take(&ahead, "- ") || semver_take(&ahead, "-\t"))) {
        *reader = ahead;
        return read_hyphen(range, reader, &partial);
    }
    return add_partial(range, &partial);
}

/* One set, up to "||" or the end; an empty one is everything. */
static bool read_set(struct kg_semver_range *range, struct reader *reader)
{
    size_t first = range->count;
    for (semver_skip_space(reader); reader->at < reader->text.length && semver_peek(reader) != '|';
         semver_skip_space(reader))
        if (!read_simple(range, reader))
            return false;
    if (range->count == first && !add_everything(range))
        return false;
    range->items[range->count - 1].ends_set = true;
    return true;
}

static bool read_range(struct kg_semver_range *range, struct reader *reader)
{
    do {
        if (!read_set(range, reader))
            return false;
    } while (semver_take(reader, "||"));
    return reader->at == reader->text.length;
}

struct kg_semver_range *kg_semver_range_parse(struct kg_str text, struct kg_err *err)
{
    struct kg_semver_range *range = kg_alloc(sizeof(*range));
    range->text = kg_str_dup(text);
    struct reader reader = {.text = {range->text, text.length}};
    if (text.length <= KG_SEMVER_BYTES_MAX && read_range(range, &reader))
        return range;
    kg_fail(err, KG_E_USAGE, "\"%.*s\" is not a range of versions", KG_STR_CUT(text, KG_CUT_NAME));
    kg_hint(err, "write it like ^1.2.0, ~1.2, >=1.2 <3 or 1.x || 2.x");
    kg_semver_range_free(range);
    return NULL;
}

void kg_semver_range_free(struct kg_semver_range *range)
{
    if (range == NULL)
        return;
    free(range->text);
    free(range);
}

/* -- asking ------------------------------------------------------------------------------------ */

static bool holds(const struct comparison *comparison, const struct kg_semver *version)
{
    int order = kg_semver_compare(version, &comparison->version);
    switch (comparison->comparator) {
    case LESS:
        return order < 0;
    case LESS_OR_EQUAL:
        return order <= 0;
    case EQUAL:
        return order == 0;
    case GREATER_OR_EQUAL:
        return order >= 0;
    case GREATER:
        return order > 0;
    }
    return false;
}

static bool names_prerelease(const struct comparison *comparison, const struct kg_semver *version)
{
    return comparison->version.prerelease.length > 0 &&
           compare_numbers(&comparison->version, version) == 0;
}

bool kg_semver_range_has(const struct kg_semver_range *range, const struct kg_semver *version)
{
    bool all_hold = true, named = version->prerelease.length == 0;
    for (size_t i = 0; i < range->count; i++) {
        const struct comparison *comparison = &range->items[i];
        all_hold &= holds(comparison, version);
        named |= names_prerelease(comparison, version);
        if (!comparison->ends_set)
            continue;
        if (all_hold && named)
            return true;
        all_hold = true;
        named = version->prerelease.length == 0;
    }
    return false;
}
