/*
 * A text for a regular expression: literals as they stand, of a class its first character, of a
 * choice its first branch, of a repetition the least. What is not understood is passed over;
 * whether the text fits is the checker's to say. Bounded, since the pattern may be hostile.
 */
#include "kit/generate.h"

#define SAMPLE_MAX 256
#define DEPTH_MAX  16

struct sampler {
    struct kg_str rest;
    unsigned depth;
};

static bool at_end(const struct sampler *sampler)
{
    return sampler->rest.length == 0;
}

static char kit_sample_peek(const struct sampler *sampler)
{
    return at_end(sampler) ? '\0' : sampler->rest.data[0];
}

static char kit_sample_take(struct sampler *sampler)
{
    char c = kit_sample_peek(sampler);
    if (!at_end(sampler)) {
        sampler->rest.data++;
        sampler->rest.length--;
    }
    return c;
}

static bool take_if(struct sampler *sampler, const char *text)
{
    if (!kg_str_starts(sampler->rest, text))
        return false;
    sampler->rest.data += strlen(text);
    sampler->rest.length -= strlen(text);
    return true;
}

/* One that the escape stands for; 0: it stands for no character. */
static char escaped(char c)
{
    static const char *const classes[] = {"d0", "wa", "s ", "Dx", "W-", "Sx", "tx", "nx"};
    for (size_t i = 0; i < KG_COUNT(classes); i++)
        if (classes[i][0] == c)
            return classes[i][1];
    return c == 'b' || c == 'B' ? '\0' : c;
}

/* The cursor stands behind the bracket. Of a negated class: something unlikely to be in it. */
static char take_class(struct sampler *sampler)
{
    bool negated = take_if(sampler, "^");
    char first = '\0';
    for (bool is_first = true; !at_end(sampler) && (is_first || kit_sample_peek(sampler) != ']');
         is_first = false) {
        char c = kit_sample_take(sampler);
        if (c == '\\')
            c = escaped(kit_sample_take(sampler));
        if (first == '\0')
            first = c;
    }
    kit_sample_take(sampler);
    return negated ? (first == '~' ? 'x' : '~') : first;
}

/* How often at least: of `*` and `?` once, since more is tried that way than by nothing. */
static unsigned kit_sample_take_count(struct sampler *sampler)
{
    unsigned count = 1;
    if (kit_sample_peek(sampler) == '*' || kit_sample_peek(sampler) == '+' ||
        kit_sample_peek(sampler) == '?') {
        kit_sample_take(sampler);
    } else if (kit_sample_peek(sampler) == '{') {
        kit_sample_take(sampler);
        for (count = 0; kg_is_digit(kit_sample_peek(sampler)) && count < SAMPLE_MAX;)
            count = count * 10 + (unsigned)(kit_sample_take(sampler) - '0');
        while (!at_end(sampler) && kit_sample_take(sampler) != '}')
            ;
    }
    take_if(sampler, "?"); /* lazy */
    return count;
}

static void sample_choice(struct sampler *sampler, struct kg_buf *out);

/* Behind its parenthesis. What looks ahead or behind adds nothing. */
static void sample_group(struct sampler *sampler, struct kg_buf *out)
{
    kg_auto(kg_buf_free) struct kg_buf aside = {0};
    bool looks = take_if(sampler, "?=") || take_if(sampler, "?!") || take_if(sampler, "?<=") ||
                 take_if(sampler, "?<!");
    if (!looks && !take_if(sampler, "?:") && take_if(sampler, "?<"))
        while (!at_end(sampler) && kit_sample_take(sampler) != '>')
            ;
    sample_choice(sampler, looks ? &aside : out);
    kit_sample_take(sampler);
}

/* One character or group, as often as it has to be there. */
static void sample_piece(struct sampler *sampler, struct kg_buf *out)
{
    kg_auto(kg_buf_free) struct kg_buf piece = {0};
    char c = kit_sample_take(sampler);
    if (c == '(')
        sample_group(sampler, &piece);
    else if (c == '[')
        c = take_class(sampler);
    else if (c == '\\')
        c = escaped(kit_sample_take(sampler));
    else if (c == '.')
        c = 'x';
    else if (c == '^' || c == '$')
        return;
    if (c != '(' && c != '\0')
        kg_buf_char(&piece, c);
    for (unsigned count = kit_sample_take_count(sampler); count > 0; count--)
        if (out->length + piece.length <= SAMPLE_MAX)
            kg_buf_str(out, kg_buf_view(&piece));
}

/* The first branch; the others are read and thrown away. */
static void sample_choice(struct sampler *sampler, struct kg_buf *out)
{
    kg_auto(kg_buf_free) struct kg_buf others = {0};
    struct kg_buf *into = out;
    if (++sampler->depth > DEPTH_MAX)
        sampler->rest.length = 0;
    while (!at_end(sampler) && kit_sample_peek(sampler) != ')') {
        if (take_if(sampler, "|")) {
            others.length = 0;
            into = &others;
        } else {
            sample_piece(sampler, into);
        }
    }
    sampler->depth--;
}

void kit_sample_pattern(struct kg_str pattern, struct kg_buf *out)
{
    struct sampler sampler = {.rest = pattern};
    sample_choice(&sampler, out);
}
