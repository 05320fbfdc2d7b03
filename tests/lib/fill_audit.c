/* fill-audit HOME COUNT: as many events in the audit log of a home whose daemon does not run. */
#include "audit/audit.h"
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct config_paths paths;
    struct kg_err err = {0};
    if (argc != 3 || config_paths_find(argv[1], &paths, &err) < 0 ||
        config_paths_make(&paths, geteuid(), &err) < 0) {
        fprintf(stderr, "fill-audit HOME COUNT: %s\n", err.message);
        return 1;
    }
    const struct audit_options options = {.dir = paths.audit_dir,
                                          .state_db = paths.state_db,
                                          .key_file = paths.audit_key,
                                          .rotate_bytes = (uint64_t)64 << 20,
                                          .keep = 16,
                                          .seal_interval_ms = 1000,
                                          .queue_bytes = (size_t)1 << 30};
    struct loop *loop = loop_new();
    struct audit *audit = audit_open(loop, &options, &err);
    if (audit == NULL) {
        fprintf(stderr, "fill-audit: %s\n", err.message);
        return 1;
    }
    for (long i = 0; i < strtol(argv[2], NULL, 10); i++)
        audit_emit(audit, AUDIT_PLUGIN_STOPPED, KG_STR_NULL, AUDIT_V_TEXT("filled"),
                   AUDIT_V_INT(i));
    audit_close(audit);
    loop_free(loop);
    config_paths_free(&paths);
    return 0;
}
