/*
 * TOML 1.0 as a tree. Tables open in any order and again, so they grow in a draft first, where each
 * remembers how it came to be: that alone decides who may add to it. One index over the whole draft
 * finds a key of any table in one step, however many there are. A draft without fault goes to the
 * builder.
 */
#include "base/doc_internal.h"

#include <stdlib.h>

/* -- the draft --------------------------------------------------------------------------------- */

enum kind {
    SCALAR,
    TABLE_IMPLIED, /* by the header of a table below it; its own may still come */
    TABLE_HEADER,
    TABLE_DOTTED, /* by dotted keys, in the table that they stand in */
    TABLE_INLINE, /* complete with its closing brace */
    ARRAY_VALUE,  /* complete with its closing bracket */
    ARRAY_TABLES, /* grows by [[headers]] */
};

static const char *const kind_names[] = {
    [SCALAR] = "a value",
    [TABLE_IMPLIED] = "a table",
    [TABLE_HEADER] = "a table with a header",
    [TABLE_DOTTED] = "a table made by dotted keys",
    [TABLE_INLINE] = "an inline table",
    [ARRAY_VALUE] = "an array",
    [ARRAY_TABLES] = "an array of tables",
};

struct item {
    struct kg_node node; /* the scalar, or where the container starts */
    struct item *first;  /* children of a container: entries of a table, else items */
    struct item *last;
    struct item *next;
    uint32_t number; /* of a table, for the index */
    uint8_t kind;    /* enum kind */
    uint8_t depth;   /* containers around it, itself included */
};

struct key {
    struct kg_str text;
    struct kg_doc_place place;
};

/* What a table has under a key. */
struct entry {
    struct item item; /* first, so that a table lists its entries as items */
    struct key key;
};

struct toml {
    const char *at;
    const char *end;
    const char *line_start;
    uint32_t line;
    struct kg_builder *builder; /* its arena has the texts */
    struct kg_arena *draft;     /* has the items */
    struct kg_map *index;       /* number of the table and key: the entry */
    struct kg_buf index_key;
    struct kg_buf text; /* the string or number being read */
    uint32_t table_count;
    struct item *root;
    struct item *current; /* the table of the header above */
    struct kg_err *err;
};

static struct kg_doc_place here(const struct toml *toml)
{
    return (struct kg_doc_place){toml->line, (uint32_t)(toml->at - toml->line_start) + 1};
}

KG_PRINTF(3, 4)
static int toml_fail_at(struct toml *toml, struct kg_doc_place place, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int result = kg_doc_vfail(toml->err, place, format, args);
    va_end(args);
    return result;
}

static struct kg_str index_key(struct toml *toml, const struct item *table, struct kg_str key)
{
    toml->index_key.length = 0;
    kg_buf_append(&toml->index_key, &table->number, sizeof(table->number));
    kg_buf_str(&toml->index_key, key);
    return kg_buf_view(&toml->index_key);
}

static struct entry *toml_find_entry(struct toml *toml, const struct item *table, struct kg_str key)
{
    return kg_map_get(toml->index, index_key(toml, table, key));
}

static void append_child(struct item *container, struct item *child)
{
    child->depth = container->depth + 1;
    if (container->last != NULL)
        container->last->next = child;
    else
        container->first = child;
    container->last = child;
}

static struct item *toml_add_item(struct toml *toml, struct item *array, struct kg_doc_place place)
{
    struct item *item = kg_arena_alloc(toml->draft, sizeof(*item));
    item->node.line = place.line;
    item->node.column = place.column;
    append_child(array, item);
    return item;
}

/* The key is not in the table yet. Until it is made a container, the item is a scalar. */
static struct item *add_entry(struct toml *toml, struct item *table, struct key key)
{
    struct entry *entry = kg_arena_alloc(toml->draft, sizeof(*entry));
    entry->key = key;
    entry->item.node.line = key.place.line;
    entry->item.node.column = key.place.column;
    append_child(table, &entry->item);
    kg_map_set(toml->index, index_key(toml, table, key.text), entry);
    return &entry->item;
}

