/*
 * Edits of TOML. The text is a list of statements, each on lines of its own: headers and pairs. A
 * table may be spread over many of them, so a key is looked for among statements, never in one
 * place. The scan trusts the reader, which has accepted the text before; it never reads past the
 * end.
 */
#include "config/edit_internal.h"

#include <stdlib.h>

enum kind { PAIR, TABLE, ARRAY_TABLE };

struct part {
    struct kg_str text; /* decoded; in the text or in the arena */
    size_t start;
};

struct statement {
    enum kind kind;
    struct name *name;  /* not of a pair in an inline table */
    struct part *parts; /* of its key, or of the name of the table */
    size_t part_count;
    size_t section; /* of a pair: number of the header above it + 1; 0: none */
    size_t start;   /* of its first part; of a header: its bracket */
    struct edit_span value;
    size_t end; /* behind its last line */
};

/* What the statements of the text say of one key, however many of them name it. */
struct name {
    struct name *above; /* NULL: the root */
    uint32_t number;
    bool removed;
    /* Numbers of statements + 1; 0: none. */
    size_t pair;   /* that gives it its value */
    size_t header; /* [of it] */
    size_t dotted; /* the last pair with it before a dot of its key */
};

/* Statements that stand side by side: those of the text, or the pairs of an inline table. */
struct level {
    struct statement *list; /* in the arena of the edit */
    size_t count;
    size_t capacity;
    bool is_inline;
    size_t open; /* of an inline table: behind its brace */
    size_t close;
};

struct toml {
    struct edit *edit;
    struct level top;
    struct name root;
    struct kg_map *names; /* owned; number of the name above and key: the name */
    struct kg_buf name_key;
    uint32_t name_count;
};

/* -- the scan ---------------------------------------------------------------------------------- */

static char edit_toml_char_at(const struct edit *edit, size_t at)
{
    return at < edit->text.length ? edit->text.data[at] : '\0';
}

static bool edit_toml_is_bare_key_char(char c)
{
    return kg_is_letter_or_digit(c) || c == '_' || c == '-';
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'';
}

/* At a quote: behind the string. Two quotes may stand just before the three that close it. */
static size_t string_end(const struct edit *edit, size_t at)
{
    char quote = edit_toml_char_at(edit, at);
    bool multiline =
        edit_toml_char_at(edit, at + 1) == quote && edit_toml_char_at(edit, at + 2) == quote;
    size_t closing = multiline ? 3 : 1;
    at += closing;
    while (at < edit->text.length) {
        size_t run = 0;
        while (run < closing && edit_toml_char_at(edit, at + run) == quote)
            run++;
        if (run == closing) {
            at += closing;
            for (int more = 0; multiline && more < 2 && edit_toml_char_at(edit, at) == quote;
                 more++)
                at++;
            return at;
        }
        at += quote == '"' && edit_toml_char_at(edit, at) == '\\' ? 2 : run ? run : 1;
    }
    return edit->text.length;
}

/* At a bracket: behind the one that closes it. */
static size_t bracket_end(const struct edit *edit, size_t at)
{
    size_t depth = 0;
    while (at < edit->text.length) {
        char c = edit->text.data[at];
        if (is_quote(c)) {
            at = string_end(edit, at);
            continue;
        }
        if (c == '#') {
            at = edit_line_end(edit, at);
            continue;
        }
        at++;
        if (c == '[' || c == '{')
            depth++;
        else if ((c == ']' || c == '}') && --depth == 0)
            break;
    }
    return at;
}

static size_t bare_end(const struct edit *edit, size_t at)
{
    while (at < edit->text.length && strchr(" \t\r\n#,]}", edit->text.data[at]) == NULL)
        at++;
    return at;
}

static size_t value_end(const struct edit *edit, size_t at)
{
    char c = edit_toml_char_at(edit, at);
    if (is_quote(c))
        return string_end(edit, at);
    if (c == '[' || c == '{')
        return bracket_end(edit, at);
    size_t end = bare_end(edit, at);
    /* Only the time that belongs to a date can follow a blank. */
    if (edit_toml_char_at(edit, end) == ' ' && kg_is_digit(edit_toml_char_at(edit, end + 1)))
        end = bare_end(edit, end + 1);
    return end;
}

