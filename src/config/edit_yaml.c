/*
 * Edits of YAML. libyaml says where each key and value starts and ends; the pieces so found lie as
 * the tree of the reader does, so that a member of one is the pair of the same number of the other.
 * Blocks are edited by whole lines, with the indentation that the text has; flow collections in
 * place. What is anchored is repeated elsewhere, so it is not touched.
 */
#include "config/edit_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <strings.h>
#include <yaml.h>

enum kind { SCALAR, SEQUENCE, MAPPING, ALIAS };

struct piece {
    enum kind kind;
    bool block; /* of a sequence or mapping: by indentation; of a scalar: literal or folded */
    bool anchored;
    char quote; /* of a scalar: its quote, or 0 */
    size_t start;
    size_t end;          /* behind its last byte; blank lines that follow are not its own */
    struct piece *first; /* of a mapping: keys and values by turns */
    struct piece *last;
    struct piece *next;
    size_t count; /* children */
};

struct yaml {
    struct edit *edit;
    yaml_parser_t parser;
    uint32_t *offsets; /* byte of each character, as libyaml counts them; in the arena */
    size_t character_count;
    struct piece *root; /* NULL: the text has no document */
    size_t indent;      /* of a mapping below its key, in spaces */
    size_t dash_indent; /* of a sequence below its key */
    struct kg_err *err;
};

/* -- pieces ------------------------------------------------------------------------------------ */

static void edit_yaml_count_characters(struct yaml *yaml)
{
    struct kg_str text = yaml->edit->text;
    yaml->offsets = kg_arena_alloc(yaml->edit->arena, (text.length + 1) * sizeof(*yaml->offsets));
    for (size_t at = 0; at < text.length; at++)
        if ((text.data[at] & 0xC0) != 0x80)
            yaml->offsets[yaml->character_count++] = (uint32_t)at;
    yaml->offsets[yaml->character_count] = (uint32_t)text.length;
}

static size_t byte_of(const struct yaml *yaml, yaml_mark_t mark)
{
    return yaml->offsets[mark.index < yaml->character_count ? mark.index : yaml->character_count];
}

static char edit_yaml_char_at(const struct yaml *yaml, size_t at)
{
    struct kg_str text = yaml->edit->text;
    return at < text.length ? text.data[at] : '\0';
}

static size_t column_of(const struct yaml *yaml, size_t at)
{
    return at - edit_line_start(yaml->edit, at);
}

/* Behind the signs that a literal or folded scalar starts with. */
static size_t indicator_end(const struct yaml *yaml, size_t at)
{
    while (at < yaml->edit->text.length &&
           strchr("|>+-0123456789", edit_yaml_char_at(yaml, at)) != NULL)
        at++;
    return at;
}

/* libyaml counts the blank lines behind such a scalar too; they are its own only if it keeps them.
 */
static size_t block_scalar_end(const struct yaml *yaml, size_t start, size_t end)
{
    struct kg_str text = yaml->edit->text;
    size_t first = indicator_end(yaml, start);
    bool keeps = memchr(text.data + start, '+', first - start) != NULL;
    size_t breaks = 0;
    while (end > first && strchr(" \t\r\n", text.data[end - 1]) != NULL && !(keeps && breaks)) {
        breaks += text.data[end - 1] == '\n';
        end--;
    }
    if (breaks == 0)
        return text.length;
    return end > first && text.data[end - 1] == '\r' ? end - 1 : end;
}

static struct piece *add_piece(struct yaml *yaml, struct piece *parent, const yaml_event_t *event)
{
    struct piece *piece = kg_arena_alloc(yaml->edit->arena, sizeof(*piece));
    piece->start = byte_of(yaml, event->start_mark);
    piece->end = byte_of(yaml, event->end_mark);
    if (parent == NULL) {
        yaml->root = piece;
        return piece;
    }
    if (parent->last)
        parent->last->next = piece;
    else
        parent->first = piece;
    parent->last = piece;
    parent->count++;
    return piece;
}

static void take_scalar(struct yaml *yaml, struct piece *piece, const yaml_event_t *event)
{
    yaml_scalar_style_t style = event->data.scalar.style;
    piece->anchored = event->data.scalar.anchor != NULL;
    if (style == YAML_SINGLE_QUOTED_SCALAR_STYLE)
        piece->quote = '\'';
    if (style == YAML_DOUBLE_QUOTED_SCALAR_STYLE)
        piece->quote = '"';
    piece->block = style == YAML_LITERAL_SCALAR_STYLE || style == YAML_FOLDED_SCALAR_STYLE;
    if (piece->block && !piece->anchored)
        piece->end = block_scalar_end(yaml, piece->start, piece->end);
}

