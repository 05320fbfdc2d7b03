/*
 * What guards.def has, where a plugin may write: below each folder that it was granted, and below
 * each git work tree that lies in one, or that one lies in. A link on the way is followed, and
 * where it leads is guarded. Who grants more than can be looked at is told so, and nothing starts:
 * else a plugin could hide one work tree behind many.
 */
#include "host/internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEVELS_MAX  3
#define FOLDERS_MAX 32768 /* that are looked at for one cage */
#define TREES_MAX   64

struct guards {
    char *const *grants;        /* folders that may be written */
    struct host_covers *covers; /* what is found */
    struct kg_map *known;       /* owned; by path */
    size_t folder_count, tree_count;
    struct kg_err *err;
};

static void guards_free(struct guards *guards)
{
    kg_map_free(guards->known);
}

static bool host_guards_is_granted(const struct guards *guards, const char *path)
{
    for (char *const *grant = guards->grants; *grant != NULL; grant++)
        if (kg_path_within(path, *grant))
            return true;
    return false;
}

/* Where it is, or would be: links are followed. Owned. */
static char *host_guards_place_of(const char *path)
{
    char *real = cage_real_path(path);
    if (real != NULL)
        return real;
    kg_auto(kg_free) char *above = kg_path_folder(path), *real_above = cage_real_path(above);
    return real_above ? kg_path_join(real_above, kg_path_name(path)) : kg_strdup(path);
}

static void add_once(struct guards *guards, const char *path, struct host_cover cover)
{
    if (!host_guards_is_granted(guards, path) || kg_map_get(guards->known, kg_str(path)) != NULL)
        return;
    kg_map_set(guards->known, kg_str(path), guards);
    cover.path = kg_strdup(path);
    host_covers_add(guards->covers, &cover);
}

static void host_guards_add(struct guards *guards, const char *path, struct host_cover cover)
{
    struct stat there;
    kg_auto(kg_free) char *place = host_guards_place_of(path);
    add_once(guards, place, cover);
    if (strcmp(place, path) != 0 && lstat(path, &there) == 0 && S_ISLNK(there.st_mode))
        add_once(guards, path, (struct host_cover){.link = true});
}

static void add_row(struct guards *guards, const char *folder, const char *name,
                    const struct cage_guard *row)
{
    kg_auto(kg_free) char *path = kg_path_join(folder, name);
    host_guards_add(guards, path,
                    (struct host_cover){.ahead = row->ahead,
                                        .closed = row->never ? HOST_PROJECTS_FILE : NULL,
                                        .note = row->why});
}

/* -- repositories ------------------------------------------------------------------------------ */

/* At consent nobody knows where hooks lie, so such a folder is never given. */
static void add_hooks(struct guards *guards, const char *tree, char *const *hooks)
{
    for (; *hooks != NULL; hooks++) {
        kg_auto(kg_free) char *path = cage_path_join(tree, *hooks);
        host_guards_add(
            guards, path,
            (struct host_cover){.ahead = true,
                                .closed = "git runs hooks in it, as core.hooksPath says",
                                .note = "git runs hooks in it"});
    }
}

static int guard_config(struct guards *guards, const char *tree, const char *repository,
                        const char *name)
{
    kg_auto(kg_free) char *file = kg_path_join(repository, name);
    char **hooks = kg_list_new(0), **includes = kg_list_new(0);
    int result = guards_git_read(file, &hooks, &includes, guards->err);
    add_hooks(guards, tree, hooks);
    for (char **include = includes; *include != NULL; include++) {
        kg_auto(kg_free) char *path = cage_path_join(repository, *include);
        host_guards_add(guards, path, (struct host_cover){.note = "git's config includes it"});
    }
    kg_list_free(hooks);
    kg_list_free(includes);
    return result;
}

static int guard_repository(struct guards *guards, const char *tree, const char *repository)
{
    for (size_t i = 0; i < cage_guard_count; i++) {
        const char *name = cage_guard_in_git(&cage_guards[i]);
        if (name != NULL)
            add_row(guards, repository, name, &cage_guards[i]);
    }
    int result = guard_config(guards, tree, repository, "config");
    return result < 0 ? result : guard_config(guards, tree, repository, "config.worktree");
}

