/*
 * The files of a plugin, as they are on the disk. A tree is read from open folders downward, never
 * through a link, and what is read twice (a name, then the thing itself) is checked at the thing.
 * Its hash is SHA-256 of a listing that anybody can write down:
 *
 *   kaged tree 1
 *   d - 0 bin
 *   x SHA-256-OF-CONTENT BYTES bin/run
 *   f SHA-256-OF-CONTENT BYTES kaged-plugin.yaml
 *   l SHA-256-OF-TARGET 0 latest
 *
 * sorted by the bytes of the path. No path has a control character in it, so a line is a line.
 */
#include "store/tree.h"
#include "store/tree_rules.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD         "kaged tree 1\n"
#define READ_BYTES   ((size_t)256 * 1024)
#define REMOVE_DEPTH 64 /* two fds for each */

static const char letters[] = {
    [STORE_ENTRY_FILE] = 'f', [STORE_ENTRY_FOLDER] = 'd', [STORE_ENTRY_LINK] = 'l'};

/* -- digests ----------------------------------------------------------------------------------- */

void tree_digest(struct kg_str text, unsigned char ret_sha256[SHA256_DIGEST_SIZE])
{
    struct sha256_ctx digest;
    sha256_init(&digest);
    sha256_update(&digest, text.length, (const uint8_t *)text.data);
    sha256_digest(&digest, SHA256_DIGEST_SIZE, ret_sha256);
}

static void store_tree_put_hex(struct kg_buf *out, const unsigned char sha256[SHA256_DIGEST_SIZE])
{
    for (size_t i = 0; i < SHA256_DIGEST_SIZE; i++)
        kg_buf_printf(out, "%02x", sha256[i]);
}

void store_hash_text(struct kg_str text, char ret_hash[STORE_HASH_TEXT])
{
    unsigned char sha256[SHA256_DIGEST_SIZE];
    kg_auto(kg_buf_free) struct kg_buf name = {0};
    tree_digest(text, sha256);
    kg_buf_text(&name, "sha256:");
    store_tree_put_hex(&name, sha256);
    snprintf(ret_hash, STORE_HASH_TEXT, "%s", kg_buf_terminate(&name));
}

/* -- the walk ---------------------------------------------------------------------------------- */

/* How closely a tree is looked at. */
enum look {
    LOOK_QUICK, /* at names and what the file system knows of them */
    LOOK_FULL,  /* at every byte */
    LOOK_FRESH, /* and whether it is as kaged-unpack leaves it */
};

struct found {
    struct store_entry entry;
    struct stat status;
};

struct walk {
    const struct store_limits *limits;
    enum look look;
    struct kg_err *err;
    struct stat top;
    struct found *items; /* owned, with their paths */
    size_t count, capacity;
    struct kg_map *links; /* what they say, owned */
    uint64_t bytes;
    uint8_t *block; /* owned */
};

static int store_tree_walk_folder(struct walk *walk, int fd, struct kg_str path, uint32_t depth);

static void store_tree_walk_free(struct walk *walk)
{
    struct kg_str path;
    void *target;
    for (size_t i = 0; i < walk->count; i++)
        free(walk->items[i].entry.path);
    for (size_t at = 0; walk->links != NULL && kg_map_next(walk->links, &at, &path, &target);)
        free(target);
    free(walk->items);
    kg_map_free(walk->links);
    free(walk->block);
}

static int store_tree_refuse(const struct walk *walk, enum kg_code code, const char *path,
                             const char *why)
{
    kg_auto(kg_buf_free) struct kg_buf name = {0};
    tree_quote(&name, kg_str(path));
    return kg_fail(walk->err, code, "%s: %s", kg_buf_terminate(&name), why);
}

static int store_tree_fail_errno(const struct walk *walk, const char *path, const char *act)
{
    int errnum = errno;
    kg_auto(kg_buf_free) struct kg_buf name = {0};
    tree_quote(&name, kg_str(path));
    return kg_fail_errno(walk->err, errnum, "%s %s", act, kg_buf_terminate(&name));
}