static void edit_yaml_take_event(struct yaml *yaml, struct piece *piece, const yaml_event_t *event)
{
    if (event->type == YAML_SCALAR_EVENT) {
        piece->kind = SCALAR;
        take_scalar(yaml, piece, event);
    } else if (event->type == YAML_ALIAS_EVENT) {
        piece->kind = ALIAS;
        piece->anchored = true;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        piece->kind = SEQUENCE;
        piece->block = event->data.sequence_start.style == YAML_BLOCK_SEQUENCE_STYLE;
        piece->anchored = event->data.sequence_start.anchor != NULL;
    } else {
        piece->kind = MAPPING;
        piece->block = event->data.mapping_start.style == YAML_BLOCK_MAPPING_STYLE;
        piece->anchored = event->data.mapping_start.anchor != NULL;
    }
}

/* A collection ends with its bracket, or else with its last child. */
static void close_piece(struct yaml *yaml, struct piece *piece, const yaml_event_t *event)
{
    char open = edit_yaml_char_at(yaml, piece->start);
    bool bracket = !piece->block && (piece->anchored || open == '{' || open == '[');
    if (bracket || piece->last == NULL)
        piece->end = byte_of(yaml, event->end_mark);
    else
        piece->end = piece->last->end;
}

static int fail_scan(struct yaml *yaml)
{
    return kg_fail(yaml->err, KG_E_INTERNAL, "libyaml refused a text that it had read");
}

/* The reader has seen to the depth. */
static int read_pieces(struct yaml *yaml)
{
    struct piece *open[KG_DOC_DEPTH_MAX + 1];
    size_t depth = 0;
    yaml_event_type_t type;
    do {
        kg_auto(yaml_event_delete) yaml_event_t event;
        if (!yaml_parser_parse(&yaml->parser, &event))
            return fail_scan(yaml);
        type = event.type;
        bool starts = type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT;
        bool ends = type == YAML_SEQUENCE_END_EVENT || type == YAML_MAPPING_END_EVENT;
        if (ends) {
            assert(depth > 0); /* libyaml ends only what it began */
            close_piece(yaml, open[--depth], &event);
        }
        if (!starts && type != YAML_SCALAR_EVENT && type != YAML_ALIAS_EVENT)
            continue;
        struct piece *piece = add_piece(yaml, depth ? open[depth - 1] : NULL, &event);
        edit_yaml_take_event(yaml, piece, &event);
        if (starts && depth == KG_COUNT(open))
            return fail_scan(yaml);
        if (starts)
            open[depth++] = piece;
    } while (type != YAML_DOCUMENT_END_EVENT && type != YAML_STREAM_END_EVENT);
    return 0;
}

/* The first mapping and the first sequence below a key show how the text indents. */
static void learn_indent(struct yaml *yaml, const struct piece *piece)
{
    const struct piece *key = NULL;
    for (const struct piece *child = piece->first; child != NULL; child = child->next) {
        bool is_key = piece->kind == MAPPING && key == NULL;
        if (piece->kind == MAPPING && !is_key && piece->block && child->block && child->count) {
            size_t above = column_of(yaml, key->start);
            size_t below = column_of(yaml, child->start);
            size_t *indent = child->kind == MAPPING ? &yaml->indent : &yaml->dash_indent;
            if (*indent == SIZE_MAX && below >= above)
                *indent = below - above;
        }
        learn_indent(yaml, child);
        key = is_key ? child : NULL;
    }
}

static int yaml_open(struct yaml *yaml)
{
    if (!yaml_parser_initialize(&yaml->parser))
        return fail_scan(yaml);
    yaml_parser_set_encoding(&yaml->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&yaml->parser, (const unsigned char *)yaml->edit->text.data,
                                 yaml->edit->text.length);
    edit_yaml_count_characters(yaml);
    int result = read_pieces(yaml);
    if (result < 0)
        return result;
    yaml->indent = yaml->dash_indent = SIZE_MAX;
    if (yaml->root != NULL)
        learn_indent(yaml, yaml->root);
    if (yaml->indent == SIZE_MAX || yaml->indent == 0)
        yaml->indent = 2;
    if (yaml->dash_indent == SIZE_MAX)
        yaml->dash_indent = yaml->indent;
    return 0;
}

