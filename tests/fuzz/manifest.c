/*
 * Any bytes as a manifest: read, or refused with an error. Problems are bounded, sorted by place
 * and have words; a manifest that is read has no error among them, and all that its users rely on.
 */
#include "manifest/manifest.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static bool comes_after(const struct kg_problem *a, const struct kg_problem *b)
{
    return a->line > b->line || (a->line == b->line && a->column > b->column);
}

static void check_problems(const struct kg_problems *problems)
{
    size_t errors = 0;
    must(problems->count <= KG_PROBLEMS_MAX);
    for (size_t i = 0; i < problems->count; i++) {
        const struct kg_problem *problem = &problems->items[i];
        must(problem->message[0] != '\0');
        must(i == 0 || !comes_after(problem - 1, problem));
        errors += problem->row->severity == KG_SEVERITY_ERROR;
    }
    must(errors == problems->errors || problems->count == KG_PROBLEMS_MAX);
}

static void check_refused(const struct kg_problems *problems)
{
    struct kg_err err = {0};
    must(problems->errors > 0);
    must(manifest_problems_fail(problems, "x", &err) < 0 && err.code == KG_E_INVALID_MANIFEST);
}

static void check_manifest(const struct manifest *manifest)
{
    must(manifest_name_is_valid(kg_str(manifest->name)));
    must(manifest->version[0] != '\0' && manifest->package[0] != '\0');
    must(manifest->description[0] != '\0' && manifest->kaged_api == 1);
    must(manifest->command[0] != NULL && manifest->command[0][0] != '\0');
    must(kg_list_count(manifest->capabilities) == manifest->capability_set.count);
    must(kg_list_count(manifest->method_names) == manifest->method_count);
    for (size_t i = 0; i < manifest->method_count; i++)
        must(manifest_method_find(manifest, kg_str(manifest->method_names[i])) ==
             &manifest->methods[i]);
    for (size_t i = 0; i < manifest->knob_count; i++)
        must(manifest->knobs[i].field != NULL);
    must((manifest->config_schema == NULL) == (manifest->config_schema_node == NULL));
    must(!(manifest->roles & MANIFEST_COMPACTOR) || manifest->hooks[MANIFEST_PRE_COMPACT]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct kg_str text = {(const char *)data, size};
    struct manifest *manifest = manifest_read(text, &problems);
    check_problems(&problems);
    if (manifest == NULL)
        check_refused(&problems);
    else
        check_manifest(manifest);
    must((manifest != NULL) == (problems.errors == 0));
    manifest_free(manifest);
    return 0;
}
