/*
 * The files and folders that a policy grants. A path means what the operator read: it is real, no
 * link is in it, it is neither the system's whole nor kaged's own, and it is mounted after what it
 * lies in, so that the nearest grant above a file decides whether it may be written.
 */
#include "cage/internal.h"

#include <stdlib.h>

/* One path of the policy, or the folder of one of its programs. */
struct file {
    const char *path;    /* borrowed from the policy */
    const char *program; /* whose folder it is, or NULL */
    const char *note;    /* or NULL */
    bool write, own;
    bool roots; /* root's own may be written */
};

struct files {
    const struct cage_policy *policy;
    const struct cage_facts *facts;
    struct cage_plan *plan;
    struct kg_err *err;
    struct file *items; /* owned */
    size_t count;
};

static void files_free(struct files *files)
{
    free(files->items);
}

/* -- whether one may be granted ---------------------------------------------------------------- */

static int refuse(const struct files *files, const struct file *file, const char *why)
{
    const char *name = files->policy->name;
    if (file->program != NULL)
        return kg_fail(files->err, KG_E_CAGE, "plugin %s: run %s in %s: %s", name, file->program,
                       file->path, why);
    return kg_fail(files->err, KG_E_CAGE, "plugin %s: %s %s: %s", name,
                   file->write ? "write" : "read", file->path, why);
}

static bool is_own(const struct files *files, const struct file *file)
{
    return kg_path_within(file->path, files->policy->install_dir);
}

static int check_name(const struct files *files, const struct file *file)
{
    if (strcmp(file->path, "/") != 0 && !cage_path_plain(file->path))
        return refuse(files, file, "it is not a plain absolute path");
    struct kg_err why;
    if (cage_place_check(file->path, KG_E_CAGE, &why) == 0)
        return 0;
    int result = refuse(files, file, why.message);
    kg_hint(files->err, "%s", why.hint);
    return result;
}

static int check_kind(const struct files *files, const struct file *file)
{
    const struct cage_host *host = files->facts->host;
    kg_auto(kg_free) char *real = host->real(file->path);
    enum cage_file kind = host->kind(file->path);
    if (kind == CAGE_FILE_NONE && file->own && file->write)
        return 0; /* it is made before the start */
    if (real == NULL || kind == CAGE_FILE_NONE) {
        int result = refuse(files, file, "it is not there");
        kg_hint(files->err, "make it, or take this capability from the plugin");
        return result;
    }
    if (strcmp(real, file->path) != 0) {
        int result = refuse(files, file, "there is a link in this path");
        kg_hint(files->err, "use the real path, %s", real);
        return result;
    }
    if (file->program != NULL && kind != CAGE_FILE_FOLDER)
        return refuse(files, file, "it is not a folder");
    return kind != CAGE_FILE_OTHER ? 0 : refuse(files, file, "neither a folder nor a file");
}

static bool overlap(const char *path, const char *folder)
{
    return kg_path_within(path, folder) || kg_path_within(folder, path);
}

/* A kept folder may have a link in its name; the path has none, so both names are compared. */
static bool is_kept(const struct files *files, const char *path)
{
    for (const char *const *kept = files->policy->kept; kept != NULL && *kept != NULL; kept++) {
        kg_auto(kg_free) char *real = files->facts->host->real(*kept);
        if (overlap(path, *kept) || (real != NULL && overlap(path, real)))
            return true;
    }
    return false;
}

static bool is_listed(const struct files *files, const char *path)
{
    const char *const *folder = files->policy->root_writable;
    for (; folder != NULL && *folder != NULL; folder++)
        if (kg_path_within(path, *folder))
            return true;
    return false;
}

/* What a plugin writes there is root's on disk: programs of root may believe it. */
static int check_roots(const struct files *files, struct file *file)
{
    file->roots = files->facts->is_root && (file->own || is_listed(files, file->path));
    if (!files->facts->is_root || !file->write || file->roots ||
        !files->facts->host->is_roots(file->path))
        return 0;
    int result = refuse(files, file, "it is root's own");
    kg_hint(files->err,
            "give it to another user, or list it in sandbox.root_writable of config.toml");
    return result;
}

static int check_file(const struct files *files, struct file *file)
{
    int result = check_name(files, file);
    if (result == 0)
        result = check_kind(files, file);
    if (result < 0 || (is_own(files, file) && !file->write))
        return result;
    if (is_own(files, file)) {
        result = refuse(files, file, "the plugin's own folder is always read-only");
        kg_hint(files->err, "let it write below config:/ instead");
        return result;
    }
    if (!file->own && is_kept(files, file->path))
        return refuse(files, file, "it belongs to kaged itself");
    if (file->write && cage_words_have(&files->plan->executables, file->path))
        return refuse(files, file, "a program that it runs cannot be written");
    return check_roots(files, file);
}

