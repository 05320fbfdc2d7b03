/*
 * One YAML document as a tree, from libyaml's events. Nothing may grow past what the text shows: an
 * alias repeats the steps that built its anchor, each counted again, and neither tags nor merge
 * keys nor directives change what the text says.
 */
#include "base/doc_internal.h"

#include <stdlib.h>
#include <yaml.h>

#define NODES_MAX   65536 /* values, those that aliases repeat included */
#define ANCHORS_MAX KG_YAML_ALIAS_MAX

enum step_kind { STEP_OPEN, STEP_CLOSE, STEP_KEY, STEP_SCALAR };

/* One call of the builder, kept so that an alias can repeat it. */
struct step {
    enum step_kind kind;
    struct kg_node node; /* STEP_KEY: its text and place; STEP_OPEN: its type and place */
};

struct anchor {
    struct kg_str name;
    size_t first; /* number of its first step */
    size_t end;   /* number behind its last step; 0 while its container is open */
};

struct frame {
    enum kg_type type;
    bool key_next;         /* in a mapping: whether the next node is a key */
    size_t first;          /* number of the step that opened it */
    struct anchor *anchor; /* or NULL */
};

/* How far the text was counted; libyaml's marks count characters, ours bytes. */
struct cursor {
    size_t character;
    size_t byte;
    size_t line_start; /* byte */
    uint32_t line;     /* 0-based */
};

struct yaml {
    yaml_parser_t parser;
    struct kg_str text;
    struct cursor cursor;
    struct kg_doc_place place; /* of the event at hand */
    struct kg_doc_place quote; /* of the last text in quotes that has several lines */
    size_t quote_end;          /* the line that it ends on, 0-based; 0: there was none */
    struct kg_builder *builder;
    struct step *steps; /* owned */
    size_t step_count;
    size_t step_capacity;
    size_t node_count;
    struct anchor anchors[ANCHORS_MAX];
    size_t anchor_count;
    size_t alias_count;
    struct frame frames[KG_DOC_DEPTH_MAX];
    size_t depth;
    bool had_document;
    struct kg_err *err;
};

/* -- places and errors ------------------------------------------------------------------------- */

/* Forward only, so that all of it together takes linear time; marks of events never go back. */
static struct kg_doc_place move_cursor(struct cursor *cursor, struct kg_str text, size_t character)
{
    while (cursor->character < character && cursor->byte < text.length) {
        bool newline = text.data[cursor->byte] == '\n';
        do
            cursor->byte++;
        while (cursor->byte < text.length && (text.data[cursor->byte] & 0xC0) == 0x80);
        cursor->character++;
        if (newline) {
            cursor->line++;
            cursor->line_start = cursor->byte;
        }
    }
    return (struct kg_doc_place){cursor->line + 1,
                                 (uint32_t)(cursor->byte - cursor->line_start) + 1};
}

/* Bytes of the white space or line break at that place, in YAML's sense; 0: it is neither. */
static size_t space_length(struct kg_str text, size_t at)
{
    static const char *const spaces[] = {" ",        "\t",           "\r",          "\n",
                                         "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"};
    struct kg_str rest = {text.data + at, text.length - at};
    for (size_t i = 0; i < KG_COUNT(spaces); i++)
        if (kg_str_starts(rest, spaces[i]))
            return strlen(spaces[i]);
    return 0;
}

/* The next byte that is neither white space nor in a comment, or the length of the text. */
static size_t next_token(struct kg_str text, size_t at)
{
    bool comment = false;
    while (at < text.length) {
        size_t space = space_length(text, at);
        bool blank = text.data[at] == ' ' || text.data[at] == '\t';
        comment = (comment || text.data[at] == '#') && (space == 0 || blank);
        if (space == 0 && !comment)
            break;
        at += space ? space : 1;
    }
    return at;
}

KG_PRINTF(2, 3)
static int fail_here(struct yaml *yaml, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int result = kg_doc_vfail(yaml->err, yaml->place, format, args);
    va_end(args);
    return result;
}

