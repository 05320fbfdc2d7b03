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

static void put_time(struct kg_buf *out, const struct kg_node *node, struct kg_str format)
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
    else if (kg_str_is(format, "s")) /* an "s" unless there is one of them */
        kg_buf_text(out, node_count(node) == 1 ? "" : "s");
    else if (kg_str_is(format, "list"))
        put_joined(out, node, ", ");
    else if (kg_str_is(format, "commas"))
        put_joined(out, node, ",");
    else if (kg_str_is(format, "spaces"))
        put_joined(out, node, " ");
    else if (!kg_str_is(format, "json"))
        put_time(out, node, format);
    else if (node != NULL)
        kg_json_put_node(out, node);
}

/* -- words ------------------------------------------------------------------------------------- */

/* What words are about, and whether what they come to is escaped later. */
struct scope {
    const struct cli *cli; /* NULL: they name no argument */
    const struct kg_node *object;
    bool raw;
};

static void put_escaped(struct kg_buf *out, const struct scope *scope, struct kg_str text)
{
    if (scope->raw)
        kg_buf_str(out, text);
    else
        kg_buf_escaped(out, text);
}

/* "@self" or "@1" */
static void put_known(struct kg_buf *out, const struct scope *scope, struct kg_str name)
{
    int64_t index;
    if (kg_str_is(name, "@self"))
        kg_buf_text(out, print_self());
    else if (scope->cli != NULL && kg_str_to_int(kg_str_from(name, 1), &index) && index > 0)
        put_escaped(out, scope, kg_str(cli_argument(scope->cli, (size_t)index - 1)));
}

/* What stands between braces. */
static void put_member(struct kg_buf *out, const struct scope *scope, struct kg_str named)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_str keys = kg_str_cut(&named, ':');
    const struct kg_node *node = NULL;
    if (kg_str_starts(keys, "@")) {
        put_known(out, scope, keys);
        return;
    }
    while (keys.length > 0 && !node_is_there(node))
        node = member_find(scope->object, kg_str_cut(&keys, '|'));
    put_formatted(&text, node, named);
    if (kg_str_is(named, "hint"))
        print_put_hint(out, kg_buf_view(&text));
    else if (kg_str_is(named, "json") && !scope->raw)
        kg_buf_json_escaped(out, kg_buf_view(&text));
    else
        put_escaped(out, scope, kg_buf_view(&text));
}

