/* Small file helpers; every fd is born close-on-exec. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BYTES ((size_t)1 << 20)

int kg_read_fd(int fd, const char *path, size_t max, struct kg_buf *ret_text, struct kg_err *err)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return kg_fail_errno(err, errno, "stat %s", path);
    if (S_ISDIR(status.st_mode))
        return kg_fail_errno(err, EISDIR, "read %s", path);
    if (!S_ISREG(status.st_mode)) /* a fifo would keep us waiting for its writer */
        return kg_fail(err, KG_E_IO, "read %s: not a regular file", path);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    for (;;) {
        kg_buf_reserve(&text, 16384);
        ssize_t got = read(fd, text.data + text.length, text.capacity - text.length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kg_fail_errno(err, errno, "read %s", path);
        if (got == 0)
            break;
        text.length += (size_t)got;
        if (text.length > max)
            return kg_fail(err, KG_E_TOO_LARGE, "read %s: larger than %zu bytes", path, max);
    }
    *ret_text = text;
    text = (struct kg_buf){0};
    return 0;
}

int kg_read_file(const char *path, size_t max, struct kg_buf *ret_text, struct kg_err *err)
{
    kg_auto(kg_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return kg_fail_errno(err, errno, "open %s", path);
    return kg_read_fd(fd, path, max, ret_text, err);
}

int kg_write_all(int fd, const void *data, size_t length)
{
    const char *at = data;
    while (length > 0) {
        ssize_t wrote = write(fd, at, length);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return -errno;
        at += wrote;
        length -= (size_t)wrote;
    }
    return 0;
}

int kg_make_dirs(const char *path, mode_t mode, struct kg_err *err)
{
    kg_auto(kg_free) char *copy = kg_strdup(path);
    if (copy[0] == '\0')
        return kg_fail_errno(err, ENOENT, "make folder \"\"");
    for (char *at = copy + 1;; at++) {
        if (*at != '/' && *at != '\0')
            continue;
        bool last = *at == '\0';
        *at = '\0';
        if (mkdir(copy, mode) < 0) {
            int errnum = errno;
            struct stat there;
            if (stat(copy, &there) < 0 || !S_ISDIR(there.st_mode))
                return kg_fail_errno(err, errnum == EEXIST ? ENOTDIR : errnum, "make folder %s",
                                     copy);
        }
        if (last)
            break;
        *at = '/';
    }
    return 0;
}

static int base_file_copy_bytes(int from, int to)
{
    ssize_t copied;
    while ((copied = copy_file_range(from, NULL, to, NULL, COPY_BYTES, 0)) > 0)
        continue;
    /* Some file systems cannot, or not to each other. */
    while (copied < 0 && (copied = sendfile(to, from, NULL, COPY_BYTES)) > 0)
        copied = -1;
    return copied < 0 || fsync(to) < 0 ? -errno : 0;
}

int kg_copy_fd(int source, const char *to, mode_t mode)
{
    kg_auto(kg_close) int target = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (target < 0)
        return -errno;
    int result = base_file_copy_bytes(source, target);
    if (result < 0)
        unlink(to);
    return result;
}

int kg_copy_file(const char *from, const char *to, mode_t mode)
{
    kg_auto(kg_close) int source = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return source < 0 ? -errno : kg_copy_fd(source, to, mode);
}
