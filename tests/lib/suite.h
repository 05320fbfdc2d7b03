/* Public test suites: where they are, and a walk over their files. */
#ifndef KAGED_TEST_SUITE_H
#define KAGED_TEST_SUITE_H

#include "base/base.h"

/*
 * The path of a file or folder of the suites, or NULL if it is not there; the caller owns it. They
 * are looked for in KAGED_SUITES, else in ../shared/data beside the source root, where tests run.
 */
char *suite_path(const char *name);

/*
 * Says on stdout that a test is skipped since its suite is missing; with CI=true fails it instead.
 * The test then returns: `if (path == NULL) return suite_skip(__func__, "toml-test");`
 */
void suite_skip(const char *test, const char *name);

/* Whether all of what takes long is wanted (make test-long), or a sample. */
bool suite_is_long(void);

/* text is borrowed, a block of its exact size, so that a read past its end is found. */
typedef void suite_on_file(const char *path, struct kg_str text, void *data);

/*
 * Calls back for every file below dir whose name ends in suffix, sorted by name in each folder.
 * Returns how many there were. A file that cannot be read fails the test.
 */
size_t suite_each_file(const char *dir, const char *suffix, suite_on_file *on_file, void *data);

#endif
