/*
 * All that people read goes through here. What came from a plugin is escaped before it can reach a
 * terminal; colour is for terminals only, and NO_COLOR turns it off.
 */
#include "cli/cli.h"

#include "base/problems.h"

#include <libsmartcols.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

/* -- width ------------------------------------------------------------------------------------- */

size_t print_columns(void)
{
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return SIZE_MAX;
    return size.ws_col;
}

void print_cut(struct kg_buf *out, size_t from, size_t columns)
{
    size_t used = 0, keep = from, length;
    for (size_t at = from; at < out->length; at += length) {
        int width = wcwidth((wchar_t)kg_utf8_decode(out->data + at, &length));
        used += width < 0 ? 1 : (size_t)width;
        if (used + 3 <= columns)
            keep = at + length;
    }
    if (used <= columns)
        return;
    out->length = keep;
    kg_buf_text(out, "...");
}

/* -- advice ------------------------------------------------------------------------------------ */

static const char *self = "kaged";

void print_speak_as(const char *how)
{
    self = how;
}

const char *print_self(void)
{
    return self;
}

/* Whether a command of kaged that works in a home stands at the start of the text. */
static bool is_command(struct kg_str text)
{
    for (size_t i = 0; i < cli_command_count; i++) {
        size_t length = strcspn(cli_commands[i].words, " ");
        if (cli_commands[i].needs != CLI_NOTHING && text.length >= length &&
            memcmp(text.data, cli_commands[i].words, length) == 0 &&
            (text.length == length || strchr(" ,;:.)", text.data[length]) != NULL))
            return true;
    }
    return false;
}

void print_put_hint(struct kg_buf *out, struct kg_str hint)
{
    static const char name[] = "kaged ";
    size_t run = 0;
    for (size_t i = 0; i < hint.length; i++) {
        struct kg_str rest = {hint.data + i, hint.length - i};
        if ((i > 0 && hint.data[i - 1] != ' ') || !kg_str_starts(rest, name))
            continue;
        struct kg_str words = {rest.data + strlen(name), rest.length - strlen(name)};
        if (!is_command(words))
            continue;
        kg_buf_escaped(out, (struct kg_str){hint.data + run, i - run});
        kg_buf_text(out, self);
        run = i + strlen(name) - 1;
    }
    kg_buf_escaped(out, (struct kg_str){hint.data + run, hint.length - run});
}

/* -- members of an answer ---------------------------------------------------------------------- */

void print_value(struct kg_buf *out, const struct kg_node *value)
{
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    if (value != NULL && value->type == KG_STRING) {
        kg_buf_escaped(out, value->text);
    } else if (value != NULL) {
        kg_json_put_node(&json, value);
        kg_buf_json_escaped(out, kg_buf_view(&json));
    }
}

void print_fact(struct kg_buf *out, int columns, const char *label, struct kg_str text)
{
    if (text.length == 0)
        return;
    kg_buf_printf(out, "  %-*s", columns, label);
    print_put_hint(out, text);
    kg_buf_char(out, '\n');
}

/* -- time -------------------------------------------------------------------------------------- */

void print_duration(struct kg_buf *out, int64_t ms)
{
    static const struct {
        int64_t seconds;
        const char *unit;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    int64_t seconds = ms < 0 ? 0 : ms / 1000;
    size_t i = 0;
    while (i + 1 < KG_COUNT(units) && seconds < units[i].seconds)
        i++;
    kg_buf_printf(out, "%lld %s", (long long)(seconds / units[i].seconds), units[i].unit);
    int64_t rest = seconds % units[i].seconds;
    /* Two units are exact enough; seconds matter only within the first minutes. */
    if (i < 2 && rest >= units[i + 1].seconds)
        kg_buf_printf(out, " %lld %s", (long long)(rest / units[i + 1].seconds), units[i + 1].unit);
}

void print_age(struct kg_buf *out, int64_t ms)
{
    static const struct {
        int64_t seconds;
        char unit;
    } units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    int64_t seconds = ms < 0 ? 0 : ms / 1000;
    size_t i = 0;
    while (i + 1 < KG_COUNT(units) && seconds < units[i].seconds)
        i++;
    kg_buf_printf(out, "%lld%c", (long long)(seconds / units[i].seconds), units[i].unit);
}

void print_when(struct kg_buf *out, int64_t wall_ms)
{
    char text[KG_TIME_TEXT];
    kg_time_format(wall_ms, text);
    kg_buf_printf(out, "%s (", text);
    print_duration(out, kg_wall_ms() - wall_ms);
    kg_buf_text(out, " ago)");
}

/* -- figures ----------------------------------------------------------------------------------- */

/* The number in the largest unit that leaves at least 1 of it, with a decimal where it is short. */
static void put_scaled(struct kg_buf *out, int64_t number, int64_t base, const char *const *units)
{
    double value = (double)(number < 0 ? 0 : number);
    while (value >= (double)base && units[1] != NULL) {
        value /= (double)base;
        units++;
    }
    bool whole = value >= 99.95 || value == (double)(int64_t)value;
    kg_buf_printf(out, whole ? "%.0f%s" : "%.1f%s", value, *units);
}

void print_short(struct kg_buf *out, int64_t number)
{
    static const char *const units[] = {"", "k", "M", "G", NULL};
    put_scaled(out, number, 1000, units);
}

void print_bytes(struct kg_buf *out, int64_t bytes)
{
    static const char *const units[] = {"B", "K", "M", "G", "T", NULL};
    put_scaled(out, bytes, 1024, units);
}

void print_latency(struct kg_buf *out, int64_t us)
{
    static const char *const units[] = {"us", "ms", "s", NULL};
    put_scaled(out, us, 1000, units);
}

/* -- out --------------------------------------------------------------------------------------- */

void print_out(const struct kg_buf *text)
{
    if (text->length > 0)
        fwrite(text->data, 1, text->length, stdout);
}

void print_line(struct kg_str line)
{
    if (line.length > 0)
        fwrite(line.data, 1, line.length, stdout);
    putchar('\n');
}

void print_text(struct kg_str text)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_buf_escaped(&line, text);
    print_line(kg_buf_view(&line));
}