static int make_container(struct toml *toml, struct item *item, enum kind kind)
{
    if (item->depth > KG_DOC_DEPTH_MAX)
        return toml_fail_at(toml, (struct kg_doc_place){item->node.line, item->node.column},
                            "nested deeper than %d levels", KG_DOC_DEPTH_MAX);
    item->kind = (uint8_t)kind;
    item->number = toml->table_count++;
    return 0;
}

/* -- characters -------------------------------------------------------------------------------- */

static bool toml_at_char(const struct toml *toml, char c)
{
    return toml->at < toml->end && *toml->at == c;
}

static bool at_text(const struct toml *toml, const char *text)
{
    return kg_str_starts((struct kg_str){toml->at, (size_t)(toml->end - toml->at)}, text);
}

static bool at_newline(const struct toml *toml)
{
    return toml_at_char(toml, '\n') || at_text(toml, "\r\n");
}

static bool take_newline(struct toml *toml)
{
    if (!at_newline(toml))
        return false;
    toml->at += *toml->at == '\r' ? 2 : 1;
    toml->line++;
    toml->line_start = toml->at;
    return true;
}

static bool toml_is_bare_key_char(char c)
{
    return kg_is_letter_or_digit(c) || c == '_' || c == '-';
}

/* The tab is the one control character that may stand in strings and comments. */
static bool is_control(char c)
{
    return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7F;
}

static void toml_skip_blank(struct toml *toml)
{
    while (toml_at_char(toml, ' ') || toml_at_char(toml, '\t'))
        toml->at++;
}

/* The character at the cursor, all of its bytes. */
static struct kg_str whole_char(const struct toml *toml)
{
    size_t length = 1;
    while (toml->at + length < toml->end && (toml->at[length] & 0xC0) == 0x80)
        length++;
    return (struct kg_str){toml->at, length};
}

static int toml_unexpected(struct toml *toml, const char *expected)
{
    if (toml->at == toml->end)
        return toml_fail_at(toml, here(toml), "the text ends where %s was expected", expected);
    if (at_newline(toml))
        return toml_fail_at(toml, here(toml), "the line ends where %s was expected", expected);
    kg_auto(kg_free) char *found = kg_doc_quote(whole_char(toml));
    return toml_fail_at(toml, here(toml), "found %s where %s was expected", found, expected);
}

static int control_character(struct toml *toml, const char *where)
{
    return toml_fail_at(toml, here(toml), "the control character 0x%02X is not allowed in %s",
                        (unsigned char)*toml->at, where);
}

static int skip_comment(struct toml *toml)
{
    if (!toml_at_char(toml, '#'))
        return 0;
    while (toml->at < toml->end && !at_newline(toml)) {
        if (is_control(*toml->at))
            return control_character(toml, "a comment");
        toml->at++;
    }
    return 0;
}

/* -- strings ----------------------------------------------------------------------------------- */

