/*
 * The one way to the disk. Every name is judged before anything of it is made, no name is made
 * twice, bytes are counted as they are written, and links are made last: so whatever a source says,
 * nothing is written outside of FOLDER/new, and what is renamed to FOLDER/tree is whole.
 */
#include "store/tree_rules.h"
#include "store/unpack/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BYTES ((size_t)64 * 1024)

enum kind { FILE_ENTRY, FOLDER_ENTRY, LINK_ENTRY };

struct item {
    enum kind kind;
    bool named; /* by the source; a folder may also come by what is in it */
    bool executable;
    char *target; /* of a link; owned */
};

struct sink {
    const struct options *options;
    struct report *report;
    int folder;           /* borrowed */
    int top;              /* FOLDER/new */
    struct kg_map *items; /* struct item by path; owned */
    uint64_t bytes;
    int file;          /* that is being written, or -1 */
    uint64_t in_file;  /* its bytes */
    struct kg_buf now; /* its path */
};

int sink_refuse(enum kg_code code, struct kg_str path, const char *why, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf name = {0};
    tree_quote(&name, path);
    return kg_fail(err, code, "entry %s: %s", kg_buf_terminate(&name), why);
}

static int sink_fail_errno(struct kg_str path, const char *act, struct kg_err *err)
{
    int errnum = errno;
    kg_auto(kg_buf_free) struct kg_buf name = {0};
    tree_quote(&name, path);
    return kg_fail_errno(err, errnum, "%s %s", act, kg_buf_terminate(&name));
}

/* -- life -------------------------------------------------------------------------------------- */

