/*
 * Walks over rows: makes a request of a page, and words, facts and tables of its answer. Nothing
 * here knows a command; nothing of an answer is printed that was not escaped.
 */
#include "cli/rows.h"

#include <stdlib.h>

#define KEY_MAX 64

/* -- members of an answer ---------------------------------------------------------------------- */

/* Behind dots are members of members; "." is the object itself. */
static const struct kg_node *member_find(const struct kg_node *object, struct kg_str path)
{
    while (object != NULL && path.length > 0 && !kg_str_is(path, ".")) {
        char key[KEY_MAX];
        kg_str_copy(kg_str_cut(&path, '.'), key, sizeof(key));
        object = object->type == KG_OBJECT ? kg_node_get(object, key) : NULL;
    }
    return object;
}

static bool node_is_there(const struct kg_node *node)
{
    int64_t number = 0;
    if (node == NULL || node->type == KG_NULL)
        return false;
    if (node->type == KG_BOOL)
        return node->boolean;
    if (node->type == KG_NUMBER)
        return kg_node_int(node, &number) ? number > 0 : true;
    return node->type == KG_STRING ? node->text.length > 0 : node->count > 0;
}

static struct kg_str node_text(const struct kg_node *node)
{
    bool is_text = node != NULL && (node->type == KG_STRING || node->type == KG_NUMBER);
    return is_text ? node->text : KG_STR("");
}

static int64_t node_number(const struct kg_node *node)
{
    int64_t number = 0;
    return node != NULL && kg_node_int(node, &number) ? number : 0;
}

static bool node_time(const struct kg_node *node, int64_t *ret_ms)
{
    if (node != NULL && node->type == KG_STRING)
        return kg_time_parse(node->text, ret_ms);
    return node != NULL && kg_node_int(node, ret_ms) && *ret_ms > 0;
}

/* -- formats ----------------------------------------------------------------------------------- */

static void put_joined(struct kg_buf *out, const struct kg_node *list, const char *between)
{
    for (uint32_t i = 0; list != NULL && list->type == KG_ARRAY && i < list->count; i++) {
        kg_buf_text(out, i > 0 ? between : "");
        kg_buf_str(out, node_text(&list->items[i]));
    }
}

static int64_t node_count(const struct kg_node *node)
{
    bool is_list = node != NULL && (node->type == KG_ARRAY || node->type == KG_OBJECT);
    return is_list ? node->count : node_number(node);
}

static void cli_rows_put_time(struct kg_buf *out, const struct kg_node *node, struct kg_str format)
{
    int64_t at_ms;
    if (!node_time(node, &at_ms))
        return;
    if (kg_str_is(format, "when")) /* it, and how long ago that was */
        print_when(out, at_ms);
    else if (kg_str_is(format, "age")) /* how long ago, as "4s" */
        print_age(out, kg_wall_ms() - at_ms);
    else /* how long from now, rounded up: "in 0 s" reads as if it were stuck */
        print_duration(out, at_ms - kg_wall_ms() + 999);
}

/* Not escaped yet. */
static void put_formatted(struct kg_buf *out, const struct kg_node *node, struct kg_str format)
{
    if (format.length == 0 || kg_str_is(format, "hint")) /* hint: see print_put_hint */
        kg_buf_str(out, node_text(node));
    else if (kg_str_is(format, "bytes")) /* 512K */
        print_bytes(out, node_number(node));
    else if (kg_str_is(format, "mib")) /* how many of them, of bytes */
        kg_buf_printf(out, "%lld", (long long)(node_number(node) >> 20));
    else if (kg_str_is(format, "short")) /* 12.3k */
        print_short(out, node_number(node));
    else if (kg_str_is(format, "latency")) /* 1.2ms, of microseconds */
        print_latency(out, node_number(node));
    else if (kg_str_is(format, "count")) /* of a list, or the number; 0 if it is not there */
        kg_buf_printf(out, "%lld", (long long)node_count(node));
    else if (kg_str_is(format, "more")) /* how many after the first */
        print_short(out, node_count(node) - 1);
    else if (kg_str_is(format, "s")) /* an "s" unless there is one of them */
        kg_buf_text(out, node_count(node) == 1 ? "" : "s");
    else if (kg_str_is(format, "list"))
        put_joined(out, node, ", ");
    else if (kg_str_is(format, "commas"))
        put_joined(out, node, ",");
    else if (kg_str_is(format, "spaces"))
        put_joined(out, node, " ");
    else if (!kg_str_is(format, "json") && !kg_str_is(format, "set")) /* set: nothing of null */
        cli_rows_put_time(out, node, format);
    else if (node != NULL && (node->type != KG_NULL || kg_str_is(format, "json")))
        kg_json_put_node(out, node);
}