static void toml_put_utf8(struct kg_buf *buf, uint32_t code)
{
    if (code < 0x80) {
        kg_buf_char(buf, (char)code);
        return;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3; /* bytes that follow the first */
    static const unsigned char leads[] = {0, 0xC0, 0xE0, 0xF0};
    kg_buf_char(buf, (char)(leads[more] | code >> (6 * more)));
    while (more-- > 0)
        kg_buf_char(buf, (char)(0x80 | (code >> (6 * more) & 0x3F)));
}

/* Behind \u or \U, which stood at start. */
static int read_code_point(struct toml *toml, int digits, struct kg_doc_place start)
{
    uint32_t code = 0;
    for (int i = 0; i < digits; i++, toml->at++) {
        int value = toml->at < toml->end ? kg_hex_digit(*toml->at) : -1;
        if (value < 0)
            return toml_unexpected(toml, digits == 4 ? "one of four hexadecimal digits"
                                                     : "one of eight hexadecimal digits");
        code = code << 4 | (uint32_t)value;
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
        return toml_fail_at(toml, start, "U+%04X is not a Unicode character", code);
    toml_put_utf8(&toml->text, code);
    return 0;
}

/* A backslash that ends its line drops all white space up to the next character. */
static bool take_line_ending_backslash(struct toml *toml)
{
    struct toml ahead = *toml;
    ahead.at++;
    toml_skip_blank(&ahead);
    if (!at_newline(&ahead))
        return false;
    while (take_newline(&ahead))
        toml_skip_blank(&ahead);
    toml->at = ahead.at;
    toml->line = ahead.line;
    toml->line_start = ahead.line_start;
    return true;
}

static int read_escape(struct toml *toml, bool multiline)
{
    static const char letters[] = "btnfr\"\\";
    static const char meanings[] = "\b\t\n\f\r\"\\";
    if (multiline && take_line_ending_backslash(toml))
        return 0;
    struct kg_doc_place start = here(toml);
    toml->at++;
    char letter = toml->at < toml->end ? *toml->at : '\0';
    const char *known = letter ? strchr(letters, letter) : NULL;
    if (known == NULL && letter != 'u' && letter != 'U')
        return toml_unexpected(toml, "one of the escapes \\b \\t \\n \\f \\r \\\" \\\\ \\u \\U");
    toml->at++;
    if (known == NULL)
        return read_code_point(toml, letter == 'u' ? 4 : 8, start);
    kg_buf_char(&toml->text, meanings[known - letters]);
    return 0;
}

/* At a quote. Two quotes may stand just before the three that close a string of many lines. */
static bool take_closing_quotes(struct toml *toml, char quote, bool multiline)
{
    size_t count = 0;
    while (count < 5 && toml->at + count < toml->end && toml->at[count] == quote)
        count++;
    size_t closing = multiline ? 3 : 1;
    if (!multiline)
        count = 1;
    size_t content = count >= closing ? count - closing : count;
    kg_buf_append(&toml->text, toml->at, content);
    toml->at += count;
    return count >= closing;
}

static void take_plain_chars(struct toml *toml, char quote)
{
    const char *start = toml->at;
    while (toml->at < toml->end && *toml->at != quote && !is_control(*toml->at) &&
           !(*toml->at == '\\' && quote == '"'))
        toml->at++;
    kg_buf_append(&toml->text, start, (size_t)(toml->at - start));
}

/* What a string has besides plain characters and quotes. */
static int read_special(struct toml *toml, bool multiline, struct kg_doc_place start)
{
    if (toml->at == toml->end)
        return toml_fail_at(toml, start, "the string that starts here is not closed");
    if (*toml->at == '\\')
        return read_escape(toml, multiline);
    if (!at_newline(toml))
        return control_character(toml, "a string");
    if (!multiline)
        return toml_fail_at(toml, start, "the string that starts here is not closed on its line");
    take_newline(toml);
    kg_buf_char(&toml->text, '\n');
    return 0;
}

/* At the opening quote of any of the four forms. */
static int read_string(struct toml *toml, struct kg_str *ret_text)
{
    struct kg_doc_place start = here(toml);
    char quote = *toml->at;
    bool multiline = at_text(toml, quote == '"' ? "\"\"\"" : "'''");
    toml->at += multiline ? 3 : 1;
    toml->text.length = 0;
    if (multiline)
        take_newline(toml);
    for (;;) {
        take_plain_chars(toml, quote);
        if (toml_at_char(toml, quote)) {
            if (take_closing_quotes(toml, quote, multiline))
                break;
            continue;
        }
        int result = read_special(toml, multiline, start);
        if (result < 0)
            return result;
    }
    *ret_text = kg_arena_str(kg_builder_arena(toml->builder), kg_buf_view(&toml->text));
    return 0;
}

/* -- dates and times: each step takes what it knows off the front of rest ---------------------- */

static bool take_digits(struct kg_str *rest, size_t count, unsigned *ret_value)
{
    unsigned value = 0;
    if (rest->length < count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!kg_is_digit(rest->data[i]))
            return false;
        value = value * 10 + (unsigned)(rest->data[i] - '0');
    }
    rest->data += count;
    rest->length -= count;
    *ret_value = value;
    return true;
}

static bool take_one_of(struct kg_str *rest, const char *set)
{
    if (rest->length == 0 || rest->data[0] == '\0' || strchr(set, rest->data[0]) == NULL)
        return false;
    rest->data++;
    rest->length--;
    return true;
}

static unsigned toml_days_in_month(unsigned year, unsigned month)
{
    static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

static bool toml_take_date(struct kg_str *rest)
{
    unsigned year, month, day;
    return take_digits(rest, 4, &year) && take_one_of(rest, "-") && take_digits(rest, 2, &month) &&
           take_one_of(rest, "-") && take_digits(rest, 2, &day) && month >= 1 && month <= 12 &&
           day >= 1 && day <= toml_days_in_month(year, month);
}

static bool take_hour_minute(struct kg_str *rest)
{
    unsigned hour, minute;
    return take_digits(rest, 2, &hour) && take_one_of(rest, ":") && take_digits(rest, 2, &minute) &&
           hour <= 23 && minute <= 59;
}

static bool toml_take_time(struct kg_str *rest)
{
    unsigned second, digit;
    if (!take_hour_minute(rest) || !take_one_of(rest, ":") || !take_digits(rest, 2, &second) ||
        second > 60) /* 60: a leap second */
        return false;
    if (!take_one_of(rest, "."))
        return true;
    if (!take_digits(rest, 1, &digit))
        return false;
    while (take_digits(rest, 1, &digit))
        ;
    return true;
}

static bool toml_take_offset(struct kg_str *rest)
{
    return take_one_of(rest, "Zz") || (take_one_of(rest, "+-") && take_hour_minute(rest));
}

static bool time_flavor(struct kg_str token, enum kg_flavor *ret_flavor)
{
    struct kg_str rest = token;
    if (token.length > 2 && token.data[2] == ':') {
        *ret_flavor = KG_TIME_LOCAL;
        return toml_take_time(&rest) && rest.length == 0;
    }
    if (!toml_take_date(&rest))
        return false;
    if (rest.length == 0) {
        *ret_flavor = KG_DATE_LOCAL;
        return true;
    }
    if (!take_one_of(&rest, "Tt ") || !toml_take_time(&rest))
        return false;
    *ret_flavor = rest.length ? KG_DATETIME : KG_DATETIME_LOCAL;
    return rest.length == 0 || (toml_take_offset(&rest) && rest.length == 0);
}

static bool is_like_time(struct kg_str token)
{
    unsigned value;
    struct kg_str rest = token;
    if (token.length > 2 && token.data[2] == ':')
        return true;
    return take_digits(&rest, 4, &value) && take_one_of(&rest, "-");
}

/* Written as RFC 3339 has it: with a T between date and time and a capital Z. */
static int read_time(struct toml *toml, struct kg_str token, struct kg_node *node)
{
    enum kg_flavor flavor;
    if (!time_flavor(token, &flavor)) {
        kg_auto(kg_free) char *quoted = kg_doc_quote(token);
        return toml_fail_at(toml, (struct kg_doc_place){node->line, node->column},
                            "%s is not a date or time; expected something like "
                            "1979-05-27T07:32:00Z, 1979-05-27 or 07:32:00",
                            quoted);
    }
    toml->text.length = 0;
    kg_buf_str(&toml->text, token);
    if (flavor == KG_DATETIME || flavor == KG_DATETIME_LOCAL)
        toml->text.data[10] = 'T';
    if (toml->text.data[token.length - 1] == 'z')
        toml->text.data[token.length - 1] = 'Z';
    node->type = KG_STRING;
    node->flavor = (uint8_t)flavor;
    node->text = kg_arena_str(kg_builder_arena(toml->builder), kg_buf_view(&toml->text));
    return 0;
}

/* -- numbers ----------------------------------------------------------------------------------- */

/* Digits with single underscores between them; appends the digits alone. */
static bool take_digit_run(struct kg_str *rest, int base, struct kg_buf *digits)
{
    bool after_digit = false;
    while (rest->length) {
        int value = kg_hex_digit(rest->data[0]);
        bool digit = value >= 0 && value < base;
        if (!digit && !(rest->data[0] == '_' && after_digit))
            break;
        if (digit)
            kg_buf_char(digits, rest->data[0]);
        after_digit = digit;
        rest->data++;
        rest->length--;
    }
    return after_digit;
}

static bool take_fraction(struct kg_str *rest, struct kg_buf *number)
{
    if (!take_one_of(rest, "."))
        return true;
    kg_buf_char(number, '.');
    return take_digit_run(rest, 10, number);
}

static bool take_exponent(struct kg_str *rest, struct kg_buf *number)
{
    if (!take_one_of(rest, "eE"))
        return true;
    kg_buf_char(number, 'e');
    if (take_one_of(rest, "-"))
        kg_buf_char(number, '-');
    else
        take_one_of(rest, "+");
    return take_digit_run(rest, 10, number);
}

/* Puts the decimal number into toml->text as JSON writes it. */
static bool toml_scan_decimal(struct toml *toml, struct kg_str token)
{
    struct kg_str rest = token;
    toml->text.length = 0;
    if (take_one_of(&rest, "-"))
        kg_buf_char(&toml->text, '-');
    else
        take_one_of(&rest, "+");
    bool zero = rest.length && rest.data[0] == '0';
    size_t before = toml->text.length;
    if (!take_digit_run(&rest, 10, &toml->text) || (zero && toml->text.length > before + 1))
        return false;
    return take_fraction(&rest, &toml->text) && take_exponent(&rest, &toml->text) &&
           rest.length == 0;
}

/* Whether the token has the prefix of another base; such integers have no sign. */
static int base_of(struct kg_str token)
{
    static const struct {
        const char *prefix;
        int base;
    } rows[] = {{"0x", 16}, {"0o", 8}, {"0b", 2}};
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        if (kg_str_starts(token, rows[i].prefix))
            return rows[i].base;
    return 10;
}

static bool digits_to_int(struct kg_str digits, int base, int64_t *ret_value)
{
    int64_t value = 0;
    if (base == 10)
        return kg_str_to_int(digits, ret_value);
    for (size_t i = 0; i < digits.length; i++)
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, kg_hex_digit(digits.data[i]), &value))
            return false;
    *ret_value = value;
    return true;
}

