/*
 * Patterns of the plain kind (characters, classes, groups, alternatives, repetitions) as one
 * automaton of at most 64 positions (Glushkov's), run over bytes: time is linear in the text, and
 * nothing backtracks. Whatever is not plain, or too large, is left to PCRE2; so is every refusal.
 */
#include "schema/internal.h"

#include <stdlib.h>

#define POSITIONS_MAX 64
#define NESTING_MAX   16
#define STEPS_MAX     2000 /* of the parser; repeated groups are parsed once for each repetition */

/* Sets of positions are bits of a word. */
struct schema_automaton {
    uint64_t accepts[256];           /* the positions that take this byte */
    uint64_t follows[POSITIONS_MAX]; /* the positions that may come next */
    uint64_t first, last;
    bool empty;    /* the empty text fits too */
    bool at_start; /* the pattern begins with ^ */
    bool at_end;   /* and ends with $ */
};

struct fragment {
    uint64_t first, last;
    bool empty;
};

struct parser {
    struct schema_automaton *automaton;
    const char *at;
    const char *end;
    unsigned positions;
    unsigned depth;
    unsigned steps;
    bool failed; /* not plain, or too large */
};

struct byte_set {
    bool has[256];
};

static const struct fragment nothing = {.empty = true};

/* -- building ---------------------------------------------------------------------------------- */

static struct fragment automaton_fail(struct parser *parser)
{
    parser->failed = true;
    return nothing;
}

static struct fragment position(struct parser *parser, const struct byte_set *set)
{
    if (parser->positions == POSITIONS_MAX)
        return automaton_fail(parser);
    uint64_t bit = (uint64_t)1 << parser->positions++;
    for (unsigned byte = 0; byte < 256; byte++)
        if (set->has[byte])
            parser->automaton->accepts[byte] |= bit;
    return (struct fragment){bit, bit, false};
}

static struct fragment byte_range(struct parser *parser, unsigned from, unsigned to)
{
    struct byte_set set = {0};
    for (unsigned byte = from; byte <= to; byte++)
        set.has[byte] = true;
    return position(parser, &set);
}

static void link_positions(struct parser *parser, uint64_t from, uint64_t to)
{
    for (; from != 0; from &= from - 1)
        parser->automaton->follows[__builtin_ctzll(from)] |= to;
}

static struct fragment concatenate(struct parser *parser, struct fragment a, struct fragment b)
{
    link_positions(parser, a.last, b.first);
    return (struct fragment){a.first | (a.empty ? b.first : 0), b.last | (b.empty ? a.last : 0),
                             a.empty && b.empty};
}

static struct fragment either(struct fragment a, struct fragment b)
{
    return (struct fragment){a.first | b.first, a.last | b.last, a.empty || b.empty};
}

static struct fragment repeat(struct parser *parser, struct fragment a)
{
    link_positions(parser, a.last, a.first);
    return a;
}

static struct fragment optional(struct fragment a)
{
    a.empty = true;
    return a;
}

/*
 * Any character beyond ASCII. In valid UTF-8 only a continuation byte can come where one is due, so
 * any number of them serves.
 */
static struct fragment beyond_ascii(struct parser *parser)
{
    struct fragment lead = byte_range(parser, 0xC2, 0xF4);
    struct fragment rest = repeat(parser, byte_range(parser, 0x80, 0xBF));
    return concatenate(parser, lead, rest);
}

/* -- parsing ----------------------------------------------------------------------------------- */

static struct fragment alternatives(struct parser *parser);

static char automaton_peek(const struct parser *parser)
{
    return parser->at < parser->end ? *parser->at : '\0';
}

static bool automaton_take(struct parser *parser, char c)
{
    if (parser->at == parser->end || *parser->at != c)
        return false;
    parser->at++;
    return true;
}

static bool automaton_is_word(unsigned c)
{
    return kg_is_letter_or_digit(c) || c == '_';
}

/* Behind a backslash: the ASCII characters meant; false if it is more than that. */
static bool escaped_set(struct parser *parser, struct byte_set *set, bool *ret_one)
{
    static const char letters[] = "fnrtv";
    static const char meanings[] = "\f\n\r\t\v";
    char c = automaton_peek(parser);
    if ((unsigned char)c >= 0x80 || c == '\0')
        return false;
    parser->at++;
    *ret_one = c != 'd' && c != 'w';
    for (unsigned byte = 0; byte < 0x80 && !*ret_one; byte++)
        set->has[byte] |= c == 'd' ? byte >= '0' && byte <= '9' : automaton_is_word(byte);
    if (!*ret_one)
        return true;
    const char *letter = strchr(letters, c);
    if (letter == NULL && automaton_is_word((unsigned char)c) && c != '_')
        return false;
    set->has[(unsigned char)(letter ? meanings[letter - letters] : c)] = true;
    return true;
}

