/* Any bytes as TOML; see reader.h. */
#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_reader(kg_toml_read, data, size);
}
