/*
 * Any stream of a provider, or any request: every line that leaves is one valid message, the
 * bounds hold, no failure is without words, and how the bytes are cut makes no difference. The
 * first byte chooses the API, and how they are cut.
 */
#include "model/worker/internal.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_lines(struct kg_str lines)
{
    while (lines.length > 0) {
        const char *end = memchr(lines.data, '\n', lines.length);
        must(end != NULL);
        struct kg_str line = {lines.data, (size_t)(end - lines.data)};
        must(kg_json_check(line, NULL) == KG_JSON_OK && line.data[0] == '{');
        lines.length -= line.length + 1;
        lines.data = end + 1;
    }
}

static struct answer *run(const struct request *request, struct kg_str stream, size_t piece,
                          struct kg_buf *lines)
{
    struct answer *answer = answer_new(request, lines);
    int result = 0;
    for (size_t at = 0; at < stream.length && result == 0; at += piece) {
        size_t left = stream.length - at;
        result =
            answer_feed(answer, (struct kg_str){stream.data + at, left < piece ? left : piece});
    }
    if (result == 0)
        result = answer_finish(answer);
    must((result == 0) == (answer->failure.code == MODEL_OK));
    must((result == 0) == (answer->failure.message[0] == '\0'));
    must(result < 0 || answer->stop_reason != NULL);
    check_lines(kg_buf_view(lines));
    return answer;
}

static void check_stream(const char *kind, struct kg_str stream, size_t piece)
{
    struct failure failure = {0};
    kg_auto(kg_buf_free) struct kg_buf lines = {0}, other = {0};
    kg_auto(kg_free) char *params = kg_format(
        "{\"kind\":\"%s\",\"url\":\"https://h\",\"model\":\"m\",\"messages\":[],\"limits\":"
        "{\"event_bytes\":512,\"tool_calls\":4,\"argument_bytes\":64}}",
        kind);
    struct request *request = request_new(1, kg_str(params), &failure);
    struct answer *whole = run(request, stream, stream.length + 1, &lines);
    struct answer *cut = run(request, stream, piece, &other);
    must(whole->failure.code == cut->failure.code && whole->part_count == cut->part_count);
    must(whole->part_count <= 4 && whole->output_tokens == cut->output_tokens);
    answer_free(whole);
    answer_free(cut);
    failure_from_answer(&failure, 400, stream, request->secrets);
    must(failure.message[0] != '\0');
    request_free(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct kg_str rest = {(const char *)data + 1, size - 1};
    struct failure failure = {0};
    if (data[0] & 2)
        check_stream(data[0] & 1 ? "openai" : "anthropic", rest, (size_t)(data[0] >> 2) + 1);
    struct request *request = request_new(1, rest, &failure);
    must((request == NULL) == (failure.message[0] != '\0'));
    must(request == NULL || kg_json_check(kg_buf_view(&request->body), NULL) == KG_JSON_OK);
    request_free(request);
    return 0;
}
