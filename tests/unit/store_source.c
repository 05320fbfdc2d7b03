/* What a SOURCE text means. */
#include "store/internal.h"
#include "store/source.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char base[] = "/tmp/kaged-source-XXXXXX";

static void make_file(const char *name)
{
    kg_auto(kg_free) char *path = kg_format("%s/%s", base, name);
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
}

static void assert_source(const char *text, const char *version, enum store_source_kind kind,
                          const char *place)
{
    struct kg_err err = {0};
    struct store_source *source;
    if (store_source_parse(text, version, base, &source, &err) < 0)
        fail_msg("%s: %s", text, err.message);
    assert_int_equal(source->kind, kind);
    assert_string_equal(source->text, text);
    assert_string_equal(source->place, place);
    if (version != NULL)
        assert_string_equal(source->version, version);
    else
        assert_null(source->version);
    store_source_free(source);
}

static void assert_refused(const char *text, const char *version, enum kg_code code,
                           const char *part)
{
    struct kg_err err = {0};
    struct store_source *source;
    if (store_source_parse(text, version, base, &source, &err) == 0)
        fail_msg("%s was taken", text);
    assert_int_equal(err.code, code);
    if (strstr(err.message, part) == NULL)
        fail_msg("%s: %s", text, err.message);
}

static void paths_are_folders_and_archives(void **state)
{
    (void)state;
    kg_auto(kg_free) char *folder = kg_format("%s/folder", base);
    kg_auto(kg_free) char *zip = kg_format("%s/a.zip", base);
    kg_auto(kg_free) char *gzip = kg_format("%s/a.TAR.GZ", base);
    kg_auto(kg_free) char *way = kg_format("%s/./folder/../link", base);
    make_file("a.zip");
    make_file("a.TAR.GZ");
    assert_int_equal(mkdir(folder, 0755), 0);
    kg_auto(kg_free) char *link = kg_format("%s/link", base);
    assert_int_equal(symlink("folder", link), 0);
    assert_source("folder", NULL, STORE_FOLDER, folder);
    assert_source("./folder/", "1.0.0", STORE_FOLDER, folder);
    assert_source(way, NULL, STORE_FOLDER, folder); /* links are followed once, here */
    assert_source("a.zip", NULL, STORE_ARCHIVE, zip);
    assert_source(gzip, NULL, STORE_ARCHIVE, gzip);
    assert_string_equal(source_archive_format(zip), "zip");
    assert_string_equal(source_archive_format(gzip), "tar");
}

static void paths_that_cannot_be_a_source_say_why(void **state)
{
    (void)state;
    make_file("plugin.rar");
    assert_refused("plugin.rar", NULL, KG_E_USAGE, "not an archive that kaged opens");
    assert_refused("missing", NULL, KG_E_NOT_FOUND, "No such file");
    assert_refused("/dev/null", NULL, KG_E_USAGE, "neither a folder nor a file");
    assert_refused("", NULL, KG_E_USAGE, "empty");
    assert_refused("a\nb", NULL, KG_E_USAGE, "control character");
    assert_refused("a\xff", NULL, KG_E_USAGE, "UTF-8");
}

static void git_urls_are_taken(void **state)
{
    (void)state;
    kg_auto(kg_free) char *url = kg_format("file://%s", base);
    assert_source("https://example.com/a/b.git", "1.2.3", STORE_GIT, "https://example.com/a/b.git");
    assert_source("git+https://example.com:8443/a", NULL, STORE_GIT, "https://example.com:8443/a");
    assert_source("https://[2001:db8::1]/a", NULL, STORE_GIT, "https://[2001:db8::1]/a");
    assert_source(url, NULL, STORE_GIT, url);
}

static void host_and_port_are_what_the_gate_lets_through(void **state)
{
    (void)state;
    static const struct {
        const char *url, *host;
        uint16_t port;
    } rows[] = {
        {"https://Example.COM/a", "example.com", 443},
        {"https://example.com:8443/a", "example.com", 8443},
        {"https://[2001:db8::1]/a", "2001:db8::1", 443},
        {"https://[2001:db8::1]:444/a", "2001:db8::1", 444},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *host = NULL;
        uint16_t port = 0;
        assert_true(source_host(rows[i].url, &host, &port));
        assert_string_equal(host, rows[i].host);
        assert_int_equal(port, rows[i].port);
    }
}

