/* Edits of TOML: done as asked, or refused. */
#include "base/doc.h"
#include "edit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct edit_fuzz fuzz = {kg_toml_read, edit_toml_set, edit_toml_remove, true};
    return edit_fuzz(&fuzz, data, size);
}
