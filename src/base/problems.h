/*
 * What is wrong with a file that somebody wrote: all of it at once, each with its place, a stable
 * code and a sentence. Bounded, since the file may be hostile.
 */
#ifndef KAGED_PROBLEMS_H
#define KAGED_PROBLEMS_H

#include "base/json/json.h"

enum kg_severity { KG_SEVERITY_ERROR, KG_SEVERITY_WARNING };

/* One row of a table of problems is the whole truth about one of them. */
struct kg_problem_row {
    const char *code;
    enum kg_severity severity;
    const char *meaning;
};

struct kg_problem {
    const struct kg_problem_row *row;
    uint32_t line, column; /* 1-based; 0: of the file as a whole */
    char *message;         /* owned */
    char *hint;            /* owned; NULL if there is none */
};

#define KG_PROBLEMS_MAX 100

struct kg_problems {
    struct kg_problem *items; /* owned; by place, once they are sorted */
    size_t count;
    size_t errors; /* of them and of those that did not fit; the rest are warnings */
};

/* Adds a problem at a place, unless it is there; past KG_PROBLEMS_MAX it is only counted. */
void kg_problems_add(struct kg_problems *problems, const struct kg_problem_row *row, uint32_t line,
                     uint32_t column, const char *hint_or_null, const char *format, ...)
    KG_PRINTF(6, 7);
/* What an error says that reads "LINE:COLUMN: sentence"; the place has fields of its own here. */
void kg_problems_add_err(struct kg_problems *problems, const struct kg_problem_row *row,
                         const char *before, const struct kg_err *err);
void kg_problems_sort(struct kg_problems *problems);
void kg_problems_free(struct kg_problems *problems); /* also for kg_auto */
/*
 * The first error as "PATH:LINE:COLUMN: message [code]", and how many more there are; the hint is
 * its own, or `lister`, the command that lists them all.
 */
int kg_problems_fail(const struct kg_problems *problems, enum kg_code code, const char *path,
                     const char *lister, struct kg_err *err);

/* "PATH:LINE:COLUMN: error: message [code]" and a line for the hint, of each. */
void kg_problems_print(const struct kg_problems *problems, const char *path, struct kg_buf *out);
/* A JSON array of {code, severity, line, column, message, hint}. */
void kg_problems_json(const struct kg_problems *problems, struct kg_json_writer *json);

#endif
