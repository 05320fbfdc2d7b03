/* config.toml against its table of keys, and the folders in the three modes. */
#include "config/config.h"

#include "base/json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* -- helpers ---------------------------------------------------------------------------------- */

/* Stand before those of the C library, so that any user can test all modes. */
static uid_t pretended_uid, pretended_euid;

uid_t getuid(void)
{
    return pretended_uid;
}

uid_t geteuid(void)
{
    return pretended_euid;
}

static uid_t owner_of(const char *path)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return status.st_uid;
}

static char folder[64]; /* fresh for each test */

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/kaged-unit-config.XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    pretended_uid = pretended_euid = owner_of(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    kg_auto(kg_free) char *command = kg_format("rm -rf %s", folder);
    return system(command);
}

static char *in_folder(const char *name)
{
    return kg_format("%s/%s", folder, name);
}

/* Reads the text as a config file; NULL and err if it is refused. */
static struct config *load(const char *text, struct kg_err *err)
{
    kg_auto(kg_free) char *path = in_folder("config.toml");
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(kg_write_all(fd, text, strlen(text)), 0);
    return config_load(path, err);
}

static struct config *must_load(const char *text)
{
    struct kg_err err = {0};
    struct config *config = load(text, &err);
    if (config == NULL)
        fail_msg("%s", err.message);
    return config;
}

static struct config *defaults(void)
{
    return config_load("/nowhere/config.toml", NULL);
}

static void assert_same(const struct config *a, const struct config *b)
{
    kg_auto(kg_buf_free) struct kg_buf diff = {0};
    config_diff(a, b, &diff);
    assert_string_equal(kg_buf_terminate(&diff), "[]");
}

/* -- the table of keys ------------------------------------------------------------------------ */

static bool is_among(const char *choices, const char *text)
{
    size_t length = strlen(text);
    for (const char *at = choices; at != NULL; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (strncmp(at, text, length) == 0 && (at[length] == '|' || at[length] == '\0'))
            return true;
    return false;
}

static void every_default_is_a_value_that_the_key_takes(void **state)
{
    (void)state;
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (key->type == CONFIG_TYPE_INT &&
            (key->fallback < key->min || key->fallback > key->max || key->min > key->max))
            fail_msg("%s.%s", key->section, key->key);
        if (key->type == CONFIG_TYPE_TEXT && key->choices[0] != '\0' &&
            !is_among(key->choices, key->text_fallback))
            fail_msg("%s.%s", key->section, key->key);
        assert_non_null(config_applies_words(key->applies));
        assert_int_equal(key->meaning[strlen(key->meaning) - 1], '.');
    }
}

static void every_key_is_there_once_and_by_section(void **state)
{
    (void)state;
    for (size_t i = 1; i < config_key_count; i++) {
        bool new_section = strcmp(config_keys[i].section, config_keys[i - 1].section) != 0;
        for (size_t k = 0; k < i; k++) {
            bool same_section = strcmp(config_keys[i].section, config_keys[k].section) == 0;
            assert_false(same_section && strcmp(config_keys[i].key, config_keys[k].key) == 0);
            assert_false(same_section && new_section); /* a table of TOML is opened once */
        }
    }
}

static bool takes_int(const struct config_key *key, int64_t value)
{
    kg_auto(kg_free) char *text =
        kg_format("[%s]\n%s = %lld\n", key->section, key->key, (long long)value);
    struct kg_err err = {0};
    struct config *config = load(text, &err);
    if (config != NULL)
        assert_int_equal(*(int64_t *)((char *)config + key->offset), value);
    else
        assert_non_null(strstr(err.message, "it must be from"));
    config_free(config);
    return config != NULL;
}

static void every_bound_holds_to_the_number(void **state)
{
    (void)state;
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (key->type != CONFIG_TYPE_INT)
            continue;
        assert_true(takes_int(key, key->min) && takes_int(key, key->max));
        assert_false(takes_int(key, key->min - 1) || takes_int(key, key->max + 1));
        assert_false(takes_int(key, INT64_MAX) || takes_int(key, INT64_MIN));
    }
}

