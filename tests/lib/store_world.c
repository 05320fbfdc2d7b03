#include "store_world.h"

#include "config/local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const struct store_limits limits = {
    .bytes_max = 1 << 20,
    .file_bytes_max = 1 << 20,
    .files_max = 1000,
    .depth_max = 16,
    .source_bytes = 1 << 20,
    .timeout_ms = 10000,
};

int world_setup(void **state)
{
    struct world *world = kg_alloc(sizeof(*world));
    /* In memory where that is possible: each change waits for the disk many times. */
    snprintf(world->root, sizeof(world->root), "%s/kg-store-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    kg_log_set(KG_ERROR_LEVEL, KG_LOG_TEXT);
    struct kg_err err = {0};
    if (mkdtemp(world->root) == NULL || config_paths_find(world->root, &world->paths, &err) < 0 ||
        config_paths_make(&world->paths, geteuid(), &err) < 0)
        return -1;
    const struct store_parts parts = {.paths = &world->paths, .limits = limits};
    world->store = store_new(&parts);
    *state = world;
    return 0;
}

int world_teardown(void **state)
{
    struct world *world = *state;
    kg_auto(kg_free) char *command = kg_format("rm -rf %s", world->root);
    store_free(world->store);
    config_paths_free(&world->paths);
    free(world);
    return system(command);
}

/* -- files ------------------------------------------------------------------------------------- */

const char *world_path(const struct world *world, const char *format, ...)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % KG_COUNT(paths)];
    int length = snprintf(path, sizeof(paths[0]), "%s/", world->root);
    va_list args;
    va_start(args, format);
    vsnprintf(path + length, sizeof(paths[0]) - (size_t)length, format, args);
    va_end(args);
    return path;
}

const char *world_file(struct world *world, const char *plugin, const char *file)
{
    kg_auto(kg_free) char *place = store_place(world->store, plugin);
    assert_true(kg_path_within(place, world->root));
    return world_path(world, "%s%s%s", place + strlen(world->root) + 1, file[0] ? "/" : "", file);
}

void world_write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

char *world_read_file(const char *path)
{
    struct kg_buf text = {0};
    if (kg_read_file(path, 1 << 20, &text, NULL) < 0)
        return kg_strdup("");
    return kg_buf_terminate(&text);
}

bool world_exists(const struct world *world, const char *below_home)
{
    struct stat there;
    return lstat(world_path(world, "%s", below_home), &there) == 0;
}

size_t world_count_names(const struct world *world, const char *below_home)
{
    DIR *dir = opendir(world_path(world, "%s", below_home));
    size_t count = 0;
    if (dir == NULL)
        return 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return count;
}

/* -- plugins ----------------------------------------------------------------------------------- */

void world_write(const char *dir, const struct world_plugin *plugin)
{
    kg_auto(kg_free) char *manifest = kg_format("%s/" MANIFEST_FILE, dir);
    kg_auto(kg_free) char *program = kg_format("%s/run.sh", dir);
    kg_auto(kg_free) char *text =
        kg_format("name: %s\nversion: %s\nkaged_api: 1\ndescription: a plugin of a test\n"
                  "command: [\"./run.sh\"]\ncapabilities: %s\n%s",
                  plugin->name, plugin->version ? plugin->version : "1.0.0",
                  plugin->capabilities ? plugin->capabilities : "[]",
                  plugin->more ? plugin->more : "methods: [a.b]\n");
    assert_int_equal(mkdir(dir, 0755), 0);
    world_write_file(manifest, text);
    world_write_file(program, plugin->program ? plugin->program : "#!/bin/sh\n");
    assert_int_equal(chmod(program, 0755), 0);
}

void world_copy_in(struct world *world, const struct world_plugin *plugin)
{
    world_write(world_path(world, "plugins/%s", plugin->name), plugin);
}

static struct store_fetched *fetch(struct world *world, const struct world_plugin *plugin)
{
    struct kg_err err = {0};
    struct store_fetched *fetched = kg_alloc(sizeof(*fetched));
    if (store_quarantine_new(world->store, &fetched->quarantine, &err) < 0)
        fail_msg("%s", err.message);
    kg_auto(kg_free) char *tree = kg_format("%s/tree", fetched->quarantine->path);
    world_write(tree, plugin);
    kg_auto(kg_close) int fd = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store_tree_read(fd, &limits, &fetched->tree, &err) < 0)
        fail_msg("%s", err.message);
    return fetched;
}

int world_try_offer(struct world *world, const struct world_plugin *plugin, const char *expect_name,
                    struct store_offer **ret_offer, struct kg_err *err)
{
    struct store_source source = {
        .kind = STORE_FOLDER,
        .text = (char *)"./somewhere",
        .place = (char *)(plugin->from ? plugin->from : "/home/ann/somewhere"),
    };
    return store_offer_fetched(world->store, &source, fetch(world, plugin), expect_name, ret_offer,
                               err);
}

struct store_offer *world_offer(struct world *world, const struct world_plugin *plugin)
{
    struct kg_err err = {0};
    struct store_offer *offer = NULL;
    if (world_try_offer(world, plugin, NULL, &offer, &err) < 0)
        fail_msg("%s", err.message);
    return offer;
}

int world_try_take(struct world *world, struct store_offer *offer, struct kg_err *err)
{
    char hash[STORE_HASH_TEXT];
    memcpy(hash, offer->hash, sizeof(hash));
    const struct store_consent consent = {hash, .allow_new_capabilities = true, .local = true};
    return store_take(world->store, offer, &consent, NULL, err);
}

void world_install(struct world *world, const struct world_plugin *plugin)
{
    struct kg_err err = {0};
    if (world_try_take(world, world_offer(world, plugin), &err) < 0)
        fail_msg("%s", err.message);
}

/* -- what must be true ------------------------------------------------------------------------- */

void world_assert_whole(struct world *world, const char *name)
{
    struct kg_err err = {0};
    struct local *local = local_load(world->paths.local_file, LOCAL_LEAVE, &err);
    assert_non_null(local);
    const struct local_plugin *record = local_plugin_find(local, kg_str(name));
    kg_auto(kg_free) char *folder = kg_format("plugins/%s", name);
    if (record != NULL && record->installed.length > 0) {
        kg_auto(kg_problems_free) struct kg_problems problems = {0};
        kg_auto(kg_free) char *place = store_place(world->store, name);
        struct manifest *manifest = manifest_load(place, &problems);
        assert_non_null(manifest);
        assert_true(kg_str_is(record->installed, manifest->version));
        manifest_free(manifest);
        if (store_check_full(world->store, name, &err) < 0)
            fail_msg("%s", err.message);
        assert_int_equal(store_check_quick(world->store, name, &err), 0);
        assert_int_equal(world_count_names(world, "plugins/.store/versions"), 1);
    } else {
        assert_false(world_exists(world, folder));
        assert_int_equal(world_count_names(world, "plugins/.store/versions"), 0);
    }
    local_free(local);
    assert_false(world_exists(world, "plugins/.store/journal"));
    assert_int_equal(world_count_names(world, "plugins/.store/quarantine"), 0);
}