/* The reader knows the escapes: it reads the quoted key as the value of a key. */
static struct kg_str unquote(struct edit *edit, struct kg_str quoted)
{
    struct kg_str inner = {quoted.data + 1, quoted.length - 2};
    if (quoted.data[0] == '\'' || memchr(inner.data, '\\', inner.length) == NULL)
        return inner;
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_buf_text(&line, "k=");
    kg_buf_str(&line, quoted);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_toml_read(kg_buf_view(&line), NULL);
    return doc ? kg_arena_str(edit->arena, kg_node_get(doc->root, "k")->text) : inner;
}

static size_t scan_part(struct edit *edit, size_t at, struct part *ret_part)
{
    size_t end = at;
    bool quoted = is_quote(edit_toml_char_at(edit, at));
    if (quoted)
        end = string_end(edit, at);
    else
        while (edit_toml_is_bare_key_char(edit_toml_char_at(edit, end)))
            end++;
    struct kg_str raw = {edit->text.data + at, end - at};
    *ret_part = (struct part){quoted && raw.length > 1 ? unquote(edit, raw) : raw, at};
    return end;
}

/* At the first part; behind the last one and the blanks that follow. */
static size_t scan_key(struct edit *edit, size_t at, struct statement *statement)
{
    struct part parts[KG_DOC_DEPTH_MAX];
    size_t count = 0;
    statement->start = at;
    while (count < KG_COUNT(parts)) {
        at = edit_skip_blank(edit, scan_part(edit, at, &parts[count++]));
        if (edit_toml_char_at(edit, at) != '.')
            break;
        at = edit_skip_blank(edit, at + 1);
    }
    statement->parts = kg_arena_alloc(edit->arena, count * sizeof(*parts));
    memcpy(statement->parts, parts, count * sizeof(*parts));
    statement->part_count = count;
    return at;
}

static struct statement scan_pair(struct edit *edit, size_t at)
{
    struct statement pair = {.kind = PAIR};
    at = scan_key(edit, at, &pair);
    pair.value.start = edit_skip_blank(edit, at + 1);
    pair.value.end = value_end(edit, pair.value.start);
    pair.end = edit_line_end(edit, pair.value.end);
    return pair;
}

static struct statement scan_header(struct edit *edit, size_t at)
{
    bool array = edit_toml_char_at(edit, at + 1) == '[';
    struct statement header = {.kind = array ? ARRAY_TABLE : TABLE};
    size_t behind = scan_key(edit, edit_skip_blank(edit, at + (array ? 2 : 1)), &header);
    header.start = at;
    header.end = edit_line_end(edit, behind);
    return header;
}

static void add_statement(struct edit *edit, struct level *level, struct statement statement)
{
    if (level->count == level->capacity) {
        level->capacity = level->capacity ? level->capacity * 2 : 32;
        struct statement *list =
            kg_arena_alloc(edit->arena, level->capacity * sizeof(*level->list));
        if (level->count)
            memcpy(list, level->list, level->count * sizeof(*level->list));
        level->list = list;
    }
    level->list[level->count++] = statement;
}

/* The name of a key below another one, or NULL. */
static struct name *edit_toml_find_name(struct toml *toml, const struct name *above,
                                        struct kg_str key)
{
    toml->name_key.length = 0;
    kg_buf_append(&toml->name_key, &above->number, sizeof(above->number));
    kg_buf_str(&toml->name_key, key);
    return kg_map_get(toml->names, kg_buf_view(&toml->name_key));
}

static struct name *edit_toml_take_name(struct toml *toml, struct name *above, struct kg_str key)
{
    struct name *name = edit_toml_find_name(toml, above, key);
    if (name != NULL)
        return name;
    name = kg_arena_alloc(toml->edit->arena, sizeof(*name));
    *name = (struct name){.above = above, .number = ++toml->name_count};
    kg_map_set(toml->names, kg_buf_view(&toml->name_key), name);
    return name;
}

