/*
 * Which files a snapshot has: those that git knows of or would, each looked at without following a
 * link on its way. What is guarded, too large, or no file is left out and told.
 */
#include "snapshot/worker/internal.h"

#include "cage/cage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

void snapshot_list_clear(struct snapshot_list *list)
{
    free(list->items);
    kg_arena_free(list->arena);
    *list = (struct snapshot_list){0};
}

struct snapshot_file *snapshot_list_add(struct snapshot_list *list, struct kg_str path,
                                        unsigned mode)
{
    if (list->arena == NULL)
        list->arena = kg_arena_new();
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? list->capacity * 2 : 256;
        list->items = kg_realloc(list->items, list->capacity * sizeof(list->items[0]));
    }
    struct snapshot_file *file = &list->items[list->count++];
    *file = (struct snapshot_file){.path = kg_arena_text(list->arena, path), .mode = mode};
    return file;
}

/* A name may have any bytes; what is told is text. */
static void snapshot_list_put_path(struct kg_json_writer *json, const char *path)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_str rest = kg_str(path);
    while (rest.length > 0) {
        size_t valid = kg_utf8_valid(rest);
        kg_buf_str(&text, kg_str_first(rest, valid));
        rest = kg_str_from(rest, valid);
        if (rest.length > 0) {
            kg_buf_char(&text, '?');
            rest = kg_str_from(rest, 1);
        }
    }
    kg_json_named_str(json, "path", kg_buf_view(&text));
}

void snapshot_tell(struct snapshot_told *told, const char *path, const char *key, const char *value)
{
    if (told->count++ >= SNAPSHOT_TOLD_MAX)
        return;
    struct kg_json_writer json = kg_json_writer(&told->json);
    json.comma = told->json.length > 0;
    kg_json_begin(&json, '{');
    snapshot_list_put_path(&json, path);
    kg_json_named_text(&json, key, value);
    kg_json_end(&json, '}');
}

int snapshot_open_parent(int folder, const char *path, bool make, const char **ret_name)
{
    int at = fcntl(folder, F_DUPFD_CLOEXEC, 3);
    const char *slash;
    while (at >= 0 && (slash = strchr(path, '/')) != NULL) {
        kg_auto(kg_free) char *name = kg_str_dup((struct kg_str){path, (size_t)(slash - path)});
        if (make)
            (void)mkdirat(at, name, 0777);
        int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(at);
        at = next;
        path = slash + 1;
    }
    *ret_name = path;
    return at;
}

static bool snapshot_list_look_at(const struct snapshot *snapshot, const char *path,
                                  struct stat *ret_there)
{
    const char *name;
    kg_auto(kg_close) int parent = snapshot_open_parent(snapshot->folder, path, false, &name);
    return parent >= 0 && fstatat(parent, name, ret_there, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Why a file cannot be in a snapshot; NULL: it can. */
static const char *reason_against(const struct snapshot *snapshot, const char *path,
                                  const struct stat *there)
{
    const struct cage_guard *guard = cage_guard_of(path);
    if (guard != NULL)
        return "it is guarded";
    if (S_ISDIR(there->st_mode))
        return "it is a repository of its own";
    if (!S_ISREG(there->st_mode) && !S_ISLNK(there->st_mode))
        return "it is not a file";
    if (there->st_size > snapshot->options->file_bytes_max)
        return "it is too large";
    return NULL;
}

static int snapshot_list_add_file(struct snapshot *snapshot, struct snapshot_list *list,
                                  const char *path, struct kg_err *err)
{
    const struct snapshot_options *options = snapshot->options;
    struct stat there;
    if (!snapshot_list_look_at(snapshot, path, &there))
        return 0; /* it was deleted */
    const char *reason = reason_against(snapshot, path, &there);
    if (reason != NULL) {
        snapshot_tell(&snapshot->left_out, path, "why", reason);
        return 0;
    }
    snapshot->bytes += there.st_size;
    if ((int64_t)list->count >= options->files_max)
        return kg_fail(err, KG_E_TOO_LARGE, "it has more than %lld files",
                       (long long)options->files_max);
    if (snapshot->bytes > options->bytes_max)
        return kg_fail(err, KG_E_TOO_LARGE, "its files have more than %lld bytes",
                       (long long)options->bytes_max);
    snapshot_list_add(list, kg_str(path),
                      S_ISLNK(there.st_mode)    ? 0120000
                      : there.st_mode & S_IXUSR ? 0100755
                                                : 0100644);
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* In order, and each once: a file in a merge has several names in the index. */
static const char **sort_names(const struct kg_buf *names, size_t *ret_count)
{
    size_t count = 0, kept = 0;
    for (size_t at = 0; at < names->length; at += strlen(names->data + at) + 1)
        count++;
    const char **list = kg_alloc_array(count + 1, sizeof(list[0]));
    count = 0;
    for (size_t at = 0; at < names->length; at += strlen(names->data + at) + 1)
        list[count++] = names->data + at;
    qsort(list, count, sizeof(list[0]), by_text);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || strcmp(list[i], list[i - 1]) != 0)
            list[kept++] = list[i];
    *ret_count = kept;
    return list;
}

int snapshot_list_files(struct snapshot *snapshot, struct snapshot_list *ret_list,
                        struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf names = {0};
    size_t count = 0;
    int result = git_names(snapshot, &names, err);
    if (result < 0)
        return result;
    kg_buf_terminate(&names);
    const char **list = sort_names(&names, &count);
    for (size_t i = 0; i < count && result == 0; i++) {
        size_t length = strlen(list[i]);
        if (length > 0 && list[i][length - 1] == '/')
            snapshot_tell(&snapshot->left_out, list[i], "why", "it is a repository of its own");
        else if (length > 0)
            result = snapshot_list_add_file(snapshot, ret_list, list[i], err);
    }
    free(list);
    return result;
}