/* What is not seen in an editor, or not where libyaml stumbles, is said in our words. 0: it is not
 * that. */
static int fail_plainly(struct yaml *yaml)
{
    const yaml_parser_t *parser = &yaml->parser;
    struct cursor problem = {0}, context = {0};
    if (parser->error != YAML_SCANNER_ERROR || parser->context == NULL)
        return 0;
    yaml->place = move_cursor(&problem, yaml->text, parser->problem_mark.index);
    if (problem.byte < yaml->text.length && yaml->text.data[problem.byte] == '\t')
        return fail_here(yaml, "there is a tab here; YAML allows only spaces");
    if (strstr(parser->context, "quoted scalar") == NULL || problem.byte < yaml->text.length)
        return 0;
    yaml->place = move_cursor(&context, yaml->text, parser->context_mark.index);
    return fail_here(yaml, "the quote that opens here is not closed");
}

/* What stumbles right behind a text of several lines is most often a quote that was left out in
 * the first of them. 0: it does not. */
static int fail_at_quote(struct yaml *yaml)
{
    const yaml_parser_t *parser = &yaml->parser;
    if (parser->error == YAML_READER_ERROR || yaml->quote_end == 0 ||
        parser->problem_mark.line != yaml->quote_end)
        return 0;
    yaml->place = yaml->quote;
    return fail_here(yaml,
                     "the quote that opens here is closed by the next one, on line %zu: one is "
                     "missing",
                     yaml->quote_end + 1);
}

/* libyaml's own complaint: its reader counts bytes, its scanner and parser characters. */
static int fail_as_libyaml(struct yaml *yaml)
{
    const yaml_parser_t *parser = &yaml->parser;
    struct cursor start = {0};
    int said = fail_plainly(yaml);
    if (said == 0)
        said = fail_at_quote(yaml);
    if (said < 0)
        return said;
    if (parser->error == YAML_READER_ERROR)
        yaml->place = kg_doc_place_of(yaml->text, parser->problem_offset < yaml->text.length
                                                      ? parser->problem_offset
                                                      : yaml->text.length);
    else
        yaml->place = move_cursor(&start, yaml->text, parser->problem_mark.index);
    return fail_here(yaml, "%s%s%s",
                     parser->problem ? parser->problem : "libyaml ran out of memory",
                     parser->context ? " " : "", parser->context ? parser->context : "");
}

/* -- steps ------------------------------------------------------------------------------------- */

static void keep_step(struct yaml *yaml, const struct step *step)
{
    if (yaml->step_count == yaml->step_capacity) {
        yaml->step_capacity = yaml->step_capacity ? yaml->step_capacity * 2 : 64;
        yaml->steps = kg_realloc(yaml->steps, yaml->step_capacity * sizeof(*yaml->steps));
    }
    yaml->steps[yaml->step_count++] = *step;
}

/* The line of the first key of that name in the innermost mapping. */
static uint32_t line_of_key(const struct yaml *yaml, struct kg_str key)
{
    size_t depth = 0;
    for (size_t i = yaml->frames[yaml->depth - 1].first; i < yaml->step_count; i++) {
        const struct step *step = &yaml->steps[i];
        if (step->kind == STEP_OPEN)
            depth++;
        else if (step->kind == STEP_CLOSE)
            depth--;
        else if (step->kind == STEP_KEY && depth == 1 && kg_str_equal(step->node.text, key))
            return step->node.line;
    }
    return 0;
}

static int yaml_add_key(struct yaml *yaml, const struct kg_node *key)
{
    if (kg_builder_key(yaml->builder, key->text, key->line, key->column))
        return 0;
    kg_auto(kg_free) char *quoted = kg_doc_quote(key->text);
    return fail_here(yaml, "the key %s is given twice; first on line %u", quoted,
                     line_of_key(yaml, key->text));
}

