/*
 * The Python that packages run under, as their cages see it: /usr is that of a tree, if the
 * operator has named one, our runner is at a place of its own, and so are his wheels. No path of
 * the host is in it, so what was compiled for one machine serves on another.
 */
#include "package/internal.h"

#include "config/config.h"

#include <stdlib.h>

#define SDK_DIR    "/opt/kaged/cadence"
#define WHEELS_DIR "/opt/kaged/wheels"

const char *const package_environment[] = {
    "PATH=/usr/bin",
    "LANG=C.UTF-8",
    "HOME=/tmp",
    "TMPDIR=/tmp",
    "TZ=UTC",
    "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
    NULL,
};

void package_runtime_free(struct package_runtime *runtime)
{
    for (size_t i = 0; i < runtime->tree_count; i++)
        free((char *)runtime->trees[i].source);
    *runtime = (struct package_runtime){0};
}

int package_runtime_hint(struct kg_err *err)
{
    kg_auto(kg_free) char *share = config_share_dir();
    return kg_hint(err,
                   "make a tree, %s/python-runtime FOLDER, and name it in config.toml: "
                   "[catalog.runtimes.python] root = \"FOLDER\"",
                   share);
}

static int runtime_add_tree(struct package_runtime *runtime, const char *path, const char *folder,
                            const char *what, struct kg_err *err)
{
    char *real = cage_real_path(folder);
    if (real == NULL)
        return kg_fail(err, KG_E_INVALID_CONFIG, "%s, %s, does not exist", what, folder);
    runtime->trees[runtime->tree_count++] = (struct cage_tree){.path = path, .source = real};
    return 0;
}

int package_runtime_find(const struct config *config, struct package_runtime *ret_runtime,
                         struct kg_err *err)
{
    struct package_runtime runtime = {0};
    const char *root = config->catalog_runtimes_python_root;
    const char *wheels = config->catalog_runtimes_python_wheels;
    kg_auto(kg_free) char *share = config_share_dir();
    kg_auto(kg_free) char *sdk = kg_path_join(share, "cadence");
    kg_auto(kg_free) char *usr = kg_path_join(root, "usr");
    int result = 0;
    if (root[0] != '\0' &&
        (result = runtime_add_tree(&runtime, "/usr", usr, "the Python runtime's folder", err)) < 0)
        package_runtime_hint(err);
    if (result == 0)
        result = runtime_add_tree(&runtime, SDK_DIR, sdk, "what runs packages", err);
    if (result == 0 && wheels[0] != '\0')
        result = runtime_add_tree(&runtime, WHEELS_DIR, wheels, "the folder of wheels", err);
    runtime.has_wheels = wheels[0] != '\0';
    if (result < 0)
        package_runtime_free(&runtime);
    else
        *ret_runtime = runtime;
    return result;
}

char **package_runner_command(const char *mode)
{
    const char *const words[] = {"/usr/bin/python3", "-I", "-B", SDK_DIR, mode, NULL};
    return kg_list_copy(words);
}

char **package_command(const struct package_runtime *runtime, const char *version_or_null)
{
    char **words = package_runner_command(version_or_null ? "run" : "discover");
    kg_list_add(&words, kg_strdup(PACKAGE_DIR));
    if (version_or_null != NULL)
        kg_list_add(&words, kg_strdup(version_or_null));
    if (runtime->has_wheels)
        kg_list_add(&words, kg_strdup(WHEELS_DIR));
    return words;
}
