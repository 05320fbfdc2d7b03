/* From a source to FOLDER/tree, which is there only when all of it is: one row a format. */
#include "store/unpack/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *name;
    source_fn *unpack;
} formats[] = {
    {"zip", unpack_zip}, {"tar", unpack_tar}, {"folder", unpack_folder},
    {"git", unpack_git}, {"npm", unpack_npm},
};

int source_open(const struct options *options, uint64_t *ret_bytes, struct kg_err *err)
{
    struct stat status;
    kg_auto(kg_close) int fd = open(options->source, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        return kg_fail_errno(err, errno, "open %s", options->source);
    if (!S_ISREG(status.st_mode))
        return kg_fail(err, KG_E_REFUSED, "open %s: it is not a file", options->source);
    if (status.st_size > options->source_bytes)
        return kg_fail(err, KG_E_TOO_LARGE, "the archive has %lld bytes; the bound is %lld",
                       (long long)status.st_size, (long long)options->source_bytes);
    *ret_bytes = (uint64_t)status.st_size;
    return kg_steal_fd(&fd);
}

static void free_sink(struct sink **sink)
{
    sink_free(*sink);
}

int unpack(const struct options *options, struct report *report, struct kg_err *err)
{
    source_fn *run = NULL;
    for (size_t i = 0; i < KG_COUNT(formats); i++)
        if (strcmp(options->format, formats[i].name) == 0)
            run = formats[i].unpack;
    if (run == NULL)
        return kg_fail(err, KG_E_USAGE, "there is no format %" KG_S_NAME, options->format);
    kg_auto(kg_close) int folder = open(options->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return kg_fail_errno(err, errno, "open folder %s", options->folder);
    kg_auto(free_sink) struct sink *sink = sink_new(folder, options, report, err);
    int result = sink == NULL ? -EINVAL : run(options, sink, report, err);
    bool lacks = options->npm != NULL && run != unpack_npm;
    return result == 0 && lacks ? npm_complete(options, report, err) : result;
}
