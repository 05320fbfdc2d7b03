/* A plugin store in a folder of its own, and plugins to put into it as if they had been fetched. */
#ifndef KAGED_TEST_STORE_WORLD_H
#define KAGED_TEST_STORE_WORLD_H

#include "store/store.h"

struct world {
    char root[64];
    struct config_paths paths;
    struct store *store;
};
int world_setup(void **state);
int world_teardown(void **state);

/* What to write into a plugin's folder. NULL: what is usual. */
struct world_plugin {
    const char *name, *version;
    const char *capabilities; /* as YAML, a flow list */
    const char *more;         /* more lines of the manifest */
    const char *program;      /* the text of run.sh */
    const char *from;         /* the folder that it comes from; NULL: the same for all */
};
/* Writes the plugin's folder into dir, which is made. */
void world_write(const char *dir, const struct world_plugin *plugin);
/* The same in plugins/NAME, as somebody does who copies it there by hand. */
void world_copy_in(struct world *world, const struct world_plugin *plugin);
/* An offer of it, as after a fetch; fails the test if there is none. */
struct store_offer *world_offer(struct world *world, const struct world_plugin *plugin);
/* The same; what store_offer_fetched answered. */
int world_try_offer(struct world *world, const struct world_plugin *plugin, const char *expect_name,
                    struct store_offer **ret_offer, struct kg_err *err);
/* Takes it with all that a yes can be. */
int world_try_take(struct world *world, struct store_offer *offer, struct kg_err *err);
/* Installs or upgrades it; fails the test if that does not work. */
void world_install(struct world *world, const struct world_plugin *plugin);

/* A path below the home; the next but three call overwrites it. */
const char *world_path(const struct world *world, const char *format, ...) KG_PRINTF(2, 3);
void world_write_file(const char *path, const char *text);
/* The whole of a file, or "" if there is none; owned. */
char *world_read_file(const char *path);
bool world_exists(const struct world *world, const char *below_home);
size_t world_count_names(const struct world *world, const char *below_home);

/* The same of a file of what is installed, or was put there by hand. */
const char *world_file(struct world *world, const char *plugin, const char *file);

/* All that must be true whatever happened: files and local.toml agree, nothing is left over. */
void world_assert_whole(struct world *world, const char *name);

#endif