static void yaml_close(struct yaml *yaml)
{
    yaml_parser_delete(&yaml->parser);
}

/* A mapping's pair: the pieces of its key and value. */
struct pair {
    struct piece *map;
    struct piece *key;
    struct piece *value;
};

static struct pair pair_at(struct piece *map, size_t number)
{
    struct piece *key = map->first;
    while (number-- > 0)
        key = key->next->next;
    return (struct pair){map, key, key->next};
}

static bool has_anchor(const struct piece *piece)
{
    assert(piece != NULL);
    if (piece->anchored)
        return true;
    for (const struct piece *child = piece->first; child != NULL; child = child->next)
        if (has_anchor(child))
            return true;
    return false;
}

static int refuse_anchor(struct yaml *yaml, const struct piece *piece)
{
    size_t line = 1;
    for (size_t at = 0; at < piece->start; at++)
        line += edit_yaml_char_at(yaml, at) == '\n';
    return kg_fail(yaml->err, KG_E_CONFLICT,
                   "line %zu has an anchor or is an alias: an edit would change other places too",
                   line);
}

/* -- writing ----------------------------------------------------------------------------------- */

/* How strings are quoted if they may be plain as well. */
struct style {
    char quote; /* or 0 */
    bool quote_keys;
};

static bool edit_yaml_is_word(char c)
{
    return kg_is_letter_or_digit(c) || c == '_';
}

/* What some reader of YAML takes for something else than text. */
static bool edit_yaml_is_reserved(struct kg_str text)
{
    static const char *const words[] = {"null", "true", "false", "yes", "no",
                                        "on",   "off",  "y",     "n"};
    for (size_t i = 0; i < KG_COUNT(words); i++)
        if (text.length == strlen(words[i]) && strncasecmp(text.data, words[i], text.length) == 0)
            return true;
    return false;
}

/* 0.1.0 is not a number anywhere; 0.1 and 2026-11-15 may be. */
static bool is_like_version(struct kg_str text)
{
    const char *dot = memchr(text.data, '.', text.length);
    size_t rest = dot ? text.length - (size_t)(dot + 1 - text.data) : 0;
    return dot && rest && memchr(dot + 1, '.', rest) != NULL;
}

/* Careful rather than complete: what needs no quotes in any place, for any reader. */
static bool edit_yaml_is_plain(struct kg_str text)
{
    if (text.length == 0 || edit_yaml_is_reserved(text))
        return false;
    bool digit = kg_is_digit(text.data[0]);
    if (!edit_yaml_is_word(text.data[0]) && !(text.data[0] == '/' && text.length > 1))
        return false;
    if (digit && !is_like_version(text))
        return false;
    for (size_t i = 1; i < text.length; i++) {
        bool space =
            text.data[i] == ' ' && i + 1 < text.length && edit_yaml_is_word(text.data[i + 1]);
        if (!edit_yaml_is_word(text.data[i]) && !space && strchr("./-+@", text.data[i]) == NULL)
            return false;
    }
    return true;
}

static void put_single_quoted(struct kg_buf *out, struct kg_str text)
{
    kg_buf_char(out, '\'');
    for (size_t i = 0; i < text.length; i++) {
        kg_buf_char(out, text.data[i]);
        if (text.data[i] == '\'')
            kg_buf_char(out, '\'');
    }
    kg_buf_char(out, '\'');
}

static void edit_yaml_put_string(struct kg_buf *out, struct kg_str text, char quote)
{
    if (quote == 0 && edit_yaml_is_plain(text))
        kg_buf_str(out, text);
    else if (quote == '\'' && edit_is_printable(text))
        put_single_quoted(out, text);
    else
        edit_put_quoted(out, text);
}

static void edit_yaml_put_number(struct kg_buf *out, struct kg_str text)
{
    if (kg_str_is(text, "inf") || kg_str_is(text, "nan"))
        kg_buf_printf(out, ".%.*s", KG_STR_ARG(text));
    else if (kg_str_is(text, "-inf"))
        kg_buf_text(out, "-.inf");
    else
        kg_buf_str(out, text);
}

