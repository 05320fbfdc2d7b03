/*
 * Regular expressions of ECMA-262 (with its u flag) rewritten for PCRE2. What means the same
 * passes as it is, what means something else is spelled out, and what only PCRE2 knows is refused:
 * verbs, comments, inline options, possessive quantifiers, \Q, \K, POSIX classes. What ECMA-262
 * takes only without its u flag is refused, too: repeated assertions, braces and brackets that
 * stand alone.
 */
#include "schema/internal.h"

#include <stdio.h>
#include <stdlib.h>

struct translation {
    const char *at;
    const char *end;
    struct kg_buf *out;
    char *problem;
    bool repeatable;      /* what was taken last */
    struct kg_buf groups; /* of each that is open, '=' if it only looks around */
};

/* White space and line ends of ECMA-262, and all that is not, as parts of a class. */
#define SPACES                                                                                     \
    "\\t-\\r\\u{20}\\u{a0}\\u{1680}\\u{2000}-\\u{200a}\\u{2028}\\u{2029}\\u{202f}"                 \
    "\\u{205f}\\u{3000}\\u{feff}"
#define NOT_SPACES                                                                                 \
    "\\u{0}-\\u{8}\\u{e}-\\u{1f}\\u{21}-\\u{9f}\\u{a1}-\\u{167f}\\u{1681}-\\u{1fff}\\u{200b}-"     \
    "\\u{2027}\\u{202a}-\\u{202e}\\u{2030}-\\u{205e}\\u{2060}-\\u{2fff}\\u{3001}-\\u{fefe}"        \
    "\\u{ff00}-\\u{10ffff}"

static const struct {
    const char *name;
    const char *category;
} categories[] = {
    {"Letter", "L"},
    {"Cased_Letter", "L&"},
    {"LC", "L&"},
    {"Uppercase_Letter", "Lu"},
    {"Lowercase_Letter", "Ll"},
    {"Titlecase_Letter", "Lt"},
    {"Modifier_Letter", "Lm"},
    {"Other_Letter", "Lo"},
    {"Mark", "M"},
    {"Combining_Mark", "M"},
    {"Nonspacing_Mark", "Mn"},
    {"Spacing_Mark", "Mc"},
    {"Enclosing_Mark", "Me"},
    {"Number", "N"},
    {"Decimal_Number", "Nd"},
    {"digit", "Nd"},
    {"Letter_Number", "Nl"},
    {"Other_Number", "No"},
    {"Punctuation", "P"},
    {"punct", "P"},
    {"Connector_Punctuation", "Pc"},
    {"Dash_Punctuation", "Pd"},
    {"Open_Punctuation", "Ps"},
    {"Close_Punctuation", "Pe"},
    {"Initial_Punctuation", "Pi"},
    {"Final_Punctuation", "Pf"},
    {"Other_Punctuation", "Po"},
    {"Symbol", "S"},
    {"Math_Symbol", "Sm"},
    {"Currency_Symbol", "Sc"},
    {"Modifier_Symbol", "Sk"},
    {"Other_Symbol", "So"},
    {"Separator", "Z"},
    {"Space_Separator", "Zs"},
    {"Line_Separator", "Zl"},
    {"Paragraph_Separator", "Zp"},
    {"Other", "C"},
    {"Control", "Cc"},
    {"cntrl", "Cc"},
    {"Format", "Cf"},
    {"Surrogate", "Cs"},
    {"Private_Use", "Co"},
    {"Unassigned", "Cn"},
};

static bool ecma_refuse(struct translation *t, const char *problem)
{
    snprintf(t->problem, SCHEMA_PROBLEM_MAX, "%s", problem);
    return false;
}

/* The byte that far ahead, or NUL past the end. */
static char ecma_peek(const struct translation *t, ptrdiff_t ahead)
{
    return t->end - t->at > ahead ? t->at[ahead] : '\0';
}

static bool ecma_starts(const struct translation *t, const char *text)
{
    size_t length = strlen(text);
    return (size_t)(t->end - t->at) >= length && memcmp(t->at, text, length) == 0;
}

static void put_code_point(struct translation *t, uint32_t code_point)
{
    kg_buf_printf(t->out, "\\u{%x}", code_point);
}