/* number is that of the statement + 1. */
static void name_statement(struct toml *toml, struct statement *statement, size_t number)
{
    struct name *name = &toml->root;
    if (statement->section)
        name = toml->top.list[statement->section - 1].name;
    for (size_t i = 0; i < statement->part_count; i++) {
        if (i > 0 && statement->kind == PAIR)
            name->dotted = number;
        name = edit_toml_take_name(toml, name, statement->parts[i].text);
    }
    if (statement->kind == PAIR)
        name->pair = number;
    else if (statement->kind == TABLE)
        name->header = number;
    statement->name = name;
}

static void scan_text(struct toml *toml)
{
    struct edit *edit = toml->edit;
    struct level *level = &toml->top;
    size_t section = 0;
    for (size_t at = 0; at < edit->text.length;) {
        at = edit_skip_blank(edit, at);
        char c = edit_toml_char_at(edit, at);
        if (c == '#' || c == '\r' || c == '\n' || at == edit->text.length) {
            at = edit_line_end(edit, at);
            continue;
        }
        struct statement statement = c == '[' ? scan_header(edit, at) : scan_pair(edit, at);
        statement.section = statement.kind == PAIR ? section : 0;
        name_statement(toml, &statement, level->count + 1);
        add_statement(edit, level, statement);
        if (statement.kind != PAIR)
            section = level->count;
        at = statement.end;
    }
}

/* At the brace of an inline table. */
static struct level *scan_inline(struct edit *edit, size_t at)
{
    struct level *level = kg_arena_alloc(edit->arena, sizeof(*level));
    level->is_inline = true;
    level->open = at + 1;
    level->close = bracket_end(edit, at) - 1;
    for (at = edit_skip_blank(edit, at + 1); at < level->close;
         at = edit_skip_blank(edit, edit_skip_blank(edit, at) + 1)) {
        struct statement pair = scan_pair(edit, at);
        add_statement(edit, level, pair);
        at = pair.value.end;
    }
    return level;
}

static size_t skip_to_item(const struct edit *edit, size_t at)
{
    while (at < edit->text.length && strchr(" \t\r\n,#", edit->text.data[at]) != NULL)
        at = edit->text.data[at] == '#' ? edit_line_end(edit, at) : at + 1;
    return at;
}

/* At the bracket of an array that has count items. False if that is not what stands there. */
static bool scan_array(struct edit *edit, size_t at, uint32_t count, struct edit_items *ret_items)
{
    struct edit_items items = {.open = at + 1, .close = bracket_end(edit, at) - 1};
    items.spans = kg_arena_alloc(edit->arena, count * sizeof(*items.spans));
    for (at = skip_to_item(edit, at + 1); at < items.close && items.count < count;
         at = skip_to_item(edit, at)) {
        size_t end = value_end(edit, at);
        items.spans[items.count++] = (struct edit_span){at, end};
        at = end;
    }
    *ret_items = items;
    return items.count == count && at == items.close;
}

/* -- paths ------------------------------------------------------------------------------------- */

/* The name at the end of a path, or NULL. */
static struct name *name_at(struct toml *toml, const struct kg_str *path, size_t count)
{
    struct name *name = &toml->root;
    for (size_t i = 0; i < count && name != NULL; i++)
        name = edit_toml_find_name(toml, name, path[i]);
    return name;
}

/* Whether the first count parts of the key of a pair are those of the path. */
static bool edit_toml_is_below(const struct statement *pair, const struct kg_str *path,
                               size_t count)
{
    if (pair->part_count < count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!kg_str_equal(pair->parts[i].text, path[i]))
            return false;
    return true;
}

/* Where a path leads: to the value of a pair, or to a table that a level has in pieces. */
struct target {
    struct level *level;
    const struct statement *pair; /* or NULL */
    struct kg_str *path;          /* what is left of it in that level, the key of the pair too */
    size_t count;
};

/* From the value of a pair, which the first keys of the path lead to. */
static void enter_pair(struct toml *toml, struct target *target, const struct statement *pair,
                       size_t keys)
{
    if (keys == target->count) {
        target->pair = pair;
        return;
    }
    target->path += keys;
    target->count -= keys;
    target->level = scan_inline(toml->edit, pair->value.start);
}

