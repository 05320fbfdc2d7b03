/*
 * What a plugin is doing is on disk before it does it: a crash in it is the daemon's, and this is
 * what the next start names. A record each for its thread and for the loop, of fixed length, in a
 * file of its own; a write into the page cache outlives the process, and costs a microsecond.
 */
#include "native/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first record that is not empty; what is not ours to read is none. */
static void read_left(int fd, char ret_left[DOING_TEXT])
{
    char record[DOING_TEXT];
    ret_left[0] = '\0';
    for (int i = 0; i < DOING_PLACES && ret_left[0] == '\0'; i++) {
        ssize_t got = pread(fd, record, sizeof(record), (off_t)i * DOING_TEXT);
        struct kg_str text = {record, got > 0 ? strnlen(record, (size_t)got) : 0};
        if (text.length < sizeof(record) && kg_str_is_plain(text))
            kg_str_copy(text, ret_left, DOING_TEXT);
    }
}

static void doing_put(const struct doing *doing, enum doing_where where, const char *text)
{
    char record[DOING_TEXT] = {0};
    kg_str_copy(kg_str(text), record, sizeof(record));
    if (doing->fd >= 0)
        (void)!pwrite(doing->fd, record, sizeof(record), (off_t)where * DOING_TEXT);
}

void doing_open(struct doing *doing, const char *folder, const char *name,
                char ret_left[DOING_TEXT])
{
    kg_auto(kg_free) char *path = kg_path_join(folder, name);
    ret_left[0] = '\0';
    doing->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (doing->fd < 0) {
        kg_log(KG_WARN, "system plugin %s: open %s: %s: what it does cannot be written down", name,
               path, strerror(errno));
        return;
    }
    read_left(doing->fd, ret_left);
    for (int i = 0; i < DOING_PLACES; i++)
        doing_put(doing, (enum doing_where)i, "");
}

void doing_begin(const struct doing *doing, enum doing_where where, const char *what)
{
    doing_put(doing, where, what);
}

void doing_end(const struct doing *doing, enum doing_where where)
{
    doing_put(doing, where, "");
}

void doing_close(struct doing *doing)
{
    for (int i = 0; i < DOING_PLACES; i++)
        doing_put(doing, (enum doing_where)i, "");
    kg_close(&doing->fd);
}
