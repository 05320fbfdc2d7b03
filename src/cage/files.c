/*
 * The files and folders that a policy grants. A path means what the operator read: it is real, no
 * link is in it, it is neither the system's whole nor kaged's own, and it is mounted after what it
 * lies in, so that the nearest grant above a file decides whether it may be written. It stays where
 * it is: whatever lies below a path that may be written, and may not be itself, is a mount, and so
 * is each folder between the two, since the kernel lets nobody move or remove a mount.
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
    bool part;  /* a cover, or a folder above something that stays where it is */
    bool empty; /* a cover that shows nothing of what is below it */
};

struct files {
    const struct cage_policy *policy;
    const struct cage_facts *facts;
    struct cage_plan *plan;
    struct kg_err *err;
    struct file *items; /* owned */
    size_t count;
    struct cage_mounted *mounted; /* owned; NULL until it is asked for */
    struct cage_words between;    /* the paths of folders that nobody named */
};

static void files_free(struct files *files)
{
    free(files->items);
    cage_words_free(&files->between);
    cage_mounted_free(files->mounted);
}

/* -- whether one may be granted ---------------------------------------------------------------- */

static int cage_files_refuse(const struct files *files, const struct file *file, const char *why)
{
    const char *name = files->policy->name;
    if (file->program != NULL)
        return kg_fail(files->err, KG_E_CAGE, "plugin %s: run %s in %s: %s", name, file->program,
                       file->path, why);
    return kg_fail(files->err, KG_E_CAGE, "plugin %s: %s %s: %s", name,
                   file->write ? "write" : "read", file->path, why);
}

static bool cage_files_is_own(const struct files *files, const struct file *file)
{
    return kg_path_within(file->path, files->policy->install_dir);
}

static int cage_files_check_name(const struct files *files, const struct file *file)
{
    if (strcmp(file->path, "/") != 0 && !cage_path_plain(file->path))
        return cage_files_refuse(files, file, "it is not a plain absolute path");
    struct kg_err why;
    if (cage_place_check(file->path, KG_E_CAGE, &why) == 0)
        return 0;
    int result = cage_files_refuse(files, file, why.message);
    kg_hint(files->err, "%s", why.hint);
    return result;
}

static int cage_files_check_kind(const struct files *files, const struct file *file)
{
    const struct cage_host *host = files->facts->host;
    kg_auto(kg_free) char *real = host->real(file->path);
    enum cage_file kind = host->kind(file->path);
    if (kind == CAGE_FILE_NONE && file->own && file->write)
        return 0; /* it is made before the start */
    if (real == NULL || kind == CAGE_FILE_NONE) {
        int result = cage_files_refuse(files, file, "it does not exist");
        kg_hint(files->err, "create it, or remove this capability from the plugin");
        return result;
    }
    if (strcmp(real, file->path) != 0) {
        int result = cage_files_refuse(files, file, "this path contains a symbolic link");
        kg_hint(files->err, "use the real path, %s", real);
        return result;
    }
    if (file->program != NULL && kind != CAGE_FILE_FOLDER)
        return cage_files_refuse(files, file, "it is not a folder");
    return kind != CAGE_FILE_OTHER ? 0
                                   : cage_files_refuse(files, file, "neither a folder nor a file");
}

static bool overlap(const char *path, const char *folder)
{
    return kg_path_within(path, folder) || kg_path_within(folder, path);
}

/* A kept folder may have a link in its name; the path has none, so both names are compared. */
static bool is_kept_name(const struct files *files, const char *path)
{
    for (const char *const *kept = files->policy->kept; kept != NULL && *kept != NULL; kept++) {
        kg_auto(kg_free) char *real = files->facts->host->real(*kept);
        if (overlap(path, *kept) || (real != NULL && overlap(path, real)))
            return true;
    }
    return false;
}

