/* The plugin's log: a line of JSON on stderr, written whole, so that lines of threads do not mix.
 */
#include "internal.h"

#include <stdlib.h>
#include <unistd.h>

static const char *const level_names[] = {"debug", "info", "warn", "error"};

static enum kaged_level least_level(void)
{
    const char *wanted = getenv("KAGED_LOG_LEVEL");
    for (size_t level = 0; wanted != NULL && level < KG_COUNT(level_names); level++)
        if (strcmp(wanted, level_names[level]) == 0)
            return (enum kaged_level)level;
    return KAGED_INFO;
}

static bool is_ours(const char *key)
{
    return strcmp(key, "time") == 0 || strcmp(key, "level") == 0 || strcmp(key, "message") == 0;
}

void kaged_log(enum kaged_level level, const char *message, const struct kaged_field *fields)
{
    if (level < least_level() || (size_t)level >= KG_COUNT(level_names))
        return;
    struct kaged_writer *line = writer_new();
    kg_json_begin(&line->json, '{');
    kg_json_named_time(&line->json, "time", kg_wall_ms());
    kg_json_named_text(&line->json, "level", level_names[level]);
    kg_json_named_text(&line->json, "message", message);
    for (; fields != NULL && fields->key != NULL; fields++)
        if (!is_ours(fields->key))
            kaged_put_field(line, fields->key, fields->value);
    kg_json_end(&line->json, '}');
    kg_buf_char(&line->buf, '\n');
    kg_write_all(STDERR_FILENO, line->buf.data, line->buf.length);
    writer_free(line);
}