/* The pair of an inline table whose whole key is at the start of the path. */
static const struct statement *leading_pair(const struct target *target)
{
    for (size_t i = 0; i < target->level->count; i++) {
        const struct statement *pair = &target->level->list[i];
        if (pair->part_count <= target->count &&
            edit_toml_is_below(pair, target->path, pair->part_count))
            return pair;
    }
    return NULL;
}

/* By names to a pair of the text, then down through inline tables. */
static struct target edit_toml_find_target(struct toml *toml, struct kg_str *path, size_t count)
{
    struct target target = {&toml->top, NULL, path, count};
    struct name *name = &toml->root;
    for (size_t i = 0; i < count && name != NULL && name->pair == 0; i++) {
        name = edit_toml_find_name(toml, name, path[i]);
        if (name != NULL && name->pair)
            enter_pair(toml, &target, &toml->top.list[name->pair - 1], i + 1);
    }
    while (target.level->is_inline && target.pair == NULL) {
        const struct statement *pair = leading_pair(&target);
        if (pair == NULL)
            break;
        enter_pair(toml, &target, pair, pair->part_count);
    }
    return target;
}

/* -- writing ----------------------------------------------------------------------------------- */

static void edit_toml_put_key(struct kg_buf *out, struct kg_str key)
{
    bool bare = key.length > 0;
    for (size_t i = 0; i < key.length; i++)
        bare = bare && edit_toml_is_bare_key_char(key.data[i]);
    if (bare)
        kg_buf_str(out, key);
    else
        edit_put_quoted(out, key);
}

static void put_dotted(struct kg_buf *out, const struct kg_str *path, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        kg_buf_text(out, i ? "." : "");
        edit_toml_put_key(out, path[i]);
    }
}

static void edit_toml_put_value(struct kg_buf *out, const struct kg_node *value, const void *how);

static void put_container(struct kg_buf *out, const struct kg_node *value)
{
    bool list = value->type == KG_ARRAY;
    kg_buf_char(out, list ? '[' : '{');
    for (uint32_t i = 0; i < value->count; i++) {
        kg_buf_text(out, i ? ", " : "");
        if (!list) {
            edit_toml_put_key(out, value->members[i].key);
            kg_buf_text(out, " = ");
        }
        edit_toml_put_value(out, list ? &value->items[i] : &value->members[i].value, NULL);
    }
    kg_buf_char(out, list ? ']' : '}');
}

/* how: the byte that the old value starts with, or NULL; a literal string stays one if it can. */
static void edit_toml_put_value(struct kg_buf *out, const struct kg_node *value, const void *how)
{
    const char *old = how;
    if (edit_is_container(value))
        put_container(out, value);
    else if (value->type == KG_BOOL)
        kg_buf_text(out, value->boolean ? "true" : "false");
    else if (value->type == KG_NUMBER || value->flavor != KG_PLAIN)
        kg_buf_str(out, value->text);
    else if (old && *old == '\'' && edit_is_printable(value->text) &&
             (value->text.length == 0 || !memchr(value->text.data, '\'', value->text.length)))
        kg_buf_printf(out, "'%.*s'", KG_STR_ARG(value->text));
    else
        edit_put_quoted(out, value->text);
}

static void edit_toml_put_pair(struct toml *toml, struct kg_buf *out,
                               const struct kg_member *member)
{
    edit_toml_put_key(out, member->key);
    kg_buf_text(out, " = ");
    edit_toml_put_value(out, &member->value, NULL);
    kg_buf_text(out, toml->edit->eol);
}

static bool is_map(const struct kg_node *node)
{
    return node->type == KG_OBJECT;
}

static void edit_toml_put_header(struct toml *toml, const struct kg_str *path, size_t count)
{
    struct kg_buf *tail = &toml->edit->tail;
    kg_buf_text(tail, tail->length ? toml->edit->eol : "");
    kg_buf_char(tail, '[');
    put_dotted(tail, path, count);
    kg_buf_char(tail, ']');
    kg_buf_text(tail, toml->edit->eol);
}

