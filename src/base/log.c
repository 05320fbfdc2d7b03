/* The operational log: each record is one write of one line, so that records never interleave. */
#include "base/json/json.h"
#include "base/log_hide.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

const char *const kg_level_names[] = {"debug", "info", "warn", "error"};

static enum kg_level log_level = KG_INFO;
static enum kg_log_format log_format = KG_LOG_TEXT;
static _Atomic(kg_log_hide_fn *) log_hide;

void kg_log_hide(kg_log_hide_fn *hide_or_null)
{
    atomic_store(&log_hide, hide_or_null);
}

void kg_log_set(enum kg_level level, enum kg_log_format format)
{
    log_level = level;
    log_format = format;
}

enum kg_level kg_log_level(void)
{
    return log_level;
}

enum kg_log_format kg_log_format(void)
{
    return log_format;
}

static void base_log_write_record(enum kg_level level, const char *plugin, const char *format,
                                  va_list args)
{
    if (level < log_level)
        return;
    char text[2048];
    const char *message = text;
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    kg_log_hide_fn *hide = atomic_load(&log_hide);
    vsnprintf(text, sizeof(text), format, args);
    if (hide != NULL && hide(kg_str(text), &shown))
        message = kg_buf_terminate(&shown);
    char when[KG_TIME_TEXT];
    kg_time_format(kg_wall_ms(), when);
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    if (log_format == KG_LOG_JSON) {
        struct kg_json_writer json = kg_json_writer(&line);
        kg_json_begin(&json, '{');
        kg_json_key(&json, "ts");
        kg_json_text(&json, when);
        kg_json_key(&json, "level");
        kg_json_text(&json, kg_level_names[level]);
        if (plugin) {
            kg_json_key(&json, "plugin");
            kg_json_text(&json, plugin);
        }
        kg_json_key(&json, "message");
        kg_json_text(&json, message);
        kg_json_end(&json, '}');
    } else {
        kg_buf_printf(&line, "%s %-5s ", when, kg_level_names[level]);
        if (plugin)
            kg_buf_printf(&line, "plugin %s: ", plugin);
        kg_buf_escaped(&line, kg_str(message)); /* a plugin's words may stand in it */
    }
    kg_buf_char(&line, '\n');
    (void)kg_write_all(STDERR_FILENO, line.data, line.length);
}

void kg_log(enum kg_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    base_log_write_record(level, NULL, format, args);
    va_end(args);
}

void kg_log_about(enum kg_level level, const char *plugin, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    base_log_write_record(level, plugin, format, args);
    va_end(args);
}
