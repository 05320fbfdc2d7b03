/* One table says what in a folder is run or believed outside of cages, and so is guarded. */
#include "cage/internal.h"

enum missing { WATCHED, AHEAD };
enum grant { NAMED, NEVER };

const struct cage_guard cage_guards[] = {
#define GUARD(path, missing, grant, why) {path, why, (missing) == AHEAD, (grant) == NEVER},
#include "cage/guards.def"
#undef GUARD
};
const size_t cage_guard_count = KG_COUNT(cage_guards);

static const char git[] = ".git/";

const char *cage_guard_in_git(const struct cage_guard *guard)
{
    return kg_str_starts(kg_str(guard->path), git) ? guard->path + sizeof(git) - 1 : NULL;
}

/* Where the names come one after the other in the path, behind it; NULL: nowhere. */
static const char *find_names(const char *path, const char *names)
{
    size_t length = strlen(names);
    for (const char *at = path; at != NULL; at = strchr(at, '/')) {
        at += *at == '/' ? 1 : 0;
        if (strncmp(at, names, length) == 0 && (at[length] == '/' || at[length] == '\0'))
            return at + length;
    }
    return NULL;
}

/* Repositories of submodules and work trees lie deeper in .git. */
const struct cage_guard *cage_guard_of(const char *path)
{
    for (size_t i = 0; i < cage_guard_count; i++) {
        const char *in_git = cage_guard_in_git(&cage_guards[i]);
        const char *at = find_names(path, in_git ? ".git" : cage_guards[i].path);
        if (at != NULL && in_git != NULL)
            at = find_names(at, in_git);
        if (at != NULL)
            return &cage_guards[i];
    }
    return NULL;
}