static int yaml_add_value(struct yaml *yaml, const struct step *step)
{
    if (++yaml->node_count > NODES_MAX)
        return fail_here(yaml, "more than %d values, those that aliases repeat included",
                         NODES_MAX);
    if (step->kind == STEP_SCALAR) {
        kg_builder_value(yaml->builder, step->node);
        return 0;
    }
    if (kg_builder_depth(yaml->builder) >= KG_DOC_DEPTH_MAX)
        return fail_here(yaml, "nested deeper than %d levels", KG_DOC_DEPTH_MAX);
    kg_builder_open(yaml->builder, step->node.type, step->node.line, step->node.column);
    return 0;
}

static int take_step(struct yaml *yaml, const struct step *step)
{
    int result = 0;
    if (step->kind == STEP_KEY)
        result = yaml_add_key(yaml, &step->node);
    else if (step->kind == STEP_CLOSE)
        kg_builder_close(yaml->builder);
    else
        result = yaml_add_value(yaml, step);
    if (result == 0)
        keep_step(yaml, step);
    return result;
}

static struct step step_here(const struct yaml *yaml, enum step_kind kind, enum kg_type type)
{
    return (struct step){
        .kind = kind,
        .node = {.type = (uint8_t)type, .line = yaml->place.line, .column = yaml->place.column}};
}

/* -- plain scalars ----------------------------------------------------------------------------- */

struct word {
    const char *text;
    enum kg_type type;
    bool boolean;
    struct kg_str number;
};

#define NULL_WORD(text)                                                                            \
    {                                                                                              \
        text, KG_NULL, false,                                                                      \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }
#define BOOL_WORD(text, value)                                                                     \
    {                                                                                              \
        text, KG_BOOL, value,                                                                      \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }
#define FLOAT_WORD(text, value)                                                                    \
    {                                                                                              \
        text, KG_NUMBER, false,                                                                    \
        {                                                                                          \
            value, sizeof(value) - 1                                                               \
        }                                                                                          \
    }

/* What YAML 1.1 adds (yes, no, on, off) stays text: a country code is not a truth value. */
static const struct word words[] = {
    NULL_WORD(""),
    NULL_WORD("~"),
    NULL_WORD("null"),
    NULL_WORD("Null"),
    NULL_WORD("NULL"),
    BOOL_WORD("true", true),
    BOOL_WORD("True", true),
    BOOL_WORD("TRUE", true),
    BOOL_WORD("false", false),
    BOOL_WORD("False", false),
    BOOL_WORD("FALSE", false),
    FLOAT_WORD(".inf", "inf"),
    FLOAT_WORD(".Inf", "inf"),
    FLOAT_WORD(".INF", "inf"),
    FLOAT_WORD("+.inf", "inf"),
    FLOAT_WORD("+.Inf", "inf"),
    FLOAT_WORD("+.INF", "inf"),
    FLOAT_WORD("-.inf", "-inf"),
    FLOAT_WORD("-.Inf", "-inf"),
    FLOAT_WORD("-.INF", "-inf"),
    FLOAT_WORD(".nan", "nan"),
    FLOAT_WORD(".NaN", "nan"),
    FLOAT_WORD(".NAN", "nan"),
};

static bool resolve_word(struct kg_str text, struct kg_node *node)
{
    for (size_t i = 0; i < KG_COUNT(words); i++) {
        if (!kg_str_is(text, words[i].text))
            continue;
        node->type = (uint8_t)words[i].type;
        node->boolean = words[i].boolean;
        node->text = words[i].number;
        return true;
    }
    return false;
}

static size_t count_digits(struct kg_str text, size_t from)
{
    size_t i = from;
    while (i < text.length && kg_is_digit(text.data[i]))
        i++;
    return i - from;
}

/* What a plain scalar looks like as a decimal number; lengths in bytes. */
struct decimal {
    bool negative;
    bool has_dot;
    struct kg_str whole;
    struct kg_str fraction;
    struct kg_str exponent; /* with its e; empty: none */
};

static struct kg_str yaml_take(struct kg_str text, size_t *at, size_t length)
{
    struct kg_str part = {text.data + *at, length};
    *at += length;
    return part;
}