/* -- words ------------------------------------------------------------------------------------- */

/* What words are about, and whether what they come to is escaped later. */
struct scope {
    const struct cli *cli; /* NULL: they name no argument */
    const struct kg_node *object;
    struct kg_str key; /* by which the object is a member of the one around it */
    bool raw;
};

static void cli_rows_put_escaped(struct kg_buf *out, const struct scope *scope, struct kg_str text)
{
    if (scope->raw)
        kg_buf_str(out, text);
    else
        kg_buf_escaped(out, text);
}

/* "@self", "@1", "--name" and the like. */
static void put_known(struct kg_buf *out, const struct scope *scope, struct kg_str name)
{
    int64_t index;
    char option[KEY_MAX];
    kg_str_copy(kg_str_from(name, 2), option, sizeof(option));
    if (kg_str_is(name, "@self"))
        kg_buf_text(out, print_self());
    else if (kg_str_is(name, "@key"))
        cli_rows_put_escaped(out, scope, scope->key);
    else if (scope->cli == NULL)
        return;
    else if (kg_str_is(name, "@plugins"))
        cli_rows_put_escaped(out, scope, kg_str(scope->cli->paths.plugins_dir));
    else if (kg_str_starts(name, "--"))
        cli_rows_put_escaped(out, scope, kg_str(cli_option_value(scope->cli, option)));
    else if (kg_str_to_int(kg_str_from(name, 1), &index) && index > 0)
        cli_rows_put_escaped(out, scope, kg_str(cli_argument(scope->cli, (size_t)index - 1)));
}

/* What stands between braces. */
static void cli_rows_put_member(struct kg_buf *out, const struct scope *scope, struct kg_str named)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_str keys = kg_str_cut(&named, ':');
    const struct kg_node *node = NULL;
    if (kg_str_starts(keys, "@") || kg_str_starts(keys, "--")) {
        put_known(out, scope, keys);
        return;
    }
    while (keys.length > 0 && !node_is_there(node))
        node = member_find(scope->object, kg_str_cut(&keys, '|'));
    put_formatted(&text, node, named);
    if (kg_str_is(named, "hint"))
        print_put_hint(out, kg_buf_view(&text));
    else if ((kg_str_is(named, "json") || kg_str_is(named, "set")) && !scope->raw)
        kg_buf_json_escaped(out, kg_buf_view(&text));
    else
        cli_rows_put_escaped(out, scope, kg_buf_view(&text));
}

static void words_put(struct kg_buf *out, const struct scope *scope, struct kg_str words)
{
    while (words.length > 0) {
        kg_buf_str(out, kg_str_cut(&words, '{'));
        if (words.length > 0)
            cli_rows_put_member(out, scope, kg_str_cut(&words, '}'));
    }
}

void print_words(struct kg_buf *out, const struct kg_node *object, const char *words)
{
    words_put(out, &(struct scope){.object = object}, kg_str(words));
}

/* -- conditions -------------------------------------------------------------------------------- */

static struct kg_str node_word(const struct kg_node *node)
{
    if (node != NULL && node->type == KG_BOOL)
        return node->boolean ? KG_STR("true") : KG_STR("false");
    return node_text(node);
}

