/*
 * The programs that servers are run with. What a cage finds by its own PATH comes first, then what
 * the daemon's PATH has, then what version managers keep below the home, newest first. What is not
 * the system's has a folder that a cage must be given to read: its operator sees that, and says
 * yes.
 */
#include "store/runtime.h"

#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <unistd.h>

#define RUNTIMES_MAX 64

static const struct {
    const char *name, *pattern;
} managed[] = {
#define RUNTIME(name, pattern) {name, pattern},
#include "store/runtimes.def"
#undef RUNTIME
};

/* A PATH of a cage; what is there needs no folder. */
static const char *const own_folders[] = {"/usr/bin", "/usr/local/bin"};

/* -- one of them ------------------------------------------------------------------------------- */

/* The version that a part of its path is: v22.1.0, 22.1.0; also cpython-3.12.4-linux. */
static void find_version(const char *path, char ret_version[RUNTIME_VERSION_TEXT])
{
    struct kg_str rest = kg_str(path);
    ret_version[0] = '\0';
    while (rest.data != NULL && rest.length > 0) {
        struct kg_str part = kg_str_cut(&rest, '/');
        while (part.length > 0 && !kg_is_digit(part.data[0]))
            part = kg_str_from(part, 1);
        size_t length = 0;
        while (length < part.length && (kg_is_digit(part.data[length]) || part.data[length] == '.'))
            length++;
        struct kg_semver version;
        if (length < RUNTIME_VERSION_TEXT && kg_semver_parse(kg_str_first(part, length), &version))
            kg_str_copy(kg_str_first(part, length), ret_version, RUNTIME_VERSION_TEXT);
    }
}

static bool store_runtime_has(const struct runtimes *runtimes, const char *program)
{
    for (size_t i = 0; i < runtimes->count; i++)
        if (strcmp(runtimes->items[i].program, program) == 0)
            return true;
    return false;
}

/* A shim of a version manager is another program, or a script: it would look in vain in a cage. */
static bool is_program(const char *real, const char *name)
{
    char head[2] = "";
    const char *last = kg_path_name(real);
    kg_auto(kg_close) int fd = kg_str_starts(kg_str(last), name) && access(real, X_OK) == 0
                                   ? open(real, O_RDONLY | O_CLOEXEC)
                                   : -1;
    return fd >= 0 && read(fd, head, sizeof(head)) == (ssize_t)sizeof(head) &&
           memcmp(head, "#!", 2) != 0;
}

static void store_runtime_add(struct runtimes *runtimes, const char *name, const char *path,
                              bool is_own)
{
    kg_auto(kg_free) char *real = realpath(path, NULL);
    if (real == NULL || runtimes->count == RUNTIMES_MAX || store_runtime_has(runtimes, real) ||
        !is_program(real, name))
        return;
    kg_auto(kg_free) char *bin = kg_path_folder(real);
    struct runtime *runtime = &runtimes->items[runtimes->count++];
    *runtime = (struct runtime){
        .word = kg_strdup(is_own ? name : real),
        .folder = kg_path_folder(bin),
        .is_own = is_own,
    };
    if (!is_own)
        find_version(real, runtime->version);
    runtime->program = kg_steal(&real);
}

/* -- all of them ------------------------------------------------------------------------------- */

static void add_from_path(struct runtimes *runtimes, const char *name)
{
    struct kg_str rest = kg_str(getenv("PATH"));
    while (rest.data != NULL && rest.length > 0) {
        struct kg_str folder = kg_str_cut(&rest, ':');
        if (folder.length == 0 || folder.data[0] != '/')
            continue;
        kg_auto(kg_free) char *path = kg_format("%.*s/%s", KG_STR_ARG(folder), name);
        store_runtime_add(runtimes, name, path, false);
    }
}

static int newest_first(const void *a, const void *b)
{
    const struct runtime *first = a, *second = b;
    struct kg_semver of_first = {0}, of_second = {0};
    (void)kg_semver_parse(kg_str(first->version), &of_first);
    (void)kg_semver_parse(kg_str(second->version), &of_second);
    return kg_semver_compare(&of_second, &of_first);
}

static void add_managed(struct runtimes *runtimes, const char *name)
{
    const char *home = getenv("HOME");
    size_t first = runtimes->count;
    for (size_t i = 0; home != NULL && home[0] == '/' && i < KG_COUNT(managed); i++) {
        kg_auto(kg_free) char *pattern = kg_path_join(home, managed[i].pattern);
        glob_t found = {0};
        if (strcmp(managed[i].name, name) == 0 && glob(pattern, 0, NULL, &found) == 0)
            for (size_t k = 0; k < found.gl_pathc; k++)
                store_runtime_add(runtimes, name, found.gl_pathv[k], false);
        globfree(&found);
    }
    if (runtimes->count > first)
        qsort(runtimes->items + first, runtimes->count - first, sizeof(*runtimes->items),
              newest_first);
}

struct runtimes *runtimes_find(const char *name)
{
    struct runtimes *runtimes = kg_alloc(sizeof(*runtimes));
    runtimes->items = kg_alloc_array(RUNTIMES_MAX, sizeof(*runtimes->items));
    for (size_t i = 0; i < KG_COUNT(own_folders); i++) {
        kg_auto(kg_free) char *path = kg_path_join(own_folders[i], name);
        store_runtime_add(runtimes, name, path, true);
    }
    add_from_path(runtimes, name);
    add_managed(runtimes, name);
    return runtimes;
}

void runtimes_free(struct runtimes *runtimes)
{
    if (runtimes == NULL)
        return;
    for (size_t i = 0; i < runtimes->count; i++) {
        free(runtimes->items[i].word);
        free(runtimes->items[i].program);
        free(runtimes->items[i].folder);
    }
    free(runtimes->items);
    free(runtimes);
}

const struct runtime *runtimes_fitting(const struct runtimes *runtimes,
                                       const struct kg_semver_range *range_or_null)
{
    for (size_t i = 0; i < runtimes->count; i++) {
        struct kg_semver version;
        const struct runtime *runtime = &runtimes->items[i];
        if (range_or_null == NULL || !kg_semver_parse(kg_str(runtime->version), &version) ||
            kg_semver_range_has(range_or_null, &version))
            return runtime;
    }
    return NULL;
}
