/*
 * approve HOME NAME...: says yes to folders that a test copied into the store, whatever they ask
 * for. One that is no plugin is passed over: the test is about that, then.
 */
#include "store/store.h"

#include <stdio.h>
#include <unistd.h>

static int approve(struct store *store, const char *name, struct kg_err *err)
{
    struct store_offer *offer = NULL;
    int result = store_offer_installed(store, name, &offer, err);
    if (result < 0)
        return result;
    const struct store_consent consent = {
        .hash = offer->hash, .allow_new_capabilities = true, .local = true};
    result = store_take(store, offer, &consent, NULL, err);
    if (result < 0)
        store_offer_free(offer);
    return result;
}

int main(int argc, char **argv)
{
    struct kg_err err = {0};
    struct config_paths paths;
    if (argc < 2 || config_paths_find(argv[1], &paths, &err) < 0) {
        fprintf(stderr, "approve: %s\n", argc < 2 ? "approve HOME NAME..." : err.message);
        return 2;
    }
    struct config *config = config_load(paths.config_file, &err);
    struct config *defaults = config_read(KG_STR(""), &err);
    const struct config *used = config != NULL ? config : defaults;
    struct cage_owner owner = cage_owner_self();
    if (geteuid() == 0 && used->daemon_user[0] != '\0')
        (void)cage_owner_find(used->daemon_user, &owner, &err);
    const struct store_parts parts = {
        .owner = &owner,
        .paths = &paths,
        .plugins_dir = used->plugins_dir[0] != '\0' ? used->plugins_dir : NULL,
        .limits = store_limits_of(used),
    };
    struct store *store = store_new(&parts);
    for (int i = 2; i < argc; i++)
        if (approve(store, argv[i], &err) < 0)
            fprintf(stderr, "approve %s: %s\n", argv[i], err.message);
    store_free(store);
    config_free(config);
    config_free(defaults);
    config_paths_free(&paths);
    return 0;
}