static bool one_holds(const struct scope *scope, struct kg_str condition)
{
    bool wanted = !kg_str_starts(condition, "!");
    char name[KEY_MAX];
    int64_t bound;
    if (!wanted)
        condition = kg_str_from(condition, 1);
    if (kg_str_starts(condition, "--")) {
        kg_str_copy(kg_str_from(condition, 2), name, sizeof(name));
        return cli_has(scope->cli, name) == wanted;
    }
    struct kg_str rest = condition, key = kg_str_cut(&rest, '=');
    if (key.length < condition.length) {
        struct kg_str text = node_word(member_find(scope->object, key));
        while (rest.length > 0)
            if (kg_str_equal(text, kg_str_cut(&rest, '|')))
                return wanted;
        return !wanted;
    }
    rest = condition;
    key = kg_str_cut(&rest, '~');
    if (key.length < condition.length)
        return kg_node_has_text(member_find(scope->object, key), rest) == wanted;
    rest = condition;
    key = kg_str_cut(&rest, '>');
    const struct kg_node *node = member_find(scope->object, key);
    if (key.length < condition.length)
        return (kg_str_to_int(rest, &bound) && node_number(node) > bound) == wanted;
    return node_is_there(node) == wanted;
}

static bool all_hold(const struct scope *scope, const char *when_or_null)
{
    struct kg_str rest = kg_str(when_or_null);
    while (rest.length > 0)
        if (!one_holds(scope, kg_str_cut(&rest, ' ')))
            return false;
    return true;
}

/* -- tables ------------------------------------------------------------------------------------ */

#define TABLE_COLUMNS_MAX 16
#define SCREEN_COLUMNS    80

struct column {
    struct kg_str heading, words;
    char mark;    /* '~' or '?', see rows.h; 0: neither */
    size_t width; /* that goes with it */
    bool hidden;
};

/* "NAME~18" */
static void column_read_mark(struct column *column)
{
    struct kg_str rest = column->heading, name = kg_str_cut(&rest, '~');
    int64_t width = 0;
    column->mark = '~';
    if (rest.length == 0) {
        rest = column->heading;
        name = kg_str_cut(&rest, '?');
        column->mark = '?';
    }
    column->mark = kg_str_to_int(rest, &width) ? column->mark : '\0';
    column->heading = name;
    column->width = (size_t)width;
}

/* "NAME~18={name}; STATE" */
static size_t columns_read(const char *table, struct column *ret_columns)
{
    struct kg_str rest = kg_str(table);
    size_t count = 0;
    while (rest.length > 0 && count < TABLE_COLUMNS_MAX) {
        struct kg_str column = kg_str_cut(&rest, ';');
        if (kg_str_starts(rest, " "))
            rest = kg_str_from(rest, 1);
        struct kg_str heading = kg_str_cut(&column, '=');
        ret_columns[count] = (struct column){.heading = heading, .words = column};
        column_read_mark(&ret_columns[count++]);
    }
    return count;
}

/* Spends what the screen has more than the usual; in a pipe nothing is cut. */
static void columns_fit(struct column *columns, size_t count)
{
    size_t screen = print_columns(), spare = screen > SCREEN_COLUMNS ? screen - SCREEN_COLUMNS : 0;
    for (size_t i = 0; i < count && screen != SIZE_MAX; i++) {
        columns[i].hidden = columns[i].mark == '?' && spare <= columns[i].width;
        spare -= columns[i].mark == '?' && !columns[i].hidden ? columns[i].width : 0;
    }
    for (size_t i = 0; i < count; i++) {
        bool is_cut = columns[i].mark == '~' && screen != SIZE_MAX;
        columns[i].width = is_cut ? columns[i].width + spare : SIZE_MAX;
        spare = is_cut ? 0 : spare;
    }
}