static void values_of_each_type_are_taken(void **state)
{
    (void)state;
    struct config *config = must_load("[logging]\nlevel = \"debug\"\n[plugins]\n"
                                      "enabled = [\"git\", 'oh-my-pi']\ndir = \"\"\n"
                                      "[sandbox]\nprivate_networks = false\n"
                                      "[limits]\ncall_timeout_ms = 1_500\n");
    assert_string_equal(config->logging_level, "debug");
    assert_string_equal(config->plugins_dir, "");
    assert_int_equal(config->limits_call_timeout_ms, 1500);
    assert_false(config->sandbox_private_networks);
    assert_int_equal(kg_list_count(config->plugins_enabled), 2);
    assert_string_equal(config->plugins_enabled[1], "oh-my-pi");
    config_free(config);
}

static void a_missing_or_empty_file_means_the_defaults(void **state)
{
    (void)state;
    struct config *missing = defaults();
    struct config *empty = must_load("");
    assert_non_null(missing);
    assert_same(missing, empty);
    assert_int_equal(missing->limits_line_max_bytes, 4194304);
    config_free(missing);
    config_free(empty);
    config_free(NULL);
}

/* -- errors ----------------------------------------------------------------------------------- */

static void errors_name_place_key_and_remedy(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message, *hint;
    } rows[] = {
        {"[limits]\ncall_timeout_ms = \"1\"\n", "2:19: limits.call_timeout_ms takes an integer",
         "fix"},
        {"[limits]\ncall_timeout_ms = 1.5\n", "2:19: limits.call_timeout_ms takes an integer",
         "fix"},
        {"[limits]\ncall_timeout_ms = 0\n",
         "2:19: limits.call_timeout_ms is 0; it must be from 1 to 3600000", "fix"},
        {"[logging]\nlevel = \"loud\"\n",
         "2:9: logging.level is \"loud\"; it must be one of debug|info|warn|error", "fix"},
        {"[logging]\nlevel = \"\"\n", "2:9: logging.level is \"\"; it must be one of", "fix"},
        {"[logging]\nlevel = 3\n", "2:9: logging.level takes a string", "fix"},
        {"[sandbox]\nprivate_networks = \"false\"\n",
         "2:20: sandbox.private_networks takes true or false", "fix"},
        {"[sandbox]\nprivate_networks = 0\n", "2:20: sandbox.private_networks takes true or false",
         "fix"},
        {"[daemon]\nuser = 2026-11-15\n", "2:8: daemon.user takes a string", "fix"},
        {"[daemon]\nuser = \"a\\u0000b\"\n", "2:8: daemon.user takes a string", "fix"},
        {"[plugins]\nenabled = \"git\"\n", "2:11: plugins.enabled takes a list of names of plugins",
         "fix"},
        {"[plugins]\nenabled = [\"git\", 7]\n",
         "2:19: plugins.enabled takes a list of names of plugins", "fix"},
        {"[plugins]\nenabled = [\"git\\u0000x\"]\n",
         "2:12: plugins.enabled takes a list of names of plugins", "fix"},
        {"\n[limit]\n", "2:2: unknown section limit", "did you mean limits?"},
        {"[limits]\n\ncall_timout_ms = 1\n", "3:1: unknown key limits.call_timout_ms",
         "did you mean limits.call_timeout_ms?"},
        {"[limits.call]\nx = 1\n", "1:9: unknown key limits.call", ""},
        {"[limits]\ncolour_of_the_door = 1\n", "2:1: unknown key limits.colour_of_the_door",
         "lists every key"},
        {"limits = 3\n", "1:10: limits is a section: write it as [limits]", "fix"},
        {"[[limits]]\nx = 1\n", "1:3: limits is a section: write it as [limits]", "fix"},
        {"[limits]\ncall_timeout_ms =\n", "2:18: ", "fix"},
        {"[limits]\ncall_timeout_ms = 1\ncall_timeout_ms = 2\n", "3:1: ", "fix"},
        {"[limits]\n[limits]\n", "2:", "fix"},
        {"\xFF\n", "1:1: ", "fix"},
    };
    kg_auto(kg_free) char *path = in_folder("config.toml:");
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        struct kg_err err = {0};
        assert_null(load(rows[i].text, &err));
        const char *place = strstr(err.message, rows[i].message);
        if (!kg_str_starts(kg_str(err.message), path) || place != err.message + strlen(path))
            fail_msg("row %zu: %s", i, err.message);
        if (strstr(err.hint, rows[i].hint) == NULL || err.hint[0] == '\0')
            fail_msg("row %zu: hint: %s", i, err.hint);
        assert_int_equal(err.code, KG_E_INVALID_CONFIG);
    }
}