struct sink *sink_new(int folder, const struct options *options, struct report *report,
                      struct kg_err *err)
{
    if (mkdirat(folder, "new", 0755) < 0) {
        kg_fail_errno(err, errno, "make folder new in %s", options->folder);
        return NULL;
    }
    int top = openat(folder, "new", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (top < 0) {
        kg_fail_errno(err, errno, "open folder new in %s", options->folder);
        return NULL;
    }
    struct sink *sink = kg_alloc(sizeof(*sink));
    *sink = (struct sink){.options = options,
                          .report = report,
                          .folder = folder,
                          .top = top,
                          .items = kg_map_new(),
                          .file = -1};
    return sink;
}

void sink_free(struct sink *sink)
{
    struct kg_str path;
    void *value;
    if (sink == NULL)
        return;
    for (size_t at = 0; kg_map_next(sink->items, &at, &path, &value);) {
        struct item *item = value;
        free(item->target);
        free(item);
    }
    kg_map_free(sink->items);
    kg_buf_free(&sink->now);
    kg_close(&sink->file);
    kg_close(&sink->top);
    free(sink);
}

/* -- names ------------------------------------------------------------------------------------- */

static struct kg_str parent_of(struct kg_str path)
{
    const char *slash = memrchr(path.data, '/', path.length);
    return (struct kg_str){path.data, slash ? (size_t)(slash - path.data) : 0};
}

/* NULL with err: there are too many. */
static struct item *sink_add_item(struct sink *sink, struct kg_str path, enum kind kind,
                                  struct kg_err *err)
{
    if (kg_map_count(sink->items) >= (size_t)sink->options->files_max) {
        sink_refuse(KG_E_TOO_LARGE, path, "there are more entries than the bound", err);
        return NULL;
    }
    struct item *item = kg_alloc(sizeof(*item));
    item->kind = kind;
    kg_map_set(sink->items, path, item);
    sink->report->files++;
    report_progress(sink->report);
    return item;
}

static struct item *sink_make_folder(struct sink *sink, struct kg_str path, struct kg_err *err)
{
    struct item *item = sink_add_item(sink, path, FOLDER_ENTRY, err);
    kg_auto(kg_free) char *name = kg_str_dup(path);
    if (item == NULL || mkdirat(sink->top, name, 0755) == 0)
        return item;
    sink_fail_errno(path, "make folder", err);
    return NULL;
}

/* The folders that path is in: made, or refused where something else has the name. */
static int make_parents(struct sink *sink, struct kg_str path, struct kg_err *err)
{
    for (size_t at = 0; at < path.length; at++) {
        if (path.data[at] != '/')
            continue;
        struct kg_str parent = {path.data, at};
        struct item *item = kg_map_get(sink->items, parent);
        if (item != NULL && item->kind != FOLDER_ENTRY)
            return sink_refuse(
                KG_E_REFUSED, path,
                item->kind == LINK_ENTRY ? "it is below a link" : "it is below a file", err);
        if (item == NULL && sink_make_folder(sink, parent, err) == NULL)
            return -EINVAL;
    }
    return 0;
}

/* Before anything is made under this name. */
static int sink_take_name(struct sink *sink, struct kg_str path, struct kg_err *err)
{
    const char *problem = tree_path_problem(path, (uint32_t)sink->options->depth_max);
    if (problem != NULL)
        return sink_refuse(KG_E_REFUSED, path, problem, err);
    const struct item *there = kg_map_get(sink->items, path);
    if (there != NULL)
        return sink_refuse(KG_E_REFUSED, path,
                           there->named ? "there is a second entry of this name"
                                        : "there is a folder of this name",
                           err);
    return make_parents(sink, path, err);
}

/* -- folders and links ------------------------------------------------------------------------- */

int sink_folder(struct sink *sink, struct kg_str path, struct kg_err *err)
{
    struct item *item = kg_map_get(sink->items, path);
    if (item == NULL || item->named || item->kind != FOLDER_ENTRY) {
        int result = sink_take_name(sink, path, err);
        if (result < 0)
            return result;
        item = sink_make_folder(sink, path, err);
    }
    if (item == NULL)
        return -EINVAL;
    item->named = true;
    return 0;
}

int sink_link(struct sink *sink, struct kg_str path, struct kg_str target, struct kg_err *err)
{
    if (target.length > TREE_LINK_BYTES_MAX || memchr(target.data, '\0', target.length) != NULL)
        return sink_refuse(KG_E_REFUSED, path,
                           "the target of the link is too long, or not readable text", err);
    int result = sink_take_name(sink, path, err);
    if (result < 0)
        return result;
    struct item *item = sink_add_item(sink, path, LINK_ENTRY, err);
    if (item == NULL)
        return -EINVAL;
    item->named = true;
    item->target = kg_str_dup(target);
    return 0;
}

/* -- files ------------------------------------------------------------------------------------- */

int sink_file_begin(struct sink *sink, struct kg_str path, bool executable, struct kg_err *err)
{
    int result = sink_take_name(sink, path, err);
    if (result < 0)
        return result;
    struct item *item = sink_add_item(sink, path, FILE_ENTRY, err);
    if (item == NULL)
        return -EINVAL;
    item->named = true;
    item->executable = executable;
    sink->now.length = 0;
    kg_buf_str(&sink->now, path);
    sink->in_file = 0;
    sink->file =
        openat(sink->top, kg_buf_terminate(&sink->now),
               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, executable ? 0755 : 0644);
    return sink->file < 0 ? sink_fail_errno(path, "make file", err) : 0;
}

int sink_file_write(struct sink *sink, const void *data, size_t length, struct kg_err *err)
{
    struct kg_str path = kg_buf_view(&sink->now);
    sink->in_file += length;
    sink->bytes += length;
    if (sink->in_file > (uint64_t)sink->options->file_bytes_max)
        return sink_refuse(KG_E_TOO_LARGE, path, "the file is larger than the bound", err);
    if (sink->bytes > (uint64_t)sink->options->bytes_max)
        return sink_refuse(KG_E_TOO_LARGE, path,
                           "with it, all files together are larger than the bound", err);
    int result = kg_write_all(sink->file, data, length);
    if (result < 0) {
        errno = -result;
        return sink_fail_errno(path, "write", err);
    }
    sink->report->bytes += length;
    report_progress(sink->report);
    return 0;
}

int sink_file_end(struct sink *sink, struct kg_err *err)
{
    int fd = kg_steal_fd(&sink->file);
    return close(fd) < 0 ? sink_fail_errno(kg_buf_view(&sink->now), "write", err) : 0;
}

static int sink_copy_bytes(struct sink *sink, int from, struct kg_err *err)
{
    char block[COPY_BYTES];
    ssize_t got;
    while ((got = read(from, block, sizeof(block))) != 0) {
        if (got < 0)
            return sink_fail_errno(kg_buf_view(&sink->now), "copy", err);
        int result = sink_file_write(sink, block, (size_t)got, err);
        if (result < 0)
            return result;
    }
    return 0;
}

int sink_copy(struct sink *sink, struct kg_str path, struct kg_str original, struct kg_err *err)
{
    const struct item *item = kg_map_get(sink->items, original);
    if (item == NULL || item->kind != FILE_ENTRY)
        return sink_refuse(KG_E_REFUSED, path,
                           "it is a hard link to something that is not a file of the plugin", err);
    kg_auto(kg_free) char *name = kg_str_dup(original);
    kg_auto(kg_close) int from = openat(sink->top, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0)
        return sink_fail_errno(original, "open", err);
    int result = sink_file_begin(sink, path, item->executable, err);
    if (result == 0)
        result = sink_copy_bytes(sink, from, err);
    return result < 0 ? result : sink_file_end(sink, err);
}

/* -- the end ----------------------------------------------------------------------------------- */

static bool sink_is_file(const struct sink *sink, struct kg_str path)
{
    const struct item *item = kg_map_get(sink->items, path);
    return item != NULL && item->kind == FILE_ENTRY;
}

/* The one folder that everything is in; "" if there is no such. */
static struct kg_str single_top(const struct sink *sink)
{
    struct kg_str path, top = KG_STR("");
    void *value;
    for (size_t at = 0; kg_map_next(sink->items, &at, &path, &value);) {
        if (parent_of(path).length > 0)
            continue;
        if (top.length > 0 || ((struct item *)value)->kind != FOLDER_ENTRY)
            return KG_STR("");
        top = path;
    }
    return top;
}

/* folder: "", or one with a slash behind it. */
static bool sink_is_plugin(const struct sink *sink, struct kg_str folder)
{
    static const char *const files[] = {UNPACK_MANIFEST, UNPACK_OTHERS};
    for (size_t i = 0; i < KG_COUNT(files); i++) {
        kg_auto(kg_free) char *path = kg_format("%.*s%s", KG_STR_ARG(folder), files[i]);
        if (sink_is_file(sink, kg_str(path)))
            return true;
    }
    return false;
}

/* *ret_top: the folder whose content the plugin is, "" for the whole. */
static int find_top(const struct sink *sink, enum sink_manifest where, struct kg_str *ret_top,
                    struct kg_err *err)
{
    bool may_strip = where == SINK_MANIFEST_BELOW;
    *ret_top = KG_STR("");
    if (where == SINK_MANIFEST_LATER || sink_is_plugin(sink, KG_STR("")))
        return 0;
    struct kg_str top = may_strip ? single_top(sink) : KG_STR("");
    kg_auto(kg_free) char *folder = kg_format("%.*s/", KG_STR_ARG(top));
    if (top.length > 0 && sink_is_plugin(sink, kg_str(folder))) {
        *ret_top = top;
        return 0;
    }
    int result =
        kg_fail(err, KG_E_INVALID_SOURCE, "there is no file %s at its top", UNPACK_MANIFEST);
    if (may_strip)
        kg_hint(err, "an archive has it at its top, or in the one folder that holds everything");
    return result;
}

/* Links by their path below the top. */
struct links {
    const struct sink *sink;
    struct kg_str top;
    struct kg_buf path;
};

static void links_free(struct links *links)
{
    kg_buf_free(&links->path);
}

static const char *sink_link_of(void *data, struct kg_str path)
{
    struct links *links = data;
    links->path.length = 0;
    kg_buf_str(&links->path, links->top);
    if (links->top.length > 0)
        kg_buf_char(&links->path, '/');
    kg_buf_str(&links->path, path);
    const struct item *item = kg_map_get(links->sink->items, kg_buf_view(&links->path));
    return item != NULL ? item->target : NULL;
}

static int sink_make_link(const struct sink *sink, struct links *links, struct kg_str path,
                          const struct item *item, struct kg_err *err)
{
    size_t cut = links->top.length + (links->top.length > 0);
    struct kg_str below = {path.data + cut, path.length - cut};
    const char *problem = tree_link_problem(below, item->target, sink_link_of, links);
    if (problem != NULL)
        return sink_refuse(KG_E_REFUSED, path, problem, err);
    kg_auto(kg_free) char *name = kg_str_dup(path);
    return symlinkat(item->target, sink->top, name) < 0 ? sink_fail_errno(path, "make link", err)
                                                        : 0;
}

static int sink_make_links(struct sink *sink, struct kg_str top, struct kg_err *err)
{
    kg_auto(links_free) struct links links = {.sink = sink, .top = top};
    struct kg_str path;
    void *value;
    for (size_t at = 0; kg_map_next(sink->items, &at, &path, &value);) {
        const struct item *item = value;
        int result = item->kind == LINK_ENTRY ? sink_make_link(sink, &links, path, item, err) : 0;
        if (result < 0)
            return result;
    }
    return 0;
}

int sink_finish(struct sink *sink, enum sink_manifest manifest, struct kg_err *err)
{
    struct kg_str top;
    int result = find_top(sink, manifest, &top, err);
    if (result == 0)
        result = sink_make_links(sink, top, err);
    if (result < 0)
        return result;
    kg_auto(kg_free) char *from =
        top.length > 0 ? kg_format("new/%.*s", KG_STR_ARG(top)) : kg_strdup("new");
    if (renameat(sink->folder, from, sink->folder, "tree") < 0 ||
        (top.length > 0 && unlinkat(sink->folder, "new", AT_REMOVEDIR) < 0))
        return kg_fail_errno(err, errno, "rename %s/%s", sink->options->folder, from);
    return 0;
}
