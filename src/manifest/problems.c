/* The list of what is wrong with a manifest: bounded, sorted by place, owned by who asked for it.
 */
#include "manifest/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const struct manifest_code_row rows[MANIFEST_CODE_COUNT] = {
#define MANIFEST_PROBLEM(symbol, code, severity, meaning)                                          \
    [MANIFEST_##symbol] = {code, MANIFEST_SEVERITY_##severity, meaning},
#include "manifest/problems.def"
#undef MANIFEST_PROBLEM
};

const struct manifest_code_row *manifest_code_row(enum manifest_code code)
{
    return &rows[code];
}

/* The list is full: an error takes the place of a warning, so that none hides behind them. */
static struct manifest_problem *make_room(struct manifest_problems *problems)
{
    for (size_t i = problems->count; i > 0; i--) {
        struct manifest_problem *problem = &problems->items[i - 1];
        if (rows[problem->code].severity == MANIFEST_SEVERITY_ERROR)
            continue;
        free(problem->message);
        free(problem->hint);
        return problem;
    }
    return NULL;
}

static struct manifest_problem *next_problem(struct manifest_problems *problems, bool is_error)
{
    if (problems->items == NULL)
        problems->items = kg_alloc_array(MANIFEST_PROBLEMS_MAX, sizeof(*problems->items));
    if (problems->count < MANIFEST_PROBLEMS_MAX)
        return &problems->items[problems->count++];
    return is_error ? make_room(problems) : NULL;
}

void problems_add(struct manifest_problems *problems, enum manifest_code code, uint32_t line,
                  uint32_t column, const char *hint_or_null, const char *format, ...)
{
    bool is_error = rows[code].severity == MANIFEST_SEVERITY_ERROR;
    problems->errors += is_error;
    struct manifest_problem *problem = next_problem(problems, is_error);
    if (problem == NULL)
        return;
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    *problem = (struct manifest_problem){
        .code = code,
        .line = line,
        .column = column,
        .message = kg_strdup(message),
        .hint = hint_or_null && hint_or_null[0] ? kg_strdup(hint_or_null) : NULL,
    };
}

void problems_add_err(struct manifest_problems *problems, enum manifest_code code,
                      const char *before, const struct kg_err *err)
{
    unsigned line = 0, column = 0;
    int used = 0;
    if (sscanf(err->message, "%u:%u: %n", &line, &column, &used) < 2)
        used = 0;
    problems_add(problems, code, line, column, err->hint, "%s%s", before, err->message + used);
}

static int compare(const void *left, const void *right)
{
    const struct manifest_problem *a = left, *b = right;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->column != b->column)
        return a->column < b->column ? -1 : 1;
    return (int)a->code - (int)b->code;
}

void problems_sort(struct manifest_problems *problems)
{
    if (problems->count > 1)
        qsort(problems->items, problems->count, sizeof(*problems->items), compare);
}

void manifest_problems_free(struct manifest_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++) {
        free(problems->items[i].message);
        free(problems->items[i].hint);
    }
    free(problems->items);
    *problems = (struct manifest_problems){0};
}

int manifest_problems_fail(const struct manifest_problems *problems, const char *path,
                           struct kg_err *err)
{
    const struct manifest_problem *first = problems->items;
    while (rows[first->code].severity != MANIFEST_SEVERITY_ERROR)
        first++;
    char more[64] = "";
    if (problems->errors > 1)
        snprintf(more, sizeof(more), " (and %zu more)", problems->errors - 1);
    kg_fail(err, KG_E_INVALID_MANIFEST, "%s:%u:%u: %s [%s]%s", path, first->line, first->column,
            first->message, rows[first->code].code, more);
    if (first->hint != NULL)
        kg_hint(err, "%s", first->hint);
    else if (problems->errors > 1)
        kg_hint(err, "kaged plugin validate lists them all");
    return -EINVAL;
}