static void put_flow(struct kg_buf *out, const struct kg_node *value, const void *how);

static void put_flow_pair(struct kg_buf *out, const struct kg_member *member,
                          const struct style *style)
{
    edit_yaml_put_string(out, member->key, style->quote_keys ? '"' : 0);
    kg_buf_text(out, ": ");
    put_flow(out, &member->value, style);
}

static void put_flow_collection(struct kg_buf *out, const struct kg_node *value,
                                const struct style *style)
{
    bool list = value->type == KG_ARRAY;
    kg_buf_char(out, list ? '[' : '{');
    for (uint32_t i = 0; i < value->count; i++) {
        kg_buf_text(out, i ? ", " : "");
        if (list)
            put_flow(out, &value->items[i], style);
        else
            put_flow_pair(out, &value->members[i], style);
    }
    kg_buf_char(out, list ? ']' : '}');
}

/* Any value on one line; how: struct style. */
static void put_flow(struct kg_buf *out, const struct kg_node *value, const void *how)
{
    const struct style *style = how;
    if (edit_is_container(value))
        put_flow_collection(out, value, style);
    else if (value->type == KG_STRING)
        edit_yaml_put_string(out, value->text, style->quote);
    else if (value->type == KG_NUMBER)
        edit_yaml_put_number(out, value->text);
    else
        kg_buf_text(out, value->type == KG_NULL ? "null" : value->boolean ? "true" : "false");
}

/* Whether a value stands on the line of its key: scalars, lists of them, and what is empty. */
static bool fits_line(const struct kg_node *value)
{
    if (value->type == KG_OBJECT)
        return value->count == 0;
    for (uint32_t i = 0; value->type == KG_ARRAY && i < value->count; i++)
        if (edit_is_container(&value->items[i]))
            return false;
    return true;
}

static const struct style plain_style = {0, false};

static void put_spaces(struct kg_buf *out, size_t count)
{
    while (count-- > 0)
        kg_buf_char(out, ' ');
}

static void edit_yaml_put_block(struct yaml *yaml, struct kg_buf *out, const struct kg_node *value,
                                size_t indent);

/* Behind the indentation: the pair with all of its lines. */
static void put_block_pair(struct yaml *yaml, struct kg_buf *out, const struct kg_member *member,
                           size_t indent)
{
    edit_yaml_put_string(out, member->key, 0);
    kg_buf_char(out, ':');
    if (fits_line(&member->value)) {
        kg_buf_char(out, ' ');
        put_flow(out, &member->value, &plain_style);
        kg_buf_text(out, yaml->edit->eol);
        return;
    }
    kg_buf_text(out, yaml->edit->eol);
    bool map = member->value.type == KG_OBJECT;
    edit_yaml_put_block(yaml, out, &member->value,
                        indent + (map ? yaml->indent : yaml->dash_indent));
}

/* Behind the indentation: the item, a map with its first pair on the line of the dash. */
static void put_block_item(struct yaml *yaml, struct kg_buf *out, const struct kg_node *item,
                           size_t indent)
{
    kg_buf_text(out, "- ");
    if (item->type != KG_OBJECT || item->count == 0) {
        put_flow(out, item, &plain_style);
        kg_buf_text(out, yaml->edit->eol);
        return;
    }
    for (uint32_t i = 0; i < item->count; i++) {
        put_spaces(out, i ? indent + 2 : 0);
        put_block_pair(yaml, out, &item->members[i], indent + 2);
    }
}

/* A collection that is not empty, as lines. */
static void edit_yaml_put_block(struct yaml *yaml, struct kg_buf *out, const struct kg_node *value,
                                size_t indent)
{
    for (uint32_t i = 0; i < value->count; i++) {
        put_spaces(out, indent);
        if (value->type == KG_OBJECT)
            put_block_pair(yaml, out, &value->members[i], indent);
        else
            put_block_item(yaml, out, &value->items[i], indent);
    }
}

/* -- lines ------------------------------------------------------------------------------------- */

/*
 * The line behind what ends at that place in a block of that column. Comment lines that follow and
 * are indented deeper are about what stands in it.
 */
static size_t line_behind(const struct yaml *yaml, size_t end, size_t column)
{
    size_t at = edit_line_end(yaml->edit, end);
    for (;;) {
        size_t text = edit_skip_blank(yaml->edit, at);
        if (edit_yaml_char_at(yaml, text) != '#' || text - at <= column)
            return at;
        at = edit_line_end(yaml->edit, text);
    }
}

