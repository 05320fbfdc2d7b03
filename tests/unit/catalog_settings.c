/* Settings of packages: what may be stored, how it is sealed and shown, and what a process is told.
 */
#include "catalog/settings.h"

#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "folder.h"

#define ITEM(key, type, more)                                                                      \
    "{\"key\":\"" key "\",\"type\":\"" type "\",\"description\":\"d\"" more "}"
#define SCHEMA                                                                                                       \
    "[" ITEM("token", "str", ",\"required\":true,\"sensitive\":true") "," ITEM(                                      \
        "limit",                                                                                                     \
        "int", ",\"default\":20") "," ITEM("ratio", "float",                                                         \
                                           "") "," ITEM("on", "bool",                                                \
                                                        "") "," ITEM("hosts", "list",                                \
                                                                     "") "," ITEM("map", "dict",                     \
                                                                                  ",\"sensitive\""                   \
                                                                                  ":true") "," ITEM("name",          \
                                                                                                    "str",           \
                                                                                                    ",\"required\":" \
                                                                                                    "true") "]"

struct world {
    char folder[64];
    struct secret_places places;
    struct settings_seal seal;
    struct kg_doc *schema;
};

static struct kg_doc *read_json(const char *text)
{
    struct kg_err err = {0};
    struct kg_doc *doc = kg_json_read(kg_str(text), &err);
    if (doc == NULL)
        fail_msg("%s", err.message);
    return doc;
}

static int begin(void **state)
{
    struct world *world = kg_alloc(sizeof(*world));
    strcpy(world->folder, "/tmp/kaged-settings-XXXXXX");
    assert_non_null(mkdtemp(world->folder));
    world->places = (struct secret_places){.store = kg_strdup("the catalog"),
                                           .key = kg_path_join(world->folder, "catalog.key"),
                                           .next_key = kg_path_join(world->folder, "next")};
    world->seal = (struct settings_seal){&world->places, "org-1 com.acme.search"};
    world->schema = read_json(SCHEMA);
    *state = world;
    return 0;
}

static int end(void **state)
{
    struct world *world = *state;
    folder_remove(world->folder);
    secret_places_free(&world->places);
    kg_doc_free(world->schema);
    free(world);
    return 0;
}

/* The stored text after it; NULL: it was refused, as err says. Owned. */
static char *change(struct world *world, const char *stored, const char *sent, struct kg_err *err)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = read_json(sent);
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    *err = (struct kg_err){0};
    if (settings_change(world->schema->root, stored, doc->root, &world->seal, &out, err) < 0)
        return NULL;
    return kg_str_dup(kg_buf_view(&out));
}

static char *must_change(struct world *world, const char *stored, const char *sent)
{
    struct kg_err err;
    char *next = change(world, stored, sent, &err);
    if (next == NULL)
        fail_msg("%s", err.message);
    return next;
}

static char *shown(const struct world *world, const char *stored)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_json_writer json = kg_json_writer(&out);
    settings_put(&json, world->schema->root, stored);
    return kg_str_dup(kg_buf_view(&out));
}

static void assert_merged(struct world *world, const struct kg_node *schema, const char *stored,
                          const char *overrides, const char *expected, const char *missing)
{
    struct kg_err err = {0};
    kg_auto(secret_wipe) struct kg_buf out = {0};
    kg_auto(kg_buf_free) struct kg_buf names = {0};
    char **list = NULL;
    const struct settings_layer layers[] = {{stored, world->seal}, {overrides, world->seal}};
    if (settings_merge(schema, layers, 2, &out, &list, &err) < 0)
        fail_msg("%s", err.message);
    for (char **at = list; *at != NULL; at++)
        kg_buf_printf(&names, "%s ", *at);
    assert_string_equal(kg_buf_terminate(&out), expected);
    assert_string_equal(kg_buf_terminate(&names), missing);
    kg_list_free(list);
}