/* Leading zeros make text: 007 is a name, not seven. */
static bool yaml_scan_decimal(struct kg_str text, struct decimal *ret_decimal)
{
    struct decimal decimal = {0};
    size_t at = 0;
    if (at < text.length && (text.data[at] == '-' || text.data[at] == '+'))
        decimal.negative = text.data[at++] == '-';
    decimal.whole = yaml_take(text, &at, count_digits(text, at));
    if (decimal.whole.length > 1 && decimal.whole.data[0] == '0')
        return false;
    if (at < text.length && text.data[at] == '.') {
        decimal.has_dot = true;
        at++;
        decimal.fraction = yaml_take(text, &at, count_digits(text, at));
    }
    if (decimal.whole.length + decimal.fraction.length == 0)
        return false;
    if (at < text.length && (text.data[at] == 'e' || text.data[at] == 'E')) {
        size_t sign =
            at + 1 < text.length && (text.data[at + 1] == '-' || text.data[at + 1] == '+');
        size_t digits = count_digits(text, at + 1 + sign);
        if (digits == 0)
            return false;
        decimal.exponent = yaml_take(text, &at, 1 + sign + digits);
    }
    *ret_decimal = decimal;
    return at == text.length;
}

/* As JSON writes it, which wants a digit on both sides of the dot. */
static void put_float(struct kg_buf *buf, const struct decimal *decimal)
{
    if (decimal->negative)
        kg_buf_char(buf, '-');
    kg_buf_str(buf, decimal->whole.length ? decimal->whole : KG_STR("0"));
    if (decimal->has_dot) {
        kg_buf_char(buf, '.');
        kg_buf_str(buf, decimal->fraction.length ? decimal->fraction : KG_STR("0"));
    }
    kg_buf_str(buf, decimal->exponent);
}

/* 0x and 0o, without sign. False if it is none; *ret_fits tells whether it is within int64. */
static bool scan_prefixed(struct kg_str text, int64_t *ret_value, bool *ret_fits)
{
    static const char digits[] = "0123456789abcdef";
    size_t base = kg_str_starts(text, "0x") ? 16 : kg_str_starts(text, "0o") ? 8 : 0;
    if (base == 0 || text.length == 2)
        return false;
    int64_t value = 0;
    bool fits = true;
    for (size_t i = 2; i < text.length; i++) {
        char c =
            text.data[i] >= 'A' && text.data[i] <= 'F' ? text.data[i] + 'a' - 'A' : text.data[i];
        const char *digit = memchr(digits, c, base);
        if (digit == NULL)
            return false;
        if (__builtin_mul_overflow(value, (int64_t)base, &value) ||
            __builtin_add_overflow(value, digit - digits, &value))
            fits = false;
    }
    *ret_value = value;
    *ret_fits = fits;
    return true;
}

/* Leaves out empty if text is not a number. */
static int resolve_number(struct yaml *yaml, struct kg_str text, struct kg_buf *out)
{
    int64_t value = 0;
    bool fits = true;
    struct decimal decimal;
    if (!scan_prefixed(text, &value, &fits)) {
        if (!yaml_scan_decimal(text, &decimal))
            return 0;
        if (decimal.has_dot || decimal.exponent.length) {
            put_float(out, &decimal);
            return 0;
        }
        if (text.data[0] == '+')
            text = decimal.whole;
        fits = kg_str_to_int(text, &value);
    }
    if (!fits)
        return fail_here(yaml, "the integer does not fit in 64 bits; quote it if it is text");
    kg_buf_int(out, value);
    return 0;
}

static int resolve_plain(struct yaml *yaml, struct kg_str text, struct kg_node *node)
{
    if (resolve_word(text, node))
        return 0;
    kg_auto(kg_buf_free) struct kg_buf number = {0};
    int result = resolve_number(yaml, text, &number);
    if (result < 0)
        return result;
    node->type = number.length ? KG_NUMBER : KG_STRING;
    if (number.length)
        text = kg_buf_view(&number);
    node->text = kg_arena_str(kg_builder_arena(yaml->builder), text);
    return 0;
}