/* One character of a class, or -1 for a set like \d, which is in the set then. */
static int class_atom(struct parser *parser, struct byte_set *set)
{
    struct byte_set one = {0};
    bool single = true;
    unsigned char c = (unsigned char)*parser->at++;
    if (c >= 0x80 || c == '[') {
        parser->failed = true;
        return -1;
    }
    if (c != '\\')
        return c;
    if (!escaped_set(parser, &one, &single)) {
        parser->failed = true;
        return -1;
    }
    for (int byte = 0; byte < 0x80; byte++) {
        if (one.has[byte] && single)
            return byte;
        set->has[byte] |= one.has[byte];
    }
    return -1;
}

static void automaton_class_item(struct parser *parser, struct byte_set *set)
{
    int from = class_atom(parser, set);
    int to = from;
    if (parser->end - parser->at >= 2 && *parser->at == '-' && parser->at[1] != ']') {
        parser->at++;
        to = class_atom(parser, set);
        parser->failed |= from < 0 || to < from; /* "[\d-x]", "[z-a]" */
    }
    for (int byte = from; byte >= 0 && byte <= to; byte++)
        set->has[byte] = true;
}

/* Behind the opening bracket. */
static struct fragment automaton_character_class(struct parser *parser)
{
    struct byte_set set = {0};
    bool negated = automaton_take(parser, '^');
    if (automaton_peek(parser) == ']')
        return automaton_fail(parser);
    while (!parser->failed && parser->at < parser->end && *parser->at != ']')
        automaton_class_item(parser, &set);
    if (parser->failed || !automaton_take(parser, ']'))
        return automaton_fail(parser);
    if (!negated)
        return position(parser, &set);
    for (unsigned byte = 0; byte < 0x80; byte++)
        set.has[byte] = !set.has[byte];
    return either(position(parser, &set), beyond_ascii(parser));
}

/* All but the ends of lines: \n, \r, U+2028 and U+2029, which are E2 80 A8 and E2 80 A9. */
static struct fragment dot(struct parser *parser)
{
    struct byte_set set = {0};
    for (unsigned byte = 0; byte < 0x80; byte++)
        set.has[byte] = byte != '\n' && byte != '\r';
    struct fragment ascii = position(parser, &set);
    memset(&set, 0, sizeof(set));
    for (unsigned byte = 0xC2; byte <= 0xF4; byte++)
        set.has[byte] = byte != 0xE2;
    struct fragment lead = position(parser, &set);
    struct fragment rest = repeat(parser, byte_range(parser, 0x80, 0xBF));
    struct fragment other = concatenate(parser, lead, rest);
    struct fragment e2 = byte_range(parser, 0xE2, 0xE2);
    struct fragment past_80 =
        concatenate(parser, byte_range(parser, 0x81, 0xBF), byte_range(parser, 0x80, 0xBF));
    memset(&set, 0, sizeof(set));
    for (unsigned byte = 0x80; byte <= 0xBF; byte++)
        set.has[byte] = byte != 0xA8 && byte != 0xA9;
    struct fragment eighty =
        concatenate(parser, byte_range(parser, 0x80, 0x80), position(parser, &set));
    return either(ascii, either(other, concatenate(parser, e2, either(eighty, past_80))));
}

/* Behind the opening parenthesis. */
static struct fragment automaton_group(struct parser *parser)
{
    if (automaton_take(parser, '?') && !automaton_take(parser, ':'))
        return automaton_fail(parser);
    if (automaton_peek(parser) == '*' || ++parser->depth > NESTING_MAX)
        return automaton_fail(parser);
    struct fragment inner = alternatives(parser);
    parser->depth--;
    return automaton_take(parser, ')') ? inner : automaton_fail(parser);
}

static struct fragment automaton_escape(struct parser *parser)
{
    struct byte_set set = {0};
    bool one;
    return escaped_set(parser, &set, &one) ? position(parser, &set) : automaton_fail(parser);
}

static struct fragment literal(struct parser *parser)
{
    struct fragment whole = nothing;
    do {
        unsigned char byte = (unsigned char)*parser->at++;
        whole = concatenate(parser, whole, byte_range(parser, byte, byte));
    } while (parser->at < parser->end && ((unsigned char)*parser->at & 0xC0) == 0x80);
    return whole;
}

static struct fragment atom(struct parser *parser)
{
    char c = automaton_peek(parser);
    if (c == '\0' || strchr("^$*+?{}])|", c) != NULL || ++parser->steps > STEPS_MAX)
        return automaton_fail(parser);
    if (automaton_take(parser, '\\'))
        return automaton_escape(parser);
    if (automaton_take(parser, '['))
        return automaton_character_class(parser);
    if (automaton_take(parser, '('))
        return automaton_group(parser);
    if (automaton_take(parser, '.'))
        return dot(parser);
    return literal(parser);
}

#define UNBOUNDED UINT32_MAX