void print_put_lines(struct kg_buf *out, const char *indent, const struct kg_node *lines)
{
    for (uint32_t i = 0; i < lines->count; i++) {
        kg_buf_text(out, indent);
        kg_buf_escaped(out, lines->items[i].type == KG_STRING ? lines->items[i].text : KG_STR(""));
        kg_buf_char(out, '\n');
    }
}

void print_put_text(struct kg_buf *out, struct kg_str text, const char *indent)
{
    size_t run = 0; /* what came since then was not put yet */
    kg_buf_text(out, indent);
    for (size_t i = 0; i < text.length; i++) {
        if (text.data[i] != '\n' && text.data[i] != '\t')
            continue;
        kg_buf_escaped(out, (struct kg_str){text.data + run, i - run});
        kg_buf_char(out, text.data[i]);
        if (text.data[i] == '\n')
            kg_buf_text(out, indent);
        run = i + 1;
    }
    kg_buf_escaped(out, (struct kg_str){text.data + run, text.length - run});
}

void print_json(struct kg_str json)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_json_escaped(&text, json);
    print_line(kg_buf_view(&text));
}

void print_put_problem(struct kg_buf *out, struct kg_str message, struct kg_str hint)
{
    kg_buf_text(out, "kaged: ");
    kg_buf_escaped(out, message);
    kg_buf_char(out, '\n');
    if (hint.length == 0)
        return;
    kg_buf_text(out, "hint: ");
    print_put_hint(out, hint);
    kg_buf_char(out, '\n');
}

int print_problem(int exit_code, struct kg_str message, struct kg_str hint)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    print_put_problem(&text, message, hint);
    fflush(stdout); /* so that both read in order on one terminal */
    fwrite(text.data, 1, text.length, stderr);
    return exit_code;
}

void print_checked(struct kg_buf *out, const char *path, const struct kg_problems *problems,
                   const char *valid_or_null)
{
    kg_problems_print(problems, path, out);
    kg_buf_escaped(out, kg_str(path));
    if (valid_or_null != NULL)
        kg_buf_printf(out, ": %s is valid\n", valid_or_null);
    else
        kg_buf_printf(out, ": %zu %s\n", problems->errors,
                      problems->errors == 1 ? "error" : "errors");
}

/* -- tables ------------------------------------------------------------------------------------ */

struct table {
    struct libscols_table *columns;
    struct libscols_line *line;
    size_t count, next;
};

bool print_is_screen(void)
{
    const char *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && terminal != NULL && strcmp(terminal, "dumb") != 0;
}

bool print_colors(void)
{
    const char *no_color = getenv("NO_COLOR");
    return print_is_screen() && (no_color == NULL || no_color[0] == '\0');
}

/* libsmartcols fails for lack of memory only, which ends the program. */
static void print_need(bool there)
{
    if (there)
        return;
    fputs("kaged: out of memory\n", stderr);
    abort();
}

struct table *table_new(const char *const *headings)
{
    struct table *table = kg_alloc(sizeof(*table));
    table->columns = scols_new_table();
    print_need(table->columns != NULL);
    scols_table_enable_colors(table->columns, print_colors());
    /* The reader of a pipe cuts as it likes; without this, a table has the width of $COLUMNS or 80.
     */
    if (print_columns() == SIZE_MAX)
        scols_table_set_termforce(table->columns, SCOLS_TERMFORCE_NEVER);
    /* The cells are escaped here; libsmartcols would escape the backslashes once more. */
    scols_table_enable_noencoding(table->columns, 1);
    for (; headings[table->count] != NULL; table->count++) {
        bool last = headings[table->count + 1] == NULL;
        kg_auto(kg_buf_free) struct kg_buf shown = {0};
        kg_buf_escaped(&shown, kg_str(headings[table->count])); /* a plugin may have chosen it */
        print_need(scols_table_new_column(table->columns, kg_buf_terminate(&shown), 0,
                                          last ? SCOLS_FL_TRUNC : 0) != NULL);
    }
    return table;
}

void table_cell(struct table *table, struct kg_str text, const char *color_or_null)
{
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    kg_buf_escaped(&shown, text.length > 0 ? text : KG_STR("-"));
    if (table->next == 0)
        table->line = scols_table_new_line(table->columns, NULL);
    print_need(table->line != NULL);
    print_need(scols_line_set_data(table->line, table->next, kg_buf_terminate(&shown)) == 0);
    if (color_or_null != NULL)
        scols_cell_set_color(scols_line_get_cell(table->line, table->next), color_or_null);
    table->next = (table->next + 1) % table->count;
}

void table_print(struct table *table)
{
    fflush(stdout);
    scols_print_table(table->columns);
    scols_unref_table(table->columns);
    free(table);
}