static int check_fresh(const struct walk *walk, const char *path, const struct stat *status)
{
    mode_t mode = status->st_mode & 07777;
    bool plain =
        S_ISLNK(status->st_mode) || mode == 0755 || (S_ISREG(status->st_mode) && mode == 0644);
    if (status->st_uid != walk->top.st_uid)
        return store_tree_refuse(walk, KG_E_REFUSED, path,
                                 "it belongs to another user than its folder");
    if (!plain)
        return store_tree_refuse(walk, KG_E_REFUSED, path, "its mode is not a plain one");
    if (!S_ISDIR(status->st_mode) && status->st_nlink != 1)
        return store_tree_refuse(walk, KG_E_REFUSED, path, "it has a second name");
    return 0;
}

static int check_status(const struct walk *walk, const char *path, const struct stat *status)
{
    const char *problem = tree_mode_problem(status->st_mode);
    if (problem == NULL && status->st_dev != walk->top.st_dev)
        problem = "it is mounted from elsewhere";
    if (problem != NULL)
        return store_tree_refuse(walk, KG_E_REFUSED, path, problem);
    return walk->look == LOOK_FRESH ? check_fresh(walk, path, status) : 0;
}

/* -- one file ---------------------------------------------------------------------------------- */

/* Of no more than the bounds, however much comes while it is read. */
static int hash_content(struct walk *walk, int fd, struct store_entry *entry)
{
    struct sha256_ctx digest;
    ssize_t got;
    entry->bytes = 0;
    sha256_init(&digest);
    while ((got = read(fd, walk->block, READ_BYTES)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return store_tree_fail_errno(walk, entry->path, "read");
        entry->bytes += (uint64_t)got;
        walk->bytes += (uint64_t)got;
        if (entry->bytes > walk->limits->file_bytes_max)
            return store_tree_refuse(walk, KG_E_TOO_LARGE, entry->path,
                                     "the file is larger than the bound");
        if (walk->bytes > walk->limits->bytes_max)
            return store_tree_refuse(walk, KG_E_TOO_LARGE, entry->path,
                                     "with it, all files together are larger than the bound");
        sha256_update(&digest, (size_t)got, walk->block);
    }
    sha256_digest(&digest, SHA256_DIGEST_SIZE, entry->sha256);
    return 0;
}

static int store_tree_read_file(struct walk *walk, int folder, const char *name,
                                struct found *found)
{
    kg_auto(kg_close) int fd =
        openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return store_tree_fail_errno(walk, found->entry.path, "open");
    if (fstat(fd, &found->status) < 0)
        return store_tree_fail_errno(walk, found->entry.path, "look at");
    if (!S_ISREG(found->status.st_mode))
        return store_tree_refuse(walk, KG_E_REFUSED, found->entry.path,
                                 "it changed while it was read");
    int result = check_status(walk, found->entry.path, &found->status);
    if (result < 0)
        return result;
    found->entry.executable = (found->status.st_mode & S_IXUSR) != 0;
    return hash_content(walk, fd, &found->entry);
}

/* -- one link, one folder ---------------------------------------------------------------------- */

static int store_tree_read_link(struct walk *walk, int folder, const char *name,
                                struct found *found)
{
    char target[TREE_LINK_BYTES_MAX + 2];
    ssize_t length = readlinkat(folder, name, target, sizeof(target) - 1);
    if (length < 0)
        return store_tree_fail_errno(walk, found->entry.path, "read link");
    target[length] = '\0';
    tree_digest((struct kg_str){target, (size_t)length}, found->entry.sha256);
    kg_map_set(walk->links, kg_str(found->entry.path), kg_strdup(target));
    return 0;
}

static int store_tree_read_folder(struct walk *walk, int folder, const char *name,
                                  struct kg_str path, uint32_t depth)
{
    kg_auto(kg_close) int fd =
        openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return store_tree_fail_errno(walk, path.data, "open");
    struct stat status;
    if (fstat(fd, &status) < 0)
        return store_tree_fail_errno(walk, path.data, "look at");
    int result = check_status(walk, path.data, &status);
    return result < 0 ? result : store_tree_walk_folder(walk, fd, path, depth + 1);
}

/* -- the entries of a folder ------------------------------------------------------------------- */

static struct found *store_tree_add(struct walk *walk, char *path)
{
    if (walk->count == walk->capacity) {
        walk->capacity = walk->capacity ? 2 * walk->capacity : 64;
        walk->items = kg_realloc(walk->items, walk->capacity * sizeof(*walk->items));
    }
    struct found *found = &walk->items[walk->count++];
    *found = (struct found){.entry = {.path = path}};
    return found;
}

static enum store_entry_type store_tree_type_of(mode_t mode)
{
    if (S_ISDIR(mode))
        return STORE_ENTRY_FOLDER;
    return S_ISLNK(mode) ? STORE_ENTRY_LINK : STORE_ENTRY_FILE;
}

static int read_entry(struct walk *walk, int folder, const char *name, struct found *found,
                      uint32_t depth)
{
    if (fstatat(folder, name, &found->status, AT_SYMLINK_NOFOLLOW) < 0)
        return store_tree_fail_errno(walk, found->entry.path, "look at");
    int result = check_status(walk, found->entry.path, &found->status);
    if (result < 0)
        return result;
    found->entry.type = store_tree_type_of(found->status.st_mode);
    if (found->entry.type == STORE_ENTRY_FOLDER) {
        struct kg_str path = kg_str(found->entry.path); /* found itself may move */
        return store_tree_read_folder(walk, folder, name, path, depth);
    }
    if (walk->look == LOOK_QUICK)
        return 0;
    return found->entry.type == STORE_ENTRY_LINK ? store_tree_read_link(walk, folder, name, found)
                                                 : store_tree_read_file(walk, folder, name, found);
}

static int store_tree_take_name(struct walk *walk, int folder, struct kg_str path, const char *name,
                                uint32_t depth)
{
    char *whole = path.length > 0 ? kg_format("%s/%s", path.data, name) : kg_strdup(name);
    struct found *found = store_tree_add(walk, whole);
    if (walk->count > walk->limits->files_max)
        return store_tree_refuse(walk, KG_E_TOO_LARGE, whole,
                                 "there are more entries than the bound");
    const char *problem = tree_path_problem(kg_str(whole), walk->limits->depth_max);
    if (problem != NULL)
        return store_tree_refuse(walk, KG_E_REFUSED, whole, problem);
    return read_entry(walk, folder, name, found, depth);
}

static void store_tree_close_folder(DIR **dir)
{
    if (*dir != NULL)
        closedir(*dir);
}

static DIR *open_names(int fd)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL && copy >= 0)
        close(copy);
    return dir;
}