/* -- anchors and aliases ----------------------------------------------------------------------- */

/* The newest of that name counts. */
static struct anchor *find_anchor(struct yaml *yaml, struct kg_str name)
{
    for (size_t i = yaml->anchor_count; i-- > 0;)
        if (kg_str_equal(yaml->anchors[i].name, name))
            return &yaml->anchors[i];
    return NULL;
}

/* Before the first step of what is anchored. */
static int yaml_add_anchor(struct yaml *yaml, const yaml_char_t *name, struct anchor **ret_anchor)
{
    if (yaml->anchor_count == ANCHORS_MAX)
        return fail_here(yaml, "more than %d anchors", ANCHORS_MAX);
    struct anchor *anchor = &yaml->anchors[yaml->anchor_count++];
    anchor->name = kg_arena_str(kg_builder_arena(yaml->builder), kg_str((const char *)name));
    anchor->first = yaml->step_count;
    *ret_anchor = anchor;
    return 0;
}

static int repeat_anchor(struct yaml *yaml, const struct anchor *anchor)
{
    for (size_t i = anchor->first; i < anchor->end; i++) {
        struct step step = yaml->steps[i]; /* a copy: the steps move as they grow */
        int result = take_step(yaml, &step);
        if (result < 0)
            return result;
    }
    return 0;
}

/* -- events ------------------------------------------------------------------------------------ */

static bool key_is_next(const struct yaml *yaml)
{
    return yaml->depth > 0 && yaml->frames[yaml->depth - 1].key_next;
}

/* A key or a value is done: in a mapping the other one follows. */
static void yaml_turn(struct yaml *yaml)
{
    struct frame *frame = yaml->depth ? &yaml->frames[yaml->depth - 1] : NULL;
    if (frame != NULL && frame->type == KG_OBJECT)
        frame->key_next = !frame->key_next;
}

/* libyaml drops a lone "!" before a scalar, so look for one where the scalar starts. */
static bool starts_with_lone_tag(const struct yaml *yaml)
{
    size_t at = yaml->cursor.byte;
    struct kg_str text = yaml->text;
    if (at < text.length && text.data[at] == '&') {
        while (at < text.length && space_length(text, at) == 0)
            at++;
        at = next_token(text, at);
    }
    return at < text.length && text.data[at] == '!';
}

static int refuse_tag(struct yaml *yaml, const yaml_char_t *tag)
{
    if (tag == NULL)
        return 0;
    kg_auto(kg_free) char *quoted = kg_doc_quote(kg_str((const char *)tag));
    return fail_here(yaml, "the tag %s is not allowed; tags are not read", quoted);
}

static int on_nothing(struct yaml *yaml, const yaml_event_t *event)
{
    (void)yaml;
    (void)event;
    return 0;
}

static int on_document_start(struct yaml *yaml, const yaml_event_t *event)
{
    (void)event;
    yaml->had_document = true;
    return 0;
}

/*
 * libyaml is not asked what follows: its time for directives grows with the square of their count.
 */
static int on_document_end(struct yaml *yaml, const yaml_event_t *event)
{
    move_cursor(&yaml->cursor, yaml->text, event->end_mark.index);
    size_t next = next_token(yaml->text, yaml->cursor.byte);
    if (next == yaml->text.length)
        return 0;
    yaml->place = kg_doc_place_of(yaml->text, next);
    return fail_here(yaml, "more follows the end of the document; only one document is read");
}

/* A text without any document says nothing: null. */
static int on_stream_end(struct yaml *yaml, const yaml_event_t *event)
{
    (void)event;
    if (yaml->had_document)
        return 0;
    yaml->place = (struct kg_doc_place){1, 1};
    struct step step = step_here(yaml, STEP_SCALAR, KG_NULL);
    return take_step(yaml, &step);
}

