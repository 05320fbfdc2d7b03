/*
 * Archives, without the cage: whatever they hold, files come to be in one folder only, and what is
 * called done keeps every rule. The first byte chooses the kind.
 */
#include "store/tree.h"
#include "store/unpack/internal.h"

#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char base[] = "/dev/shm/kaged-fuzz-unpack-XXXXXX";
static int base_fd = -1, source_fd = -1;
static char *source, *folder;

static const struct store_limits limits = {
    .bytes_max = 65536, .file_bytes_max = 32768, .files_max = 64, .depth_max = 8};

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void forget(void)
{
    tree_remove(AT_FDCWD, base, NULL);
    free(source);
    free(folder);
}

static void prepare(void)
{
    if (base_fd >= 0)
        return;
    must(mkdtemp(base) != NULL);
    source = kg_format("%s/source", base);
    folder = kg_format("%s/out", base);
    base_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    source_fd = open(source, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    must(base_fd >= 0 && source_fd >= 0);
    must(setlocale(LC_CTYPE, "C.UTF-8") != NULL);
    umask(022);
    atexit(forget);
}

static void check_tree(void)
{
    struct store_tree tree;
    struct kg_err err = {0};
    kg_auto(kg_close) int fd = openat(base_fd, "out/tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    must(fd >= 0);
    if (tree_read_fresh(fd, &limits, &tree, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    store_tree_free(&tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kg_err err = {0};
    struct report report = {.fd = -1};
    prepare();
    if (size == 0)
        return 0;
    must(ftruncate(source_fd, 0) == 0 &&
         pwrite(source_fd, data + 1, size - 1, 0) == (ssize_t)(size - 1));
    must(mkdirat(base_fd, "out", 0755) == 0);
    const struct options options = {
        .format = data[0] % 2 == 0 ? "zip" : "tar",
        .source = source,
        .folder = folder,
        .bytes_max = (int64_t)limits.bytes_max,
        .file_bytes_max = (int64_t)limits.file_bytes_max,
        .files_max = limits.files_max,
        .depth_max = limits.depth_max,
        .source_bytes = 1 << 20,
    };
    if (unpack(&options, &report, &err) == 0)
        check_tree();
    else
        must(err.code != KG_OK && err.message[0] != '\0');
    must(tree_remove(base_fd, "out", &err) == 0);
    must(rmdir(base) < 0); /* the source is still there, and nothing beside it came */
    return 0;
}