/* Versions do not make a source another one, and nothing else makes two of them one. */
static void sources_are_told_apart_by_where_they_are(void **state)
{
    (void)state;
    static const struct manifest manifest = {.name = (char *)"notes",
                                             .package = (char *)"@a/notes"};
    static const struct {
        enum store_source_kind kind;
        const char *place, *key;
    } rows[] = {
        {STORE_FOLDER, "/home/ann/notes", "folder:/home/ann/notes"},
        {STORE_FOLDER, "/share/kaged/plugins/notes", "kaged:notes"},
        {STORE_FOLDER, "/share/kaged/plugins/diary", "folder:%s/share/kaged/plugins/diary"},
        {STORE_ARCHIVE, "/home/ann/notes-1.0.zip", "archive:/home/ann/@a/notes"},
        {STORE_ARCHIVE, "/home/ann/notes-1.1.tar.gz", "archive:/home/ann/@a/notes"},
        {STORE_GIT, "https://Example.com/A/notes.git", "git:https://example.com/A/notes"},
        {STORE_GIT, "https://example.com/A/notes/", "git:https://example.com/A/notes"},
        {STORE_GIT, "https://example.com:8443/A/notes", "git:https://example.com:8443/A/notes"},
        {STORE_GIT, "file:///srv/Notes", "git:file:///srv/Notes"},
    };
    kg_auto(kg_free) char *share = kg_format("%s/share/kaged", base);
    kg_auto(kg_free) char *make = kg_format("mkdir -p %s/plugins/notes", share);
    assert_int_equal(system(make), 0);
    setenv("KAGED_SHARE", share, 1);
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        bool shipped = kg_str_starts(kg_str(rows[i].place), "/share");
        kg_auto(kg_free) char *place = kg_format("%s%s", shipped ? base : "", rows[i].place);
        kg_auto(kg_free) char *expected = kg_str_starts(kg_str(rows[i].key), "folder:%s")
                                              ? kg_format("folder:%s", place)
                                              : kg_strdup(rows[i].key);
        const struct store_source source = {.kind = rows[i].kind, .place = place};
        kg_auto(kg_free) char *key = store_source_key(&source, &manifest);
        assert_string_equal(key, expected);
    }
    unsetenv("KAGED_SHARE");
}

static void urls_that_are_not_fetched_say_why(void **state)
{
    (void)state;
    assert_refused("http://example.com/a", NULL, KG_E_USAGE, "only https:// and file://");
    assert_refused("ssh://git@example.com/a", NULL, KG_E_USAGE, "only https:// and file://");
    assert_refused("git@example.com:a/b.git", NULL, KG_E_USAGE, "only https:// and file://");
    assert_refused("ext::sh -c id@x", NULL, KG_E_USAGE, "only https:// and file://");
    assert_refused("https://me:secret@example.com/a", NULL, KG_E_USAGE, "password");
    assert_refused("https://example.com", NULL, KG_E_USAGE, "no repository");
    assert_refused("https://example.com/", NULL, KG_E_USAGE, "no repository");
    assert_refused("https:///a", NULL, KG_E_USAGE, "host or port");
    assert_refused("https://-oProxyCommand/a", NULL, KG_E_USAGE, "host or port");
    assert_refused("https://example.com:0/a", NULL, KG_E_USAGE, "host or port");
    assert_refused("https://example.com:99999/a", NULL, KG_E_USAGE, "host or port");
    assert_refused("https://[::1/a", NULL, KG_E_USAGE, "host or port");
    assert_refused("https://example.com/a b", NULL, KG_E_USAGE, "no URL may have");
    assert_refused("https://example.com/a#v1", NULL, KG_E_USAGE, "? and #");
    assert_refused("https://example.com/a.zip", NULL, KG_E_USAGE, "not downloaded");
    assert_refused("file://relative", NULL, KG_E_USAGE, "absolute path");
    assert_refused("file:///tmp/%2e%2e", NULL, KG_E_USAGE, "without %");
    assert_refused("file:///dev/null", NULL, KG_E_USAGE, "folder of a git repository");
}

static void version_is_one_that_a_tag_can_have_or_a_range(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "-x", "..", "1..2", "1/2", "1:2", "^", "^1 ||| 2"};
    static const char *const ranges[] = {"^1.0", "~1.0.0", "*", ">=1 <3", "1.x || 2"};
    for (size_t i = 0; i < KG_COUNT(bad); i++)
        assert_refused("https://example.com/a", bad[i], KG_E_USAGE, "is neither like 1.2.3");
    for (size_t i = 0; i < KG_COUNT(ranges); i++)
        assert_source("https://example.com/a", ranges[i], STORE_GIT, "https://example.com/a");
    assert_source("https://example.com/a", "1.2.3-rc.1+build", STORE_GIT, "https://example.com/a");
}

static int make_base(void **state)
{
    (void)state;
    return mkdtemp(base) == NULL ? -1 : 0;
}

static int remove_base(void **state)
{
    (void)state;
    kg_auto(kg_free) char *command = kg_format("rm -rf %s", base);
    return system(command);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_folders_and_archives),
        cmocka_unit_test(paths_that_cannot_be_a_source_say_why),
        cmocka_unit_test(git_urls_are_taken),
        cmocka_unit_test(host_and_port_are_what_the_gate_lets_through),
        cmocka_unit_test(sources_are_told_apart_by_where_they_are),
        cmocka_unit_test(urls_that_are_not_fetched_say_why),
        cmocka_unit_test(version_is_one_that_a_tag_can_have_or_a_range),
    };
    return cmocka_run_group_tests_name("store source", tests, make_base, remove_base);
}