static bool is_self_or_parent(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* path ends in NUL, and is "" at the top. */
static int store_tree_walk_folder(struct walk *walk, int fd, struct kg_str path, uint32_t depth)
{
    kg_auto(store_tree_close_folder) DIR *dir = open_names(fd);
    if (dir == NULL)
        return store_tree_fail_errno(walk, path.data, "list");
    for (;;) {
        errno = 0;
        const struct dirent *item = readdir(dir);
        if (item == NULL)
            return errno == 0 ? 0 : store_tree_fail_errno(walk, path.data, "list");
        if (is_self_or_parent(item->d_name))
            continue;
        int result = store_tree_take_name(walk, fd, path, item->d_name, depth);
        if (result < 0)
            return result;
    }
}

/* -- the whole --------------------------------------------------------------------------------- */

static const char *store_tree_link_of(void *data, struct kg_str path)
{
    return kg_map_get(data, path);
}

static int check_links(const struct walk *walk)
{
    struct kg_str path;
    void *target;
    for (size_t at = 0; kg_map_next(walk->links, &at, &path, &target);) {
        const char *problem = tree_link_problem(path, target, store_tree_link_of, walk->links);
        if (problem == NULL)
            continue;
        kg_auto(kg_free) char *name = kg_str_dup(path);
        return store_tree_refuse(walk, KG_E_REFUSED, name, problem);
    }
    return 0;
}

static int compare_found(const void *a, const void *b)
{
    return strcmp(((const struct found *)a)->entry.path, ((const struct found *)b)->entry.path);
}

static int walk_tree(struct walk *walk, int dirfd)
{
    if (fstat(dirfd, &walk->top) < 0)
        return kg_fail_errno(walk->err, errno, "stat the top folder");
    int result = check_status(walk, ".", &walk->top);
    if (result == 0)
        result = store_tree_walk_folder(walk, dirfd, KG_STR(""), 0);
    if (result == 0)
        result = check_links(walk);
    if (result == 0 && walk->count > 0)
        qsort(walk->items, walk->count, sizeof(*walk->items), compare_found);
    return result;
}

static struct walk walk_new(const struct store_limits *limits, enum look look, struct kg_err *err)
{
    return (struct walk){
        .limits = limits,
        .look = look,
        .err = err,
        .links = kg_map_new(),
        .block = look == LOOK_QUICK ? NULL : kg_alloc(READ_BYTES),
    };
}

static void hash_tree(struct store_tree *tree)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    store_tree_print(tree, &text);
    store_hash_text(kg_buf_view(&text), tree->hash);
}