static unsigned automaton_take_number(struct parser *parser)
{
    unsigned number = 0;
    while (kg_is_digit(automaton_peek(parser)) && number < 1000)
        number = number * 10 + (unsigned)(*parser->at++ - '0');
    return number;
}

/* "*", "{2,3}", or nothing, which is once; a '?' behind it changes nothing about what fits. */
static void automaton_quantifier(struct parser *parser, unsigned *ret_min, unsigned *ret_max)
{
    *ret_min = *ret_max = 1;
    if (automaton_take(parser, '*')) {
        *ret_min = 0;
        *ret_max = UNBOUNDED;
    } else if (automaton_take(parser, '+')) {
        *ret_max = UNBOUNDED;
    } else if (automaton_take(parser, '?')) {
        *ret_min = 0;
    } else if (automaton_take(parser, '{')) {
        parser->failed |= !kg_is_digit(automaton_peek(parser));
        *ret_min = *ret_max = automaton_take_number(parser);
        if (automaton_take(parser, ','))
            *ret_max = automaton_peek(parser) == '}' ? UNBOUNDED : automaton_take_number(parser);
        parser->failed |= !automaton_take(parser, '}') || *ret_max < *ret_min;
    } else {
        return;
    }
    automaton_take(parser, '?');
}

/* An atom has as many positions of its own as it can be repeated; so it is parsed that often. */
static struct fragment automaton_term(struct parser *parser)
{
    const char *start = parser->at;
    struct fragment copy = atom(parser);
    struct fragment whole = nothing;
    unsigned min, max;
    automaton_quantifier(parser, &min, &max);
    const char *end = parser->at;
    unsigned copies = max == UNBOUNDED ? (min ? min : 1) : max;
    for (unsigned i = 0; i < copies && !parser->failed; i++) {
        if (i > 0) {
            parser->at = start;
            copy = atom(parser);
        }
        if (max == UNBOUNDED && i + 1 == copies)
            copy = repeat(parser, copy);
        whole = concatenate(parser, whole, i < min ? copy : optional(copy));
    }
    parser->at = end;
    return whole;
}

static struct fragment sequence(struct parser *parser)
{
    struct fragment whole = nothing;
    while (!parser->failed && parser->at < parser->end && *parser->at != '|' && *parser->at != ')')
        whole = concatenate(parser, whole, automaton_term(parser));
    return whole;
}

static struct fragment alternatives(struct parser *parser)
{
    struct fragment whole = sequence(parser);
    while (!parser->failed && automaton_take(parser, '|'))
        whole = either(whole, sequence(parser));
    return whole;
}

/* Anchors count only around the whole; "^a|b$" is not plain, since they are of one side each. */
static bool automaton_parse(struct parser *parser)
{
    struct schema_automaton *automaton = parser->automaton;
    automaton->at_start = automaton_take(parser, '^');
    const char *body = parser->at;
    size_t length = (size_t)(parser->end - body);
    bool escaped = length >= 2 && body[length - 2] == '\\';
    automaton->at_end = length >= 1 && body[length - 1] == '$' && !escaped;
    parser->end -= automaton->at_end;
    struct fragment whole = sequence(parser);
    bool anchored = automaton->at_start || automaton->at_end;
    while (!parser->failed && !anchored && automaton_take(parser, '|'))
        whole = either(whole, sequence(parser));
    automaton->first = whole.first;
    automaton->last = whole.last;
    automaton->empty = whole.empty;
    return !parser->failed && parser->at == parser->end;
}

struct schema_automaton *schema_automaton_new(struct kg_str source)
{
    struct schema_automaton *automaton = kg_alloc(sizeof(*automaton));
    struct parser parser = {
        .automaton = automaton, .at = source.data, .end = source.data + source.length};
    if (source.length > 0 && automaton_parse(&parser))
        return automaton;
    free(automaton);
    return NULL;
}

/* -- running ----------------------------------------------------------------------------------- */

bool schema_automaton_match(const struct schema_automaton *automaton, struct kg_str text)
{
    if (automaton->empty && !(automaton->at_start && automaton->at_end))
        return true; /* nothing at all fits at the start or at the end */
    uint64_t entry = automaton->first;
    uint64_t later = automaton->at_start ? 0 : entry;        /* where a match may begin past it */
    uint64_t done = automaton->at_end ? 0 : automaton->last; /* where it may end before the end */
    uint64_t state = 0; /* positions that the byte before was taken at */
    for (size_t i = 0; i < text.length; i++, entry = later) {
        uint64_t next = entry;
        for (; state != 0; state &= state - 1)
            next |= automaton->follows[__builtin_ctzll(state)];
        state = next & automaton->accepts[(unsigned char)text.data[i]];
        if ((state & done) != 0)
            return true;
        if ((state | later) == 0)
            return false;
    }
    return text.length == 0 ? automaton->empty : (state & automaton->last) != 0;
}
