/*
 * The unpacked files of a package, by the hash of what was uploaded. They can always be made again
 * of the object: on a machine that was not the one of the upload, or after somebody removed them.
 *
 *   are they there? -> the object -> a file -> kaged-unpack in a cage -> beside their place ->
 * there
 *
 * What is unpacked is what was looked at when it was uploaded, since its hash is the same.
 */
#include "catalog/internal.h"
#include "store/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct catalog_tree {
    struct catalog_tree *next;
    struct catalog *catalog;
    struct loop_job job;
    void (*after)(struct catalog_tree *tree); /* the job that runs */
    char hash[OBJECTS_HASH_TEXT];
    uint64_t bytes;
    char *place, *file, *fresh; /* owned; the last two may be NULL */
    int fd;                     /* of the object */
    bool is_there;
    struct store_fetch *fetch;
    struct store_fetched *fetched; /* owned */
    struct kg_err err;
    catalog_tree_fn *on_ready;
    void *data;
};

char *catalog_tree_copy(const struct catalog *catalog, const struct store_fetched *fetched,
                        struct kg_err *err)
{
    kg_auto(kg_free) char *name = kg_format(".%s", kg_id_new("new_").text);
    if (kg_make_dirs(catalog->trees, 0700, err) < 0)
        return NULL;
    kg_auto(kg_close) int from =
        openat(fetched->quarantine->fd, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    kg_auto(kg_close) int parent = open(catalog->trees, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (from < 0 || parent < 0) {
        kg_fail_errno(err, errno, "open the files of a package");
        return NULL;
    }
    tree_copy(from, &fetched->tree, parent, name, err);
    return kg_format("%s/%s", catalog->trees, name);
}

int catalog_tree_place(const struct catalog *catalog, const char *fresh, const char *hash,
                       struct kg_err *err)
{
    kg_auto(kg_free) char *place = kg_format("%s/%s", catalog->trees, hash);
    if (access(place, F_OK) == 0)
        return 0;
    if (rename(fresh, place) < 0)
        return kg_fail_errno(err, errno, "put the files of a package into their place");
    return 0;
}

/* -- steps ------------------------------------------------------------------------------------- */

static struct catalog_tree *tree_of(struct loop_job *job)
{
    return KG_CONTAINER(job, struct catalog_tree, job);
}

static void on_tree_job_done(struct loop_job *job)
{
    struct catalog_tree *tree = tree_of(job);
    tree->after(tree);
}

static void tree_run(struct catalog_tree *tree, void (*run)(struct loop_job *job),
                     void (*after)(struct catalog_tree *tree))
{
    tree->job = (struct loop_job){.run = run, .done = on_tree_job_done};
    tree->after = after;
    loop_worker_submit(catalog_worker(tree->catalog), &tree->job);
}

static void tree_end(struct catalog_tree *tree)
{
    KG_UNLINK(tree->catalog->preparing, tree);
    tree->on_ready(tree->data, tree->err.code != KG_OK ? &tree->err : NULL);
    free(tree->place);
    free(tree->file);
    free(tree->fresh);
    free(tree);
}

static void run_tree_clean(struct loop_job *job)
{
    struct catalog_tree *tree = tree_of(job);
    kg_close(&tree->fd);
    if (tree->file != NULL)
        unlink(tree->file);
    if (tree->fresh != NULL && access(tree->fresh, F_OK) == 0)
        tree_remove(AT_FDCWD, tree->fresh, NULL);
    store_fetched_free(kg_steal(&tree->fetched));
}

static void tree_clean(struct catalog_tree *tree)
{
    tree_run(tree, run_tree_clean, tree_end);
}

static void run_tree_put(struct loop_job *job)
{
    struct catalog_tree *tree = tree_of(job);
    tree->fresh = catalog_tree_copy(tree->catalog, tree->fetched, &tree->err);
    if (tree->err.code == KG_OK)
        catalog_tree_place(tree->catalog, tree->fresh, tree->hash, &tree->err);
}

static void on_tree_fetched(void *data, struct store_fetched *fetched,
                            const struct kg_err *err_or_null)
{
    struct catalog_tree *tree = data;
    tree->fetch = NULL;
    tree->fetched = fetched;
    if (err_or_null == NULL) {
        tree_run(tree, run_tree_put, tree_clean);
        return;
    }
    tree->err = *err_or_null;
    tree_clean(tree);
}

static void tree_unpack(struct catalog_tree *tree)
{
    const struct store_source source = {
        .kind = STORE_ARCHIVE, .text = tree->hash, .place = tree->file, .is_package = true};
    if (tree->catalog->stopping && tree->err.code == KG_OK)
        kg_fail(&tree->err, KG_E_STOPPING, "the daemon is stopping");
    if (tree->err.code != KG_OK || store_fetch(host_store(tree->catalog->host), &source, NULL,
                                               on_tree_fetched, tree, &tree->fetch, &tree->err) < 0)
        tree_clean(tree);
}

/* A cage is given a file, and not an fd of ours. */
static void run_tree_file(struct loop_job *job)
{
    struct catalog_tree *tree = tree_of(job);
    if (kg_make_dirs(tree->catalog->incoming, 0700, &tree->err) < 0)
        return;
    tree->file = kg_format("%s/%s.zip", tree->catalog->incoming, kg_id_new("tre_").text);
    int result = kg_copy_fd(tree->fd, tree->file, 0600);
    if (result < 0)
        kg_fail_errno(&tree->err, -result, "copy the object %s", tree->hash);
}

static void on_tree_object(void *data, int fd, const char *path_or_null,
                           const struct kg_err *err_or_null)
{
    struct catalog_tree *tree = data;
    (void)path_or_null;
    tree->fd = fd;
    if (err_or_null != NULL) {
        tree->err = *err_or_null;
        tree_clean(tree);
        return;
    }
    tree_run(tree, run_tree_file, tree_unpack);
}

static void on_tree_looked(struct catalog_tree *tree)
{
    if (tree->is_there)
        tree_end(tree);
    else
        objects_open(tree->catalog->objects, tree->hash, tree->bytes, on_tree_object, tree);
}

static void run_tree_look(struct loop_job *job)
{
    struct catalog_tree *tree = tree_of(job);
    tree->is_there = access(tree->place, F_OK) == 0;
}

/* -- what is asked ----------------------------------------------------------------------------- */

void catalog_tree_prepare(struct catalog *catalog, const char *hash, uint64_t bytes,
                          catalog_tree_fn *on_ready, void *data)
{
    struct catalog_tree *tree = kg_alloc(sizeof(*tree));
    *tree = (struct catalog_tree){.next = catalog->preparing,
                                  .catalog = catalog,
                                  .bytes = bytes,
                                  .place = kg_format("%s/%s", catalog->trees, hash),
                                  .fd = -1,
                                  .on_ready = on_ready,
                                  .data = data};
    kg_str_copy(kg_str(hash), tree->hash, sizeof(tree->hash));
    catalog->preparing = tree;
    tree_run(tree, run_tree_look, on_tree_looked);
}

void catalog_trees_stop(struct catalog *catalog)
{
    for (struct catalog_tree *tree = catalog->preparing, *next; tree != NULL; tree = next) {
        next = tree->next;
        if (tree->fetch == NULL)
            continue;
        store_fetch_cancel(kg_steal(&tree->fetch));
        kg_fail(&tree->err, KG_E_STOPPING, "the daemon is stopping");
        tree_clean(tree);
    }
}