static int read_tree(int dirfd, const struct store_limits *limits, enum look look,
                     struct store_tree *ret_tree, struct kg_err *err)
{
    kg_auto(store_tree_walk_free) struct walk walk = walk_new(limits, look, err);
    int result = walk_tree(&walk, dirfd);
    if (result < 0)
        return result;
    struct store_tree tree = {
        .entries = kg_alloc_array(walk.count + 1, sizeof(*tree.entries)),
        .count = walk.count,
        .bytes = walk.bytes,
    };
    for (size_t i = 0; i < walk.count; i++) {
        tree.entries[i] = walk.items[i].entry;
        walk.items[i].entry.path = NULL;
    }
    hash_tree(&tree);
    *ret_tree = tree;
    return 0;
}

int store_tree_read(int dirfd, const struct store_limits *limits, struct store_tree *ret_tree,
                    struct kg_err *err)
{
    return read_tree(dirfd, limits, LOOK_FULL, ret_tree, err);
}

int tree_read_fresh(int dirfd, const struct store_limits *limits, struct store_tree *ret_tree,
                    struct kg_err *err)
{
    return read_tree(dirfd, limits, LOOK_FRESH, ret_tree, err);
}

void store_tree_free(struct store_tree *tree)
{
    for (size_t i = 0; i < tree->count; i++)
        free(tree->entries[i].path);
    free(tree->entries);
    *tree = (struct store_tree){0};
}

int store_tree_quick(int dirfd, const struct store_limits *limits, char ret_digest[STORE_HASH_TEXT],
                     struct kg_err *err)
{
    kg_auto(store_tree_walk_free) struct walk walk = walk_new(limits, LOOK_QUICK, err);
    int result = walk_tree(&walk, dirfd);
    if (result < 0)
        return result;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    for (size_t i = 0; i < walk.count; i++) {
        const struct stat *status = &walk.items[i].status;
        kg_buf_printf(&text, "%o %llu %lld %lld.%09ld %lld.%09ld %s\n", (unsigned)status->st_mode,
                      (unsigned long long)status->st_ino, (long long)status->st_size,
                      (long long)status->st_mtim.tv_sec, status->st_mtim.tv_nsec,
                      (long long)status->st_ctim.tv_sec, status->st_ctim.tv_nsec,
                      walk.items[i].entry.path);
    }
    store_hash_text(kg_buf_view(&text), ret_digest);
    return 0;
}

/* -- the listing ------------------------------------------------------------------------------- */

void store_tree_print(const struct store_tree *tree, struct kg_buf *out)
{
    kg_buf_text(out, HEAD);
    for (size_t i = 0; i < tree->count; i++) {
        const struct store_entry *entry = &tree->entries[i];
        kg_buf_char(out, entry->executable ? 'x' : letters[entry->type]);
        kg_buf_char(out, ' ');
        if (entry->type == STORE_ENTRY_FOLDER)
            kg_buf_char(out, '-');
        else
            store_tree_put_hex(out, entry->sha256);
        kg_buf_printf(out, " %llu %s\n", (unsigned long long)entry->bytes, entry->path);
    }
}

static bool store_tree_take_word(struct kg_str *line, struct kg_str *ret_word)
{
    const char *space = memchr(line->data, ' ', line->length);
    if (space == NULL)
        return false;
    *ret_word = (struct kg_str){line->data, (size_t)(space - line->data)};
    line->length -= ret_word->length + 1;
    line->data = space + 1;
    return true;
}