static bool scan_number(struct toml *toml, struct kg_str token, int base)
{
    if (base == 10)
        return toml_scan_decimal(toml, token);
    struct kg_str rest = {token.data + 2, token.length - 2};
    toml->text.length = 0;
    return take_digit_run(&rest, base, &toml->text) && rest.length == 0;
}

static int toml_read_number(struct toml *toml, struct kg_str token, struct kg_node *node)
{
    struct kg_doc_place place = {node->line, node->column};
    int base = base_of(token);
    if (!scan_number(toml, token, base)) {
        kg_auto(kg_free) char *quoted = kg_doc_quote(token);
        return toml_fail_at(toml, place, "%s is not a value%s", quoted,
                            strchr("+-.0123456789", token.data[0])
                                ? ": a number, date or time is written wrongly"
                                : "; text must be quoted");
    }
    struct kg_str digits = kg_buf_view(&toml->text);
    bool is_float = base == 10 && (memchr(digits.data, '.', digits.length) != NULL ||
                                   memchr(digits.data, 'e', digits.length) != NULL);
    int64_t value;
    if (!is_float) {
        if (!digits_to_int(digits, base, &value))
            return toml_fail_at(toml, place, "the integer does not fit in 64 bits");
        toml->text.length = 0;
        kg_buf_int(&toml->text, value);
    }
    node->type = KG_NUMBER;
    node->text = kg_arena_str(kg_builder_arena(toml->builder), kg_buf_view(&toml->text));
    return 0;
}

