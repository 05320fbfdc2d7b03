/*
 * Makes a backup: walks the home, whatever is in it, and leaves out what belongs to a running
 * process, the key of the secrets, and what is no file. Databases are copied as SQLite sees them,
 * so that writers may go on; the daemon's own comes first, since the audit log may be ahead of the
 * head that it has, and not behind.
 */
#include "backup/internal.h"

#include "base/json/json.h"
#include "state/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 64

struct making {
    const struct config_paths *paths;
    struct backup_roots roots;
    struct backup_writer writer;
    char *file, *temporary, *database; /* owned: what is made, under which name, of a copy */
    struct backup_made made;
};

/* -- one entry --------------------------------------------------------------------------------- */

static int begin_entry(struct making *making, const char *path, const struct stat *there,
                       enum backup_kind kind, struct kg_err *err)
{
    struct backup_entry entry = {
        .kind = kind,
        .place = backup_place_of(making->paths, path),
        .mode = there->st_mode & 0777,
        .modified_ms = (int64_t)there->st_mtim.tv_sec * 1000 + there->st_mtim.tv_nsec / 1000000,
    };
    const char *root = making->roots.roots[entry.place];
    const char *name = strcmp(path, root) == 0 ? "" : path + strlen(root) + 1;
    if (strlen(name) >= sizeof(entry.name))
        return kg_fail(err, KG_E_TOO_LARGE, "back up %s: the path is too long", path);
    memcpy(entry.name, name, strlen(name) + 1);
    return backup_write_entry(&making->writer, &entry, err);
}

