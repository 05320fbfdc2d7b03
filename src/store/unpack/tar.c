/*
 * Tar files, plain or gzipped, by libarchive with everything else of it left out. Its word is taken
 * for what an entry is, never for where it goes.
 */
#include "store/tree_rules.h"
#include "store/unpack/internal.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#define READ_BYTES ((size_t)64 * 1024)

struct reader {
    struct archive *archive;
    struct sink *sink;
    struct kg_err *err;
    char *block; /* owned */
};

static void tar_reader_free(struct reader *reader)
{
    archive_read_free(reader->archive);
    free(reader->block);
}

/* What libarchive says is of the archive's making: it is quoted as a path is. */
static int fail_archive(const struct reader *reader, const char *act)
{
    const char *why = archive_error_string(reader->archive);
    kg_auto(kg_buf_free) struct kg_buf quoted = {0};
    kg_buf_escaped(&quoted, kg_str(why != NULL ? why : "unknown"));
    return kg_fail(reader->err, KG_E_INVALID_SOURCE, "%s: %s", act, kg_buf_terminate(&quoted));
}

/* -- one entry --------------------------------------------------------------------------------- */

static int tar_write_file(const struct reader *reader, struct kg_str path, mode_t mode)
{
    int result = sink_file_begin(reader->sink, path, (mode & S_IXUSR) != 0, reader->err);
    la_ssize_t got = 0;
    while (result == 0 && (got = archive_read_data(reader->archive, reader->block, READ_BYTES)) > 0)
        result = sink_file_write(reader->sink, reader->block, (size_t)got, reader->err);
    if (result == 0 && got < 0)
        return fail_archive(reader, "the archive cannot be read");
    return result < 0 ? result : sink_file_end(reader->sink, reader->err);
}

/* "./a" is a, and "a/" the folder a; anything else stays as it is, and is judged so. */
static struct kg_str plain_name(const char *name, bool is_folder)
{
    struct kg_str path = kg_str(name);
    while (kg_str_starts(path, "./") && path.length > 2) {
        path.data += 2;
        path.length -= 2;
    }
    if (is_folder && path.length > 1 && path.data[path.length - 1] == '/')
        path.length--;
    return path;
}

static int tar_write_entry(const struct reader *reader, struct archive_entry *entry,
                           struct kg_str path, mode_t mode)
{
    const char *original = archive_entry_hardlink(entry);
    if (original != NULL)
        return sink_copy(reader->sink, path, plain_name(original, false), reader->err);
    if (S_ISDIR(mode))
        return sink_folder(reader->sink, path, reader->err);
    if (S_ISLNK(mode))
        return sink_link(reader->sink, path, kg_str(archive_entry_symlink(entry)), reader->err);
    return tar_write_file(reader, path, mode);
}

static int tar_unpack_entry(const struct reader *reader, struct archive_entry *entry)
{
    const char *name = archive_entry_pathname(entry);
    mode_t mode = archive_entry_mode(entry);
    if (name == NULL)
        return kg_fail(reader->err, KG_E_REFUSED, "an entry: its name is not UTF-8");
    if (archive_entry_hardlink(entry) != NULL)
        mode = (mode & ~(mode_t)S_IFMT) | S_IFREG; /* its type is that of the other name */
    struct kg_str path = plain_name(name, S_ISDIR(mode));
    if (S_ISDIR(mode) && kg_str_is(path, "."))
        return 0;
    const char *problem = tree_mode_problem(mode);
    if (problem == NULL && S_ISLNK(mode) && archive_entry_symlink(entry) == NULL)
        problem = "the target of the link is too long, or not readable text";
    if (problem == NULL && archive_entry_is_encrypted(entry))
        problem = "it is encrypted";
    if (problem != NULL)
        return sink_refuse(KG_E_REFUSED, path, problem, reader->err);
    return tar_write_entry(reader, entry, path, mode);
}

/* -- the archive ------------------------------------------------------------------------------- */

static int tar_open_archive(int fd, const struct reader *reader)
{
    struct archive *archive = reader->archive;
    if (archive == NULL || archive_read_support_filter_gzip(archive) != ARCHIVE_OK ||
        archive_read_support_format_tar(archive) != ARCHIVE_OK)
        return kg_fail(reader->err, KG_E_INTERNAL, "libarchive knows no tar or no gzip");
    if (archive_read_open_fd(archive, fd, READ_BYTES) != ARCHIVE_OK)
        return fail_archive(reader, "the archive cannot be read");
    /* The last is none at all. What is packed twice grows beyond all that its size tells. */
    if (archive_filter_count(archive) > 2)
        return kg_fail(reader->err, KG_E_REFUSED, "the archive is compressed more than once");
    return 0;
}

/* A warning is a refusal, too: something was not as it should be. */
static int tar_unpack_entries(const struct reader *reader)
{
    struct archive_entry *entry;
    int status;
    while ((status = archive_read_next_header(reader->archive, &entry)) == ARCHIVE_OK) {
        int result = tar_unpack_entry(reader, entry);
        if (result < 0)
            return result;
    }
    return status == ARCHIVE_EOF ? 0 : fail_archive(reader, "the archive cannot be read");
}

int unpack_tar(const struct options *options, struct sink *sink, struct report *report,
               struct kg_err *err)
{
    uint64_t bytes;
    kg_auto(kg_close) int fd = source_open(options, &bytes, err);
    if (fd < 0)
        return fd;
    report_phase(report, "unpacking", 0);
    kg_auto(tar_reader_free) struct reader reader = {
        .archive = archive_read_new(), .sink = sink, .err = err, .block = kg_alloc(READ_BYTES)};
    int result = tar_open_archive(fd, &reader);
    if (result == 0)
        result = tar_unpack_entries(&reader);
    return result < 0 ? result : sink_finish(sink, SINK_MANIFEST_BELOW, err);
}
