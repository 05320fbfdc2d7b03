/* A manifest for a server that has none. */
#include "store/server.h"

#include "folder.h"
#include "manifest/manifest.h"
#include "store/runtime.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void assert_name(const char *package, const char *expected)
{
    kg_auto(kg_free) char *name = store_server_name(package);
    if (expected == NULL)
        assert_null(name);
    else
        assert_string_equal(name, expected);
}

static void a_name_is_made_of_a_package(void **state)
{
    (void)state;
    assert_name("@modelcontextprotocol/server-filesystem", "server-filesystem");
    assert_name("@acme/mcp", "acme-mcp");
    assert_name("@acme/mcp-server", "acme-mcp-server");
    assert_name("mcp", "mcp");
    assert_name("Left.Pad_2~x", "left-pad-2-x");
    assert_name("7zip", "zip");
    assert_name("...", NULL);
    char name[200];
    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    kg_auto(kg_free) char *cut = store_server_name(name);
    assert_int_equal(strlen(cut), 64);
}

static struct manifest *make(const struct store_server *server)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    store_server_manifest(server, &text);
    struct manifest *manifest = manifest_read(kg_buf_view(&text), &problems);
    if (manifest == NULL)
        fail_msg("%s\n%s", problems.items[0].message, kg_buf_terminate(&text));
    return manifest;
}

static void what_strangers_write_is_a_manifest_that_can_be_read(void **state)
{
    (void)state;
    char *command[] = {"node", "./a b\"c\\d\ne: {", "${config.x}", "\xF0\x9F\x98\x80", NULL};
    char *env[] = {"A=b=c: d", "B=", NULL};
    char *capabilities[] = {"read:fs:/srv/docs", NULL};
    struct manifest *manifest = make(&(struct store_server){
        .name = "tiny",
        .package = "@acme/tiny",
        .version = "1.2.3-rc.1",
        .description = "One: \"line\"\x01 - \xE2\x80\xAE turned\nand more",
        .author = "  # nobody",
        .license = "",
        .homepage = "https://example.org/a b",
        .command = command,
        .env = env,
        .capabilities = capabilities,
    });
    assert_string_equal(manifest->package, "@acme/tiny");
    assert_string_equal(manifest->version, "1.2.3-rc.1");
    assert_true(manifest->is_mcp);
    for (size_t i = 0; command[i] != NULL; i++)
        assert_string_equal(manifest->command[i], command[i]);
    assert_string_equal(manifest->env[0], "A=b=c: d");
    assert_int_equal(manifest->capability_set.count, 1);
    manifest_free(manifest);
}

static void what_is_unknown_has_a_plain_form(void **state)
{
    (void)state;
    char *command[] = {"./server", NULL};
    struct manifest *manifest = make(&(struct store_server){
        .name = "acme-mcp", .package = "@acme/mcp", .version = "soon", .command = command});
    assert_string_equal(manifest->version, "0.0.0");
    assert_string_equal(manifest->package, "acme-mcp"); /* that of the registry has another end */
    assert_int_equal(manifest->process, MANIFEST_SHARED);
    manifest_free(manifest);
}

static void paths_among_the_arguments_are_proposed(void **state)
{
    (void)state;
    char folder[] = "/tmp/kaged-server-XXXXXX";
    assert_non_null(mkdtemp(folder));
    kg_auto(kg_free) char *link = kg_format("%s/link", folder);
    assert_int_equal(symlink(folder, link), 0);
    char **args = kg_list_new(0), **capabilities = kg_list_new(0);
    kg_list_add(&args, kg_strdup(folder));
    kg_list_add(&args, kg_format("--root=%s", link));
    kg_list_add(&args, kg_strdup("/no/such/path"));
    kg_list_add(&args, kg_strdup("relative"));
    kg_list_add(&args, kg_format("x=%s", folder));
    store_server_paths(args, true, &capabilities);
    kg_auto(kg_free) char *line = kg_format("write:fs:%s", folder);
    kg_auto(kg_free) char *root = kg_format("--root=%s", folder);
    assert_int_equal(kg_list_count(capabilities), 1);
    assert_string_equal(capabilities[0], line);
    assert_string_equal(args[1], root);
    assert_string_equal(args[2], "/no/such/path");
    kg_list_free(args);
    kg_list_free(capabilities);
    unlink(link);
    rmdir(folder);
}

/* A program under that path below the home. */
static void make_program(const char *home, const char *path)
{
    kg_auto(kg_free) char *file = kg_format("%s/%s", home, path);
    for (char *slash = strchr(file + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(file, 0755);
        *slash = '/';
    }
    kg_auto(kg_close) int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    assert_int_equal(write(fd, "\177ELF", 4), 4);
}

/* Version managers keep several, and put shims into PATH that find nothing in a cage. */
static void runtimes_below_the_home_are_found_newest_first(void **state)
{
    (void)state;
    char home[] = "/tmp/kaged-server-XXXXXX";
    assert_non_null(mkdtemp(home));
    make_program(home, ".nvm/versions/node/v9.11.2/bin/node");
    make_program(home, ".nvm/versions/node/v22.1.0/bin/node");
    make_program(home, ".local/share/mise/installs/node/20.5.1/bin/node");
    make_program(home, "shims/mise");
    kg_auto(kg_free) char *shims = kg_format("%s/shims", home);
    kg_auto(kg_free) char *shim = kg_format("%s/node", shims);
    assert_int_equal(symlink("mise", shim), 0);
    kg_auto(kg_free) char *old_home = kg_strdup(getenv("HOME")),
                          *old_path = kg_strdup(getenv("PATH"));
    setenv("HOME", home, 1);
    setenv("PATH", shims, 1);
    struct runtimes *nodes = runtimes_find("node");
    setenv("HOME", old_home ? old_home : "/", 1);
    setenv("PATH", old_path ? old_path : "", 1);
    size_t own = 0;
    while (own < nodes->count && nodes->items[own].is_own)
        own++;
    assert_int_equal(nodes->count, own + 3);
    assert_string_equal(nodes->items[own].version, "22.1.0");
    assert_string_equal(nodes->items[own + 1].version, "20.5.1");
    assert_string_equal(nodes->items[own + 2].version, "9.11.2");
    for (size_t i = 0; i < own; i++)
        kg_str_copy(KG_STR("18.0.0"), nodes->items[i].version, RUNTIME_VERSION_TEXT);
    struct kg_semver_range *range = kg_semver_range_parse(KG_STR("^20.1 || >=90"), NULL);
    const struct runtime *fits = runtimes_fitting(nodes, range);
    assert_ptr_equal(fits, &nodes->items[own + 1]);
    kg_auto(kg_free) char *folder = kg_format("%s/.local/share/mise/installs/node/20.5.1", home);
    assert_string_equal(fits->folder, folder);
    kg_semver_range_free(range);
    runtimes_free(nodes);
    folder_remove(home);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_made_of_a_package),
        cmocka_unit_test(what_strangers_write_is_a_manifest_that_can_be_read),
        cmocka_unit_test(what_is_unknown_has_a_plain_form),
        cmocka_unit_test(paths_among_the_arguments_are_proposed),
        cmocka_unit_test(runtimes_below_the_home_are_found_newest_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
