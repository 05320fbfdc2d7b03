/*
 * What of the host somebody needed who tried something in a cage that is watched, judged by what
 * was in the cage and what is on the host. A probe of what exists nowhere is not a need, nor is
 * what programs look at everywhere: noise.def.
 */
#include "cage/internal.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *path, *why;
} noises[] = {
#define NOISE(path, why) {path, why},
#include "cage/noise.def"
#undef NOISE
};

/* Folders of any place that are made again where they are missing. */
static const char *const caches[] = {".cache", "__pycache__", ".npm"};

const char cage_on_the_way[] = "it was only looked at, on the way to something else";

/* What is only looked at here is looked at on every machine. */
static const char *const systems[] = {"/usr",  "/etc", "/lib", "/lib64", "/bin",
                                      "/sbin", "/var", "/opt", "/run"};

static bool has_part(const char *path, const char *part)
{
    for (size_t length; *path != '\0'; path += length) {
        path += *path == '/';
        length = strcspn(path, "/");
        if (length == strlen(part) && strncmp(path, part, length) == 0)
            return true;
    }
    return false;
}

const char *cage_noise_of(const char *path)
{
    for (size_t i = 0; i < KG_COUNT(noises); i++)
        if (kg_path_within(path, noises[i].path))
            return noises[i].why;
    for (size_t i = 0; i < KG_COUNT(caches); i++)
        if (has_part(path, caches[i]))
            return "a cache, which is created where it is missing";
    return NULL;
}

static bool needs_is_of_system(const char *path)
{
    for (size_t i = 0; i < KG_COUNT(systems); i++)
        if (kg_path_within(path, systems[i]))
            return true;
    return false;
}

/* A folder that is there already is not made: who says mkdir of it only wants it to be there. */
static bool only_looks(const struct cage_attempt *attempt, bool is_folder)
{
    return attempt->act == CAGE_ACT_LOOK || (attempt->act == CAGE_ACT_WRITE && is_folder &&
                                             kg_str_starts(kg_str(attempt->call), "mkdir"));
}

static bool had_it(const struct cage_attempt *attempt)
{
    return attempt->act == CAGE_ACT_WRITE ? attempt->there == CAGE_THERE_TO_WRITE
                                          : attempt->there != CAGE_THERE_NOTHING;
}

/* Where something new would be made; owned, or NULL. */
static char *real_folder(const char *path)
{
    kg_auto(kg_free) char *folder = kg_path_folder(path);
    return folder[0] != '\0' ? cage_real_path(folder) : NULL;
}

static const char *why_not(const struct cage_attempt *attempt, const char *path, bool looks)
{
    if (kg_utf8_valid(kg_str(path)) < strlen(path))
        return "its name is not UTF-8, and a capability is";
    const char *noise = cage_noise_of(path);
    if (noise == NULL)
        noise = cage_noise_of(attempt->what);
    if (noise != NULL)
        return noise;
    if (looks && needs_is_of_system(path))
        return "a folder or file of the system that was only looked at";
    if (looks && !cage_place_may_be_given(path))
        return cage_on_the_way;
    return NULL;
}

bool cage_need_of(const struct cage_attempt *attempt, struct cage_need *ret_need)
{
    struct stat status;
    if (attempt->act >= CAGE_ACT_CONNECT || attempt->what[0] != '/' || had_it(attempt))
        return false;
    bool is_there = stat(attempt->what, &status) == 0;
    bool is_folder = is_there && S_ISDIR(status.st_mode);
    if (!is_there && attempt->act != CAGE_ACT_WRITE)
        return false;
    if (attempt->act == CAGE_ACT_RUN && (is_folder || access(attempt->what, X_OK) < 0))
        return false;
    char *path = is_there ? cage_real_path(attempt->what) : real_folder(attempt->what);
    if (path == NULL)
        return false;
    bool looks = only_looks(attempt, is_folder);
    *ret_need = (struct cage_need){
        .act = attempt->act == CAGE_ACT_RUN               ? CAGE_ACT_RUN
               : attempt->act == CAGE_ACT_WRITE && !looks ? CAGE_ACT_WRITE
                                                          : CAGE_ACT_READ,
        .path = path,
        .is_folder = is_folder || !is_there,
        .left_out = why_not(attempt, path, looks),
    };
    return true;
}

void cage_need_free(struct cage_need *need)
{
    free(need->path);
}