/* One character as it stands, with all its bytes. */
static void copy_character(struct translation *t)
{
    do {
        kg_buf_char(t->out, *t->at++);
    } while (t->at < t->end && ((unsigned char)*t->at & 0xC0) == 0x80);
}

/* Exactly so many hexadecimal digits; -1 if they are not there. */
static int64_t ecma_take_hex(struct translation *t, int digits)
{
    int64_t value = 0;
    for (int i = 0; i < digits; i++) {
        int digit = kg_hex_digit(ecma_peek(t, i));
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    t->at += digits;
    return value;
}

/* Behind "\u{". */
static int64_t take_braced_hex(struct translation *t)
{
    int64_t value = 0;
    size_t digits = 0;
    while (t->at < t->end && *t->at != '}') {
        int64_t digit = ecma_take_hex(t, 1);
        value = value * 16 + digit;
        if (digit < 0 || value > 0x10FFFF)
            return -1;
        digits++;
    }
    if (t->at == t->end || digits == 0)
        return -1;
    t->at++;
    return value;
}

/* Behind "\u": four digits, two surrogates of four, or any number in braces. */
static bool unicode_escape(struct translation *t)
{
    int64_t value;
    if (ecma_peek(t, 0) == '{') {
        t->at++;
        value = take_braced_hex(t);
    } else {
        value = ecma_take_hex(t, 4);
        bool high = value >= 0xD800 && value <= 0xDBFF;
        if (high && ecma_starts(t, "\\u")) {
            t->at += 2;
            int64_t low = ecma_take_hex(t, 4);
            bool pair = low >= 0xDC00 && low <= 0xDFFF;
            value = pair ? 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00) : -1;
        }
    }
    if (value < 0 || (value >= 0xD800 && value <= 0xDFFF))
        return ecma_refuse(t, "\\u must be followed by a code point in hexadecimal digits");
    put_code_point(t, (uint32_t)value);
    return true;
}

static void put_property(struct translation *t, char sign, struct kg_str name)
{
    static const struct {
        const char *prefix;
        const char *kind;
    } prefixes[] = {
        {"Script=", "sc:"},        {"sc=", "sc:"}, {"Script_Extensions=", "scx:"}, {"scx=", "scx:"},
        {"General_Category=", ""}, {"gc=", ""}};
    const char *kind = "";
    for (size_t i = 0; i < KG_COUNT(prefixes); i++) {
        if (kg_str_starts(name, prefixes[i].prefix)) {
            size_t length = strlen(prefixes[i].prefix);
            name = (struct kg_str){name.data + length, name.length - length};
            kind = prefixes[i].kind;
            break;
        }
    }
    for (size_t i = 0; *kind == '\0' && i < KG_COUNT(categories); i++)
        if (kg_str_is(name, categories[i].name))
            name = kg_str(categories[i].category);
    kg_buf_printf(t->out, "\\%c{%s%.*s}", sign, kind, KG_STR_ARG(name));
}

/* Behind "\p" or "\P". */
static bool property_escape(struct translation *t, char sign)
{
    if (ecma_peek(t, 0) != '{')
        return ecma_refuse(t, "\\p must be followed by a property's name in braces");
    struct kg_str name = {t->at + 1, 0};
    while (kg_is_letter(ecma_peek(t, 1 + (ptrdiff_t)name.length)) ||
           kg_is_digit(ecma_peek(t, 1 + (ptrdiff_t)name.length)) ||
           ecma_peek(t, 1 + (ptrdiff_t)name.length) == '_' ||
           ecma_peek(t, 1 + (ptrdiff_t)name.length) == '=')
        name.length++;
    if (name.length == 0 || ecma_peek(t, 1 + (ptrdiff_t)name.length) != '}')
        return ecma_refuse(t, "\\p must be followed by a property's name in braces");
    t->at += name.length + 2;
    put_property(t, sign, name);
    return true;
}

static bool control_escape(struct translation *t)
{
    if (!kg_is_letter(ecma_peek(t, 0)))
        return ecma_refuse(t, "\\c must be followed by a letter");
    put_code_point(t, (uint32_t)(*t->at++ & 0x1F));
    return true;
}