static void a_file_that_cannot_be_read_is_an_error(void **state)
{
    (void)state;
    struct kg_err err = {0};
    assert_null(config_load(folder, &err));
    assert_int_equal(err.code, KG_E_INVALID_CONFIG);
    assert_non_null(strstr(err.message, folder));
    assert_non_null(strstr(err.message, "Is a directory"));
}

static void names_without_end_are_cut_in_the_message(void **state)
{
    (void)state;
    kg_auto(kg_free) char *key = kg_format("[limits]\na%09000d = 1\n", 1);
    kg_auto(kg_free) char *value = kg_format("[logging]\nlevel = \"%09000d\"\n", 1);
    struct kg_err err = {0};
    assert_null(load(key, &err));
    assert_true(strlen(err.message) < 200);
    assert_null(load(value, &err));
    assert_true(strlen(err.message) < 300);
    assert_non_null(strstr(err.message, "it must be one of"));
}

/* -- the example and differences -------------------------------------------------------------- */

/* "#key = value" becomes "key = value"; "# words" stays. */
static size_t uncomment(char *text)
{
    size_t count = 0;
    for (char *at = text; at != NULL && *at != '\0'; at = strchr(at, '\n') + 1) {
        if (at[0] == '#' && at[1] != ' ') {
            at[0] = ' ';
            count++;
        }
    }
    return count;
}

static void the_example_reads_back_to_the_defaults(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf example = {0};
    config_print_example(&example);
    struct config *wanted = defaults();
    struct config *commented = must_load(kg_buf_terminate(&example));
    assert_same(wanted, commented);
    size_t with_default = 0;
    for (size_t i = 0; i < config_key_count; i++)
        with_default += config_keys[i].type <= CONFIG_TYPE_LIST;
    assert_int_equal(uncomment(example.data), with_default);
    struct config *uncommented = must_load(example.data);
    assert_same(wanted, uncommented);
    config_free(wanted);
    config_free(commented);
    config_free(uncommented);
}

static void a_difference_names_the_key_and_how_it_applies(void **state)
{
    (void)state;
    struct config *before = defaults();
    struct config *after = must_load("[logging]\nlevel = \"warn\"\n[plugins]\nenabled = [\"a\"]\n"
                                     "[sandbox]\nprivate_networks = false\n"
                                     "[limits]\nline_max_bytes = 2048\n");
    kg_auto(kg_buf_free) struct kg_buf diff = {0};
    config_diff(before, after, &diff);
    assert_string_equal(
        kg_buf_terminate(&diff),
        "[{\"key\":\"logging.level\",\"applies\":\"at once\"},"
        "{\"key\":\"plugins.enabled\",\"applies\":\"at once\"},"
        "{\"key\":\"sandbox.private_networks\",\"applies\":\"at once\"},"
        "{\"key\":\"limits.line_max_bytes\",\"applies\":\"at the plugin's next start\"}]");
    config_free(before);
    config_free(after);
}

static void lists_differ_by_order_and_length(void **state)
{
    (void)state;
    static const char *const lists[] = {"[]", "[\"a\"]", "[\"a\", \"b\"]", "[\"b\", \"a\"]"};
    for (size_t i = 0; i < KG_COUNT(lists); i++) {
        for (size_t k = 0; k < KG_COUNT(lists); k++) {
            kg_auto(kg_free) char *first = kg_format("[plugins]\nenabled = %s\n", lists[i]);
            kg_auto(kg_free) char *second = kg_format("[plugins]\nenabled = %s\n", lists[k]);
            struct config *a = must_load(first), *b = must_load(second);
            kg_auto(kg_buf_free) struct kg_buf diff = {0};
            config_diff(a, b, &diff);
            assert_int_equal(kg_str_is(kg_buf_view(&diff), "[]"), i == k);
            config_free(a);
            config_free(b);
        }
    }
}

/* -- values for each of many names ------------------------------------------------------------- */

