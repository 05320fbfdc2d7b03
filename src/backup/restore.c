/*
 * Restores a backup: all of it is unpacked beside what is there, under a name of its own, checked,
 * and put into its place by renames once nothing can be wrong with it any more. What the file says
 * is a stranger's until its hash was seen: no link is made before, and no name leads out.
 */
#include "backup/internal.h"

#include "base/doc.h"
#include "config/edit.h"
#include "secret/secret.h"
#include "state/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STAGING ".restoring"
#define ASIDE   "before-restore-"

struct link_wish {
    char *path, *target; /* owned */
    struct link_wish *next;
};

struct restoring {
    const struct config_paths *paths;
    const struct backup_wish *wish;
    struct backup_roots roots, staged; /* where it will be; where it is until then */
    char *outer[BACKUP_PLACES];        /* owned; roots that are in no other; NULL: in another */
    struct kg_doc *header;             /* owned */
    struct link_wish *links;           /* owned */
    struct backup_restored restored;
};

/* -- where ------------------------------------------------------------------------------------- */

static void backup_restore_find_places(struct restoring *restoring)
{
    backup_roots_find(restoring->paths, &restoring->roots);
    for (int place = 0; place < BACKUP_PLACES; place++) {
        const char *root = restoring->roots.roots[place];
        const char *outer = backup_outer_root(&restoring->roots, (enum backup_place)place);
        bool known = false;
        for (int other = 0; other < place; other++)
            known |= kg_same_text(restoring->outer[other], outer);
        if (!known)
            restoring->outer[place] = kg_strdup(outer);
        restoring->staged.roots[place] = kg_format("%s/%s%s", outer, STAGING, root + strlen(outer));
    }
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status, (void)type, (void)at;
    return remove(path);
}

