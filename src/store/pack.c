/*
 * Walks a plugin's folder in the order of names and puts its files into a ZIP. What belongs to who
 * works on it, and not to the plugin, is left out and named; what cannot be installed is refused.
 */
#include "store/internal.h"

#include "store/tree_rules.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUNDLE_FILE "manifest.json"

/* Of the author's machine: keys first of all. */
static const char *const left_out[] = {
    ".git", ".gitignore", ".env",   ".env.*", ".npmrc",      ".netrc", ".DS_Store", ".cache",
    ".bin", "*.log",      "*.mcpb", "*.dxt",  "__pycache__", "*.pyc",  ".venv",     ".pytest_cache",
};

struct walk {
    const struct store_pack *pack;
    struct store_packed *packed;
    struct pack_zip *zip;
    uint64_t bytes;
    struct kg_err *err;
};

static bool pack_is_left_out(const char *name)
{
    for (size_t i = 0; i < KG_COUNT(left_out); i++)
        if (fnmatch(left_out[i], name, 0) == 0)
            return true;
    return false;
}

static int pack_by_name(const struct dirent **one, const struct dirent **other)
{
    return strcmp((*one)->d_name, (*other)->d_name);
}

static int is_entry(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int pack_refuse(const struct walk *walk, const char *path, const char *why)
{
    kg_auto(kg_buf_free) struct kg_buf quoted = {0};
    tree_quote(&quoted, kg_str(path));
    return kg_fail(walk->err, KG_E_INVALID_SOURCE, "%s: %s", kg_buf_terminate(&quoted), why);
}

static int pack_add_file(struct walk *walk, const char *full, const char *path,
                         const struct stat *there)
{
    const struct store_limits *limits = &walk->pack->limits;
    kg_auto(kg_buf_free) struct kg_buf bytes = {0};
    walk->bytes += (uint64_t)there->st_size;
    if ((uint64_t)there->st_size > limits->file_bytes_max || walk->bytes > limits->bytes_max ||
        walk->packed->files >= limits->files_max)
        return pack_refuse(walk, path, "with it the plugin is too large to be installed");
    int result = kg_read_file(full, (size_t)limits->file_bytes_max, &bytes, walk->err);
    if (result < 0)
        return result;
    walk->packed->files++;
    return pack_zip_add(walk->zip, path, there->st_mode & S_IXUSR, kg_buf_view(&bytes), walk->err);
}

static int pack_walk_folder(struct walk *walk, const char *path);

static int pack_take(struct walk *walk, const char *path, const char *name)
{
    kg_auto(kg_free) char *full = kg_path_join(walk->pack->dir, path);
    struct stat there;
    const char *problem = tree_path_problem(kg_str(path), walk->pack->limits.depth_max);
    if (pack_is_left_out(name)) {
        kg_list_add(&walk->packed->left_out, kg_strdup(path));
        return 0;
    }
    if (lstat(full, &there) < 0)
        return kg_fail_errno(walk->err, errno, "read %s", full);
    if (problem != NULL)
        return pack_refuse(walk, path, problem);
    if (S_ISDIR(there.st_mode))
        return pack_walk_folder(walk, path);
    if (!S_ISREG(there.st_mode))
        return pack_refuse(walk, path, "it is neither a file nor a folder");
    return pack_add_file(walk, full, path, &there);
}

static int pack_walk_folder(struct walk *walk, const char *path)
{
    kg_auto(kg_free) char *full = kg_path_join(walk->pack->dir, path);
    struct dirent **entries = NULL;
    int count = scandir(full, &entries, is_entry, pack_by_name), result = 0;
    if (count < 0)
        return kg_fail_errno(walk->err, errno, "read %s", full);
    for (int i = 0; i < count; i++) {
        kg_auto(kg_free) char *below = path[0] != '\0' ? kg_path_join(path, entries[i]->d_name)
                                                       : kg_strdup(entries[i]->d_name);
        if (result == 0)
            result = pack_take(walk, below, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return result;
}

/* One that the author wrote is taken as it is. */
static int pack_add_manifest(struct walk *walk)
{
    const struct store_pack *pack = walk->pack;
    kg_auto(kg_free) char *own = kg_path_join(pack->dir, BUNDLE_FILE);
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    walk->packed->has_own = access(own, F_OK) == 0;
    if (pack->manifest == NULL || !pack->manifest->is_mcp || walk->packed->has_own)
        return 0;
    int result = pack_put_json(pack->manifest, &json, &walk->packed->remarks, walk->err);
    if (result < 0)
        return result;
    walk->packed->files++;
    return pack_zip_add(walk->zip, BUNDLE_FILE, false, kg_buf_view(&json), walk->err);
}

static int write_zip(struct walk *walk)
{
    int result = pack_add_manifest(walk);
    if (result == 0)
        result = pack_walk_folder(walk, "");
    if (result == 0)
        result = pack_zip_end(walk->zip, &walk->packed->bytes, walk->packed->hash, walk->err);
    return result;
}

int store_pack(const struct store_pack *pack, struct store_packed *ret_packed, struct kg_err *err)
{
    kg_auto(kg_close) int fd =
        open(pack->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    struct walk walk = {.pack = pack, .packed = ret_packed, .err = err};
    *ret_packed = (struct store_packed){.left_out = kg_list_new(0), .remarks = kg_list_new(0)};
    if (fd < 0 && errno == EEXIST) {
        kg_fail(err, KG_E_CONFLICT, "%s already exists", pack->file);
        kg_hint(err, "--output names another file");
        return -EEXIST;
    }
    if (fd < 0)
        return kg_fail_errno(err, errno, "write %s", pack->file);
    walk.zip = pack_zip_new(fd);
    int result = write_zip(&walk);
    pack_zip_free(walk.zip);
    if (result < 0) {
        kg_wrap(err, 0, "pack %s", pack->manifest ? pack->manifest->name : pack->dir);
        unlink(pack->file);
    }
    return result;
}

void store_packed_free(struct store_packed *packed)
{
    kg_list_free(packed->left_out);
    kg_list_free(packed->remarks);
}

char *store_pack_name(const struct manifest *manifest)
{
    return kg_format("%s-%s.%s", manifest->name, manifest->version,
                     manifest->is_mcp ? "mcpb" : "zip");
}