/* Under another name, which a mount gave it. */
static bool is_kept_elsewhere(const struct files *files, const char *path)
{
    for (const char *const *kept = files->policy->kept; files->mounted && *kept != NULL; kept++) {
        kg_auto(kg_free) char *real = files->facts->host->real(*kept);
        if (real != NULL && cage_mounted_overlap(files->mounted, path, real))
            return true;
    }
    return false;
}

static int cage_files_check_kept(struct files *files, const struct file *file)
{
    struct cage_mounted *(*mounted)(void) = files->facts->host->mounted;
    if (files->mounted == NULL && mounted != NULL && files->policy->kept != NULL &&
        (files->mounted = mounted()) == NULL)
        return cage_files_refuse(files, file,
                                 "the kernel does not say what is mounted on this machine");
    if (is_kept_name(files, file->path) || is_kept_elsewhere(files, file->path))
        return cage_files_refuse(files, file, "it belongs to kaged itself");
    return 0;
}

static bool cage_files_is_listed(const struct files *files, const char *path)
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
    file->roots = files->facts->is_root && (file->own || cage_files_is_listed(files, file->path));
    if (!files->facts->is_root || !file->write || file->roots ||
        !files->facts->host->is_roots(file->path))
        return 0;
    int result = cage_files_refuse(files, file, "it belongs to root");
    kg_hint(files->err,
            "give it to another user, or list it in sandbox.root_writable of config.toml");
    return result;
}

