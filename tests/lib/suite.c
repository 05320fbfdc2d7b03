/* Walks suite folders in one fixed order; a file is given whole or the test fails. */
#include "suite.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SUITE_FILE_MAX ((size_t)64 * 1024 * 1024)

static char *path_in_suites(const char *name)
{
    const char *root = getenv("KAGED_SUITES");
    return kg_format("%s/%s", root && *root ? root : "../shared/data", name);
}

char *suite_path(const char *name)
{
    kg_auto(kg_free) char *path = path_in_suites(name);
    if (access(path, R_OK) < 0)
        return NULL;
    return kg_steal(&path);
}

/* Where the suite is published, as tests/suites.txt has it; owned. */
static char *published(const char *suite)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(kg_free) char *start = kg_format("\n%s ", suite);
    struct kg_err err;
    if (kg_read_file("tests/suites.txt", SUITE_FILE_MAX, &text, &err) < 0)
        fail_msg("%s", err.message);
    const char *found = strstr(kg_buf_terminate(&text), start);
    if (found == NULL)
        fail_msg("tests/suites.txt has no line for %s", suite);
    found += strlen(start);
    return kg_format("%.*s", (int)strcspn(found, "\n"), found);
}

void suite_skip(const char *test, const char *name)
{
    kg_auto(kg_free) char *suite = kg_format("%.*s", (int)strcspn(name, "/"), name);
    kg_auto(kg_free) char *place = published(suite);
    const char *ci = getenv("CI");
    if (ci != NULL && strcmp(ci, "true") == 0)
        fail_msg("the suite %s is not in KAGED_SUITES", suite);
    printf("SKIP %s: it needs the public suite %s (%s): put it into a folder as %s, and run "
           "KAGED_SUITES=FOLDER make test\n",
           test, suite, place, suite);
}

bool suite_is_long(void)
{
    const char *wanted = getenv("KAGED_TEST_LONG");
    return wanted != NULL && strcmp(wanted, "1") == 0;
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t length = strlen(name);
    size_t tail = strlen(suffix);
    return length >= tail && strcmp(name + length - tail, suffix) == 0;
}

static void give_file(const char *path, suite_on_file *on_file, void *data)
{
    kg_auto(kg_buf_free) struct kg_buf read = {0};
    struct kg_err err;
    if (kg_read_file(path, SUITE_FILE_MAX, &read, &err) < 0)
        fail_msg("%s", err.message);
    kg_auto(kg_free) char *exact = malloc(read.length);
    if (read.length)
        memcpy(exact, read.data, read.length);
    on_file(path, (struct kg_str){exact, read.length}, data);
}

static int not_hidden(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

size_t suite_each_file(const char *dir, const char *suffix, suite_on_file *on_file, void *data)
{
    struct dirent **entries;
    int found = scandir(dir, &entries, not_hidden, alphasort);
    if (found < 0)
        fail_msg("cannot list %s", dir);
    size_t count = 0;
    for (int i = 0; i < found; i++) {
        kg_auto(kg_free) char *path = kg_format("%s/%s", dir, entries[i]->d_name);
        free(entries[i]);
        struct stat status;
        if (stat(path, &status) < 0)
            fail_msg("cannot stat %s", path);
        if (S_ISDIR(status.st_mode)) {
            count += suite_each_file(path, suffix, on_file, data);
        } else if (ends_with(path, suffix)) {
            give_file(path, on_file, data);
            count++;
        }
    }
    free(entries);
    return count;
}