static bool parse_hex(struct kg_str hex, unsigned char ret_sha256[SHA256_DIGEST_SIZE])
{
    if (hex.length != (size_t)2 * SHA256_DIGEST_SIZE)
        return false;
    for (size_t i = 0; i < SHA256_DIGEST_SIZE; i++) {
        int high = kg_hex_digit(hex.data[2 * i]), low = kg_hex_digit(hex.data[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        ret_sha256[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static bool parse_kind(struct kg_str kind, struct store_entry *entry)
{
    if (kind.length != 1)
        return false;
    entry->executable = kind.data[0] == 'x';
    if (entry->executable)
        return true;
    for (size_t type = 0; type < KG_COUNT(letters); type++)
        if (letters[type] == kind.data[0]) {
            entry->type = (enum store_entry_type)type;
            return true;
        }
    return false;
}

/* Without its path, which is borrowed from the line. */
static bool store_tree_parse_line(struct kg_str line, struct store_entry *entry,
                                  struct kg_str *ret_path)
{
    struct kg_str kind, hash, bytes;
    int64_t number;
    if (!store_tree_take_word(&line, &kind) || !store_tree_take_word(&line, &hash) ||
        !store_tree_take_word(&line, &bytes) || !parse_kind(kind, entry) ||
        !kg_str_to_int(bytes, &number) || number < 0 || tree_path_problem(line, UINT32_MAX) != NULL)
        return false;
    entry->bytes = (uint64_t)number;
    *ret_path = line;
    return entry->type == STORE_ENTRY_FOLDER ? kg_str_is(hash, "-")
                                             : parse_hex(hash, entry->sha256);
}

static bool parse_lines(struct kg_str text, struct store_tree *tree, size_t capacity)
{
    while (text.length > 0) {
        const char *end = memchr(text.data, '\n', text.length);
        struct store_entry entry = {0};
        struct kg_str path;
        if (end == NULL || tree->count == capacity ||
            !store_tree_parse_line((struct kg_str){text.data, (size_t)(end - text.data)}, &entry,
                                   &path))
            return false;
        entry.path = kg_str_dup(path);
        tree->entries[tree->count++] = entry;
        tree->bytes += entry.bytes;
        if (tree->count > 1 && strcmp(tree->entries[tree->count - 2].path, entry.path) >= 0)
            return false;
        text.length -= (size_t)(end + 1 - text.data);
        text.data = end + 1;
    }
    return true;
}

int store_tree_parse(struct kg_str text, struct store_tree *ret_tree, struct kg_err *err)
{
    size_t lines = 0;
    for (size_t i = 0; i < text.length; i++)
        lines += text.data[i] == '\n';
    kg_auto(store_tree_free) struct store_tree tree = {
        .entries = kg_alloc_array(lines + 1, sizeof(*tree.entries))};
    bool valid = kg_str_starts(text, HEAD);
    if (valid) {
        text.data += strlen(HEAD);
        text.length -= strlen(HEAD);
    }
    if (!valid || !parse_lines(text, &tree, lines))
        return kg_fail(err, KG_E_IO, "the listing of a plugin's files is damaged");
    hash_tree(&tree);
    *ret_tree = tree;
    tree = (struct store_tree){0};
    return 0;
}

/* -- differences ------------------------------------------------------------------------------- */

static void store_tree_note(char ***list, size_t *count, const char *path)
{
    if ((*count)++ < STORE_DIFF_MAX)
        kg_list_add(list, kg_strdup(path));
}

static bool are_same(const struct store_entry *a, const struct store_entry *b)
{
    return a->type == b->type && a->executable == b->executable &&
           memcmp(a->sha256, b->sha256, SHA256_DIGEST_SIZE) == 0;
}

void store_tree_compare(const struct store_tree *before, const struct store_tree *after,
                        struct store_tree_diff *ret_diff)
{
    struct store_tree_diff diff = {kg_list_new(0), kg_list_new(0), kg_list_new(0), 0, 0, 0};
    size_t old = 0, new = 0;
    while (old < before->count && new < after->count) {
        const struct store_entry *a = &before->entries[old], *b = &after->entries[new];
        int order = strcmp(a->path, b->path);
        if (order < 0)
            store_tree_note(&diff.removed, &diff.removed_count, a->path);
        else if (order > 0)
            store_tree_note(&diff.added, &diff.added_count, b->path);
        else if (!are_same(a, b))
            store_tree_note(&diff.changed, &diff.changed_count, a->path);
        old += order <= 0;
        new += order >= 0;
    }
    for (; old < before->count; old++)
        store_tree_note(&diff.removed, &diff.removed_count, before->entries[old].path);
    for (; new < after->count; new ++)
        store_tree_note(&diff.added, &diff.added_count, after->entries[new].path);
    *ret_diff = diff;
}

void store_tree_diff_free(struct store_tree_diff *diff)
{
    kg_list_free(diff->added);
    kg_list_free(diff->removed);
    kg_list_free(diff->changed);
    *diff = (struct store_tree_diff){0};
}

/* -- removing ---------------------------------------------------------------------------------- */

/* What lies deeper than REMOVE_DEPTH is moved up first: a cage can make folders without end. */
struct removal {
    int top;
    unsigned moved;
    struct kg_err *err;
};

static int store_tree_remove_at(struct removal *removal, int folder, const char *name,
                                unsigned depth);

/* A folder that its owner may not search is of a cage's making: it is opened up first. */
static int open_to_remove(int folder, const char *name)
{
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(folder, name, flags);
    if (fd < 0 && errno == EACCES && fchmodat(folder, name, 0700, 0) == 0)
        fd = openat(folder, name, flags);
    if (fd >= 0)
        fchmod(fd, 0700);
    return fd;
}

static int empty_folder(struct removal *removal, int fd, unsigned depth)
{
    kg_auto(store_tree_close_folder) DIR *dir = open_names(fd);
    if (dir == NULL)
        return kg_fail_errno(removal->err, errno, "list a folder to remove it");
    const struct dirent *item;
    int result = 0;
    while (result == 0 && (item = readdir(dir)) != NULL)
        if (!is_self_or_parent(item->d_name))
            result = store_tree_remove_at(removal, fd, item->d_name, depth + 1);
    return result;
}

static int move_up(struct removal *removal, int folder, const char *name)
{
    kg_auto(kg_free) char *moved = kg_format(".kaged-deep-%u", removal->moved++);
    (void)!fchmodat(folder, name, 0700, 0); /* its ".." is written, too */
    if (renameat(folder, name, removal->top, moved) == 0)
        return 0;
    return kg_fail_errno(removal->err, errno, "move folder %" KG_S_PATH " to remove it", name);
}

static int store_tree_remove_at(struct removal *removal, int folder, const char *name,
                                unsigned depth)
{
    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return kg_fail_errno(removal->err, errno, "remove %" KG_S_PATH, name);
    if (depth > REMOVE_DEPTH)
        return move_up(removal, folder, name);
    kg_auto(kg_close) int fd = open_to_remove(folder, name);
    if (fd < 0)
        return kg_fail_errno(removal->err, errno, "open %" KG_S_PATH " to remove it", name);
    int result = empty_folder(removal, fd, depth);
    if (result == 0 && unlinkat(folder, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        result = kg_fail_errno(removal->err, errno, "remove folder %" KG_S_PATH, name);
    return result;
}

int tree_remove(int dirfd, const char *name, struct kg_err *err)
{
    kg_auto(kg_close) int top = open_to_remove(dirfd, name);
    if (top < 0 && errno == ENOENT)
        return 0;
    if (top < 0)
        return kg_fail_errno(err, errno, "open %" KG_S_PATH " to remove it", name);
    struct removal removal = {.top = top, .err = err};
    int result;
    unsigned moved;
    do {
        moved = removal.moved;
        result = empty_folder(&removal, top, 0);
    } while (result == 0 && removal.moved != moved);
    if (result == 0 && unlinkat(dirfd, name, AT_REMOVEDIR) < 0)
        result = kg_fail_errno(err, errno, "remove folder %" KG_S_PATH, name);
    return result;
}