/* -- the list: parents first, each path once --------------------------------------------------- */

/* A program may work in a folder that kaged keeps for the plugin, if that was granted. */
static bool is_in_own_path(const struct cage_policy *policy, const char *path)
{
    for (size_t i = 0; i < policy->path_count; i++)
        if (policy->paths[i].own && kg_path_within(path, policy->paths[i].path))
            return true;
    return false;
}

static void collect(struct files *files)
{
    const struct cage_policy *policy = files->policy;
    files->items =
        kg_alloc_array(policy->path_count + policy->program_count + 1, sizeof(*files->items));
    for (size_t i = 0; i < policy->path_count; i++)
        files->items[files->count++] = (struct file){.path = policy->paths[i].path,
                                                     .note = policy->paths[i].note,
                                                     .write = policy->paths[i].write,
                                                     .own = policy->paths[i].own};
    for (size_t i = 0; i < policy->program_count; i++) {
        const struct cage_program *program = &policy->programs[i];
        files->items[files->count++] =
            (struct file){.path = program->folder,
                          .program = program->program,
                          .own = is_in_own_path(policy, program->folder)};
    }
}

/* A folder is a prefix of what is in it, and so comes before it. */
static int compare(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

static void sort(struct files *files)
{
    size_t kept = 0;
    qsort(files->items, files->count, sizeof(*files->items), compare);
    for (size_t i = 0; i < files->count; i++) {
        struct file *last = kept > 0 ? &files->items[kept - 1] : NULL;
        if (last == NULL || strcmp(last->path, files->items[i].path) != 0) {
            files->items[kept++] = files->items[i];
            continue;
        }
        if (last->note == NULL || (files->items[i].write && !last->write))
            last->note = files->items[i].note;
        last->write = last->write || files->items[i].write;
        last->roots = last->roots || files->items[i].roots;
    }
    files->count = kept;
}

/* -- the steps --------------------------------------------------------------------------------- */

/* True if the last that is mounted over path is a part of the system, which anybody may read. */
static bool is_shown_already(const struct cage_steps *steps, const char *path)
{
    for (size_t i = steps->count; i-- > 0;) {
        const struct cage_step *step = &steps->items[i];
        bool mounts = step->kind == CAGE_STEP_SYSTEM || step->kind == CAGE_STEP_BIND ||
                      step->kind == CAGE_STEP_WRITE || step->kind == CAGE_STEP_TMPFS;
        if (mounts && kg_path_within(path, step->path))
            return step->kind == CAGE_STEP_SYSTEM;
    }
    return false;
}

static void add_file(const struct files *files, const struct file *file)
{
    struct cage_steps *steps = &files->plan->steps;
    if (is_own(files, file))
        return;
    cage_grants_add(&files->plan->grants, file->write ? CAGE_GRANT_WRITE : CAGE_GRANT_READ,
                    file->path, file->note ? file->note : "");
    if (!file->write && is_shown_already(steps, file->path))
        return;
    cage_steps_add(steps, file->write ? CAGE_STEP_WRITE : CAGE_STEP_BIND, file->path, file->path,
                   0);
    if (!file->write)
        return;
    steps->items[steps->count - 1].roots = file->roots;
    cage_words_add(&files->plan->writables, file->path);
}

/* What may be executed is not written, and what is written not executed: programs lie on top. */
static void cover_programs(const struct files *files)
{
    const struct cage_words *programs = &files->plan->executables;
    for (size_t i = 0; i < programs->count; i++) {
        bool writable = false;
        for (size_t j = 0; j < files->count; j++)
            writable = writable || (files->items[j].write &&
                                    kg_path_within(programs->items[i], files->items[j].path));
        if (writable && !kg_path_within(programs->items[i], files->policy->install_dir))
            cage_steps_add(&files->plan->steps, CAGE_STEP_BIND, programs->items[i],
                           programs->items[i], 0);
    }
}

int cage_files_add(const struct cage_policy *policy, const struct cage_facts *facts,
                   struct cage_plan *plan, struct kg_err *err)
{
    kg_auto(files_free) struct files files = {policy, facts, plan, err, NULL, 0};
    collect(&files);
    for (size_t i = 0; i < files.count; i++) {
        int result = check_file(&files, &files.items[i]);
        if (result < 0)
            return result;
    }
    sort(&files);
    for (size_t i = 0; i < files.count; i++)
        add_file(&files, &files.items[i]);
    cover_programs(&files);
    return 0;
}