static bool hex_escape(struct translation *t)
{
    int64_t value = ecma_take_hex(t, 2);
    if (value < 0)
        return ecma_refuse(t, "\\x must be followed by two hexadecimal digits");
    put_code_point(t, (uint32_t)value);
    return true;
}

static bool unknown_escape(struct translation *t, char c)
{
    snprintf(t->problem, SCHEMA_PROBLEM_MAX, "\\%c is not an escape of ECMA-262", c);
    return false;
}

/* What means one character, in a class and outside; the cursor is behind the letter. */
static bool character_escape(struct translation *t, char c)
{
    switch (c) {
    case 'f':
    case 'n':
    case 'r':
    case 't':
        kg_buf_printf(t->out, "\\%c", c);
        return true;
    case 'v':
        put_code_point(t, '\v');
        return true;
    case '0':
        if (kg_is_digit(ecma_peek(t, 0)))
            return ecma_refuse(t, "\\0 must not be followed by a digit");
        put_code_point(t, 0);
        return true;
    case 'c':
        return control_escape(t);
    case 'x':
        return hex_escape(t);
    case 'u':
        return unicode_escape(t);
    default:
        if (kg_is_letter(c) || kg_is_digit(c))
            return unknown_escape(t, c);
        t->at--;
        if ((unsigned char)c < 0x80)
            kg_buf_char(t->out, '\\');
        copy_character(t);
        return true;
    }
}

/* -- classes ----------------------------------------------------------------------------------- */

static bool is_set_escape(const struct translation *t, ptrdiff_t ahead)
{
    char letter = ecma_peek(t, ahead + 1);
    return ecma_peek(t, ahead) == '\\' && letter != '\0' && strchr("dDwWsSpP", letter) != NULL;
}

/* At the backslash. */
static bool class_escape(struct translation *t)
{
    char c = ecma_peek(t, 1);
    if (t->end - t->at < 2)
        return ecma_refuse(t, "it ends in a backslash");
    t->at += 2;
    if (c == 's' || c == 'S') {
        kg_buf_text(t->out, c == 's' ? SPACES : NOT_SPACES);
        return true;
    }
    if (c == 'p' || c == 'P')
        return property_escape(t, c);
    if (c != '\0' && strchr("dDwWb", c) != NULL) {
        kg_buf_printf(t->out, "\\%c", c);
        return true;
    }
    return character_escape(t, c);
}

/* A hyphen beside a set like \d stands for itself, as PCRE2 has to be told. */
static bool ecma_class_item(struct translation *t, bool after_set)
{
    if (*t->at == '\\')
        return class_escape(t);
    if (*t->at == '-' && (after_set || is_set_escape(t, 1)))
        kg_buf_char(t->out, '\\');
    if (*t->at == '[')
        kg_buf_char(t->out, '\\'); /* else "[:" would begin a POSIX class */
    copy_character(t);
    return true;
}

/* At the opening bracket. */
static bool ecma_character_class(struct translation *t)
{
    bool after_set = false;
    kg_buf_char(t->out, *t->at++);
    if (ecma_peek(t, 0) == '^')
        kg_buf_char(t->out, *t->at++);
    while (t->at < t->end && *t->at != ']') {
        bool set = is_set_escape(t, 0);
        if (!ecma_class_item(t, after_set))
            return false;
        after_set = set;
    }
    if (t->at == t->end)
        return ecma_refuse(t, "a [ is not closed");
    kg_buf_char(t->out, *t->at++);
    return true;
}

/* -- outside classes --------------------------------------------------------------------------- */

/* At the backslash. */
static bool ecma_escape(struct translation *t)
{
    char c = ecma_peek(t, 1);
    if (t->end - t->at < 2)
        return ecma_refuse(t, "it ends in a backslash");
    t->at += 2;
    if (c == 's' || c == 'S') {
        kg_buf_text(t->out, c == 's' ? "[" SPACES "]" : "[^" SPACES "]");
        return true;
    }
    if (c == 'p' || c == 'P')
        return property_escape(t, c);
    t->repeatable = c != 'b' && c != 'B';
    if ((c == 'k' && ecma_peek(t, 0) == '<') || (c != '\0' && strchr("dDwWbB", c) != NULL)) {
        kg_buf_printf(t->out, "\\%c", c);
        return true;
    }
    if (c < '1' || c > '9')
        return character_escape(t, c);
    kg_buf_printf(t->out, "\\g{%c", c);
    while (kg_is_digit(ecma_peek(t, 0)))
        kg_buf_char(t->out, *t->at++);
    kg_buf_char(t->out, '}');
    return true;
}