static void cli_rows_put_cell(struct table *table, const struct scope *scope,
                              const struct column *column, const struct cell *cells)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    const struct cell *cell = column->words.length > 0 ? NULL : cells;
    while (cell != NULL &&
           (!kg_str_is(column->heading, cell->heading) || !all_hold(scope, cell->when)))
        cell = cell[1].heading != NULL ? cell + 1 : NULL;
    if (cell != NULL && cell->put != NULL)
        cell->put(&text, scope->object);
    else
        words_put(&text, scope, cell != NULL ? kg_str(cell->words) : column->words);
    print_cut(&text, 0, column->width);
    table_cell(table, kg_buf_view(&text), cell != NULL ? cell->color : NULL);
}

static void rows_table(const struct cli *cli, const struct kg_node *items, const struct row *row)
{
    struct column columns[TABLE_COLUMNS_MAX];
    size_t count = columns_read(row->table, columns);
    if (items->count == 0)
        return;
    columns_fit(columns, count);
    char **headings = kg_list_new(0);
    for (size_t i = 0; i < count; i++)
        if (!columns[i].hidden)
            kg_list_add(&headings, kg_str_dup(columns[i].heading));
    struct table *table = table_new((const char *const *)headings);
    for (uint32_t i = 0; i < items->count; i++) {
        const struct scope scope = {.cli = cli, .object = &items->items[i], .raw = true};
        for (size_t k = 0; k < count; k++)
            if (!columns[k].hidden)
                cli_rows_put_cell(table, &scope, &columns[k], row->cells);
    }
    table_print(table);
    kg_list_free(headings);
}

/* -- rows -------------------------------------------------------------------------------------- */

/* A line with its label, or the words alone. */
static void cli_rows_put_line(struct kg_buf *out, const struct scope *scope, const struct row *row,
                              const char *label_or_null, int columns)
{
    size_t start = out->length;
    if (row->words == NULL)
        return;
    if (label_or_null != NULL)
        kg_buf_printf(out, "  %-*s", columns, label_or_null);
    size_t before = out->length;
    words_put(out, scope, kg_str(row->words));
    if (label_or_null == NULL)
        return;
    if (out->length == before)
        out->length = start;
    else
        kg_buf_char(out, '\n');
}

static void rows_walk(struct kg_buf *out, const struct scope *scope, const struct row *rows,
                      int columns);

/* Of a list or, each with its key, of an object. */
static void put_items(struct kg_buf *out, const struct cli *cli, const struct kg_node *list,
                      const struct row *row, int columns)
{
    const char *label = row->label;
    for (uint32_t i = 0; i < list->count; i++) {
        struct scope scope = {.cli = cli};
        scope.object = list->type == KG_OBJECT ? &list->members[i].value : &list->items[i];
        scope.key = list->type == KG_OBJECT ? list->members[i].key : KG_STR_NULL;
        cli_rows_put_line(out, &scope, row, label, columns);
        if (row->rows != NULL)
            rows_walk(out, &scope, row->rows, columns);
        label = label != NULL ? "" : NULL;
    }
}

static void cli_rows_put_row(struct kg_buf *out, const struct scope *scope, const struct row *row,
                             int columns)
{
    static const struct kg_node none = {.type = KG_ARRAY};
    const struct kg_node *found =
        row->each != NULL ? member_find(scope->object, kg_str(row->each)) : NULL;
    bool is_list = found != NULL && (found->type == KG_ARRAY || found->type == KG_OBJECT);
    if (row->put != NULL) {
        row->put(out, scope->cli, scope->object);
    } else if (row->table != NULL) {
        /* A table is printed at once, so what stands above it is, too. */
        print_out(out);
        out->length = 0;
        rows_table(scope->cli, is_list && found->type == KG_ARRAY ? found : &none, row);
    } else if (row->each != NULL) {
        put_items(out, scope->cli, is_list ? found : &none, row, columns);
    } else {
        cli_rows_put_line(out, scope, row, row->label, columns);
        if (row->rows != NULL)
            rows_walk(out, scope, row->rows, columns);
    }
}

static bool is_last(const struct row *row)
{
    return row->words == NULL && row->each == NULL && row->rows == NULL && row->put == NULL;
}