/* A new table for the end of the text, and one below it for each map in it. */
static void edit_toml_put_table(struct toml *toml, struct kg_str *path, size_t count,
                                const struct kg_node *table)
{
    uint32_t maps = 0;
    for (uint32_t i = 0; i < table->count; i++)
        maps += is_map(&table->members[i].value);
    if (maps < table->count || table->count == 0)
        edit_toml_put_header(toml, path, count);
    for (uint32_t i = 0; i < table->count; i++)
        if (!is_map(&table->members[i].value))
            edit_toml_put_pair(toml, &toml->edit->tail, &table->members[i]);
    for (uint32_t i = 0; i < table->count; i++) {
        if (!is_map(&table->members[i].value))
            continue;
        path[count] = table->members[i].key;
        edit_toml_put_table(toml, path, count + 1, &table->members[i].value);
    }
}

/* -- adding ------------------------------------------------------------------------------------ */

/* How a table takes new keys. */
struct room {
    enum { SECTION, DOTTED, IMPLIED } form;
    size_t at; /* where lines go; not of IMPLIED, which has none */
    struct kg_str
        lead; /* what each line starts with: indentation, and of DOTTED the table's name */
    const char *trailer; /* what follows the lines */
};

static struct kg_str lead_of(const struct edit *edit, size_t start, size_t end)
{
    size_t line = edit_line_start(edit, start);
    return (struct kg_str){edit->text.data + line, end - line};
}

/* Keys of the root that has none yet: before the first header and the comment lines above it,
 * unless they open the file. */
static struct room room_at_start(const struct toml *toml)
{
    const struct edit *edit = toml->edit;
    if (toml->top.count == 0)
        return (struct room){SECTION, edit->text.length, KG_STR(""), ""};
    size_t header = edit_line_start(edit, toml->top.list[0].start);
    size_t at = header;
    while (at > 0) {
        size_t above = edit_line_start(edit, at - 1);
        if (edit_toml_char_at(edit, edit_skip_blank(edit, above)) != '#')
            break;
        at = above;
    }
    return (struct room){SECTION, at ? at : header, KG_STR(""), edit->eol};
}

static struct room room_in_section(const struct toml *toml, size_t section)
{
    const struct statement *last = section ? &toml->top.list[section - 1] : NULL;
    for (size_t i = section; i < toml->top.count && toml->top.list[i].kind == PAIR; i++)
        last = &toml->top.list[i];
    if (last == NULL)
        return room_at_start(toml);
    return (struct room){SECTION, last->end, lead_of(toml->edit, last->start, last->start), ""};
}

static struct room find_room(struct toml *toml, const struct kg_str *path, size_t count)
{
    const struct name *name = name_at(toml, path, count);
    if (count == 0)
        return room_in_section(toml, 0);
    if (name != NULL && name->header)
        return room_in_section(toml, name->header);
    if (name == NULL || name->dotted == 0)
        return (struct room){IMPLIED, 0, KG_STR(""), ""};
    const struct statement *pair = &toml->top.list[name->dotted - 1];
    size_t above = pair->section ? toml->top.list[pair->section - 1].part_count : 0;
    struct kg_str lead = lead_of(toml->edit, pair->start, pair->parts[count - above].start);
    return (struct room){DOTTED, pair->end, lead, ""};
}

static bool edit_toml_is_new(const struct kg_member *member, const struct kg_node *old)
{
    return old == NULL || kg_node_member(old, member->key) == NULL;
}

/* Adds those members of map that old does not have to a table that is not inline. */
static void add_members(struct toml *toml, struct kg_str *path, size_t count,
                        const struct kg_node *map, const struct kg_node *old)
{
    struct room room = find_room(toml, path, count);
    kg_auto(kg_buf_free) struct kg_buf lines = {0};
    for (uint32_t i = 0; i < map->count; i++) {
        const struct kg_member *member = &map->members[i];
        if (!edit_toml_is_new(member, old) || (is_map(&member->value) && room.form != DOTTED))
            continue;
        kg_buf_str(&lines, room.lead);
        edit_toml_put_pair(toml, &lines, member);
    }
    if (lines.length && room.form == IMPLIED) {
        edit_toml_put_header(toml, path, count);
        kg_buf_str(&toml->edit->tail, kg_buf_view(&lines));
    } else if (lines.length) {
        kg_buf_text(&lines, room.trailer);
        edit_insert_lines(toml->edit, room.at, kg_buf_view(&lines));
    }
    for (uint32_t i = 0; i < map->count; i++) {
        const struct kg_member *member = &map->members[i];
        if (!edit_toml_is_new(member, old) || !is_map(&member->value) || room.form == DOTTED)
            continue;
        path[count] = member->key;
        edit_toml_put_table(toml, path, count + 1, &member->value);
    }
}