static void words_put(struct kg_buf *out, const struct scope *scope, struct kg_str words)
{
    while (words.length > 0) {
        kg_buf_str(out, kg_str_cut(&words, '{'));
        if (words.length > 0)
            put_member(out, scope, kg_str_cut(&words, '}'));
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

/* Takes the next column off *rest: its heading, and the words of its cells, if it has any. */
static struct kg_str column_next(struct kg_str *rest, struct kg_str *ret_words)
{
    struct kg_str column = kg_str_cut(rest, ';');
    if (kg_str_starts(*rest, " "))
        *rest = kg_str_from(*rest, 1);
    struct kg_str heading = kg_str_cut(&column, '=');
    *ret_words = column;
    return heading;
}

static void put_cells(struct table *table, const struct scope *scope, struct kg_str columns,
                      const struct cell *cells)
{
    while (columns.length > 0) {
        kg_auto(kg_buf_free) struct kg_buf text = {0};
        struct kg_str words, heading = column_next(&columns, &words);
        const struct cell *cell = words.length > 0 ? NULL : cells;
        while (cell != NULL && (!kg_str_is(heading, cell->heading) || !all_hold(scope, cell->when)))
            cell = cell[1].heading != NULL ? cell + 1 : NULL;
        words_put(&text, scope, cell != NULL ? kg_str(cell->words) : words);
        table_cell(table, kg_buf_view(&text), cell != NULL ? cell->color : NULL);
    }
}

static void rows_table(const struct cli *cli, const struct kg_node *items, const char *table,
                       const struct cell *cells)
{
    struct kg_str words, rest = kg_str(table);
    char **headings = kg_list_new(0);
    while (rest.length > 0)
        kg_list_add(&headings, kg_str_dup(column_next(&rest, &words)));
    struct table *made = items->count > 0 ? table_new((const char *const *)headings) : NULL;
    for (uint32_t i = 0; i < items->count; i++)
        put_cells(made, &(struct scope){cli, &items->items[i], true}, kg_str(table), cells);
    if (made != NULL)
        table_print(made);
    kg_list_free(headings);
}

/* -- rows -------------------------------------------------------------------------------------- */

/* A line with its label, or the words alone. */
static void put_line(struct kg_buf *out, const struct scope *scope, const struct row *row,
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

static void put_items(struct kg_buf *out, const struct cli *cli, const struct kg_node *list,
                      const struct row *row, int columns)
{
    const char *label = row->label;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct scope scope = {.cli = cli, .object = &list->items[i]};
        put_line(out, &scope, row, label, columns);
        if (row->rows != NULL)
            rows_put(out, cli, &list->items[i], row->rows, columns);
        label = label != NULL ? "" : NULL;
    }
}

static void put_row(struct kg_buf *out, const struct cli *cli, const struct kg_node *object,
                    const struct row *row, int columns)
{
    static const struct kg_node none = {.type = KG_ARRAY};
    const struct kg_node *found = row->each != NULL ? member_find(object, kg_str(row->each)) : NULL;
    const struct kg_node *list = found != NULL && found->type == KG_ARRAY ? found : &none;
    const struct scope scope = {.cli = cli, .object = object};
    if (row->put != NULL) {
        row->put(out, cli, object);
    } else if (row->table != NULL) {
        /* A table is printed at once, so what stands above it is, too. */
        print_out(out);
        out->length = 0;
        rows_table(cli, list, row->table, row->cells);
    } else if (row->each != NULL) {
        put_items(out, cli, list, row, columns);
    } else {
        put_line(out, &scope, row, row->label, columns);
        if (row->rows != NULL)
            rows_put(out, cli, object, row->rows, columns);
    }
}

static bool is_last(const struct row *row)
{
    return row->words == NULL && row->each == NULL && row->rows == NULL && row->put == NULL;
}

void rows_put(struct kg_buf *out, const struct cli *cli, const struct kg_node *object,
              const struct row *rows, int columns)
{
    for (; !is_last(rows); rows++) {
        const struct scope scope = {.cli = cli, .object = object};
        kg_auto(kg_buf_free) struct kg_buf aside = {0};
        if (!all_hold(&scope, rows->when))
            continue;
        put_row(rows->aside ? &aside : out, cli, object, rows, columns);
        if (aside.length > 0)
            fwrite(aside.data, 1, aside.length, stderr);
    }
}

/* -- requests ---------------------------------------------------------------------------------- */

/* "1" is the first argument, "--name" an option; NULL if it was not given. */
static const char *given(const struct cli *cli, const char *from)
{
    return from[0] == '-' ? cli_option_value(cli, from + 2)
                          : cli_argument(cli, strtoul(from, NULL, 10) - 1);
}

static void put_queries(struct kg_buf *target, const struct cli *cli, struct kg_str names)
{
    while (names.length > 0) {
        char name[KEY_MAX];
        kg_str_copy(kg_str_cut(&names, '&'), name, sizeof(name));
        const char *value = cli_option_value(cli, name);
        if (value != NULL) /* a flag has no text */
            client_put_query(target, name, kg_str(value[0] != '\0' ? value : "true"));
    }
}

static void put_target(struct kg_buf *target, const struct cli *cli, const char *form)
{
    struct kg_str queries = kg_str(form), path = kg_str_cut(&queries, '?');
    while (path.length > 0) {
        char from[KEY_MAX];
        kg_buf_str(target, kg_str_cut(&path, '{'));
        struct kg_str name = kg_str_cut(&path, '}');
        if (name.length == 0)
            continue;
        kg_str_copy(name, from, sizeof(from));
        kg_buf_percent(target, kg_str(given(cli, from)));
    }
    put_queries(target, cli, queries);
}

static void put_list_member(struct kg_json_writer *json, const struct cli *cli,
                            const struct member *member)
{
    struct kg_str parts = kg_str(given(cli, member->from));
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

static void put_body(struct kg_buf *body, const struct cli *cli, const struct member *members)
{
    struct kg_json_writer json = kg_json_writer(body);
    kg_json_begin(&json, '{');
    for (const struct member *member = members; member->key != NULL; member++) {
        if (member->kind >= MEMBER_PARTS) {
            put_list_member(&json, cli, member);
            continue;
        }
        const char *value = given(cli, member->from);
        if (member->kind != MEMBER_TEXT)
            kg_json_named_bool(&json, member->key,
                               (value != NULL) == (member->kind == MEMBER_FLAG));
        else if (value != NULL)
            kg_json_named_text(&json, member->key, value);
    }
    kg_json_end(&json, '}');
}

/* A page's question, as it is sent. */
struct question {
    struct kg_buf target, body;
    struct client_request request;
};

static void question_free(struct question *question)
{
    kg_buf_free(&question->target);
    kg_buf_free(&question->body);
}

static void question_make(const struct cli *cli, const struct cli_page *page,
                          struct question *ret_question)
{
    put_target(&ret_question->target, cli, page->target);
    if (page->members != NULL)
        put_body(&ret_question->body, cli, page->members);
    else if (page->body != NULL)
        kg_buf_text(&ret_question->body, page->body);
    ret_question->request = (struct client_request){
        .method = page->method,
        .target = kg_buf_terminate(&ret_question->target),
        .body = kg_buf_view(&ret_question->body),
        .silence_ms = page->silence_ms,
    };
}

int page_show_with(const struct cli *cli, const struct cli_page *page, const char *target_or_null,
                   struct kg_str body)
{
    kg_auto(question_free) struct question question = {0};
    kg_auto(kg_buf_free) struct kg_buf answer = {0}, text = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    const struct row words[] = {{.words = page->words}, {0}};
    question_make(cli, page, &question);
    if (target_or_null != NULL)
        question.request.target = target_or_null;
    if (body.data != NULL)
        question.request.body = body;
    int code = cli_ask_object(cli, &question.request, &answer, &doc);
    if (code == CLI_DONE && cli->json)
        print_json(kg_buf_view(&answer));
    else if (code == CLI_DONE)
        rows_put(&text, cli, doc->root, page->rows ? page->rows : words, page->columns);
    print_out(&text);
    return code;
}

int page_show(const struct cli *cli, const struct cli_page *page)
{
    return page_show_with(cli, page, NULL, KG_STR_NULL);
}