/* -- values ------------------------------------------------------------------------------------ */

struct word {
    const char *text;
    enum kg_type type;
    bool boolean;
    struct kg_str number;
};

static const struct word words[] = {
    {"true", KG_BOOL, true, {0}},
    {"false", KG_BOOL, false, {0}},
    {"inf", KG_NUMBER, false, {"inf", 3}},
    {"+inf", KG_NUMBER, false, {"inf", 3}},
    {"-inf", KG_NUMBER, false, {"-inf", 4}},
    {"nan", KG_NUMBER, false, {"nan", 3}},
    {"+nan", KG_NUMBER, false, {"nan", 3}},
    {"-nan", KG_NUMBER, false, {"nan", 3}},
};

static size_t bare_length(const char *at, const char *end)
{
    const char *start = at;
    while (at < end && (toml_is_bare_key_char(*at) || *at == '+' || *at == '.' || *at == ':'))
        at++;
    return (size_t)(at - start);
}

/* Everything up to a delimiter; a date and a time may have one space between them. */
static struct kg_str take_bare_token(struct toml *toml)
{
    struct kg_str token = {toml->at, bare_length(toml->at, toml->end)};
    struct kg_str rest = token;
    const char *behind = token.data + token.length;
    if (toml_take_date(&rest) && rest.length == 0 && toml->end - behind > 1 && behind[0] == ' ' &&
        kg_is_digit(behind[1]))
        token.length += 1 + bare_length(behind + 1, toml->end);
    toml->at += token.length;
    return token;
}

