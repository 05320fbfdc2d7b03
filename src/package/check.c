/* What a package says that it is, against the schema that is published. */
#include "package/internal.h"

#include "base/problems.h"

static const char package_schema[] =
#include "package-schema.h"
    ;

static const struct kg_problem_row misfit = {"package_misfit", KG_SEVERITY_ERROR,
                                             "The description of a package cannot be used."};
static const struct schema_code codes[] = {{NULL, NULL, &misfit, NULL, NULL, NULL}};
static struct schema_published published = {
    .json = {package_schema, sizeof(package_schema) - 1},
    .what = "a package",
    .codes = codes,
};

/* A tool whose schema nobody can check arguments against would take anything. */
static int check_package_tools(const struct kg_node *tools, struct kg_err *err)
{
    const struct schema_options options = {.draft = SCHEMA_DRAFT_2020_12, .formats = true};
    for (uint32_t i = 0; i < tools->count; i++) {
        struct schema *schema =
            schema_compile(kg_node_get(&tools->items[i], "parameters"), &options, err);
        if (schema == NULL)
            return kg_wrap(err, -1, "tool %.*s: its schema",
                           KG_STR_CUT(kg_node_text(&tools->items[i], "name"), KG_CUT_NAME));
        schema_free(schema);
    }
    return 0;
}

/* Values go by key, so there is one of each. */
static int check_package_settings(const struct kg_node *settings, struct kg_err *err)
{
    for (uint32_t i = 0; i < settings->count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (kg_str_equal(kg_node_text(&settings->items[i], "key"),
                             kg_node_text(&settings->items[k], "key")))
                return kg_fail(err, KG_E_INVALID_SOURCE, "there are two settings %.*s",
                               KG_STR_CUT(kg_node_text(&settings->items[i], "key"), KG_CUT_WORD));
    return 0;
}

int package_check(const struct kg_node *package, struct kg_err *err)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    schema_published_check(&published, package, &problems);
    if (problems.errors > 0)
        return kg_fail(err, KG_E_INVALID_SOURCE, "the package's description: %s",
                       problems.items[0].message);
    if (check_package_tools(kg_node_list(package, "tools"), err) == 0 &&
        check_package_settings(kg_node_list(package, "settings_schema"), err) == 0)
        return 0;
    err->code = KG_E_INVALID_SOURCE;
    return -1;
}
