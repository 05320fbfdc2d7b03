/*
 * approve HOME NAME...: says yes to folders that a test copied into the store, whatever they ask
 * for, as the user of the daemon. One that is no plugin is passed over: the test is about that.
 */
#include "cage/cage.h"
#include "cli/cli.h"
#include "store/store.h"

#include <stdio.h>

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

static void approve_all(const struct config_paths *paths, const struct config *config,
                        char *const *names)
{
    struct kg_err err = {0};
    const struct store_parts parts = {
        .paths = paths,
        .plugins_dir = config->plugins_dir[0] != '\0' ? config->plugins_dir : NULL,
        .limits = store_limits_of(config),
    };
    struct store *store = store_new(&parts);
    for (size_t i = 0; names[i] != NULL; i++)
        if (approve(store, names[i], &err) < 0)
            fprintf(stderr, "approve %s: %s\n", names[i], err.message);
    store_free(store);
}

int main(int argc, char **argv)
{
    struct kg_err err = {0};
    struct config_paths paths;
    struct cage_owner owner;
    if (argc < 2 || config_paths_find(argv[1], &paths, &err) < 0) {
        fprintf(stderr, "approve: %s\n", argc < 2 ? "approve HOME NAME..." : err.message);
        return 2;
    }
    /* Without a configuration that can be read there will be no daemon either. */
    struct config *config = config_load(paths.config_file, &err);
    if (config != NULL && user_find(config, &owner, &err) == 0 &&
        config_paths_make(&paths, owner.uid, &err) == 0 &&
        user_give_folders(&paths, &owner, &err) == 0 && user_become(&owner, &err) == 0)
        approve_all(&paths, config, argv + 2);
    config_free(config);
    config_paths_free(&paths);
    return 0;
}