static void a_value_must_be_of_its_type(void **state)
{
    static const char *const good[] = {
        "{\"token\":\"x\"}", "{\"limit\":-3}",  "{\"ratio\":1}",       "{\"ratio\":1.5}",
        "{\"on\":false}",    "{\"hosts\":[]}",  "{\"map\":{\"a\":1}}", "{\"token\":null}",
        "{\"limit\":null}",  "{\"name\":\"\"}",
    };
    static const char *const bad[] = {
        "{\"token\":1}",     "{\"limit\":1.0}", "{\"limit\":true}", "{\"limit\":\"1\"}",
        "{\"ratio\":\"1\"}", "{\"on\":0}",      "{\"hosts\":{}}",   "{\"map\":[]}",
        "{\"other\":1}",     "{\"limit\":1e3}", "{\"other\":null}", "{\"limit\":\"***MASKED***\"}",
    };
    struct kg_err err;
    for (size_t i = 0; i < KG_COUNT(good); i++)
        free(must_change(*state, NULL, good[i]));
    for (size_t i = 0; i < KG_COUNT(bad); i++) {
        assert_null(change(*state, NULL, bad[i], &err));
        assert_int_equal(err.code, KG_E_INVALID_PARAMS);
    }
}

static void what_is_sensitive_is_sealed_and_masked(void **state)
{
    struct world *world = *state;
    kg_auto(kg_free) char *stored =
        must_change(world, NULL, "{\"token\":\"swordfish\",\"limit\":3,\"map\":{\"k\":\"squid\"}}");
    kg_auto(kg_free) char *seen = shown(world, stored);
    assert_null(strstr(stored, "swordfish"));
    assert_null(strstr(stored, "squid"));
    assert_string_equal(seen, "{\"token\":\"***MASKED***\",\"limit\":3,\"map\":\"***MASKED***\"}");
    assert_merged(world, world->schema->root, stored, NULL,
                  "{\"hosts\":null,\"limit\":3,\"map\":{\"k\":\"squid\"},\"name\":null,"
                  "\"on\":null,\"ratio\":null,\"token\":\"swordfish\"}",
                  "name ");
}

static void a_mask_that_comes_back_changes_nothing(void **state)
{
    struct world *world = *state;
    kg_auto(kg_free) char *stored = must_change(world, NULL, "{\"token\":\"swordfish\"}");
    kg_auto(kg_free) char *next =
        must_change(world, stored, "{\"token\":\"***MASKED***\",\"name\":\"n\"}");
    assert_merged(world, world->schema->root, next, NULL,
                  "{\"hosts\":null,\"limit\":20,\"map\":null,\"name\":\"n\",\"on\":null,"
                  "\"ratio\":null,\"token\":\"swordfish\"}",
                  "");
    kg_auto(kg_free) char *gone = must_change(world, next, "{\"token\":null}");
    assert_merged(world, world->schema->root, gone, NULL,
                  "{\"hosts\":null,\"limit\":20,\"map\":null,\"name\":\"n\",\"on\":null,"
                  "\"ratio\":null,\"token\":null}",
                  "token ");
    kg_auto(kg_free) char *none = must_change(world, NULL, "{\"token\":\"***MASKED***\"}");
    assert_string_equal(none, "{\"plain\":{},\"sealed\":{}}");
}

static void overrides_go_before_the_org_and_the_org_before_defaults(void **state)
{
    struct world *world = *state;
    kg_auto(kg_free) char *org =
        must_change(world, NULL, "{\"limit\":1,\"name\":\"org\",\"on\":true}");
    kg_auto(kg_free) char *over = must_change(world, NULL, "{\"name\":\"own\",\"token\":\"t\"}");
    assert_merged(world, world->schema->root, org, over,
                  "{\"hosts\":null,\"limit\":1,\"map\":null,\"name\":\"own\",\"on\":true,"
                  "\"ratio\":null,\"token\":\"t\"}",
                  "");
}