static void values_for_a_name_are_taken(void **state)
{
    (void)state;
    struct config *config =
        must_load("[sandbox]\nmemory_mb = 100\nroot_writable = [\"/srv/data\"]\n"
                  "[sandbox.plugins.git]\nmemory_mb = 1024\ncpu_shares = 512\n"
                  "[sandbox.plugins.\"oh.my\"]\nmemory_mb = 7\n"
                  "[sandbox.support]\n\"python3.11\" = [\"/opt/a\", \"/opt/b\"]\nnode = []\n");
    assert_int_equal(config_int_for(&config->sandbox_plugins_memory_mb, "git", 100), 1024);
    assert_int_equal(config_int_for(&config->sandbox_plugins_memory_mb, "oh.my", 100), 7);
    assert_int_equal(config_int_for(&config->sandbox_plugins_memory_mb, "gi", 100), 100);
    assert_int_equal(config_int_for(&config->sandbox_plugins_cpu_shares, "git", 1), 512);
    assert_int_equal(config_int_for(&config->sandbox_plugins_tmp_bytes, "git", 1), 1);
    assert_string_equal(config->sandbox_root_writable[0], "/srv/data");
    assert_int_equal(config->sandbox_support.count, 2);
    assert_string_equal(config->sandbox_support.items[0].name, "python3.11");
    assert_string_equal(config->sandbox_support.items[0].list[1], "/opt/b");
    assert_null(config->sandbox_support.items[1].list[0]);
    config_free(config);
}

static void errors_for_a_name_name_it(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message, *hint;
    } rows[] = {
        {"[sandbox.plugins.git]\nmemory_mb = -1\n",
         "2:13: sandbox.plugins.git.memory_mb is -1; it must be from 0 to 1048576", "fix"},
        {"[sandbox.plugins.git]\nmemory_mb = \"1\"\n",
         "2:13: sandbox.plugins.git.memory_mb takes an integer", "fix"},
        {"[sandbox.plugins.git]\nmemroy_mb = 1\n", "2:1: unknown key sandbox.plugins.git.memroy_mb",
         "did you mean sandbox.plugins.git.memory_mb?"},
        {"[sandbox.plugins]\ngit = 1\n", "2:7: sandbox.plugins.git is a section: write it as", ""},
        {"[sandbox]\nplugins = 1\n", "2:11: sandbox.plugins is a section: write it as", ""},
        {"[sandbox.plugin.git]\nmemory_mb = 1\n", "1:10: unknown key sandbox.plugin",
         "did you mean sandbox.plugins?"},
        {"[sandbox.plugins.git.deep]\nx = 1\n", "1:22: unknown key sandbox.plugins.git.deep", ""},
        {"[sandbox.plugins.\"\"]\nmemory_mb = 1\n", "2:13: sandbox.plugins.\"\".memory_mb: ", ""},
        {"[sandbox.support]\nnode = \"/x\"\n",
         "2:8: sandbox.support.node takes a list of absolute folders", "fix"},
        {"[sandbox.support]\nnode = [\"/x\", \"y\"]\n",
         "2:15: sandbox.support.node takes a list of absolute folders", "fix"},
        {"[sandbox.support]\n\"a\\u0000b\" = []\n", "2:14: sandbox.support.", ""},
        {"[sandbox]\nroot_writable = [\"srv\"]\n",
         "2:18: sandbox.root_writable takes a list of absolute folders", "fix"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        struct kg_err err = {0};
        struct config *config = config_read(kg_str(rows[i].text), &err);
        if (config != NULL || !kg_str_starts(kg_str(err.message), rows[i].message))
            fail_msg("row %zu: %s", i, err.message);
        if (strstr(err.hint, rows[i].hint) == NULL)
            fail_msg("row %zu: hint: %s", i, err.hint);
    }
}

#define NEXT_START "\"applies\":\"at the plugin's next start\"}"

static void differences_name_each_name(void **state)
{
    (void)state;
    struct config *before = must_load("[sandbox.plugins.a]\nmemory_mb = 1\n[sandbox.plugins.b]\n"
                                      "memory_mb = 2\n[sandbox.plugins.c]\nmemory_mb = 3\n"
                                      "[sandbox.support]\nnode = [\"/a\"]\n\"p.1\" = [\"/a\"]\n");
    struct config *after = must_load("[sandbox.plugins.d]\nmemory_mb = 4\n[sandbox.plugins.c]\n"
                                     "memory_mb = 5\n[sandbox.plugins.b]\nmemory_mb = 2\n"
                                     "[sandbox.support]\nnode = [\"/a\"]\n\"p.1\" = [\"/b\"]\n");
    kg_auto(kg_buf_free) struct kg_buf diff = {0};
    config_diff(before, after, &diff);
    assert_string_equal(kg_buf_terminate(&diff),
                        "[{\"key\":\"sandbox.plugins.a.memory_mb\"," NEXT_START
                        ",{\"key\":\"sandbox.plugins.c.memory_mb\"," NEXT_START
                        ",{\"key\":\"sandbox.plugins.d.memory_mb\"," NEXT_START
                        ",{\"key\":\"sandbox.support.\\\"p.1\\\"\"," NEXT_START "]");
    config_free(before);
    config_free(after);
}

