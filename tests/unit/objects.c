/* Objects: where a bucket is, of the configuration; files by their hash, and the bound of a cache.
 */
#include "objects/internal.h"

#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* -- where it is ------------------------------------------------------------------------------- */

static void a_bucket_is_found_in_the_path_or_in_the_name_of_the_host(void **state)
{
    static const struct {
        const char *text, *url, *host;
        uint16_t port;
    } rows[] = {
        {"bucket = \"s3://packages\"", "https://s3.us-east-1.amazonaws.com/packages/",
         "s3.us-east-1.amazonaws.com", 443},
        {"bucket = \"s3://packages/a/b/\"\nregion = \"eu-west-1\"\nstyle = \"host\"",
         "https://packages.s3.eu-west-1.amazonaws.com/a/b/", "packages.s3.eu-west-1.amazonaws.com",
         443},
        {"bucket = \"s3://packages/a\"\nendpoint = \"http://127.0.0.1:9000/\"",
         "http://127.0.0.1:9000/packages/a/", "127.0.0.1", 9000},
        {"bucket = \"s3://packages\"\nendpoint = \"http://store.lan:9000\"\nstyle = \"host\"",
         "http://packages.store.lan:9000/", "packages.store.lan", 9000},
        {"bucket = \"s3://packages\"\nendpoint = \"https://[::1]:9000\"",
         "https://[::1]:9000/packages/", "::1", 9000},
    };
    (void)state;
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        struct kg_err err = {0};
        struct bucket_place place = {0};
        kg_auto(kg_free) char *text = kg_format("[cluster]\n%s\n", rows[i].text);
        struct config *config = config_read(kg_str(text), &err);
        assert_non_null(config);
        assert_int_equal(bucket_place_find(config, &place, &err), 0);
        assert_string_equal(place.url, rows[i].url);
        assert_string_equal(place.host, rows[i].host);
        assert_int_equal(place.port, rows[i].port);
        bucket_place_free(&place);
        config_free(config);
    }
}

/* -- a folder for each ------------------------------------------------------------------------- */

static int folder_begin(void **state)
{
    char *folder = kg_strdup("/tmp/kg-objects-XXXXXX");
    *state = folder;
    return mkdtemp(folder) == NULL;
}

static int folder_end(void **state)
{
    char *folder = *state;
    int result = folder_remove(folder);
    free(folder);
    return result;
}

/* -- files ------------------------------------------------------------------------------------- */

static char *write_object(const char *folder, const char *text, char ret_hash[OBJECTS_HASH_TEXT])
{
    char *path = kg_path_join(folder, "incoming");
    kg_auto(kg_close) int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(kg_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(objects_hash(fd, ret_hash, NULL), 0);
    return path;
}

static void put_object(const char *base, const char *folder, const char *text,
                       char ret_hash[OBJECTS_HASH_TEXT])
{
    kg_auto(kg_free) char *file = write_object(base, text, ret_hash);
    assert_int_equal(objects_file_put(folder, ret_hash, file, NULL), 0);
}

static void a_file_is_opened_only_while_it_is_what_its_name_says(void **state)
{
    const char *base = *state;
    char hash[OBJECTS_HASH_TEXT];
    struct kg_err err = {0};
    kg_auto(kg_free) char *folder = kg_path_join(base, "objects");
    put_object(base, folder, "hello", hash);
    int fd = objects_file_open(folder, hash, &err);
    assert_true(fd >= 0);
    close(fd);
    kg_auto(kg_free) char *path = kg_format("%s/%.2s/%s", folder, hash, hash);
    assert_int_equal(truncate(path, 3), 0);
    assert_true(objects_file_open(folder, hash, &err) < 0);
    assert_int_equal(err.code, KG_E_IO);
    objects_file_remove(folder, hash);
    assert_int_equal(objects_file_open(folder, hash, &err), -ENOENT);
}

static void a_cache_past_its_bound_forgets_the_oldest_first(void **state)
{
    const char *base = *state;
    char hashes[3][OBJECTS_HASH_TEXT];
    kg_auto(kg_free) char *folder = kg_path_join(base, "cache");
    for (int i = 0; i < 3; i++) {
        char text[] = "0123456789";
        text[0] = (char)('a' + i);
        put_object(base, folder, text, hashes[i]);
        kg_auto(kg_free) char *path = kg_format("%s/%.2s/%s", folder, hashes[i], hashes[i]);
        const struct timespec times[] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    }
    assert_int_equal(objects_file_trim(folder, 30), 30);
    int fd = objects_file_open(folder, hashes[0], NULL); /* is used, and so the newest */
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(objects_file_trim(folder, 25), 20);
    assert_int_equal(objects_file_open(folder, hashes[1], NULL), -ENOENT);
    assert_int_equal(objects_file_trim(folder, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_is_found_in_the_path_or_in_the_name_of_the_host),
        cmocka_unit_test_setup_teardown(a_file_is_opened_only_while_it_is_what_its_name_says,
                                        folder_begin, folder_end),
        cmocka_unit_test_setup_teardown(a_cache_past_its_bound_forgets_the_oldest_first,
                                        folder_begin, folder_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
