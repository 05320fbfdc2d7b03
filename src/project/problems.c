/* The rows of problems.def, and how a project that has some is refused. */
#include "project/internal.h"

const struct kg_problem_row project_rows[PROJECT_CODE_COUNT] = {
#define PROJECT_PROBLEM(symbol, code, severity, meaning)                                           \
    [PROJECT_##symbol] = {code, KG_SEVERITY_##severity, meaning},
#include "project/problems.def"
#undef PROJECT_PROBLEM
};

int project_problems_fail(const struct kg_problems *problems, const char *path, struct kg_err *err)
{
    return kg_problems_fail(problems, KG_E_INVALID_PROJECT, path, "kaged project validate", err);
}
