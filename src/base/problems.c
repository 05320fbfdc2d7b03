/* The list of what is wrong with a file: bounded, sorted by place, owned by the caller. */
#include "base/problems.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_error(const struct kg_problem *problem)
{
    return problem->row->severity == KG_SEVERITY_ERROR;
}

static const char *severity_of(const struct kg_problem *problem)
{
    return is_error(problem) ? "error" : "warning";
}

/* -- adding ------------------------------------------------------------------------------------ */

static void problem_clear(struct kg_problem *problem)
{
    free(problem->message);
    free(problem->hint);
}

/* The list is full: an error takes the place of a warning, so that none hides behind them. */
static struct kg_problem *base_problems_make_room(struct kg_problems *problems)
{
    for (size_t i = problems->count; i > 0; i--) {
        struct kg_problem *problem = &problems->items[i - 1];
        if (is_error(problem))
            continue;
        problem_clear(problem);
        return problem;
    }
    return NULL;
}

static struct kg_problem *next_problem(struct kg_problems *problems, enum kg_severity severity)
{
    if (problems->items == NULL)
        problems->items = kg_alloc_array(KG_PROBLEMS_MAX, sizeof(*problems->items));
    if (problems->count < KG_PROBLEMS_MAX)
        return &problems->items[problems->count++];
    return severity == KG_SEVERITY_ERROR ? base_problems_make_room(problems) : NULL;
}

static bool base_problems_is_listed(const struct kg_problems *problems,
                                    const struct kg_problem *new)
{
    for (size_t i = 0; i < problems->count; i++) {
        const struct kg_problem *problem = &problems->items[i];
        if (problem->row == new->row && problem->line == new->line &&
            problem->column == new->column &&strcmp(problem->message, new->message) == 0)
            return true;
    }
    return false;
}

void kg_problems_add(struct kg_problems *problems, const struct kg_problem_row *row, uint32_t line,
                     uint32_t column, const char *hint_or_null, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    struct kg_problem problem = {.row = row, .line = line, .column = column, .message = message};
    if (base_problems_is_listed(problems, &problem))
        return;
    problems->errors += row->severity == KG_SEVERITY_ERROR;
    struct kg_problem *place = next_problem(problems, row->severity);
    if (place == NULL)
        return;
    problem.message = kg_strdup(message);
    problem.hint = hint_or_null && hint_or_null[0] ? kg_strdup(hint_or_null) : NULL;
    *place = problem;
}

void kg_problems_add_err(struct kg_problems *problems, const struct kg_problem_row *row,
                         const char *before, const struct kg_err *err)
{
    unsigned line = 0, column = 0;
    int used = 0;
    if (sscanf(err->message, "%u:%u: %n", &line, &column, &used) < 2)
        used = 0;
    kg_problems_add(problems, row, line, column, err->hint, "%s%s", before, err->message + used);
}

/* Rows of one table are compared by where they stand in it: the same order in every run. */
static int base_problems_compare(const void *left, const void *right)
{
    const struct kg_problem *a = left, *b = right;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->column != b->column)
        return a->column < b->column ? -1 : 1;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return strcmp(a->message, b->message);
}

void kg_problems_sort(struct kg_problems *problems)
{
    if (problems->count > 1)
        qsort(problems->items, problems->count, sizeof(*problems->items), base_problems_compare);
}

void kg_problems_free(struct kg_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++)
        problem_clear(&problems->items[i]);
    free(problems->items);
    *problems = (struct kg_problems){0};
}

/* -- telling ----------------------------------------------------------------------------------- */

int kg_problems_fail(const struct kg_problems *problems, enum kg_code code, const char *path,
                     const char *lister, struct kg_err *err)
{
    const struct kg_problem *first = problems->items;
    while (!is_error(first))
        first++;
    char more[64] = "";
    if (problems->errors > 1)
        snprintf(more, sizeof(more), " (and %zu more)", problems->errors - 1);
    kg_fail(err, code, "%s:%u:%u: %s [%s]%s", path, first->line, first->column, first->message,
            first->row->code, more);
    if (first->hint != NULL)
        kg_hint(err, "%s", first->hint);
    else if (problems->errors > 1)
        kg_hint(err, "%s lists them all", lister);
    return -EINVAL;
}

static void base_problems_put_problem(struct kg_buf *out, const char *path,
                                      const struct kg_problem *problem)
{
    kg_buf_escaped(out, kg_str(path));
    kg_buf_printf(out, ":%u:%u: %s: ", problem->line, problem->column, severity_of(problem));
    kg_buf_escaped(out, kg_str(problem->message));
    kg_buf_printf(out, " [%s]\n", problem->row->code);
    if (problem->hint == NULL)
        return;
    kg_buf_text(out, "    ");
    kg_buf_escaped(out, kg_str(problem->hint));
    kg_buf_char(out, '\n');
}

void kg_problems_print(const struct kg_problems *problems, const char *path, struct kg_buf *out)
{
    for (size_t i = 0; i < problems->count; i++)
        base_problems_put_problem(out, path, &problems->items[i]);
}

static void base_problems_put_json(struct kg_json_writer *json, const struct kg_problem *problem)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "code", problem->row->code);
    kg_json_named_text(json, "severity", severity_of(problem));
    kg_json_named_int(json, "line", problem->line);
    kg_json_named_int(json, "column", problem->column);
    kg_json_named_text(json, "message", problem->message);
    kg_json_named_text(json, "hint", problem->hint);
    kg_json_end(json, '}');
}

void kg_problems_json(const struct kg_problems *problems, struct kg_json_writer *json)
{
    kg_json_begin(json, '[');
    for (size_t i = 0; i < problems->count; i++)
        base_problems_put_json(json, &problems->items[i]);
    kg_json_end(json, ']');
}
