/*
 * How far the log was sent on, in a file beside it that is replaced whole. It is written after what
 * it tells of, so that a crash sends the last batch twice and never leaves one out.
 */
#include "forward/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define FILE_BYTES_MAX 4096

int forward_record_read(const char *file, struct forward_record *ret_record, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    int result = kg_read_file(file, FILE_BYTES_MAX, &text, err);
    if (result < 0)
        return result;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&text), NULL);
    int64_t number = doc ? kg_node_number(doc->root, "file") : -1;
    int64_t offset = doc ? kg_node_number(doc->root, "offset") : -1;
    if (number < 0 || number > UINT32_MAX || offset < 0) {
        kg_fail(err, KG_E_INVALID_CONFIG, "%s does not hold a position in the audit log", file);
        return kg_hint(err, "remove it: events are then sent on from the next start");
    }
    *ret_record = (struct forward_record){
        .position = {.file = (uint32_t)number,
                     .offset = (uint64_t)offset,
                     .lost = (uint64_t)kg_node_number(doc->root, "lost"),
                     .lost_files = (uint64_t)kg_node_number(doc->root, "lost_files")},
        .sent = (uint64_t)kg_node_number(doc->root, "sent"),
    };
    return 0;
}

int forward_record_write(const char *file, const struct forward_record *record, struct kg_err *err)
{
    kg_auto(kg_free) char *fresh = kg_format("%s.new", file);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "file", record->position.file);
    kg_json_named_int(&json, "offset", (int64_t)record->position.offset);
    kg_json_named_int(&json, "sent", (int64_t)record->sent);
    kg_json_named_int(&json, "lost", (int64_t)record->position.lost);
    kg_json_named_int(&json, "lost_files", (int64_t)record->position.lost_files);
    kg_json_end(&json, '}');
    kg_buf_char(&text, '\n');
    kg_auto(kg_close) int fd =
        open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int result = fd < 0 ? -errno : kg_write_all(fd, text.data, text.length);
    if (result == 0 && rename(fresh, file) < 0)
        result = -errno;
    return result < 0 ? kg_fail_errno(err, -result, "write %s", file) : 0;
}