static int on_key(struct yaml *yaml, const yaml_event_t *event, struct kg_str text)
{
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (event->data.scalar.anchor != NULL)
        return fail_here(yaml, "a key cannot have an anchor");
    if (plain && kg_str_is(text, "<<"))
        return fail_here(yaml, "the merge key \"<<\" is not allowed; write its keys out");
    struct step step = step_here(yaml, STEP_KEY, KG_STRING);
    step.node.text = kg_arena_str(kg_builder_arena(yaml->builder), text);
    int result = take_step(yaml, &step);
    if (result == 0)
        yaml_turn(yaml);
    return result;
}

static int on_scalar_value(struct yaml *yaml, const yaml_event_t *event, struct kg_str text)
{
    struct anchor *anchor = NULL;
    struct step step = step_here(yaml, STEP_SCALAR, KG_STRING);
    int result = 0;
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        result = resolve_plain(yaml, text, &step.node);
    else
        step.node.text = kg_arena_str(kg_builder_arena(yaml->builder), text);
    if (result == 0 && event->data.scalar.anchor != NULL)
        result = yaml_add_anchor(yaml, event->data.scalar.anchor, &anchor);
    if (result == 0)
        result = take_step(yaml, &step);
    if (result < 0)
        return result;
    if (anchor != NULL)
        anchor->end = yaml->step_count;
    yaml_turn(yaml);
    return 0;
}

static void note_quote(struct yaml *yaml, const yaml_event_t *event)
{
    yaml_scalar_style_t style = event->data.scalar.style;
    if ((style != YAML_SINGLE_QUOTED_SCALAR_STYLE && style != YAML_DOUBLE_QUOTED_SCALAR_STYLE) ||
        event->end_mark.line == event->start_mark.line)
        return;
    yaml->quote = yaml->place;
    yaml->quote_end = event->end_mark.line;
}

static int on_scalar(struct yaml *yaml, const yaml_event_t *event)
{
    note_quote(yaml, event);
    struct kg_str text = {(const char *)event->data.scalar.value, event->data.scalar.length};
    const yaml_char_t *tag = event->data.scalar.tag;
    if (tag == NULL && starts_with_lone_tag(yaml))
        tag = (const yaml_char_t *)"!";
    int result = refuse_tag(yaml, tag);
    if (result < 0)
        return result;
    return key_is_next(yaml) ? on_key(yaml, event, text) : on_scalar_value(yaml, event, text);
}

static int on_alias(struct yaml *yaml, const yaml_event_t *event)
{
    struct kg_str name = kg_str((const char *)event->data.alias.anchor);
    kg_auto(kg_free) char *quoted = kg_doc_quote(name);
    if (key_is_next(yaml))
        return fail_here(yaml, "a key cannot be an alias");
    if (++yaml->alias_count > KG_YAML_ALIAS_MAX)
        return fail_here(yaml, "more than %d aliases", KG_YAML_ALIAS_MAX);
    const struct anchor *anchor = find_anchor(yaml, name);
    if (anchor == NULL)
        return fail_here(yaml, "the alias %s has no anchor before it", quoted);
    if (anchor->end == 0)
        return fail_here(yaml, "the alias %s is inside its own anchor", quoted);
    int result = repeat_anchor(yaml, anchor);
    if (result == 0)
        yaml_turn(yaml);
    return result;
}

static int yaml_open_container(struct yaml *yaml, enum kg_type type, const yaml_char_t *anchor_name,
                               const yaml_char_t *tag)
{
    int result = refuse_tag(yaml, tag);
    if (result < 0)
        return result;
    if (key_is_next(yaml))
        return fail_here(yaml, "a key must be a scalar, not %s",
                         type == KG_ARRAY ? "a sequence" : "a mapping");
    struct frame frame = {.type = type, .key_next = type == KG_OBJECT, .first = yaml->step_count};
    if (anchor_name != NULL)
        result = yaml_add_anchor(yaml, anchor_name, &frame.anchor);
    struct step step = step_here(yaml, STEP_OPEN, type);
    if (result == 0)
        result = take_step(yaml, &step);
    if (result < 0)
        return result;
    yaml->frames[yaml->depth++] = frame;
    return 0;
}

