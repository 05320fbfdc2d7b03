/* The bounds of what is fetched, as config.toml has them. */
#include "store/store.h"

struct store_limits store_limits_of(const struct config *config)
{
    return (struct store_limits){
        .bytes_max = (uint64_t)config->limits_install_bytes,
        .file_bytes_max = (uint64_t)config->limits_install_file_bytes,
        .files_max = (uint32_t)config->limits_install_files,
        .depth_max = (uint32_t)config->limits_install_depth,
        .source_bytes = (uint64_t)config->limits_install_source_bytes,
        .timeout_ms = (uint64_t)config->limits_install_timeout_ms,
    };
}
