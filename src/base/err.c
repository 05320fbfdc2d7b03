/* One error travels up: code, errno, a message that names object, act and cause, a hint. */
#define KG_ERR_DEFINITIONS
#include "base/base.h"

#include <errno.h>
#include <stdio.h>

static const struct kg_error_row rows[KG_CODE_COUNT] = {
    [KG_OK] = {"ok", 0, 200, 0, "", "Nothing is wrong."},
#define KG_ERROR(symbol, name, rpc, http, exit, catalog, meaning)                                  \
    [KG_E_##symbol] = {name, rpc, http, exit, catalog, meaning},
#include "errors.def"
#undef KG_ERROR
};

const struct kg_error_row *kg_error_row(enum kg_code code)
{
    return &rows[code < KG_CODE_COUNT ? code : KG_E_INTERNAL];
}

enum kg_code kg_code_from_rpc(int64_t rpc_code)
{
    for (int code = 1; code < KG_CODE_COUNT; code++)
        if (rows[code].rpc_code == rpc_code)
            return (enum kg_code)code;
    return KG_E_PLUGIN;
}

enum kg_code kg_code_from_name(struct kg_str name)
{
    for (int code = 1; code < KG_CODE_COUNT; code++)
        if (kg_str_is(name, rows[code].name))
            return (enum kg_code)code;
    return KG_E_INTERNAL;
}

static int err_set(struct kg_err *err, enum kg_code code, int errnum, const char *format,
                   va_list args)
{
    if (err == NULL)
        return -errnum;
    err->code = code;
    err->errnum = errnum;
    err->hint[0] = '\0';
    vsnprintf(err->message, sizeof(err->message), format, args);
    return -errnum;
}

int kg_fail(struct kg_err *err, enum kg_code code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int result = err_set(err, code, EINVAL, format, args);
    va_end(args);
    return result;
}

int kg_fail_errno(struct kg_err *err, int errnum, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int result = err_set(err, KG_E_IO, errnum ? errnum : EIO, format, args);
    va_end(args);
    if (err != NULL) {
        size_t used = strlen(err->message);
        snprintf(err->message + used, sizeof(err->message) - used, ": %s", strerror(-result));
    }
    return result;
}

int kg_wrap(struct kg_err *err, int result, const char *format, ...)
{
    if (err == NULL)
        return result;
    char message[KG_ERR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    int used = vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    if (used >= 0 && (size_t)used < sizeof(message))
        snprintf(message + used, sizeof(message) - (size_t)used, ": %.*s",
                 (int)(sizeof(message) - (size_t)used), err->message);
    memcpy(err->message, message, sizeof(message));
    return result;
}

void kg_wrap_file(struct kg_err *err, const char *path)
{
    unsigned line, column;
    int used = 0;
    if (err == NULL)
        return;
    bool placed = sscanf(err->message, "%u:%u: %n", &line, &column, &used) == 2 && used > 0;
    if (placed) {
        memmove(err->message, err->message + used, strlen(err->message + used) + 1);
        kg_wrap(err, 0, "%s:%u:%u", path, line, column);
    } else {
        kg_wrap(err, 0, "%s", path);
    }
}

int kg_hint(struct kg_err *err, const char *format, ...)
{
    if (err == NULL)
        return -EINVAL;
    va_list args;
    va_start(args, format);
    vsnprintf(err->hint, sizeof(err->hint), format, args);
    va_end(args);
    return -EINVAL;
}
