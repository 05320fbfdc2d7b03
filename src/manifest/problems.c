/* The rows of problems.def, and how a manifest that has some is refused. */
#include "manifest/internal.h"

const struct kg_problem_row manifest_rows[MANIFEST_CODE_COUNT] = {
#define MANIFEST_PROBLEM(symbol, code, severity, meaning)                                          \
    [MANIFEST_##symbol] = {code, KG_SEVERITY_##severity, meaning},
#include "manifest/problems.def"
#undef MANIFEST_PROBLEM
};

int manifest_problems_fail(const struct kg_problems *problems, const char *path, struct kg_err *err)
{
    return kg_problems_fail(problems, KG_E_INVALID_MANIFEST, path, "kaged plugin validate", err);
}