static struct edit_items edit_toml_items_of(struct edit *edit, const struct level *level)
{
    struct edit_items items = {level->open, level->close, NULL, level->count};
    items.spans = kg_arena_alloc(edit->arena, level->count * sizeof(*items.spans));
    for (size_t i = 0; i < level->count; i++)
        items.spans[i] = (struct edit_span){level->list[i].start, level->list[i].value.end};
    return items;
}

/* Adds a pair behind the one of that number in an inline table. */
static void add_inline(struct toml *toml, const struct level *level, size_t before,
                       const struct kg_str *path, size_t count, const struct kg_node *value)
{
    kg_auto(kg_buf_free) struct kg_buf pair = {0};
    put_dotted(&pair, path, count);
    kg_buf_text(&pair, " = ");
    edit_toml_put_value(&pair, value, NULL);
    struct kg_str text = kg_buf_view(&pair);
    struct edit_items items = edit_toml_items_of(toml->edit, level);
    edit_items_insert(toml->edit, &items, before, &text, 1);
}

/* The map that is at the first found keys of path gets the next key. */
static void edit_toml_add_key(struct toml *toml, struct kg_str *path, size_t found, size_t count,
                              const struct kg_node *value)
{
    struct target target = edit_toml_find_target(toml, path, found);
    if (target.pair != NULL) {
        target.level = scan_inline(toml->edit, target.pair->value.start);
        target.path += target.count;
        target.count = 0;
    }
    if (target.level->is_inline) {
        value = edit_wrap(toml->edit, path + found + 1, count - found - 1, value);
        add_inline(toml, target.level, target.level->count, target.path, target.count + 1, value);
        return;
    }
    const struct kg_node *map = edit_wrap(toml->edit, path + found, count - found, value);
    add_members(toml, path, found, map, NULL);
}

/* -- removing ---------------------------------------------------------------------------------- */

static bool is_removed(const struct name *name)
{
    while (name != NULL && !name->removed)
        name = name->above;
    return name != NULL;
}

/*
 * The statements of all names that were removed, in one go. A section goes up to its last key; what
 * follows may be about the next one.
 */
static void cut_removed(struct toml *toml)
{
    const struct level *top = &toml->top;
    for (size_t i = 0; i < top->count; i++) {
        const struct statement *statement = &top->list[i];
        if (!is_removed(statement->name))
            continue;
        size_t end = statement->end;
        while (statement->kind != PAIR && i + 1 < top->count && top->list[i + 1].kind == PAIR)
            end = top->list[++i].end;
        edit_cut(toml->edit, edit_line_start(toml->edit, statement->start), end);
    }
}

static void cut_inline(struct toml *toml, const struct target *target)
{
    const struct level *level = target->level;
    struct edit_items items = edit_toml_items_of(toml->edit, level);
    bool *marked = kg_arena_alloc(toml->edit->arena, level->count * sizeof(*marked));
    for (size_t i = 0; i < level->count; i++)
        marked[i] = edit_toml_is_below(&level->list[i], target->path, target->count);
    edit_items_remove(toml->edit, &items, marked);
}

static void edit_toml_remove_name(struct toml *toml, const struct kg_str *path, size_t count)
{
    struct name *name = name_at(toml, path, count);
    if (name != NULL)
        name->removed = true;
}

static void remove_key(struct toml *toml, struct kg_str *path, size_t count)
{
    struct target target = edit_toml_find_target(toml, path, count);
    if (target.level->is_inline)
        cut_inline(toml, &target);
    else
        edit_toml_remove_name(toml, path, count);
}

/* -- changing ---------------------------------------------------------------------------------- */

static void replace_value(struct toml *toml, struct edit_span span, const struct kg_node *old,
                          const struct kg_node *value)
{
    struct edit_items items;
    bool lists = old->type == KG_ARRAY && value->type == KG_ARRAY && old->count && value->count;
    if (lists && scan_array(toml->edit, span.start, old->count, &items)) {
        edit_items_change(toml->edit, &items, old, value, edit_toml_put_value, NULL);
        return;
    }
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    edit_toml_put_value(&text, value, toml->edit->text.data + span.start);
    edit_replace(toml->edit, span.start, span.end, kg_buf_view(&text));
}