static int read_bare_value(struct toml *toml, struct item *item)
{
    if (bare_length(toml->at, toml->end) == 0)
        return toml_unexpected(toml, "a value");
    struct kg_str token = take_bare_token(toml);
    for (size_t i = 0; i < KG_COUNT(words); i++) {
        if (!kg_str_is(token, words[i].text))
            continue;
        item->node.type = (uint8_t)words[i].type;
        item->node.boolean = words[i].boolean;
        item->node.text = words[i].number;
        return 0;
    }
    if (is_like_time(token))
        return read_time(toml, token, &item->node);
    return toml_read_number(toml, token, &item->node);
}

/* White space, newlines and comments, as arrays may have them anywhere. */
static int skip_lines(struct toml *toml)
{
    do {
        toml_skip_blank(toml);
        int result = skip_comment(toml);
        if (result < 0)
            return result;
    } while (take_newline(toml));
    return 0;
}

static int toml_read_value(struct toml *toml, struct item *item);

/* One item and the comma after it, which the last one may lack. */
static int read_item(struct toml *toml, struct item *array)
{
    int result = toml_read_value(toml, toml_add_item(toml, array, here(toml)));
    if (result < 0)
        return result;
    result = skip_lines(toml);
    if (result < 0)
        return result;
    if (toml_at_char(toml, ','))
        toml->at++;
    else if (!toml_at_char(toml, ']'))
        return toml_unexpected(toml, "\",\" or \"]\" after an item of the array");
    return 0;
}

static int toml_read_array(struct toml *toml, struct item *array)
{
    int result = make_container(toml, array, ARRAY_VALUE);
    if (result < 0)
        return result;
    toml->at++;
    for (;;) {
        result = skip_lines(toml);
        if (result < 0)
            return result;
        if (toml_at_char(toml, ']'))
            break;
        result = read_item(toml, array);
        if (result < 0)
            return result;
    }
    toml->at++;
    return 0;
}

static int read_pair(struct toml *toml, struct item *table);

static int read_inline_table(struct toml *toml, struct item *table)
{
    int result = make_container(toml, table, TABLE_INLINE);
    if (result < 0)
        return result;
    toml->at++;
    toml_skip_blank(toml);
    if (toml_at_char(toml, '}')) {
        toml->at++;
        return 0;
    }
    for (;;) {
        toml_skip_blank(toml);
        result = read_pair(toml, table);
        if (result < 0)
            return result;
        toml_skip_blank(toml);
        if (toml_at_char(toml, '}'))
            break;
        if (!toml_at_char(toml, ','))
            return toml_unexpected(toml, "\",\" or \"}\" after a value of the inline table");
        toml->at++;
    }
    toml->at++;
    return 0;
}

static int toml_read_value(struct toml *toml, struct item *item)
{
    item->node.line = here(toml).line;
    item->node.column = here(toml).column;
    if (toml_at_char(toml, '[') || toml_at_char(toml, '{'))
        return *toml->at == '[' ? toml_read_array(toml, item) : read_inline_table(toml, item);
    if (!toml_at_char(toml, '"') && !toml_at_char(toml, '\''))
        return read_bare_value(toml, item);
    item->node.type = KG_STRING;
    return read_string(toml, &item->node.text);
}

/* -- keys -------------------------------------------------------------------------------------- */