/* At the parenthesis. */
static bool ecma_group(struct translation *t)
{
    static const char *const openings[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!"};
    bool looks = ecma_starts(t, "(?=") || ecma_starts(t, "(?!") || ecma_starts(t, "(?<=") ||
                 ecma_starts(t, "(?<!");
    kg_buf_char(&t->groups, looks ? '=' : '(');
    t->repeatable = false;
    if (!ecma_starts(t, "(?")) {
        kg_buf_char(t->out, *t->at++);
        return true;
    }
    for (size_t i = 0; i < KG_COUNT(openings); i++) {
        if (ecma_starts(t, openings[i])) {
            kg_buf_text(t->out, openings[i]);
            t->at += strlen(openings[i]);
            return true;
        }
    }
    if (!ecma_starts(t, "(?<"))
        return ecma_refuse(t, "(? must be followed by :, =, !, <=, <! or <name>");
    kg_buf_text(t->out, "(?<"); /* PCRE2 checks the name, which ends at > for it too */
    t->at += 3;
    return true;
}

/* Length of "{2}", "{2,}" or "{2,3}" at the cursor, else 0. */
static ptrdiff_t braces_length(const struct translation *t)
{
    ptrdiff_t i = 1;
    while (kg_is_digit(ecma_peek(t, i)))
        i++;
    if (i == 1)
        return 0;
    if (ecma_peek(t, i) == ',')
        i++;
    while (kg_is_digit(ecma_peek(t, i)))
        i++;
    return ecma_peek(t, i) == '}' ? i + 1 : 0;
}

static ptrdiff_t quantifier_length(const struct translation *t)
{
    char c = ecma_peek(t, 0);
    if (c == '*' || c == '+' || c == '?')
        return 1;
    return c == '{' ? braces_length(t) : 0;
}

/* Takes the quantifier with its '?'; another one behind it has nothing to repeat. */
static bool ecma_quantifier(struct translation *t, ptrdiff_t length)
{
    if (!t->repeatable)
        return ecma_refuse(t, "there is nothing to repeat before a quantifier");
    t->repeatable = false;
    if (ecma_peek(t, length) == '?')
        length++;
    kg_buf_append(t->out, t->at, (size_t)length);
    t->at += length;
    return true;
}

/* At the closing parenthesis; one too many is for PCRE2 to refuse. */
static bool end_group(struct translation *t)
{
    bool looks = t->groups.length > 0 && t->groups.data[--t->groups.length] == '=';
    t->repeatable = !looks;
    kg_buf_char(t->out, *t->at++);
    return true;
}

static bool ecma_term(struct translation *t)
{
    ptrdiff_t repeat = quantifier_length(t);
    if (repeat > 0)
        return ecma_quantifier(t, repeat);
    t->repeatable = *t->at == '\0' || strchr("^$|", *t->at) == NULL;
    switch (*t->at) {
    case '\\':
        return ecma_escape(t);
    case '[':
        return ecma_character_class(t);
    case '(':
        return ecma_group(t);
    case ')':
        return end_group(t);
    case '.':
        kg_buf_text(t->out, "[^\\n\\r\\u{2028}\\u{2029}]");
        t->at++;
        return true;
    case '{':
    case '}':
    case ']':
        return ecma_refuse(t, "{, } and ] must be escaped with a backslash");
    default:
        break;
    }
    copy_character(t);
    return true;
}

bool schema_pattern_translate(struct kg_str source, struct kg_buf *ret_translated,
                              char problem[SCHEMA_PROBLEM_MAX])
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct translation t = {
        .at = source.data, .end = source.data + source.length, .out = &out, .problem = problem};
    bool fits = true;
    while (fits && t.at < t.end)
        fits = ecma_term(&t);
    if (fits)
        kg_buf_str(ret_translated, kg_buf_view(&out));
    kg_buf_free(&t.groups);
    return fits;
}