/* -- folders ---------------------------------------------------------------------------------- */

static void clear_environment(void)
{
    static const char *const names[] = {"KAGED_HOME",     "XDG_CONFIG_HOME", "XDG_DATA_HOME",
                                        "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "HOME"};
    for (size_t i = 0; i < KG_COUNT(names); i++)
        unsetenv(names[i]);
}

static void assert_paths(const char *home, const char *config_file, const char *plugins,
                         const char *state_db, const char *socket)
{
    struct config_paths paths;
    assert_int_equal(config_paths_find(home, &paths, NULL), 0);
    assert_string_equal(paths.config_file, config_file);
    assert_string_equal(paths.plugins_dir, plugins);
    assert_string_equal(paths.state_db, state_db);
    assert_string_equal(paths.socket, socket);
    config_paths_free(&paths);
}

static void with_a_home_all_is_under_it(void **state)
{
    (void)state;
    clear_environment();
    assert_paths("/srv/k//", "/srv/k/config.toml", "/srv/k/plugins", "/srv/k/state/kaged.db",
                 "/srv/k/run/kaged.sock");
    setenv("KAGED_HOME", "/srv/env", 1);
    assert_paths(NULL, "/srv/env/config.toml", "/srv/env/plugins", "/srv/env/state/kaged.db",
                 "/srv/env/run/kaged.sock");
    assert_paths("/srv/flag", "/srv/flag/config.toml", "/srv/flag/plugins",
                 "/srv/flag/state/kaged.db", "/srv/flag/run/kaged.sock");
    clear_environment();
}

static void a_relative_home_becomes_absolute(void **state)
{
    (void)state;
    clear_environment();
    struct config_paths paths;
    kg_auto(kg_free) char *cwd = getcwd(NULL, 0);
    kg_auto(kg_free) char *wanted = kg_format("%s/here/run/kaged.sock", cwd);
    assert_int_equal(config_paths_find("here", &paths, NULL), 0);
    assert_string_equal(paths.socket, wanted);
    config_paths_free(&paths);
}

static void an_empty_home_is_refused(void **state)
{
    (void)state;
    clear_environment();
    struct config_paths paths;
    struct kg_err err;
    assert_true(config_paths_find("", &paths, &err) < 0);
    assert_int_equal(err.code, KG_E_USAGE);
}

static void root_has_the_systems_folders(void **state)
{
    (void)state;
    clear_environment();
    pretended_uid = 0;
    assert_paths(NULL, "/etc/kaged/config.toml", "/var/lib/kaged/plugins",
                 "/var/lib/kaged/kaged.db", "/run/kaged/kaged.sock");
}

static void a_user_can_ask_for_the_systems_folders(void **state)
{
    (void)state;
    struct config_paths paths;
    setenv("KAGED_HOME", "/srv/env", 1);
    pretended_uid = 1234;
    config_paths_system(&paths);
    assert_null(paths.home);
    assert_string_equal(paths.config_file, "/etc/kaged/config.toml");
    assert_string_equal(paths.socket, "/run/kaged/kaged.sock");
    config_paths_free(&paths);
    clear_environment();
}

static void a_user_has_the_xdg_folders(void **state)
{
    (void)state;
    clear_environment();
    pretended_uid = 1234;
    setenv("HOME", "/home/ada", 1);
    assert_paths(NULL, "/home/ada/.config/kaged/config.toml",
                 "/home/ada/.local/share/kaged/plugins", "/home/ada/.local/state/kaged/kaged.db",
                 "/tmp/kaged-1234/kaged.sock");
    setenv("XDG_CONFIG_HOME", "/x/config", 1);
    setenv("XDG_DATA_HOME", "/x/data", 1);
    setenv("XDG_STATE_HOME", "/x/state", 1);
    setenv("XDG_RUNTIME_DIR", "/x/run", 1);
    assert_paths(NULL, "/x/config/kaged/config.toml", "/x/data/kaged/plugins",
                 "/x/state/kaged/kaged.db", "/x/run/kaged/kaged.sock");
    clear_environment();
}

static void relative_folders_in_the_environment_are_not_used_as_such(void **state)
{
    (void)state;
    clear_environment();
    pretended_uid = 1234;
    struct config_paths paths;
    setenv("HOME", "ada", 1);
    setenv("XDG_STATE_HOME", "relative", 1);
    assert_int_equal(config_paths_find(NULL, &paths, NULL), 0);
    assert_int_equal(paths.config_file[0], '/');
    assert_int_equal(paths.state_dir[0], '/');
    assert_null(strstr(paths.state_dir, "relative"));
    config_paths_free(&paths);
    clear_environment();
}

static struct config_paths paths_in_folder(void)
{
    struct config_paths paths;
    kg_auto(kg_free) char *home = in_folder("home");
    assert_int_equal(config_paths_find(home, &paths, NULL), 0);
    return paths;
}

static mode_t mode_of(const char *path)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return status.st_mode & 07777;
}