static int read_key_part(struct toml *toml, struct key *ret_key)
{
    ret_key->place = here(toml);
    if (at_text(toml, "\"\"\"") || at_text(toml, "'''"))
        return toml_fail_at(toml, here(toml), "a key cannot be a string of many lines");
    if (toml_at_char(toml, '"') || toml_at_char(toml, '\''))
        return read_string(toml, &ret_key->text);
    struct kg_str bare = {toml->at, 0};
    while (toml->at < toml->end && toml_is_bare_key_char(*toml->at))
        toml->at++;
    bare.length = (size_t)(toml->at - bare.data);
    if (bare.length == 0)
        return toml_unexpected(toml, "a key");
    ret_key->text = kg_arena_str(kg_builder_arena(toml->builder), bare);
    return 0;
}

static int clash(struct toml *toml, struct key key, const struct item *there, const char *act)
{
    kg_auto(kg_free) char *quoted = kg_doc_quote(key.text);
    return toml_fail_at(toml, key.place, "the key %s is %s, on line %u; %s", quoted,
                        kind_names[there->kind], there->node.line, act);
}

static int twice(struct toml *toml, const char *what, struct key key, uint32_t first_line)
{
    kg_auto(kg_free) char *quoted = kg_doc_quote(key.text);
    return toml_fail_at(toml, key.place, "the %s %s is given twice; first on line %u", what, quoted,
                        first_line);
}

/* From a table to the one below it: how a dotted key and how a header may go on. */
typedef int step_into(struct toml *toml, struct item *table, struct key key,
                      struct item **ret_table);

static int step_by_dotted_key(struct toml *toml, struct item *table, struct key key,
                              struct item **ret_table)
{
    struct entry *there = toml_find_entry(toml, table, key.text);
    if (there == NULL) {
        *ret_table = add_entry(toml, table, key);
        return make_container(toml, *ret_table, TABLE_DOTTED);
    }
    if (there->item.kind != TABLE_IMPLIED && there->item.kind != TABLE_DOTTED)
        return clash(toml, key, &there->item, "a dotted key cannot add to it");
    there->item.kind = TABLE_DOTTED;
    *ret_table = &there->item;
    return 0;
}

static int step_by_header(struct toml *toml, struct item *table, struct key key,
                          struct item **ret_table)
{
    struct entry *there = toml_find_entry(toml, table, key.text);
    if (there == NULL) {
        *ret_table = add_entry(toml, table, key);
        return make_container(toml, *ret_table, TABLE_IMPLIED);
    }
    uint8_t kind = there->item.kind;
    if (kind == SCALAR || kind == TABLE_INLINE || kind == ARRAY_VALUE)
        return clash(toml, key, &there->item, "a header cannot add to it");
    *ret_table = kind == ARRAY_TABLES ? there->item.last : &there->item;
    return 0;
}

/* Goes down by all parts of a key but the last. */
static int walk_key(struct toml *toml, struct item *table, step_into *step, struct item **ret_table,
                    struct key *ret_last)
{
    for (;;) {
        struct key key;
        int result = read_key_part(toml, &key);
        if (result < 0)
            return result;
        toml_skip_blank(toml);
        if (!toml_at_char(toml, '.')) {
            *ret_table = table;
            *ret_last = key;
            return 0;
        }
        toml->at++;
        toml_skip_blank(toml);
        result = step(toml, table, key, &table);
        if (result < 0)
            return result;
    }
}

static int read_pair(struct toml *toml, struct item *table)
{
    struct key key;
    int result = walk_key(toml, table, step_by_dotted_key, &table, &key);
    if (result < 0)
        return result;
    struct entry *there = toml_find_entry(toml, table, key.text);
    if (there != NULL)
        return twice(toml, "key", key, there->key.place.line);
    if (!toml_at_char(toml, '='))
        return toml_unexpected(toml, "\"=\" after the key");
    toml->at++;
    toml_skip_blank(toml);
    return toml_read_value(toml, add_entry(toml, table, key));
}

/* -- headers ----------------------------------------------------------------------------------- */

static int open_table(struct toml *toml, struct item *parent, struct key key)
{
    struct entry *there = toml_find_entry(toml, parent, key.text);
    if (there == NULL) {
        toml->current = add_entry(toml, parent, key);
        return make_container(toml, toml->current, TABLE_HEADER);
    }
    if (there->item.kind == TABLE_HEADER)
        return twice(toml, "table", key, there->item.node.line);
    if (there->item.kind != TABLE_IMPLIED)
        return clash(toml, key, &there->item, "a header cannot open it again");
    there->item.kind = TABLE_HEADER;
    there->item.node.line = key.place.line;
    there->item.node.column = key.place.column;
    there->key.place = key.place;
    toml->current = &there->item;
    return 0;
}

