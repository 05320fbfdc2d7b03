/*
 * The lines of one file from its end to its beginning, each given whole or not at all: what is
 * asked for most is what came last, and it must not cost more as the log grows.
 */
#include "audit/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_BYTES ((size_t)64 * 1024)

/* -- bytes that grow at their front ------------------------------------------------------------ */

struct kg_str audit_front_view(const struct audit_front *front)
{
    return (struct kg_str){front->data + front->start, front->end - front->start};
}

void audit_front_free(struct audit_front *front)
{
    kg_free(&front->data);
    *front = (struct audit_front){0};
}

/* Moves what is held to the end of the memory, which is made larger if need be. */
static void move_back(struct audit_front *front, size_t more)
{
    struct kg_str held = audit_front_view(front);
    size_t capacity = front->capacity > 0 ? front->capacity : more;
    while (capacity < held.length + more)
        capacity *= 2;
    char *data = capacity > front->capacity ? kg_realloc(NULL, capacity) : front->data;
    if (held.length > 0)
        memmove(data + capacity - held.length, held.data, held.length);
    if (data != front->data)
        free(front->data);
    *front = (struct audit_front){data, capacity - held.length, capacity, capacity};
}

/* Where the bytes before those that are held go. */
static char *room_before(struct audit_front *front, size_t bytes)
{
    if (front->start < bytes)
        move_back(front, bytes);
    return front->data + front->start - bytes;
}

void audit_front_put(struct audit_front *front, struct kg_str bytes)
{
    memcpy(room_before(front, bytes.length), bytes.data, bytes.length);
    front->start -= bytes.length;
}

/* -- lines ------------------------------------------------------------------------------------- */

/* Reads what is before the bytes that are held: how many there were; 0 at the file's beginning. */
static ssize_t read_before(struct audit_backward *reader, struct kg_err *err)
{
    size_t wanted = reader->offset < BLOCK_BYTES ? (size_t)reader->offset : BLOCK_BYTES;
    if (audit_front_view(&reader->held).length > AUDIT_LINE_MAX)
        return kg_fail(err, KG_E_TOO_LARGE, "audit log: a line is longer than %zu bytes",
                       AUDIT_LINE_MAX);
    if (wanted == 0)
        return 0;
    char *room = room_before(&reader->held, wanted);
    uint64_t from = reader->offset - wanted;
    for (size_t done = 0; done < wanted;) {
        ssize_t got = pread(reader->fd, room + done, wanted - done, (off_t)(from + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return kg_fail_errno(err, got < 0 ? errno : EIO, "audit log: read");
        done += (size_t)got;
    }
    reader->held.start -= wanted;
    reader->offset = from;
    return (ssize_t)wanted;
}

/* A live file may end with half a line, which is not given. */
static int drop_half_line(struct audit_backward *reader, struct kg_err *err)
{
    ssize_t got;
    while ((got = read_before(reader, err)) > 0) {
        struct kg_str block = audit_front_view(&reader->held);
        const char *newline = memrchr(block.data, '\n', block.length);
        if (newline != NULL) {
            reader->held.end -= (size_t)(block.data + block.length - newline) - 1;
            return 0;
        }
        reader->held.end = reader->held.start;
    }
    return (int)got;
}

int audit_backward_open(struct audit_backward *reader, const char *dir, uint32_t number,
                        struct kg_err *err)
{
    kg_auto(kg_free) char *path = audit_file_path(dir, number);
    kg_auto(kg_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat file;
    if (fd < 0 || fstat(fd, &file) < 0)
        return kg_fail_errno(err, errno, "open %s", path);
    *reader = (struct audit_backward){.fd = kg_steal_fd(&fd), .offset = (uint64_t)file.st_size};
    int result = drop_half_line(reader, err);
    if (result < 0)
        audit_backward_close(reader);
    return result;
}

void audit_backward_close(struct audit_backward *reader)
{
    kg_close(&reader->fd);
    audit_front_free(&reader->held);
}

int audit_backward_next(struct audit_backward *reader, struct kg_str *ret_line, struct kg_err *err)
{
    struct audit_front *held = &reader->held;
    const char *newline;
    ssize_t got = 1;
    if (held->start == held->end && (got = read_before(reader, err)) <= 0)
        return (int)got;
    size_t unsearched = held->end - held->start - 1; /* the last byte is the line's own newline */
    while ((newline = memrchr(held->data + held->start, '\n', unsearched)) == NULL && got > 0) {
        got = read_before(reader, err);
        if (got < 0)
            return (int)got;
        unsearched = (size_t)got;
    }
    size_t start = newline != NULL ? (size_t)(newline - held->data) + 1 : held->start;
    *ret_line = (struct kg_str){held->data + start, held->end - start};
    held->end = start;
    return 1;
}