/* A repository, and the one that it shares hooks and config with, as git worktree makes them. */
static int guard_repositories(struct guards *guards, const char *tree, const char *repository)
{
    kg_auto(kg_free) char *place = host_guards_place_of(repository);
    kg_auto(kg_free) char *file = kg_path_join(place, "commondir");
    kg_auto(kg_free) char *common = guards_git_named(file, "", place);
    int result = guard_repository(guards, tree, place);
    if (result < 0 || common == NULL)
        return result;
    return guard_repository(guards, tree, common);
}

static int guard_folder(struct guards *guards, const char *folder)
{
    struct stat there;
    kg_auto(kg_free) char *git = kg_path_join(folder, ".git");
    for (size_t i = 0; i < cage_guard_count; i++)
        if (cage_guard_in_git(&cage_guards[i]) == NULL)
            add_row(guards, folder, cage_guards[i].path, &cage_guards[i]);
    if (stat(git, &there) < 0 || !S_ISREG(there.st_mode))
        return guard_repositories(guards, folder, git);
    host_guards_add(guards, git,
                    (struct host_cover){.note = "it says where git finds its repository"});
    kg_auto(kg_free) char *elsewhere = guards_git_named(git, "gitdir:", folder);
    return elsewhere ? guard_repositories(guards, folder, elsewhere) : 0;
}

/* -- work trees -------------------------------------------------------------------------------- */

static bool host_guards_is_tree(const char *folder)
{
    struct stat there;
    kg_auto(kg_free) char *git = kg_path_join(folder, ".git");
    return lstat(git, &there) == 0;
}

static int guard_tree(struct guards *guards, const char *folder)
{
    if (!host_guards_is_tree(folder))
        return 0;
    if (++guards->tree_count <= TREES_MAX)
        return guard_folder(guards, folder);
    kg_fail(guards->err, KG_E_REFUSED,
            "%s: there are more than %d git work trees in what it may write", folder, TREES_MAX);
    return kg_hint(guards->err, "let it write fewer of them");
}

static bool host_guards_is_folder(DIR *in, const struct dirent *entry)
{
    struct stat there;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
        strcmp(entry->d_name, ".git") == 0)
        return false;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    return fstatat(dirfd(in), entry->d_name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(there.st_mode);
}

static int count_folder(struct guards *guards, const char *folder)
{
    if (++guards->folder_count <= FOLDERS_MAX)
        return 0;
    kg_fail(guards->err, KG_E_REFUSED,
            "%s: there are more than %d folders within %d levels of what it may write", folder,
            FOLDERS_MAX, LEVELS_MAX);
    return kg_hint(guards->err, "let it write less: they are searched for git work trees");
}

/* What cannot be read is passed over. */
static int guard_below(struct guards *guards, const char *folder, unsigned level)
{
    DIR *in = opendir(folder);
    int result = 0;
    const struct dirent *entry;
    while (in != NULL && result == 0 && (entry = readdir(in)) != NULL) {
        if (!host_guards_is_folder(in, entry))
            continue;
        kg_auto(kg_free) char *path = kg_path_join(folder, entry->d_name);
        result = count_folder(guards, path);
        if (result == 0)
            result = guard_tree(guards, path);
        if (result == 0 && level < LEVELS_MAX)
            result = guard_below(guards, path, level + 1);
    }
    if (in != NULL)
        closedir(in);
    return result;
}

static int guard_above(struct guards *guards, const char *grant)
{
    kg_auto(kg_free) char *folder = kg_path_folder(grant);
    int result = 0;
    while (result == 0 && strcmp(folder, "/") != 0) {
        if (host_guards_is_tree(folder))
            result = guard_folder(guards, folder);
        char *above = kg_path_folder(folder);
        free(folder);
        folder = above;
    }
    return result;
}

int guards_find(char *const *grants, struct host_covers *ret_covers, struct kg_err *err)
{
    kg_auto(guards_free) struct guards guards = {
        .grants = grants, .covers = ret_covers, .known = kg_map_new(), .err = err};
    struct stat there;
    int result = 0;
    for (; *grants != NULL && result == 0; grants++) {
        result = guard_above(&guards, *grants);
        if (result < 0 || lstat(*grants, &there) < 0 || !S_ISDIR(there.st_mode))
            continue;
        result = guard_folder(&guards, *grants);
        if (result == 0)
            result = guard_below(&guards, *grants, 1);
    }
    return result;
}