static int open_array_table(struct toml *toml, struct item *parent, struct key key)
{
    struct entry *there = toml_find_entry(toml, parent, key.text);
    if (there != NULL && there->item.kind != ARRAY_TABLES)
        return clash(toml, key, &there->item, "[[...]] cannot add a table to it");
    struct item *array = there ? &there->item : add_entry(toml, parent, key);
    int result = there ? 0 : make_container(toml, array, ARRAY_TABLES);
    if (result < 0)
        return result;
    toml->current = toml_add_item(toml, array, key.place);
    return make_container(toml, toml->current, TABLE_HEADER);
}

static int toml_read_header(struct toml *toml)
{
    bool array = at_text(toml, "[[");
    toml->at += array ? 2 : 1;
    toml_skip_blank(toml);
    struct item *parent;
    struct key key;
    int result = walk_key(toml, toml->root, step_by_header, &parent, &key);
    if (result < 0)
        return result;
    if (!at_text(toml, array ? "]]" : "]"))
        return toml_unexpected(toml, array ? "\"]]\" after the name of the table"
                                           : "\"]\" after the name of the table");
    toml->at += array ? 2 : 1;
    return array ? open_array_table(toml, parent, key) : open_table(toml, parent, key);
}

/* -- the text ---------------------------------------------------------------------------------- */

static int toml_read_line(struct toml *toml)
{
    int result = 0;
    toml_skip_blank(toml);
    if (toml_at_char(toml, '['))
        result = toml_read_header(toml);
    else if (toml->at < toml->end && !at_newline(toml) && !toml_at_char(toml, '#'))
        result = read_pair(toml, toml->current);
    if (result < 0)
        return result;
    toml_skip_blank(toml);
    result = skip_comment(toml);
    if (result < 0)
        return result;
    if (toml->at < toml->end && !take_newline(toml))
        return toml_unexpected(toml, "the end of the line");
    return 0;
}

static void emit(struct kg_builder *builder, const struct item *item)
{
    uint32_t line = item->node.line;
    uint32_t column = item->node.column;
    if (item->kind == SCALAR) {
        kg_builder_value(builder, item->node);
        return;
    }
    bool array = item->kind == ARRAY_VALUE || item->kind == ARRAY_TABLES;
    kg_builder_open(builder, array ? KG_ARRAY : KG_OBJECT, line, column);
    for (const struct item *child = item->first; child != NULL; child = child->next) {
        if (!array) {
            const struct key *key = &KG_CONTAINER(child, const struct entry, item)->key;
            kg_builder_key(builder, key->text, key->place.line, key->place.column);
        }
        emit(builder, child);
    }
    kg_builder_close(builder);
}

static void toml_start(struct toml *toml, struct kg_str text)
{
    toml->at = toml->line_start = text.data;
    toml->end = text.data + text.length;
    toml->line = 1;
    toml->builder = kg_builder_new();
    toml->draft = kg_arena_new();
    toml->index = kg_map_new();
    toml->root = kg_arena_alloc(toml->draft, sizeof(*toml->root));
    *toml->root = (struct item){.kind = TABLE_HEADER, .depth = 1, .node = {.line = 1, .column = 1}};
    toml->root->number = toml->table_count++;
    toml->current = toml->root;
}

static void base_toml_end(struct toml *toml)
{
    kg_builder_free(toml->builder);
    kg_arena_free(toml->draft);
    kg_map_free(toml->index);
    kg_buf_free(&toml->index_key);
    kg_buf_free(&toml->text);
}

struct kg_doc *kg_toml_read(struct kg_str text, struct kg_err *err)
{
    kg_auto(base_toml_end) struct toml toml = {.err = err};
    if (kg_doc_open(text, &text, err) < 0)
        return NULL;
    toml_start(&toml, text);
    while (toml.at < toml.end)
        if (toml_read_line(&toml) < 0)
            return NULL;
    emit(toml.builder, toml.root);
    return kg_builder_finish(toml.builder);
}