/* The colon behind a key. False if there is none, or not on its line. */
static bool find_colon(const struct yaml *yaml, const struct piece *key, size_t *ret_colon)
{
    size_t at = edit_skip_blank(yaml->edit, key->end);
    *ret_colon = at;
    return edit_yaml_char_at(yaml, at) == ':';
}

static int refuse_form(struct yaml *yaml)
{
    return kg_fail(yaml->err, KG_E_CONFLICT,
                   "it is written in a way that kaged does not edit (such as with \"? key\")");
}

static struct edit_items edit_yaml_items_of(struct yaml *yaml, const struct piece *collection)
{
    size_t step = collection->kind == MAPPING ? 2 : 1;
    struct edit_items items = {collection->start + 1, collection->end - 1, NULL,
                               collection->count / step};
    items.spans = kg_arena_alloc(yaml->edit->arena, items.count * sizeof(*items.spans));
    const struct piece *piece = collection->first;
    for (size_t i = 0; i < items.count; i++) {
        const struct piece *last = step == 2 ? piece->next : piece;
        bool empty = last->start == last->end; /* of an empty value libyaml knows no place */
        items.spans[i] = (struct edit_span){piece->start, last->end};
        if (empty && last != piece) {
            size_t colon;
            items.spans[i].end = find_colon(yaml, piece, &colon) ? colon + 1 : piece->end;
        }
        piece = last->next;
    }
    return items;
}

/* -- adding ------------------------------------------------------------------------------------ */

static void add_to_flow(struct yaml *yaml, struct piece *map, const struct kg_member *member)
{
    struct style style = {0};
    struct edit_items items = edit_yaml_items_of(yaml, map);
    if (items.count > 0 && pair_at(map, items.count - 1).key->quote == '"')
        style = (struct style){'"', true};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    put_flow_pair(&text, member, &style);
    struct kg_str view = kg_buf_view(&text);
    edit_items_insert(yaml->edit, &items, items.count, &view, 1);
}

static void add_to_block(struct yaml *yaml, struct piece *map, const struct kg_member *member)
{
    size_t column = column_of(yaml, map->first->start);
    kg_auto(kg_buf_free) struct kg_buf lines = {0};
    put_spaces(&lines, column);
    put_block_pair(yaml, &lines, member, column);
    edit_insert_lines(yaml->edit, line_behind(yaml, map->end, column), kg_buf_view(&lines));
}

static int add_pair(struct yaml *yaml, struct piece *map, const struct kg_member *member)
{
    if (map->block && !edit_starts_line(yaml->edit, map->first->start))
        return refuse_form(yaml);
    if (map->block)
        add_to_block(yaml, map, member);
    else
        add_to_flow(yaml, map, member);
    return 0;
}

/* -- removing ---------------------------------------------------------------------------------- */

static int cut_pair(struct yaml *yaml, struct pair pair)
{
    if (has_anchor(pair.value))
        return refuse_anchor(yaml, pair.value);
    if (!edit_starts_line(yaml->edit, pair.key->start))
        return refuse_form(yaml);
    size_t column = column_of(yaml, pair.key->start);
    bool nested = pair.value->block && pair.value->kind != SCALAR;
    size_t end = nested ? line_behind(yaml, pair.value->end, column)
                        : edit_line_end(yaml->edit, pair.value->end);
    edit_cut(yaml->edit, edit_line_start(yaml->edit, pair.key->start), end);
    return 0;
}

static int cut_flow_pair(struct yaml *yaml, struct piece *map, size_t number)
{
    struct edit_items items = edit_yaml_items_of(yaml, map);
    bool *marked = kg_arena_alloc(yaml->edit->arena, items.count * sizeof(*marked));
    struct piece *value = pair_at(map, number).value;
    if (has_anchor(value))
        return refuse_anchor(yaml, value);
    marked[number] = true;
    edit_items_remove(yaml->edit, &items, marked);
    return 0;
}

/* -- changing ---------------------------------------------------------------------------------- */

static int set_value(struct yaml *yaml, struct pair pair, const struct kg_node *old,
                     const struct kg_node *value);