static int make_put_bytes(struct making *making, const char *from, struct kg_err *err)
{
    kg_auto(kg_close) int fd = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    kg_auto(kg_free) char *piece = kg_alloc(BACKUP_PIECE_BYTES);
    if (fd < 0)
        return kg_fail_errno(err, errno, "back up %s: open", from);
    for (;;) {
        ssize_t got = read(fd, piece, BACKUP_PIECE_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kg_fail_errno(err, errno, "back up %s: read", from);
        int result = backup_write_piece(&making->writer, (struct kg_str){piece, (size_t)got}, err);
        if (result < 0 || got == 0)
            return result;
    }
}

static bool is_database(const char *path)
{
    static const char magic[16] = "SQLite format 3";
    char start[sizeof(magic)];
    kg_auto(kg_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    return fd >= 0 && read(fd, start, sizeof(start)) == (ssize_t)sizeof(start) &&
           memcmp(start, magic, sizeof(start)) == 0;
}

/* Of a plugin's own that cannot be copied so, its bytes are taken as they are. */
static int put_file(struct making *making, const char *path, const struct stat *there,
                    struct kg_err *err)
{
    const char *from = path;
    if (is_database(path)) {
        unlink(making->database);
        int result = state_copy_file(path, making->database, err);
        if (result == 0)
            from = making->database;
        else if (backup_place_of(making->paths, path) == BACKUP_STATE)
            return result;
    }
    int result = begin_entry(making, path, there, BACKUP_FILE, err);
    making->made.files++;
    return result < 0 ? result : make_put_bytes(making, from, err);
}

static int make_put_link(struct making *making, const char *path, const struct stat *there,
                         struct kg_err *err)
{
    char target[BACKUP_NAME_MAX];
    ssize_t length = readlink(path, target, sizeof(target));
    if (length <= 0 || length == (ssize_t)sizeof(target))
        return kg_fail(err, KG_E_IO, "back up %s: read the link", path);
    int result = begin_entry(making, path, there, BACKUP_LINK, err);
    return result < 0
               ? result
               : backup_write_piece(&making->writer, (struct kg_str){target, (size_t)length}, err);
}

/* -- the walk ---------------------------------------------------------------------------------- */

static bool is_beside_database(const char *path)
{
    static const char *const suffixes[] = {"-wal", "-shm", "-journal"};
    for (size_t i = 0; i < KG_COUNT(suffixes); i++) {
        struct kg_str text = kg_str(path);
        if (!kg_str_ends(text, suffixes[i]))
            continue;
        text.length -= strlen(suffixes[i]);
        kg_auto(kg_free) char *base = kg_str_dup(text);
        return is_database(base);
    }
    return false;
}

static bool make_is_left_out(const struct making *making, const char *path)
{
    struct kg_str name = kg_str(kg_path_name(path));
    return kg_path_within(path, making->paths->run_dir) ||
           kg_str_starts(kg_str(path), making->paths->secrets_key) ||
           kg_str_starts(kg_str(path), making->paths->catalog_key) ||
           kg_str_starts(kg_str(path), making->paths->cluster_keys) ||
           strcmp(path, making->paths->state_db) == 0 || strcmp(path, making->file) == 0 ||
           strcmp(path, making->temporary) == 0 || strcmp(path, making->database) == 0 ||
           kg_str_starts(name, ".kaged-edit-") || kg_str_starts(name, "before-restore-") ||
           is_beside_database(path);
}

static int make_walk(struct making *making, const char *folder, int depth, struct kg_err *err);

static int make_put_any(struct making *making, const char *path, int depth, struct kg_err *err)
{
    struct stat there;
    if (make_is_left_out(making, path))
        return 0;
    if (lstat(path, &there) < 0) /* it may have gone since it was listed */
        return errno == ENOENT ? 0 : kg_fail_errno(err, errno, "back up %s: look at it", path);
    if (S_ISDIR(there.st_mode)) {
        int result = begin_entry(making, path, &there, BACKUP_FOLDER, err);
        return result < 0 ? result : make_walk(making, path, depth + 1, err);
    }
    if (S_ISLNK(there.st_mode))
        return make_put_link(making, path, &there, err);
    return S_ISREG(there.st_mode) ? put_file(making, path, &there, err) : 0;
}

static int make_walk(struct making *making, const char *folder, int depth, struct kg_err *err)
{
    if (depth > DEPTH_MAX)
        return kg_fail(err, KG_E_TOO_LARGE, "back up %s: more than %d folders deep", folder,
                       DEPTH_MAX);
    DIR *entries = opendir(folder);
    if (entries == NULL)
        return errno == ENOENT ? 0 : kg_fail_errno(err, errno, "back up %s: open", folder);
    int result = 0;
    for (const struct dirent *entry; result == 0 && (entry = readdir(entries)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        kg_auto(kg_free) char *path = kg_path_join(folder, entry->d_name);
        result = make_put_any(making, path, depth, err);
    }
    closedir(entries);
    return result;
}

/* -- the whole --------------------------------------------------------------------------------- */

static void make_put_header(const struct making *making, struct kg_buf *out)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "kaged", KAGED_VERSION);
    kg_json_named_int(&json, "made_ms", kg_wall_ms());
    for (int place = 0; place < BACKUP_PLACES; place++)
        kg_json_named_text(&json, backup_place_names[place], making->roots.roots[place]);
    kg_json_end(&json, '}');
}

static int put_home(struct making *making, struct kg_err *err)
{
    struct stat there;
    int result = 0;
    if (lstat(making->paths->state_db, &there) == 0)
        result = put_file(making, making->paths->state_db, &there, err);
    for (int place = 0; result == 0 && place < BACKUP_PLACES; place++) {
        const char *outer = backup_outer_root(&making->roots, (enum backup_place)place);
        bool walked = false;
        for (int before = 0; before < place; before++)
            walked |=
                strcmp(outer, backup_outer_root(&making->roots, (enum backup_place)before)) == 0;
        if (!walked)
            result = make_walk(making, outer, 0, err);
    }
    return result;
}

static int make_make(struct making *making, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf header = {0};
    kg_auto(kg_close) int fd =
        open(making->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return kg_fail_errno(err, errno, "make %s", making->temporary);
    make_put_header(making, &header);
    int result = backup_writer_begin(&making->writer, fd, kg_buf_view(&header), err);
    if (result == 0)
        result = put_home(making, err);
    if (result == 0)
        result = backup_writer_end(&making->writer, err);
    if (result == 0 && link(making->temporary, making->file) < 0)
        result = kg_fail_errno(err, errno, "make %s", making->file);
    return result;
}

int backup_make(const struct config_paths *paths, const char *file, struct backup_made *ret_made,
                struct kg_err *err)
{
    kg_auto(kg_free) char *above = kg_path_folder(file), *folder = realpath(above, NULL);
    if (folder == NULL)
        return kg_fail_errno(err, errno, "make %s", file);
    struct making making = {.paths = paths, .file = kg_path_join(folder, kg_path_name(file))};
    making.temporary = kg_format("%s.part", making.file);
    making.database = kg_format("%s.part.db", making.file);
    backup_roots_find(paths, &making.roots);
    int result = 0;
    if (access(making.file, F_OK) == 0) {
        kg_fail(err, KG_E_CONFLICT, "%s is there already", making.file);
        result = kg_hint(err, "choose another name, or remove it first");
    }
    if (result == 0)
        result = make_make(&making, err);
    if (result == 0)
        *ret_made = (struct backup_made){making.made.files, making.writer.bytes};
    unlink(making.temporary);
    unlink(making.database);
    backup_roots_free(&making.roots);
    free(making.file);
    free(making.temporary);
    free(making.database);
    return result;
}
