/* Edits of YAML: done as asked, or refused. */
#include "base/doc.h"
#include "edit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct edit_fuzz fuzz = {kg_yaml_read, edit_yaml_set, edit_yaml_remove, false};
    return edit_fuzz(&fuzz, data, size);
}