/* In a flow mapping, or a flow mapping in a block; keys show whether it is written like JSON. */
static void set_in_flow(struct yaml *yaml, struct pair pair, const struct kg_node *value)
{
    const struct piece *key = pair.map->block ? pair.value->first : pair.key;
    struct style style = {pair.value->quote, key->quote == '"'};
    if (style.quote == 0 && style.quote_keys)
        style.quote = '"';
    size_t colon;
    bool has_colon = find_colon(yaml, pair.key, &colon);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (pair.value->start < pair.value->end) {
        put_flow(&text, value, &style);
        edit_replace(yaml->edit, pair.value->start, pair.value->end, kg_buf_view(&text));
        return;
    }
    kg_buf_text(&text, has_colon ? " " : ": ");
    put_flow(&text, value, &style);
    size_t at = has_colon ? colon + 1 : pair.key->end;
    edit_replace(yaml->edit, at, at, kg_buf_view(&text));
}

/* A block below a key, which goes; the line of the key stays. */
static void cut_block(struct yaml *yaml, struct pair pair, size_t colon)
{
    edit_cut(yaml->edit, edit_line_end(yaml->edit, colon),
             line_behind(yaml, pair.value->end, column_of(yaml, pair.key->start)));
}

static void cut_block_scalar_lines(struct yaml *yaml, const struct piece *scalar)
{
    size_t first = edit_line_end(yaml->edit, scalar->start);
    size_t end = edit_line_end(yaml->edit, scalar->end);
    if (end > first)
        edit_cut(yaml->edit, first, end);
}

/* The new value on the line of its key; the comment of that line stays. */
static void set_on_line(struct yaml *yaml, struct pair pair, size_t colon,
                        const struct kg_node *value)
{
    struct piece *there = pair.value;
    struct style style = {there->quote, false};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    bool empty = there->start == there->end;
    bool below = there->block && there->kind != SCALAR;
    if (empty || below)
        kg_buf_char(&text, ' ');
    put_flow(&text, value, &style);
    size_t start = empty || below ? colon + 1 : there->start;
    size_t end = empty || below ? colon + 1 : there->end;
    if (there->block && there->kind == SCALAR)
        end = indicator_end(yaml, there->start);
    edit_replace(yaml->edit, start, end, kg_buf_view(&text));
    if (below)
        cut_block(yaml, pair, colon);
    else if (there->block)
        cut_block_scalar_lines(yaml, there);
}

/* The new value as lines below its key. */
static void set_below(struct yaml *yaml, struct pair pair, size_t colon,
                      const struct kg_node *value)
{
    struct piece *there = pair.value;
    bool map = value->type == KG_OBJECT;
    size_t column = column_of(yaml, pair.key->start);
    kg_auto(kg_buf_free) struct kg_buf lines = {0};
    edit_yaml_put_block(yaml, &lines, value, column + (map ? yaml->indent : yaml->dash_indent));
    size_t at = edit_line_end(yaml->edit, there->end);
    if (there->block && there->kind != SCALAR) {
        cut_block(yaml, pair, colon);
        at = edit_line_end(yaml->edit, colon);
    } else if (there->block) {
        edit_cut(yaml->edit, colon + 1, indicator_end(yaml, there->start));
        cut_block_scalar_lines(yaml, there);
    } else if (there->start < there->end) {
        edit_cut(yaml->edit, colon + 1, there->end);
    } else {
        at = edit_line_end(yaml->edit, colon);
    }
    edit_insert_lines(yaml->edit, at, kg_buf_view(&lines));
}

/* -- lists ------------------------------------------------------------------------------------- */

/* The start of the line with the dash of an item; from is behind the item before it. */
static size_t find_dash(const struct yaml *yaml, const struct piece *item, size_t from,
                        size_t column)
{
    while (from < item->start && (edit_skip_blank(yaml->edit, from) != from + column ||
                                  edit_yaml_char_at(yaml, from + column) != '-'))
        from = edit_line_end(yaml->edit, from);
    return from;
}

static void insert_item(struct yaml *yaml, size_t at, const struct kg_node *item, size_t column,
                        char quote)
{
    kg_auto(kg_buf_free) struct kg_buf lines = {0};
    put_spaces(&lines, column);
    if (item->type == KG_STRING) {
        kg_buf_text(&lines, "- ");
        edit_yaml_put_string(&lines, item->text, quote);
        kg_buf_text(&lines, yaml->edit->eol);
    } else {
        put_block_item(yaml, &lines, item, column);
    }
    edit_insert_lines(yaml->edit, at, kg_buf_view(&lines));
}

