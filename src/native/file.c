/*
 * Whether a file may become a part of the daemon. Who could write to it, or put another in its
 * place, would be the daemon: so nobody but root and the daemon's user can, all the way from the
 * root of the file system. The file is the one that the operator has seen, by its hash.
 */
#include "native/internal.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES 65536
#define FILE_MAX   ((off_t)256 << 20)

/* -- who can write to it ----------------------------------------------------------------------- */

/* In a folder like /tmp nobody can replace what is not his own. */
static int native_file_check_owner(const char *path, const struct stat *found, uid_t owner,
                                   struct kg_err *err)
{
    bool sticky = S_ISDIR(found->st_mode) && (found->st_mode & S_ISVTX) != 0 && found->st_uid == 0;
    if (found->st_uid != 0 && found->st_uid != owner) {
        kg_fail(err, KG_E_REFUSED,
                "%s belongs to uid %u, who is neither root nor the daemon's user", path,
                (unsigned)found->st_uid);
        return kg_hint(err, "chown %s it, or put the plugin into a folder of your own",
                       owner == 0 ? "root" : "to yourself or root");
    }
    if ((found->st_mode & (S_IWGRP | S_IWOTH)) != 0 && !sticky) {
        kg_fail(err, KG_E_REFUSED, "%s can be written by others (mode %04o)", path,
                (unsigned)(found->st_mode & 07777));
        return kg_hint(err, "chmod go-w %s", path);
    }
    return 0;
}

static int open_part(int folder, const char *name, const char *path, bool is_last,
                     struct kg_err *err)
{
    int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (is_last ? 0 : O_DIRECTORY);
    int fd = openat(folder, name, flags);
    if (fd < 0 && (errno == ELOOP || (errno == ENOTDIR && !is_last))) {
        kg_fail(err, KG_E_REFUSED, "%s is a symbolic link, or not a folder", path);
        return kg_hint(err, "write the path that it leads to: realpath shows it");
    }
    return fd >= 0 ? fd : kg_fail_errno(err, errno, "open %s", path);
}

/* Folder by folder, so that no link is followed. The open file, or negative. */
static int open_checked(const char *path, uid_t owner, struct kg_err *err)
{
    kg_auto(kg_free) char *part = kg_strdup(path);
    kg_auto(kg_close) int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat found;
    if (folder < 0 || fstat(folder, &found) < 0)
        return kg_fail_errno(err, errno, "open /");
    for (char *at = part + 1;;) {
        char *slash = strchr(at, '/');
        if (slash != NULL)
            *slash = '\0';
        if (*at == '\0' || strcmp(at, ".") == 0 || strcmp(at, "..") == 0)
            return kg_fail(err, KG_E_REFUSED, "its path is not in its plain form");
        int fd = open_part(folder, at, part, slash == NULL, err);
        kg_close(&folder);
        if (fd < 0)
            return fd;
        folder = fd;
        if (fstat(fd, &found) < 0)
            return kg_fail_errno(err, errno, "stat %s", part);
        if (native_file_check_owner(part, &found, owner, err) < 0)
            return -EPERM;
        if (slash == NULL)
            break;
        *slash = '/';
        at = slash + 1;
    }
    if (!S_ISREG(found.st_mode) || found.st_size > FILE_MAX)
        return kg_fail(err, KG_E_REFUSED, "it is not a file of at most %lld MiB",
                       (long long)(FILE_MAX >> 20));
    return kg_steal_fd(&folder);
}

/* -- what it is -------------------------------------------------------------------------------- */

static bool native_file_read_header(int fd, Elf64_Ehdr *ret_header)
{
    *ret_header = (Elf64_Ehdr){0};
    return pread(fd, ret_header, sizeof(*ret_header), 0) == (ssize_t)sizeof(*ret_header) &&
           memcmp(ret_header->e_ident, ELFMAG, SELFMAG) == 0;
}

/* Type and machine lie at the same place in the headers of all classes. */
static int native_file_check_kind(int fd, struct kg_err *err)
{
    Elf64_Ehdr header, own;
    kg_auto(kg_close) int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (!native_file_read_header(fd, &header))
        return kg_fail(err, KG_E_REFUSED, "it is not a shared object (ELF)");
    if (self < 0 || !native_file_read_header(self, &own))
        return 0; /* dlopen has the last word anyway */
    if (header.e_ident[EI_CLASS] != own.e_ident[EI_CLASS] ||
        header.e_ident[EI_DATA] != own.e_ident[EI_DATA] || header.e_machine != own.e_machine)
        return kg_fail(err, KG_E_REFUSED,
                       "it was built for another machine: ELF machine %u of class %u, not %u of "
                       "class %u",
                       header.e_machine, header.e_ident[EI_CLASS], own.e_machine,
                       own.e_ident[EI_CLASS]);
    if (header.e_type != ET_DYN)
        return kg_fail(err, KG_E_REFUSED, "it is an ELF file, but not a shared object");
    return 0;
}

static int hash_file(int fd, char ret_hash[NATIVE_HASH_TEXT], struct kg_err *err)
{
    struct sha256_ctx digest;
    unsigned char sum[SHA256_DIGEST_SIZE];
    kg_auto(kg_free) uint8_t *bytes = kg_alloc(READ_BYTES);
    off_t at = 0;
    ssize_t got;
    sha256_init(&digest);
    while ((got = pread(fd, bytes, READ_BYTES, at)) > 0) {
        sha256_update(&digest, (size_t)got, bytes);
        at += got;
    }
    if (got < 0)
        return kg_fail_errno(err, errno, "read it");
    sha256_digest(&digest, sizeof(sum), sum);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_text(&text, "sha256:");
    for (size_t i = 0; i < sizeof(sum); i++)
        kg_buf_printf(&text, "%02x", sum[i]);
    kg_str_copy(kg_buf_view(&text), ret_hash, NATIVE_HASH_TEXT);
    return 0;
}

static int check_hash(struct kg_str wanted, const char *hash, struct kg_err *err)
{
    if (kg_str_is(wanted, hash))
        return 0;
    if (wanted.length == 0)
        kg_fail(err, KG_E_REFUSED, "its table has no hash; the file's is %s", hash);
    else
        kg_fail(err, KG_E_REFUSED, "the file is not the one of its table's hash; its hash is %s",
                hash);
    return kg_hint(err, "if it is what you mean to run, write into its table: hash = \"%s\"", hash);
}

int native_check_file(const struct local_system_plugin *plugin, uid_t owner,
                      char ret_hash[NATIVE_HASH_TEXT], struct kg_err *err)
{
    kg_auto(kg_free) char *path = kg_str_dup(plugin->path);
    kg_auto(kg_close) int fd = open_checked(path, owner, err);
    int result = fd < 0 ? fd : native_file_check_kind(fd, err);
    if (result == 0)
        result = hash_file(fd, ret_hash, err);
    return result < 0 ? result : check_hash(plugin->hash, ret_hash, err);
}