static void rows_walk(struct kg_buf *out, const struct scope *scope, const struct row *rows,
                      int columns)
{
    for (; !is_last(rows); rows++) {
        kg_auto(kg_buf_free) struct kg_buf aside = {0};
        if (!all_hold(scope, rows->when))
            continue;
        cli_rows_put_row(rows->aside ? &aside : out, scope, rows, columns);
        if (aside.length > 0)
            fwrite(aside.data, 1, aside.length, stderr);
    }
}

void rows_put(struct kg_buf *out, const struct cli *cli, const struct kg_node *object,
              const struct row *rows, int columns)
{
    rows_walk(out, &(struct scope){.cli = cli, .object = object}, rows, columns);
}

void rows_say(const struct cli *cli, const struct kg_node *object, const struct row *rows)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    rows_put(&text, cli, object, rows, 0);
    fwrite(text.data, 1, text.length, stderr);
}

/* -- requests ---------------------------------------------------------------------------------- */

/* "1" is the first argument, "--name" an option; NULL if it was not given. */
static const char *cli_rows_given(const struct cli *cli, const char *from)
{
    return from[0] == '-' ? cli_option_value(cli, from + 2)
                          : cli_argument(cli, strtoul(from, NULL, 10) - 1);
}

/* "limit=--lines:50": its name, where it comes from, and what it is without that. */
static void put_query(struct kg_buf *target, const struct cli *cli, struct kg_str query)
{
    char name[KEY_MAX], from[KEY_MAX + 2];
    kg_str_copy(kg_str_cut(&query, '='), name, sizeof(name));
    struct kg_str source = kg_str_cut(&query, ':');
    kg_str_copy(source, from, sizeof(from));
    const char *value = source.length > 0 ? cli_rows_given(cli, from) : cli_option_value(cli, name);
    if (value != NULL) /* a flag has no text */
        client_put_query(target, name, kg_str(value[0] != '\0' ? value : "true"));
    else if (query.length > 0)
        client_put_query(target, name, query);
}

/* False: an option is missing, and its name is in ret_missing. */
static bool cli_rows_put_target(struct kg_buf *target, const struct cli *cli, const char *form,
                                const char *name_or_null, char ret_missing[KEY_MAX])
{
    struct kg_str queries = kg_str(form), path = kg_str_cut(&queries, '?');
    while (path.length > 0) {
        kg_buf_str(target, kg_str_cut(&path, '{'));
        struct kg_str name = kg_str_cut(&path, '}');
        if (name.length == 0)
            continue;
        kg_str_copy(name, ret_missing, KEY_MAX);
        const char *value = kg_str_is(name, "0") ? name_or_null : cli_rows_given(cli, ret_missing);
        if (value == NULL && kg_str_starts(name, "--"))
            return false;
        kg_buf_percent(target, kg_str(value));
    }
    while (queries.length > 0)
        put_query(target, cli, kg_str_cut(&queries, '&'));
    return true;
}

static void put_list_member(struct kg_json_writer *json, const struct cli *cli,
                            const struct member *member)
{
    struct kg_str parts = kg_str(cli_rows_given(cli, member->from));
    if (member->kind == MEMBER_PARTS && parts.data == NULL)
        return;
    kg_json_named_begin(json, member->key, '[');
    for (size_t i = strtoul(member->from, NULL, 10);
         member->kind == MEMBER_REST && i <= cli->argument_count; i++)
        kg_json_text(json, cli->arguments[i - 1]);
    while (member->kind == MEMBER_PARTS && parts.length > 0)
        kg_json_str(json, kg_str_cut(&parts, ','));
    kg_json_end(json, ']');
}

static void cli_rows_put_value(struct kg_json_writer *json, const struct cli *cli,
                               const struct member *member)
{
    const char *value = cli_rows_given(cli, member->from);
    if (member->kind == MEMBER_FLAG || member->kind == MEMBER_UNLESS)
        kg_json_named_bool(json, member->key, (value != NULL) == (member->kind == MEMBER_FLAG));
    else if (value != NULL || member->otherwise != NULL)
        kg_json_named_text(json, member->key, value ? value : member->otherwise);
}