/* True if both are scalars on one line, so that only the bytes of one need to change. */
static bool replace_item(struct yaml *yaml, const struct piece *there, const struct kg_node *item)
{
    struct style style = {there->quote, false};
    if (there->kind != SCALAR || there->block || there->start == there->end ||
        edit_is_container(item))
        return false;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    put_flow(&text, item, &style);
    edit_replace(yaml->edit, there->start, there->end, kg_buf_view(&text));
    return true;
}

/* Item by item; what the list has in excess is cut, what it lacks goes behind the last of them. */
static int change_block_list(struct yaml *yaml, const struct piece *list, const struct kg_node *old,
                             const struct kg_node *value)
{
    uint32_t head, tail;
    edit_common(old, value, &head, &tail);
    if (!edit_starts_line(yaml->edit, list->start))
        return refuse_form(yaml);
    size_t column = column_of(yaml, list->start);
    char quote = list->first->quote;
    const struct piece *item = list->first;
    size_t at = edit_line_start(yaml->edit, list->start);
    uint32_t i = 0;
    for (; i < old->count - tail; i++, item = item->next) {
        size_t start = find_dash(yaml, item, at, column);
        bool has_place = i < value->count - tail;
        at = line_behind(yaml, item->end, column);
        if (i < head || (has_place && replace_item(yaml, item, &value->items[i])))
            continue;
        edit_cut(yaml->edit, start, at);
        if (has_place)
            insert_item(yaml, at, &value->items[i], column, quote);
    }
    for (; i < value->count - tail; i++)
        insert_item(yaml, at, &value->items[i], column, quote);
    return 0;
}

static int change_list(struct yaml *yaml, struct piece *list, const struct kg_node *old,
                       const struct kg_node *value)
{
    if (list->block)
        return change_block_list(yaml, list, old, value);
    struct style style = {list->first->quote, false};
    struct edit_items items = edit_yaml_items_of(yaml, list);
    edit_items_change(yaml->edit, &items, old, value, put_flow, &style);
    return 0;
}

/* A block mapping that stays one: each of its keys by itself, so that the rest stays. */
static int merge_map(struct yaml *yaml, struct piece *map, const struct kg_node *old,
                     const struct kg_node *value)
{
    int result = 0;
    struct piece *key = map->first;
    for (uint32_t i = 0; i < old->count && result == 0; i++, key = key->next->next) {
        const struct kg_member *now = kg_node_member(value, old->members[i].key);
        struct pair pair = {map, key, key->next};
        result =
            now ? set_value(yaml, pair, &old->members[i].value, &now->value) : cut_pair(yaml, pair);
    }
    for (uint32_t i = 0; i < value->count && result == 0; i++)
        if (kg_node_member(old, value->members[i].key) == NULL)
            result = add_pair(yaml, map, &value->members[i]);
    return result;
}

static int set_value(struct yaml *yaml, struct pair pair, const struct kg_node *old,
                     const struct kg_node *value)
{
    struct piece *there = pair.value;
    assert(there != NULL);
    bool both_filled =
        edit_is_container(old) && old->type == value->type && old->count && value->count;
    if (edit_same(old, value))
        return 0;
    if (both_filled && there->block && there->kind == MAPPING && !there->anchored)
        return merge_map(yaml, there, old, value);
    if (has_anchor(there))
        return refuse_anchor(yaml, there);
    if (both_filled && there->kind == SEQUENCE)
        return change_list(yaml, there, old, value);
    size_t colon;
    if (!pair.map->block || both_filled) {
        set_in_flow(yaml, pair, value);
        return 0;
    }
    if (!find_colon(yaml, pair.key, &colon))
        return refuse_form(yaml);
    if (fits_line(value))
        set_on_line(yaml, pair, colon, value);
    else
        set_below(yaml, pair, colon, value);
    return 0;
}

/* -- the door ---------------------------------------------------------------------------------- */

static const struct kg_node empty_map = {.type = KG_OBJECT};

/* The root loses its last key, and stays a map. */
static int empty_root(struct yaml *yaml)
{
    const struct edit *edit = yaml->edit;
    if (!edit_starts_line(edit, yaml->root->start))
        return refuse_form(yaml);
    size_t start = edit_line_start(edit, yaml->root->start);
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_buf_printf(&line, "{}%s", edit->eol);
    edit_cut(yaml->edit, start, edit_line_end(edit, yaml->root->end));
    edit_insert_lines(yaml->edit, start, kg_buf_view(&line));
    return 0;
}