/* The pairs of a table that dotted keys make in an inline table give way to one. */
static void replace_in_inline(struct toml *toml, const struct target *target,
                              const struct kg_node *value)
{
    const struct level *level = target->level;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    const char *comma = "";
    for (size_t i = 0; i < level->count; i++) {
        const struct statement *pair = &level->list[i];
        if (edit_toml_is_below(pair, target->path, target->count))
            continue;
        kg_buf_text(&text, comma);
        kg_buf_append(&text, toml->edit->text.data + pair->start, pair->value.end - pair->start);
        comma = ", ";
    }
    kg_buf_text(&text, comma);
    put_dotted(&text, target->path, target->count);
    kg_buf_text(&text, " = ");
    edit_toml_put_value(&text, value, NULL);
    edit_replace(toml->edit, level->open, level->close, kg_buf_view(&text));
}

static void change_key(struct toml *toml, struct kg_str *path, size_t count,
                       const struct kg_node *old, const struct kg_node *value);

/* A table that stays one: each of its keys by itself, so that the rest of its lines stays. */
static void merge_table(struct toml *toml, struct kg_str *path, size_t count,
                        const struct kg_node *old, const struct kg_node *value)
{
    for (uint32_t i = 0; i < old->count; i++) {
        const struct kg_member *now = kg_node_member(value, old->members[i].key);
        path[count] = old->members[i].key;
        if (now == NULL)
            remove_key(toml, path, count + 1);
        else
            change_key(toml, path, count + 1, &old->members[i].value, &now->value);
    }
    add_members(toml, path, count, value, old);
}

static void change_key(struct toml *toml, struct kg_str *path, size_t count,
                       const struct kg_node *old, const struct kg_node *value)
{
    if (edit_same(old, value))
        return;
    struct target target = edit_toml_find_target(toml, path, count);
    bool maps = is_map(old) && is_map(value);
    if (target.pair != NULL) {
        replace_value(toml, target.pair->value, old, value);
    } else if (target.level->is_inline) {
        replace_in_inline(toml, &target, value);
    } else if (maps && (value->count || find_room(toml, path, count).form == SECTION)) {
        merge_table(toml, path, count, old, value);
    } else {
        edit_toml_remove_name(toml, path, count);
        add_members(toml, path, count - 1, edit_wrap(toml->edit, path + count - 1, 1, value), NULL);
    }
}

/* -- the door ---------------------------------------------------------------------------------- */

static int edit_toml_check_scalar(const struct kg_node *scalar, struct kg_err *err)
{
    if (scalar->type == KG_NULL)
        return kg_fail(err, KG_E_INVALID_PARAMS, "TOML has no null; remove the key instead");
    return 0;
}

static void edit_toml_end(struct toml *toml)
{
    kg_map_free(toml->names);
    kg_buf_free(&toml->name_key);
}

static int edit_toml_plan(struct edit *edit, struct edit_request *request, struct kg_err *err)
{
    (void)err;
    kg_auto(edit_toml_end) struct toml toml = {.edit = edit, .names = kg_map_new()};
    scan_text(&toml);
    if (request->value == NULL)
        remove_key(&toml, request->path, request->count);
    else if (request->old == NULL)
        edit_toml_add_key(&toml, request->path, request->found, request->count, request->value);
    else
        change_key(&toml, request->path, request->count, request->old, request->value);
    cut_removed(&toml);
    return 0;
}

static const struct edit_format toml_format = {kg_toml_read, edit_toml_check_scalar,
                                               edit_toml_plan};

int edit_toml_set(struct kg_buf *text, const char *const *path, size_t path_count,
                  const struct kg_node *value, struct kg_err *err)
{
    return edit_run(&toml_format, text, path, path_count, value, err);
}

int edit_toml_remove(struct kg_buf *text, const char *const *path, size_t path_count,
                     struct kg_err *err)
{
    return edit_run(&toml_format, text, path, path_count, NULL, err);
}
