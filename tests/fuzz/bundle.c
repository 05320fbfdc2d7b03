/*
 * Any bytes as the manifest.json of a bundle: refused with words, or a manifest that can be read as
 * YAML, of a name that a plugin may have, twice the same.
 */
#include "base/doc.h"
#include "manifest/manifest.h"
#include "store/complete.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static bool make(struct kg_str text, struct kg_buf *ret_manifest)
{
    struct kg_err err = {0};
    char **remarks = NULL;
    int result = bundle_manifest(text, ret_manifest, &remarks, &err);
    must((result == 0) == (err.code == KG_OK) && (result == 0 || err.message[0] != '\0'));
    kg_list_free(remarks);
    return result == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kg_auto(kg_buf_free) struct kg_buf once = {0}, again = {0};
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct kg_str text = {(const char *)data, size};
    if (!make(text, &once))
        return 0;
    must(make(text, &again) && kg_str_equal(kg_buf_view(&once), kg_buf_view(&again)));
    struct manifest *manifest = manifest_read(kg_buf_view(&once), &problems);
    must(manifest == NULL || (manifest->is_mcp && manifest_name_is_valid(kg_str(manifest->name))));
    manifest_free(manifest);
    return 0;
}