/* First keys for a root that is an empty map, or nothing. */
static void fill_root(struct yaml *yaml, const struct kg_node *map)
{
    const struct piece *root = yaml->root;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    edit_yaml_put_block(yaml, &text, map, 0);
    if (root == NULL || root->start == root->end) {
        edit_insert_lines(yaml->edit, yaml->edit->text.length, kg_buf_view(&text));
        return;
    }
    text.length -= strlen(yaml->edit->eol);
    if (!edit_starts_line(yaml->edit, root->start)) {
        text.length = 0;
        put_flow(&text, map, &plain_style);
    }
    edit_replace(yaml->edit, root->start, root->end, kg_buf_view(&text));
}

/* A map in a flow of its own, in a block: it may become lines. */
static bool is_empty_in_block(struct pair pair, const struct kg_node *node)
{
    return pair.map->block && node->type == KG_OBJECT && node->count == 0;
}

static int remove_pair(struct yaml *yaml, struct pair above, struct piece *map,
                       const struct kg_node *node, size_t number)
{
    if (!map->block)
        return cut_flow_pair(yaml, map, number);
    if (node->count > 1)
        return cut_pair(yaml, pair_at(map, number));
    if (has_anchor(map))
        return refuse_anchor(yaml, map);
    if (above.map == NULL)
        return empty_root(yaml);
    return set_value(yaml, above, node, &empty_map);
}

/* Goes down from the root along the path, in the tree and in the pieces at once. */
static int edit_yaml_walk(struct yaml *yaml, const struct edit_request *request)
{
    struct pair above = {NULL};
    struct piece *map = yaml->root;
    const struct kg_node *node = request->root;
    for (size_t i = 0;; i++) {
        const struct kg_str *rest = &request->path[i];
        size_t rest_count = request->count - i;
        assert(map != NULL); /* the tree has a map here, so the pieces do */
        if (map->anchored)
            return refuse_anchor(yaml, map);
        const struct kg_member *member = kg_node_member(node, *rest);
        if (member == NULL)
            return add_pair(yaml, map,
                            edit_wrap(yaml->edit, rest, rest_count, request->value)->members);
        size_t number = (size_t)(member - node->members);
        if (rest_count == 1 && request->value == NULL)
            return remove_pair(yaml, above, map, node, number);
        above = pair_at(map, number);
        node = &member->value;
        if (rest_count == 1 || node->type != KG_OBJECT || is_empty_in_block(above, node))
            return set_value(yaml, above, node,
                             edit_wrap(yaml->edit, rest + 1, rest_count - 1, request->value));
        map = above.value;
    }
}

static int edit_yaml_check_scalar(const struct kg_node *scalar, struct kg_err *err)
{
    if (scalar->type == KG_STRING && scalar->flavor != KG_PLAIN)
        return kg_fail(err, KG_E_INVALID_PARAMS, "YAML has no dates here; give it as text");
    return 0;
}

static int edit_yaml_plan(struct edit *edit, struct edit_request *request, struct kg_err *err)
{
    kg_auto(yaml_close) struct yaml yaml = {.edit = edit, .err = err};
    int result = yaml_open(&yaml);
    if (result < 0)
        return result;
    bool is_empty = request->root->type != KG_OBJECT || request->root->count == 0;
    if (is_empty && yaml.root && yaml.root->anchored)
        return refuse_anchor(&yaml, yaml.root);
    if (!is_empty)
        return edit_yaml_walk(&yaml, request);
    fill_root(&yaml, edit_wrap(edit, request->path, request->count, request->value));
    return 0;
}

static const struct edit_format yaml_format = {kg_yaml_read, edit_yaml_check_scalar,
                                               edit_yaml_plan};

int edit_yaml_set(struct kg_buf *text, const char *const *path, size_t path_count,
                  const struct kg_node *value, struct kg_err *err)
{
    return edit_run(&yaml_format, text, path, path_count, value, err);
}

int edit_yaml_remove(struct kg_buf *text, const char *const *path, size_t path_count,
                     struct kg_err *err)
{
    return edit_run(&yaml_format, text, path, path_count, NULL, err);
}
