/*
 * Requests to the storage worker, and SQL in them: every line is answered by one line of JSON, the
 * schema table never shows, and no transaction is left behind.
 */
#include "storage/worker/internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct worker worker;
static struct options options;
static char path[] = "/tmp/kaged-fuzz-storage-XXXXXX";
static int out_fd;

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void forget(void)
{
    char wal[64];
    database_close(worker.database);
    kg_buf_free(&worker.out);
    kg_buf_free(&worker.scratch);
    snprintf(wal, sizeof(wal), "%s-wal", path);
    unlink(path);
    unlink(wal);
}

static void prepare(void)
{
    static char *words[] = {(char *)"kaged-storage",       path,
                            (char *)"size_bytes=1048576",  (char *)"statement_ms=50",
                            (char *)"heap_bytes=33554432", (char *)"result_bytes=65536"};
    struct failure failure;
    if (worker.database != NULL)
        return;
    must(close(mkstemp(path)) == 0);
    must(options_parse((int)KG_COUNT(words), words, &options, NULL) == 0);
    worker.options = &options;
    worker.database = database_open(&options, &failure);
    must(worker.database != NULL);
    out_fd = memfd_create("answers", MFD_CLOEXEC);
    must(out_fd >= 0);
    atexit(forget);
}

static size_t count_lines(struct kg_str text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.length; i++)
        count += text.data[i] == '\n' && i > 0 && text.data[i - 1] != '\n';
    return count;
}

static void serve(struct kg_str lines)
{
    kg_auto(kg_buf_free) struct kg_buf answers = {0};
    must(ftruncate(out_fd, 0) == 0 && lseek(out_fd, 0, SEEK_SET) == 0);
    must(serve_lines(&worker, lines, out_fd) == 0);
    off_t length = lseek(out_fd, 0, SEEK_CUR);
    kg_buf_reserve(&answers, (size_t)length + 1);
    must(pread(out_fd, answers.data, (size_t)length, 0) == length);
    answers.length = (size_t)length;
    must(count_lines(kg_buf_view(&answers)) == count_lines(lines));
    for (size_t at = 0; at < answers.length;) {
        const char *end = memchr(answers.data + at, '\n', answers.length - at);
        struct kg_str line = {answers.data + at, (size_t)(end - answers.data) - at};
        must(kg_json_check(line, NULL) == KG_JSON_OK);
        at += line.length + 1;
    }
    must(!worker.group_open && !database_in_transaction(worker.database));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kg_auto(kg_buf_free) struct kg_buf lines = {0};
    struct kg_str input = {(const char *)data, size};
    prepare();
    kg_buf_str(&lines, input);
    kg_buf_char(&lines, '\n');
    if (lines.data[0] != '\n')
        serve(kg_buf_view(&lines));
    lines.length = 0;
    for (int i = 0; i < 2; i++) { /* once to prepare, once from the cache, sharing a commit */
        kg_buf_text(&lines, "{\"id\":1,\"method\":\"exec\",\"params\":{\"sql\":");
        kg_json_put_string(&lines, input);
        kg_buf_text(&lines, "}}\n");
    }
    serve(kg_buf_view(&lines));
    return 0;
}