static int cage_files_check_file(struct files *files, struct file *file)
{
    int result = cage_files_check_name(files, file);
    if (result == 0)
        result = cage_files_check_kind(files, file);
    if (result < 0 || (cage_files_is_own(files, file) && !file->write))
        return result;
    if (cage_files_is_own(files, file)) {
        result = cage_files_refuse(files, file, "the plugin's own folder is always read-only");
        kg_hint(files->err, "let it write below config:/ instead");
        return result;
    }
    if (!file->own && (result = cage_files_check_kept(files, file)) < 0)
        return result;
    if (file->write && cage_words_have(&files->plan->executables, file->path))
        return cage_files_refuse(files, file, "it cannot write a program that it runs");
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

static void cage_files_collect(struct files *files)
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
static int cage_files_compare(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

static void sort(struct files *files)
{
    size_t kept = 0;
    qsort(files->items, files->count, sizeof(*files->items), cage_files_compare);
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

/* -- what stays where it is -------------------------------------------------------------------- */

static struct file *cage_files_find(const struct files *files, const char *path)
{
    for (size_t i = 0; i < files->count; i++)
        if (strcmp(files->items[i].path, path) == 0)
            return &files->items[i];
    return NULL;
}

/* The nearest grant above the path, or of it. */
static const struct file *nearest_of(const struct files *files, const char *path)
{
    const struct file *nearest = NULL;
    for (size_t i = 0; i < files->count; i++)
        if (kg_path_within(path, files->items[i].path) &&
            (nearest == NULL || strlen(files->items[i].path) > strlen(nearest->path)))
            nearest = &files->items[i];
    return nearest;
}

static bool cage_files_is_writable(const struct files *files, const char *path)
{
    const struct file *nearest = nearest_of(files, path);
    return nearest != NULL && nearest->write;
}

static int cage_files_push(struct files *files, const struct file *file)
{
    if (files->count >= CAGE_STEPS_MAX)
        return cage_steps_too_many(files->policy->name, files->err);
    files->items = kg_realloc(files->items, (files->count + 1) * sizeof(*files->items));
    files->items[files->count++] = *file;
    return 0;
}

/* Each folder above the path, as far up as something may be written, becomes a mount. */
static int hold_above(struct files *files, const char *path)
{
    kg_auto(kg_free) char *folder = kg_path_folder(path);
    int result = 0;
    while (result == 0 && cage_files_is_writable(files, folder)) {
        if (cage_files_find(files, folder) == NULL) {
            cage_words_add(&files->between, folder);
            const char *kept = files->between.items[files->between.count - 1];
            result =
                cage_files_push(files, &(struct file){.path = kept, .write = true, .part = true});
        }
        char *above = kg_path_folder(folder);
        free(folder);
        folder = above;
    }
    return result;
}

static int add_cover(struct files *files, const struct cage_cover *cover)
{
    const struct file file = {.path = cover->path,
                              .note = cover->note,
                              .write = cover->write,
                              .part = true,
                              .empty = cover->empty};
    struct file *there = cage_files_find(files, cover->path);
    if (there != NULL && there->part) {
        there->write = there->write && cover->write;
        there->empty = there->empty || cover->empty;
    }
    bool counts = cover->empty ? nearest_of(files, cover->path) != NULL
                               : cage_files_is_writable(files, cover->path);
    if (there != NULL || cage_files_is_own(files, &file) || !cage_path_plain(cover->path) ||
        !counts || files->facts->host->kind(cover->path) == CAGE_FILE_NONE)
        return 0;
    int result = cage_files_check_kind(files, &file);
    return result < 0 ? result : cage_files_push(files, &file);
}

/* Covers first: they are not to be moved either. */
static int cage_files_hold(struct files *files)
{
    const struct cage_policy *policy = files->policy;
    const struct cage_words *programs = &files->plan->executables;
    int result = 0;
    for (size_t i = 0; i < policy->cover_count && result == 0; i++)
        result = add_cover(files, &policy->covers[i]);
    for (size_t i = 0, count = files->count; i < count && result == 0; i++)
        if (!files->items[i].write || files->items[i].part)
            result = hold_above(files, files->items[i].path);
    for (size_t i = 0; i < programs->count && result == 0; i++)
        result = hold_above(files, programs->items[i]);
    return result < 0 ? result : hold_above(files, policy->install_dir);
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

/* A device that is mounted so cannot be opened. */
static void add_empty(const struct files *files, const struct file *file)
{
    struct cage_steps *steps = &files->plan->steps;
    cage_grants_add(&files->plan->grants, CAGE_GRANT_NOTHING, file->path,
                    file->note ? file->note : "");
    if (files->facts->host->kind(file->path) != CAGE_FILE_FOLDER) {
        cage_steps_add(steps, CAGE_STEP_SYSTEM, file->path, "/dev/null", 0);
        return;
    }
    cage_steps_add(steps, CAGE_STEP_TMPFS, file->path, "", CAGE_MASK_BYTES);
}

/* Not before what lies in them has a place to be mounted. */
static void close_empty(const struct files *files)
{
    for (size_t i = 0; i < files->count; i++)
        if (files->items[i].empty &&
            files->facts->host->kind(files->items[i].path) == CAGE_FILE_FOLDER)
            cage_steps_add(&files->plan->steps, CAGE_STEP_READ_ONLY, files->items[i].path, "", 0);
}

static void cage_files_add_file(const struct files *files, const struct file *file)
{
    struct cage_steps *steps = &files->plan->steps;
    if (cage_files_is_own(files, file))
        return;
    if (file->empty) {
        add_empty(files, file);
        return;
    }
    if (!file->part || !file->write)
        cage_grants_add(&files->plan->grants, file->write ? CAGE_GRANT_WRITE : CAGE_GRANT_READ,
                        file->path, file->note ? file->note : "");
    if (!file->write && is_shown_already(steps, file->path))
        return;
    cage_steps_add(steps, file->write ? CAGE_STEP_WRITE : CAGE_STEP_BIND, file->path, file->path,
                   0);
    steps->items[steps->count - 1].part = file->part;
    if (!file->write || file->part)
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
    kg_auto(files_free) struct files files = {
        .policy = policy, .facts = facts, .plan = plan, .err = err};
    cage_files_collect(&files);
    for (size_t i = 0; i < files.count; i++) {
        int result = cage_files_check_file(&files, &files.items[i]);
        if (result < 0)
            return result;
    }
    sort(&files);
    int result = cage_files_hold(&files);
    if (result < 0)
        return result;
    sort(&files);
    for (size_t i = 0; i < files.count; i++)
        cage_files_add_file(&files, &files.items[i]);
    cover_programs(&files);
    close_empty(&files);
    return 0;
}
