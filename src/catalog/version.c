/*
 * PEP 440: [EPOCH!]1.2.3[{a|b|rc}N][.postN][.devN][+LOCAL], in all the spellings that it lets pass:
 * a "v" before it, "-", "_" or "." between its parts, alpha, beta, c, pre, preview, rev and r. A
 * version becomes a row of numbers that compare as versions do.
 */
#include "catalog/version.h"

#define PARTS_MAX 8

/* Orders: dev releases, pre-releases by their phase, the release itself, then what came after. */
struct parsed {
    int64_t epoch;
    int64_t release[PARTS_MAX]; /* what is missing is 0 */
    int64_t phase;              /* 0: only dev; 1, 2, 3: a, b, rc; 4: the release */
    int64_t pre;
    int64_t post; /* -1: none */
    int64_t dev;  /* INT64_MAX: none */
};

static bool cut_number(struct kg_str *rest, int64_t *ret_number)
{
    size_t digits = 0;
    while (digits < rest->length && kg_is_digit(rest->data[digits]))
        digits++;
    if (digits == 0 || digits > 15)
        return false;
    kg_str_to_int(kg_str_first(*rest, digits), ret_number);
    *rest = kg_str_from(*rest, digits);
    return true;
}

static void skip_separator(struct kg_str *rest)
{
    if (rest->length > 0 && strchr("-_.", rest->data[0]) != NULL)
        *rest = kg_str_from(*rest, 1);
}

/* One of the words, with a number behind it or 0; the rest stays as it is if there is none. */
static bool cut_word(struct kg_str *rest, const char *word, int64_t *ret_number)
{
    struct kg_str after = *rest;
    skip_separator(&after);
    if (!kg_str_starts(after, word))
        return false;
    after = kg_str_from(after, strlen(word));
    struct kg_str number = after;
    skip_separator(&number);
    *ret_number = 0;
    if (cut_number(&number, ret_number))
        after = number;
    *rest = after;
    return true;
}

static void cut_phase(struct kg_str *rest, struct parsed *parsed)
{
    static const struct {
        const char *word;
        int64_t phase;
    } words[] = {{"alpha", 1}, {"a", 1},       {"beta", 2}, {"b", 2},
                 {"rc", 3},    {"preview", 3}, {"pre", 3},  {"c", 3}};
    for (size_t i = 0; i < KG_COUNT(words); i++)
        if (cut_word(rest, words[i].word, &parsed->pre)) {
            parsed->phase = words[i].phase;
            return;
        }
}

static void cut_post(struct kg_str *rest, struct parsed *parsed)
{
    static const char *const words[] = {"post", "rev", "r"};
    for (size_t i = 0; i < KG_COUNT(words); i++)
        if (cut_word(rest, words[i], &parsed->post))
            return;
    struct kg_str number = rest->length > 1 ? kg_str_from(*rest, 1) : KG_STR_NULL;
    if (kg_str_starts(*rest, "-") && cut_number(&number, &parsed->post)) /* 1.0-1 */
        *rest = number;
}

static bool cut_release(struct kg_str *rest, struct parsed *parsed)
{
    if (!cut_number(rest, &parsed->release[0]))
        return false;
    if (kg_str_starts(*rest, "!")) {
        parsed->epoch = parsed->release[0];
        *rest = kg_str_from(*rest, 1);
        if (!cut_number(rest, &parsed->release[0]))
            return false;
    }
    for (size_t i = 1; rest->length > 1 && rest->data[0] == '.' && kg_is_digit(rest->data[1]);
         i++) {
        *rest = kg_str_from(*rest, 1);
        if (i == PARTS_MAX || !cut_number(rest, &parsed->release[i]))
            return false;
    }
    return true;
}

static bool catalog_version_is_local(struct kg_str rest)
{
    bool fits = rest.length > 1 && rest.data[0] == '+';
    for (size_t i = 1; i < rest.length; i++)
        fits &= kg_is_letter_or_digit(rest.data[i]) || strchr("-_.", rest.data[i]) != NULL;
    return fits;
}

static bool parse_version(struct kg_str version, struct parsed *ret_parsed)
{
    char lower[CATALOG_VERSION_MAX + 1];
    struct parsed parsed = {.phase = 4, .post = -1, .dev = INT64_MAX};
    if (version.length == 0 || version.length > CATALOG_VERSION_MAX)
        return false;
    for (size_t i = 0; i < version.length; i++)
        lower[i] = (char)(version.data[i] >= 'A' && version.data[i] <= 'Z' ? version.data[i] + 32
                                                                           : version.data[i]);
    struct kg_str rest = {lower, version.length};
    if (kg_str_starts(rest, "v"))
        rest = kg_str_from(rest, 1);
    if (!cut_release(&rest, &parsed))
        return false;
    cut_phase(&rest, &parsed);
    cut_post(&rest, &parsed);
    if (cut_word(&rest, "dev", &parsed.dev) && parsed.phase == 4 && parsed.post < 0)
        parsed.phase = 0;
    if (rest.length > 0 && !catalog_version_is_local(rest))
        return false;
    *ret_parsed = parsed;
    return true;
}

bool catalog_version_valid(struct kg_str version)
{
    struct parsed parsed;
    return parse_version(version, &parsed);
}

static int order(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

int catalog_version_compare(struct kg_str a, struct kg_str b)
{
    struct parsed left = {0}, right = {0};
    parse_version(a, &left);
    parse_version(b, &right);
    int result = order(left.epoch, right.epoch);
    for (size_t i = 0; i < PARTS_MAX && result == 0; i++)
        result = order(left.release[i], right.release[i]);
    if (result == 0)
        result = order(left.phase, right.phase);
    if (result == 0)
        result = order(left.pre, right.pre);
    if (result == 0)
        result = order(left.post, right.post);
    return result == 0 ? order(left.dev, right.dev) : result;
}