static void remove_staging(const struct restoring *restoring)
{
    for (int place = 0; place < BACKUP_PLACES; place++) {
        if (restoring->outer[place] == NULL)
            continue;
        kg_auto(kg_free) char *staging = kg_path_join(restoring->outer[place], STAGING);
        nftw(staging, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

/* Visits what is in a folder; stops at the first that is not 0. */
typedef int child_fn(void *data, const char *folder, const char *name, struct kg_err *err);

static int each_child(const char *folder, child_fn *visit, void *data, struct kg_err *err)
{
    int result = 0;
    DIR *entries = opendir(folder);
    if (entries == NULL)
        return errno == ENOENT ? 0 : kg_fail_errno(err, errno, "open %s", folder);
    for (const struct dirent *entry; result == 0 && (entry = readdir(entries)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            result = visit(data, folder, entry->d_name, err);
    closedir(entries);
    return result;
}

/* What a running process has, and what earlier restores moved aside, is not in the way. */
static bool backup_restore_is_in_the_way(const struct restoring *restoring, const char *path)
{
    struct kg_str name = kg_str(kg_path_name(path));
    return !kg_path_within(path, restoring->paths->run_dir) && !kg_str_is(name, STAGING) &&
           !kg_str_starts(name, ASIDE);
}

static int check_empty(void *data, const char *folder, const char *name, struct kg_err *err)
{
    kg_auto(kg_free) char *path = kg_path_join(folder, name);
    struct stat there;
    if (!backup_restore_is_in_the_way(data, path) || lstat(path, &there) < 0)
        return 0;
    if (S_ISDIR(there.st_mode))
        return each_child(path, check_empty, data, err);
    kg_fail(err, KG_E_CONFLICT, "there is already a home in %s", path);
    return kg_hint(err, "restore with --home into an empty folder, or with --force, which keeps a "
                        "copy of what is there");
}

/* -- unpacking --------------------------------------------------------------------------------- */

static char *backup_restore_path_of(const struct restoring *restoring,
                                    const struct backup_entry *entry)
{
    const char *root = restoring->staged.roots[entry->place];
    return entry->name[0] == '\0' ? kg_strdup(root) : kg_path_join(root, entry->name);
}

static int make_above(const char *path, struct kg_err *err)
{
    kg_auto(kg_free) char *folder = kg_path_folder(path);
    return kg_make_dirs(folder, 0700, err);
}

static void backup_restore_give(const struct restoring *restoring, const char *path)
{
    if (restoring->wish->uid != geteuid() &&
        lchown(path, restoring->wish->uid, restoring->wish->gid) < 0)
        kg_log(KG_WARN, "give %s to uid %u: %m", path, (unsigned)restoring->wish->uid);
}

static int unpack_file(struct restoring *restoring, struct backup_reader *reader,
                       const struct backup_entry *entry, const char *path, struct kg_err *err)
{
    kg_auto(kg_free) char *piece = kg_alloc(BACKUP_PIECE_BYTES);
    size_t length = 0;
    int result = make_above(path, err);
    if (result < 0)
        return result;
    kg_auto(kg_close) int fd =
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return kg_fail_errno(err, errno, "make %s", path);
    do {
        result = backup_read_piece(reader, piece, &length, err);
        if (result == 0 && kg_write_all(fd, piece, length) < 0)
            result = kg_fail_errno(err, errno, "write %s", path);
    } while (result == 0 && length > 0);
    const struct timespec times[2] = {
        {entry->modified_ms / 1000, 0},
        {entry->modified_ms / 1000, entry->modified_ms % 1000 * 1000000}};
    backup_restore_give(restoring, path);
    if (result == 0 && (fchmod(fd, entry->mode) < 0 || futimens(fd, times) < 0 || fsync(fd) < 0))
        result = kg_fail_errno(err, errno, "write %s", path);
    restoring->restored.files++;
    return result;
}

/* Made at the end: nothing is to be written by way of it. */
static int unpack_link(struct restoring *restoring, struct backup_reader *reader, const char *path,
                       struct kg_err *err)
{
    kg_auto(kg_free) char *piece = kg_alloc(BACKUP_PIECE_BYTES);
    size_t length = 0;
    int result = backup_read_piece(reader, piece, &length, err);
    if (result < 0)
        return result;
    struct link_wish *wish = kg_alloc(sizeof(*wish));
    *wish = (struct link_wish){kg_strdup(path), kg_str_dup((struct kg_str){piece, length}),
                               restoring->links};
    restoring->links = wish;
    return 0;
}

static int unpack_folder(struct restoring *restoring, const struct backup_entry *entry,
                         const char *path, struct kg_err *err)
{
    int result = kg_make_dirs(path, 0700, err);
    backup_restore_give(restoring, path);
    if (result == 0 && chmod(path, entry->mode | 0700) < 0)
        result = kg_fail_errno(err, errno, "make %s", path);
    return result;
}

static int backup_restore_unpack(struct restoring *restoring, struct backup_reader *reader,
                                 struct kg_err *err)
{
    struct backup_entry entry;
    for (;;) {
        int result = backup_read_entry(reader, &entry, err);
        if (result < 0 || entry.kind == BACKUP_END)
            return result;
        kg_auto(kg_free) char *path = backup_restore_path_of(restoring, &entry);
        if (entry.kind == BACKUP_FILE)
            result = unpack_file(restoring, reader, &entry, path, err);
        else if (entry.kind == BACKUP_LINK)
            result = unpack_link(restoring, reader, path, err);
        else
            result = unpack_folder(restoring, &entry, path, err);
        if (result < 0)
            return result;
    }
}

/* -- a home that moved ------------------------------------------------------------------------- */

struct move {
    struct kg_str from, to;
};

/* Each place from where it was to where it will be; the longest first, since one may be in another.
 */
static void moves_of(const struct restoring *restoring, struct move ret_moves[BACKUP_PLACES])
{
    static const enum backup_place order[] = {BACKUP_STATE, BACKUP_DATA, BACKUP_CONFIG};
    for (size_t i = 0; i < KG_COUNT(order); i++)
        ret_moves[i] =
            (struct move){kg_node_text(restoring->header->root, backup_place_names[order[i]]),
                          kg_str(restoring->roots.roots[order[i]])};
}

/* Whether it stands there as a path, or the beginning of one. */
static bool is_path_at(struct kg_str text, size_t at, struct kg_str path)
{
    if (path.length < 2 || text.length - at < path.length ||
        memcmp(text.data + at, path.data, path.length) != 0)
        return false;
    bool begins =
        at == 0 || (!kg_is_letter_or_digit(text.data[at - 1]) && text.data[at - 1] != '/');
    size_t end = at + path.length;
    return begins && (end == text.length || memchr("/\"' \n,:}", text.data[end], 9) != NULL);
}

static void backup_restore_put_moved(const struct restoring *restoring, struct kg_str text,
                                     struct kg_buf *out)
{
    struct move moves[BACKUP_PLACES];
    moves_of(restoring, moves);
    for (size_t at = 0; at < text.length;) {
        const struct move *found = NULL;
        for (size_t i = 0; i < BACKUP_PLACES && found == NULL; i++)
            if (is_path_at(text, at, moves[i].from))
                found = &moves[i];
        kg_buf_str(out, found ? found->to : (struct kg_str){text.data + at, 1});
        at += found ? found->from.length : 1;
    }
}

static int move_text(struct kg_buf *text, void *data, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf moved = {0};
    (void)err;
    backup_restore_put_moved(data, kg_buf_view(text), &moved);
    struct kg_buf old = *text;
    *text = moved;
    moved = old;
    return 0;
}

/* The operator's own two files; the second may lie in the state folder, behind a link. */
static int move_files(struct restoring *restoring, struct kg_err *err)
{
    static const struct {
        enum backup_place place;
        const char *name;
    } files[] = {{BACKUP_CONFIG, "config.toml"},
                 {BACKUP_CONFIG, "local.toml"},
                 {BACKUP_STATE, "local.toml"}};
    for (size_t i = 0; i < KG_COUNT(files); i++) {
        struct stat there;
        kg_auto(kg_free) char *path =
            kg_path_join(restoring->staged.roots[files[i].place], files[i].name);
        if (lstat(path, &there) < 0 || !S_ISREG(there.st_mode))
            continue;
        int result = edit_file(path, move_text, restoring, err);
        if (result < 0)
            return result;
    }
    return 0;
}

static int backup_restore_make_links(struct restoring *restoring, struct kg_err *err)
{
    for (const struct link_wish *wish = restoring->links; wish != NULL; wish = wish->next) {
        kg_auto(kg_buf_free) struct kg_buf target = {0};
        backup_restore_put_moved(restoring, kg_str(wish->target), &target);
        int result = make_above(wish->path, err);
        if (result == 0 && symlink(kg_buf_terminate(&target), wish->path) < 0)
            result = kg_fail_errno(err, errno, "make the link %s", wish->path);
        if (result < 0)
            return result;
        backup_restore_give(restoring, wish->path);
    }
    return 0;
}

static int move_state(struct restoring *restoring, struct kg_err *err)
{
    struct move moves[BACKUP_PLACES];
    kg_auto(kg_free) char *database = kg_path_join(restoring->staged.roots[BACKUP_STATE],
                                                   kg_path_name(restoring->paths->state_db));
    if (access(database, F_OK) < 0)
        return 0;
    moves_of(restoring, moves);
    struct state *state = state_open(database, err); /* one of a newer version is refused here */
    int result = state ? 0 : -EINVAL;
    for (size_t i = 0; result == 0 && i < BACKUP_PLACES; i++)
        if (moves[i].from.length > 1 && !kg_str_equal(moves[i].from, moves[i].to))
            result = state_move_folder(state, moves[i].from, moves[i].to, err);
    if (state != NULL)
        state_close(state);
    backup_restore_give(restoring, database);
    return result;
}

/* -- secrets ----------------------------------------------------------------------------------- */

static int backup_restore_put_key(struct restoring *restoring, const char *store,
                                  struct kg_err *err)
{
    const char *name = kg_path_name(restoring->paths->secrets_key);
    kg_auto(kg_free) char *key = kg_path_join(restoring->staged.roots[BACKUP_STATE], name);
    int result = secret_check_key(store, restoring->wish->key_file, err);
    if (result < 0)
        return result;
    result = kg_copy_file(restoring->wish->key_file, key, 0600);
    backup_restore_give(restoring, key);
    return result < 0 ? kg_fail_errno(err, -result, "copy %s", restoring->wish->key_file) : 0;
}

static int backup_restore_take_secrets(struct restoring *restoring, struct kg_err *err)
{
    const char *name = kg_path_name(restoring->paths->secrets_file);
    kg_auto(kg_free) char *store = kg_path_join(restoring->staged.roots[BACKUP_STATE], name);
    if (access(store, F_OK) < 0)
        return 0;
    if (restoring->wish->key_file != NULL)
        return backup_restore_put_key(restoring, store, err);
    kg_list_free(kg_steal(&restoring->restored.forgotten));
    int result = secret_names(store, &restoring->restored.forgotten, err);
    if (result == 0 && unlink(store) < 0)
        result = kg_fail_errno(err, errno, "remove %s", store);
    return result;
}

/* -- into its place ---------------------------------------------------------------------------- */

struct renaming {
    const struct restoring *restoring;
    const char *to;
};

static int move_aside(void *data, const char *folder, const char *name, struct kg_err *err)
{
    const struct renaming *renaming = data;
    kg_auto(kg_free) char *path = kg_path_join(folder, name);
    kg_auto(kg_free) char *to = kg_path_join(renaming->to, name);
    if (!backup_restore_is_in_the_way(renaming->restoring, path))
        return 0;
    if (mkdir(renaming->to, 0700) < 0 && errno != EEXIST)
        return kg_fail_errno(err, errno, "make %s", renaming->to);
    return rename(path, to) < 0 ? kg_fail_errno(err, errno, "rename %s to %s", path, to) : 0;
}

static int backup_restore_put_in_place(void *data, const char *folder, const char *name,
                                       struct kg_err *err)
{
    const struct renaming *renaming = data;
    kg_auto(kg_free) char *path = kg_path_join(folder, name);
    kg_auto(kg_free) char *to = kg_path_join(renaming->to, name);
    nftw(to, remove_one, 16, FTW_DEPTH | FTW_PHYS); /* folders without a file, as was seen */
    return rename(path, to) < 0 ? kg_fail_errno(err, errno, "rename %s to %s", path, to) : 0;
}

static int take_place(struct restoring *restoring, const char *outer, struct kg_err *err)
{
    char stamp[KG_TIME_TEXT];
    kg_auto(kg_free) char *staging = kg_path_join(outer, STAGING);
    kg_time_format(kg_wall_ms(), stamp);
    kg_auto(kg_free) char *aside = kg_format("%s/" ASIDE "%s", outer, stamp);
    int result = each_child(outer, move_aside, &(struct renaming){restoring, aside}, err);
    if (access(aside, F_OK) == 0)
        kg_list_add(&restoring->restored.aside, kg_steal(&aside));
    if (result == 0)
        result = each_child(staging, backup_restore_put_in_place,
                            &(struct renaming){restoring, outer}, err);
    return result;
}

/* -- the whole --------------------------------------------------------------------------------- */

static int backup_restore_begin(struct restoring *restoring, struct kg_err *err)
{
    int result = 0;
    remove_staging(restoring);
    for (int place = 0; result == 0 && place < BACKUP_PLACES; place++) {
        const char *outer = restoring->outer[place];
        if (outer != NULL && !restoring->wish->force)
            result = each_child(outer, check_empty, restoring, err);
        if (outer != NULL && result == 0)
            result = kg_make_dirs(outer, 0700, err);
        kg_auto(kg_free) char *staging = outer ? kg_path_join(outer, STAGING) : NULL;
        if (staging != NULL && result == 0 && mkdir(staging, 0700) < 0)
            result = kg_fail_errno(err, errno, "make %s", staging);
    }
    return result;
}

static int backup_restore_restore(struct restoring *restoring, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf header = {0};
    kg_auto(backup_reader_close) struct backup_reader reader = {.fd = -1};
    int result = backup_reader_open(&reader, restoring->wish->file, &header, err);
    if (result == 0)
        result = backup_restore_begin(restoring, err);
    if (result == 0)
        result = backup_restore_unpack(restoring, &reader, err);
    if (result < 0)
        return result;
    restoring->header = kg_json_read(kg_buf_view(&header), err);
    if (restoring->header == NULL)
        return -EBADMSG;
    restoring->restored.made_ms = kg_node_number(restoring->header->root, "made_ms");
    result = move_files(restoring, err);
    if (result == 0)
        result = move_state(restoring, err);
    if (result == 0)
        result = backup_restore_take_secrets(restoring, err);
    if (result == 0)
        result = backup_restore_make_links(restoring, err);
    for (int place = 0; result == 0 && place < BACKUP_PLACES; place++)
        if (restoring->outer[place] != NULL)
            result = take_place(restoring, restoring->outer[place], err);
    return result;
}

void backup_restored_free(struct backup_restored *restored)
{
    kg_list_free(restored->forgotten);
    kg_list_free(restored->aside);
    *restored = (struct backup_restored){0};
}

static void restoring_free(struct restoring *restoring)
{
    remove_staging(restoring);
    backup_roots_free(&restoring->roots);
    backup_roots_free(&restoring->staged);
    for (int place = 0; place < BACKUP_PLACES; place++)
        free(restoring->outer[place]);
    kg_doc_free(restoring->header);
    for (struct link_wish *wish = restoring->links, *next; wish != NULL; wish = next) {
        next = wish->next;
        free(wish->path);
        free(wish->target);
        free(wish);
    }
    backup_restored_free(&restoring->restored);
}

int backup_restore(const struct config_paths *paths, const struct backup_wish *wish,
                   struct backup_restored *ret_restored, struct kg_err *err)
{
    kg_auto(restoring_free) struct restoring restoring = {
        .paths = paths,
        .wish = wish,
        .restored = {.forgotten = kg_list_new(0), .aside = kg_list_new(0)},
    };
    backup_restore_find_places(&restoring);
    int result = backup_restore_restore(&restoring, err);
    if (result < 0)
        return result;
    *ret_restored = restoring.restored;
    restoring.restored = (struct backup_restored){0};
    return 0;
}