static int on_sequence_start(struct yaml *yaml, const yaml_event_t *event)
{
    return yaml_open_container(yaml, KG_ARRAY, event->data.sequence_start.anchor,
                               event->data.sequence_start.tag);
}

static int on_mapping_start(struct yaml *yaml, const yaml_event_t *event)
{
    return yaml_open_container(yaml, KG_OBJECT, event->data.mapping_start.anchor,
                               event->data.mapping_start.tag);
}

static int on_container_end(struct yaml *yaml, const yaml_event_t *event)
{
    (void)event;
    struct step step = step_here(yaml, STEP_CLOSE, KG_NULL);
    int result = take_step(yaml, &step);
    if (result < 0)
        return result;
    struct frame *frame = &yaml->frames[--yaml->depth];
    if (frame->anchor != NULL)
        frame->anchor->end = yaml->step_count;
    yaml_turn(yaml);
    return 0;
}

typedef int on_event(struct yaml *yaml, const yaml_event_t *event);

static on_event *const handlers[] = {
    [YAML_NO_EVENT] = on_nothing,
    [YAML_STREAM_START_EVENT] = on_nothing,
    [YAML_STREAM_END_EVENT] = on_stream_end,
    [YAML_DOCUMENT_START_EVENT] = on_document_start,
    [YAML_DOCUMENT_END_EVENT] = on_document_end,
    [YAML_ALIAS_EVENT] = on_alias,
    [YAML_SCALAR_EVENT] = on_scalar,
    [YAML_SEQUENCE_START_EVENT] = on_sequence_start,
    [YAML_SEQUENCE_END_EVENT] = on_container_end,
    [YAML_MAPPING_START_EVENT] = on_mapping_start,
    [YAML_MAPPING_END_EVENT] = on_container_end,
};

/* -- the text ---------------------------------------------------------------------------------- */

/* Nothing but a directive can start with a percent sign. */
static int refuse_directives(struct yaml *yaml)
{
    size_t first = next_token(yaml->text, 0);
    if (first == yaml->text.length || yaml->text.data[first] != '%')
        return 0;
    yaml->place = kg_doc_place_of(yaml->text, first);
    return fail_here(yaml, "directives such as %%YAML and %%TAG are not allowed");
}

static int read_events(struct yaml *yaml)
{
    yaml_event_type_t type;
    do {
        kg_auto(yaml_event_delete) yaml_event_t event;
        if (!yaml_parser_parse(&yaml->parser, &event))
            return fail_as_libyaml(yaml);
        type = event.type;
        yaml->place = move_cursor(&yaml->cursor, yaml->text, event.start_mark.index);
        int result = handlers[type](yaml, &event);
        if (result < 0)
            return result;
    } while (type != YAML_STREAM_END_EVENT);
    return 0;
}

static void yaml_end(struct yaml **yaml)
{
    yaml_parser_delete(&(*yaml)->parser);
    kg_builder_free((*yaml)->builder);
    free((*yaml)->steps);
    free(*yaml);
}

struct kg_doc *kg_yaml_read(struct kg_str text, struct kg_err *err)
{
    kg_auto(yaml_end) struct yaml *yaml = kg_alloc(sizeof(*yaml));
    yaml->err = err;
    if (kg_doc_open(text, &yaml->text, err) < 0 || refuse_directives(yaml) < 0)
        return NULL;
    if (!yaml_parser_initialize(&yaml->parser)) {
        fail_as_libyaml(yaml);
        return NULL;
    }
    yaml_parser_set_encoding(&yaml->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&yaml->parser, (const unsigned char *)yaml->text.data,
                                 yaml->text.length);
    yaml->builder = kg_builder_new();
    if (read_events(yaml) < 0)
        return NULL;
    return kg_builder_finish(yaml->builder);
}
