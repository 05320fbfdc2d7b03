/*
 * The host as the planner sees it, and where the programs are that build cages. The facts come from
 * the same rows that the doctor shows, so that the two never disagree: see checks.c.
 */
#include "cage/internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* -- the real host ----------------------------------------------------------------------------- */

static enum cage_file real_kind(const char *path)
{
    struct stat status;
    if (stat(path, &status) < 0)
        return CAGE_FILE_NONE;
    if (S_ISDIR(status.st_mode))
        return CAGE_FILE_FOLDER;
    if (!S_ISREG(status.st_mode))
        return CAGE_FILE_OTHER;
    return (status.st_mode & 0111) != 0 ? CAGE_FILE_PROGRAM : CAGE_FILE_PLAIN;
}

static char *real_link(const char *path)
{
    char target[PATH_MAX];
    ssize_t length = readlink(path, target, sizeof(target));
    if (length < 0 || (size_t)length == sizeof(target))
        return NULL;
    return kg_str_dup((struct kg_str){target, (size_t)length});
}

/* To the kernel it is one question whether there is a link anywhere in a path. */
static bool has_no_link(const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    if (!cage_path_plain(path))
        return false;
    kg_auto(kg_close) int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
    return fd >= 0;
}

char *cage_real_path(const char *path)
{
    return has_no_link(path) ? kg_strdup(path) : realpath(path, NULL);
}

static size_t real_head(const char *path, char *ret_text, size_t max)
{
    kg_auto(kg_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t got = fd < 0 ? -1 : read(fd, ret_text, max);
    return got < 0 ? 0 : (size_t)got;
}

static bool real_is_roots(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && status.st_uid == 0;
}

static int facts_compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool real_list(const char *path, size_t max, struct cage_words *ret_names)
{
    struct cage_words names = {0};
    DIR *dir = opendir(path);
    bool fits = dir != NULL;
    for (struct dirent *entry; fits && (entry = readdir(dir)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            cage_words_add(&names, entry->d_name);
        fits = names.count <= max;
    }
    if (dir != NULL)
        closedir(dir);
    if (!fits) {
        cage_words_free(&names);
        return false;
    }
    if (names.count > 0)
        qsort(names.items, names.count, sizeof(*names.items), facts_compare_names);
    *ret_names = names;
    return true;
}

const struct cage_host cage_real_host = {real_kind,     real_link, cage_real_path,   real_head,
                                         real_is_roots, real_list, cage_mounted_read};

/* -- our own programs -------------------------------------------------------------------------- */

char *cage_helper_path(const char *name)
{
    static const char *const beside[] = {
        ".",                /* build/bin */
        "../libexec/kaged", /* an installation, wherever it was moved to */
#ifdef KAGED_TEST_LAYOUT
        "../../src", /* the tests have folders of their own */
#endif
    };
    kg_auto(kg_free) char *self = real_link("/proc/self/exe");
    for (size_t i = 0; self != NULL && i < KG_COUNT(beside); i++) {
        kg_auto(kg_free) char *folder = cage_path_join(self, "..");
        kg_auto(kg_free) char *wanted = cage_path_join(folder, beside[i]);
        kg_auto(kg_free) char *path = cage_path_join(wanted, name);
        if (real_kind(path) == CAGE_FILE_PROGRAM)
            return kg_steal(&path);
    }
    kg_auto(kg_free) char *path = cage_path_join(KAGED_LIBEXEC, name);
    return real_kind(path) == CAGE_FILE_PROGRAM ? kg_steal(&path) : NULL;
}

/* -- programs of the system that build cages --------------------------------------------------- */

/* Not from PATH: whoever sets that must not choose what builds the cages. */
static const char *const tool_folders[] = {"/usr/bin",        "/usr/sbin", "/usr/local/bin",
                                           "/usr/local/sbin", "/bin",      "/sbin"};

char *cage_tool_path(const char *name)
{
    for (size_t i = 0; i < KG_COUNT(tool_folders); i++) {
        kg_auto(kg_free) char *path = cage_path_join(tool_folders[i], name);
        if (real_kind(path) == CAGE_FILE_PROGRAM)
            return kg_steal(&path);
    }
    return NULL;
}

bool cage_tool_is(const char *path, const char *name)
{
    kg_auto(kg_free) char *found = cage_tool_path(name);
    return found != NULL && strcmp(found, path) == 0;
}

/* -- facts ------------------------------------------------------------------------------------- */

struct cage_facts *cage_facts_probe(struct kg_err *err)
{
    struct cage_checks checks = {0};
    struct cage_facts *facts = cage_facts_check(&(struct cage_site){0}, &checks, err);
    cage_checks_free(&checks);
    return facts;
}

void cage_facts_free(struct cage_facts *facts)
{
    if (facts == NULL)
        return;
    free(facts->bwrap);
    free(facts->nft);
    free(facts);
}