static void folders_are_made_private(void **state)
{
    (void)state;
    kg_auto(config_paths_free) struct config_paths paths = paths_in_folder();
    mode_t mask = umask(0);
    assert_int_equal(config_paths_make(&paths, geteuid(), NULL), 0);
    assert_int_equal(config_paths_make(&paths, geteuid(), NULL), 0);
    umask(mask);
    assert_int_equal(mode_of(paths.state_dir), 0700);
    assert_int_equal(mode_of(paths.audit_dir), 0700);
    assert_int_equal(mode_of(paths.logs_dir), 0700);
    assert_int_equal(mode_of(paths.run_dir), 0700);
    assert_int_equal(mode_of(paths.plugins_dir), 0755);
}

static void assert_not_made(const struct config_paths *paths, const char *message)
{
    struct kg_err err = {0};
    assert_true(config_paths_make(paths, geteuid(), &err) < 0);
    if (strstr(err.message, message) == NULL)
        fail_msg("%s", err.message);
    assert_non_null(strstr(err.hint, "--home"));
}

static void a_link_or_a_file_is_no_place_for_a_socket(void **state)
{
    (void)state;
    kg_auto(config_paths_free) struct config_paths paths = paths_in_folder();
    assert_int_equal(config_paths_make(&paths, geteuid(), NULL), 0);
    assert_int_equal(rmdir(paths.run_dir), 0);
    assert_int_equal(symlink(folder, paths.run_dir), 0);
    assert_not_made(&paths, "run: ");
    assert_int_equal(unlink(paths.run_dir), 0);
    kg_auto(kg_close) int fd = open(paths.run_dir, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_not_made(&paths, "run: Not a directory");
}

static void a_folder_of_somebody_else_is_refused(void **state)
{
    (void)state;
    kg_auto(config_paths_free) struct config_paths paths = paths_in_folder();
    assert_int_equal(config_paths_make(&paths, geteuid(), NULL), 0);
    if (chown(paths.run_dir, 65534, (gid_t)-1) < 0) /* only root may give it away */
        pretended_euid = 65534;
    assert_not_made(&paths, "belongs to another user");
}

#define FOLDER_TEST(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(every_default_is_a_value_that_the_key_takes),
        FOLDER_TEST(every_key_is_there_once_and_by_section),
        FOLDER_TEST(every_bound_holds_to_the_number),
        FOLDER_TEST(values_of_each_type_are_taken),
        FOLDER_TEST(a_missing_or_empty_file_means_the_defaults),
        FOLDER_TEST(errors_name_place_key_and_remedy),
        FOLDER_TEST(a_file_that_cannot_be_read_is_an_error),
        FOLDER_TEST(names_without_end_are_cut_in_the_message),
        FOLDER_TEST(the_example_reads_back_to_the_defaults),
        FOLDER_TEST(a_difference_names_the_key_and_how_it_applies),
        FOLDER_TEST(lists_differ_by_order_and_length),
        FOLDER_TEST(values_for_a_name_are_taken),
        FOLDER_TEST(errors_for_a_name_name_it),
        FOLDER_TEST(differences_name_each_name),
        FOLDER_TEST(with_a_home_all_is_under_it),
        FOLDER_TEST(a_relative_home_becomes_absolute),
        FOLDER_TEST(an_empty_home_is_refused),
        FOLDER_TEST(root_has_the_systems_folders),
        FOLDER_TEST(a_user_can_ask_for_the_systems_folders),
        FOLDER_TEST(a_user_has_the_xdg_folders),
        FOLDER_TEST(relative_folders_in_the_environment_are_not_used_as_such),
        FOLDER_TEST(folders_are_made_private),
        FOLDER_TEST(a_link_or_a_file_is_no_place_for_a_socket),
        FOLDER_TEST(a_folder_of_somebody_else_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