static void cli_rows_put_body(struct kg_buf *body, const struct cli *cli,
                              const struct member *members)
{
    struct kg_json_writer json = kg_json_writer(body);
    kg_json_begin(&json, '{');
    for (const struct member *member = members; member->key != NULL; member++) {
        if (member->kind == MEMBER_BEGIN)
            kg_json_named_begin(&json, member->key, '{');
        else if (member->kind == MEMBER_END)
            kg_json_end(&json, '}');
        else if (member->kind == MEMBER_PARTS || member->kind == MEMBER_REST)
            put_list_member(&json, cli, member);
        else
            cli_rows_put_value(&json, cli, member);
    }
    kg_json_end(&json, '}');
}

void rows_put_text(struct kg_buf *body, const char *key, struct kg_str text)
{
    struct kg_json_writer json = kg_json_writer(body);
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, key, text);
    kg_json_end(&json, '}');
}

int page_lacks(const char *option)
{
    kg_auto(kg_free) char *message = kg_format("%s is missing", option);
    return print_problem(CLI_USAGE, kg_str(message),
                         strcmp(option, "--org") == 0 ? KG_STR("kaged org list shows the orgs")
                                                      : KG_STR_NULL);
}

/* A page's request, as it is sent. */
struct question {
    struct kg_buf target, body;
    struct client_request request;
};

static void cli_rows_question_free(struct question *question)
{
    kg_buf_free(&question->target);
    kg_buf_free(&question->body);
}

static int question_make(const struct cli *cli, const struct cli_page *page,
                         const struct page_given *given, struct question *ret_question)
{
    char missing[KEY_MAX];
    struct kg_buf *target = &ret_question->target, *body = &ret_question->body;
    bool is_whole = cli_rows_put_target(target, cli, page->target, given->name, missing);
    if (!is_whole && page->without != NULL) {
        target->length = 0;
        is_whole = cli_rows_put_target(target, cli, page->without, given->name, missing);
    }
    if (!is_whole)
        return page_lacks(missing);
    if (page->members != NULL)
        cli_rows_put_body(body, cli, page->members);
    ret_question->request = (struct client_request){
        .method = page->method,
        .target = kg_buf_terminate(target),
        .body = given->body.data != NULL ? given->body
                : page->body != NULL     ? kg_str(page->body)
                                         : kg_buf_view(body),
        .silence_ms = page->silence_ms,
        .file = given->file,
        .headers = given->headers,
        .content_type = given->content_type,
    };
    return CLI_DONE;
}

int page_ask(const struct cli *cli, const struct cli_page *page, const struct page_given *given,
             struct kg_buf *ret_body, struct kg_doc **ret_doc)
{
    static const struct page_given nothing = {0};
    kg_auto(cli_rows_question_free) struct question question = {0};
    int code = question_make(cli, page, given ? given : &nothing, &question);
    return code == CLI_DONE ? cli_ask_object(cli, &question.request, ret_body, ret_doc) : code;
}

int page_tell(const struct cli *cli, const struct cli_page *page, const struct page_given *given)
{
    kg_auto(kg_buf_free) struct kg_buf answer = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    return page_ask(cli, page, given, &answer, &doc);
}

int page_show_with(const struct cli *cli, const struct cli_page *page,
                   const struct page_given *given)
{
    kg_auto(kg_buf_free) struct kg_buf answer = {0}, text = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    const struct row words[] = {{.words = page->words}, {0}};
    int code = page_ask(cli, page, given, &answer, &doc);
    if (code == CLI_DONE && cli->json)
        print_json(kg_buf_view(&answer));
    else if (code == CLI_DONE)
        rows_put(&text, cli, doc->root, page->rows ? page->rows : words, page->columns);
    print_out(&text);
    return code;
}

int page_show(const struct cli *cli, const struct cli_page *page)
{
    return page_show_with(cli, page, NULL);
}