static void a_new_version_takes_what_fits_it_by_key(void **state)
{
    struct world *world = *state;
    kg_auto(kg_doc_cleanup) struct kg_doc *next =
        read_json("[" ITEM("token", "str", "") "," ITEM("limit", "str", ",\"required\":true") "]");
    kg_auto(kg_free) char *stored =
        must_change(world, NULL, "{\"token\":\"swordfish\",\"limit\":3,\"on\":true}");
    char **dropped = settings_dropped(next->root, stored);
    assert_string_equal(dropped[0], "limit");
    assert_string_equal(dropped[1], "on");
    assert_null(dropped[2]);
    kg_list_free(dropped);
    assert_merged(world, next->root, stored, NULL, "{\"limit\":null,\"token\":\"swordfish\"}",
                  "limit ");
    assert_merged(world, world->schema->root, stored, NULL,
                  "{\"hosts\":null,\"limit\":3,\"map\":null,\"name\":null,\"on\":true,"
                  "\"ratio\":null,\"token\":\"swordfish\"}",
                  "name ");
}

static void a_box_opens_nowhere_else(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    kg_auto(secret_wipe) struct kg_buf out = {0};
    char **missing = NULL;
    kg_auto(kg_free) char *stored = must_change(world, NULL, "{\"token\":\"swordfish\"}");
    const struct settings_layer layer = {stored, {&world->places, "org-2 com.acme.search"}};
    assert_true(settings_merge(world->schema->root, &layer, 1, &out, &missing, &err) < 0);
    assert_int_equal(err.code, KG_E_IO);
    assert_int_equal(out.length, 0);
}

static void a_rotation_cut_off_anywhere_leaves_all_openable(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf resealed = {0};
    kg_auto(kg_free) char *old = must_change(world, NULL, "{\"token\":\"swordfish\"}");
    assert_int_equal(secret_boxes_rotate(&world->places, &err), 0);
    kg_auto(kg_free) char *between = must_change(world, NULL, "{\"token\":\"between\"}");
    assert_int_equal(secret_boxes_rotate(&world->places, &err), 0);
    assert_int_equal(settings_reseal(old, &world->seal, &resealed, &err), 0);
    assert_merged(world, world->schema->root, old, NULL,
                  "{\"hosts\":null,\"limit\":20,\"map\":null,\"name\":null,\"on\":null,"
                  "\"ratio\":null,\"token\":\"swordfish\"}",
                  "name ");
    assert_int_equal(secret_boxes_rotated(&world->places, &err), 0);
    assert_merged(world, world->schema->root, kg_buf_terminate(&resealed), between,
                  "{\"hosts\":null,\"limit\":20,\"map\":null,\"name\":null,\"on\":null,"
                  "\"ratio\":null,\"token\":\"between\"}",
                  "name ");
    kg_auto(secret_wipe) struct kg_buf out = {0};
    char **missing = NULL;
    const struct settings_layer layer = {old, world->seal};
    assert_true(settings_merge(world->schema->root, &layer, 1, &out, &missing, &err) < 0);
    assert_int_equal(err.code, KG_E_REFUSED);
}

static void those_that_are_missing_are_named(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    char **missing = settings_missing(world->schema->root, NULL);
    assert_true(settings_need("com.acme.search", missing, &err) < 0);
    assert_string_equal(err.message,
                        "package com.acme.search: missing required settings: token, name");
    kg_list_free(missing);
}

static void what_is_too_much_is_refused(void **state)
{
    struct world *world = *state;
    struct kg_err err;
    kg_auto(kg_buf_free) struct kg_buf sent = {0};
    kg_buf_text(&sent, "{\"name\":\"");
    for (size_t i = 0; i < SETTINGS_BYTES_MAX; i++)
        kg_buf_char(&sent, 'x');
    kg_buf_text(&sent, "\"}");
    assert_null(change(world, NULL, kg_buf_terminate(&sent), &err));
    assert_int_equal(err.code, KG_E_TOO_LARGE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(a_value_must_be_of_its_type),
        TEST(what_is_sensitive_is_sealed_and_masked),
        TEST(a_mask_that_comes_back_changes_nothing),
        TEST(overrides_go_before_the_org_and_the_org_before_defaults),
        TEST(a_new_version_takes_what_fits_it_by_key),
        TEST(a_box_opens_nowhere_else),
        TEST(a_rotation_cut_off_anywhere_leaves_all_openable),
        TEST(those_that_are_missing_are_named),
        TEST(what_is_too_much_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
