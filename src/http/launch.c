/*
 * The launch URL: whoever may read run/launch-url (0600) is the operator, and may take a browser
 * along. The token in it works once; the file goes with it.
 */
#include "http/auth_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define LAUNCH_MAX_MS ((int64_t)24 * 60 * 60 * 1000) /* then a new one has to be made */

/* A new file each time: never one that somebody else made, and never half of a line. */
static int http_launch_write_file(const char *path, struct kg_str url, struct kg_err *err)
{
    kg_auto(kg_free) char *fresh = kg_format("%s.new", path);
    unlink(fresh);
    kg_auto(kg_close) int fd =
        open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return kg_fail_errno(err, errno, "launch URL %s: create", path);
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_buf_str(&line, url);
    kg_buf_char(&line, '\n');
    int result = kg_write_all(fd, line.data, line.length);
    if (result == 0 && rename(fresh, path) < 0)
        result = -errno;
    if (result == 0)
        return 0;
    unlink(fresh);
    return kg_fail_errno(err, -result, "launch URL %s: write", path);
}

int http_launch_make(struct http_auth *auth, const char *base_url, const char *operator_id,
                     struct kg_buf *ret_url, struct kg_err *err)
{
    struct http_launch *launch = &auth->launch;
    bool waits = launch->token[0] != '\0' && kg_wall_ms() < launch->expires_ms &&
                 strcmp(launch->operator_id, operator_id) == 0;
    char token[HTTP_SECRET_TEXT];
    kg_auto(kg_buf_free) struct kg_buf url = {0};
    if (waits)
        memcpy(token, launch->token, sizeof(token));
    else
        http_secret_make(token);
    kg_buf_printf(&url, "%s/?token=%s", base_url, token);
    int result = waits ? 0 : http_launch_write_file(launch->file, kg_buf_view(&url), err);
    if (result < 0)
        return result;
    if (!waits) {
        memcpy(launch->token, token, sizeof(token));
        snprintf(launch->operator_id, HTTP_OPERATOR_MAX, "%s", operator_id);
        launch->expires_ms = kg_wall_ms() + LAUNCH_MAX_MS;
        audit_emit(auth->audit, AUDIT_AUTH_LAUNCH_MADE, KG_STR_NULL, AUDIT_V_TEXT(operator_id));
        char expires[KG_TIME_TEXT];
        kg_time_format(launch->expires_ms, expires);
        native_tell(auth->native, NATIVE_AUTH_LAUNCH_URL_READY, AUDIT_V_STR(kg_buf_view(&url)),
                    AUDIT_V_TEXT(operator_id), AUDIT_V_TEXT(expires));
    }
    kg_buf_str(ret_url, kg_buf_view(&url));
    return 0;
}

bool http_launch_use(struct http_launch *launch, struct kg_str token,
                     char ret_operator[HTTP_OPERATOR_MAX])
{
    bool right = http_secret_equal(token, kg_str(launch->token));
    if (!right || kg_wall_ms() >= launch->expires_ms)
        return false;
    memcpy(ret_operator, launch->operator_id, HTTP_OPERATOR_MAX);
    http_launch_drop(launch);
    return true;
}

void http_launch_drop(struct http_launch *launch)
{
    sodium_memzero(launch->token, sizeof(launch->token));
    if (launch->file != NULL)
        unlink(launch->file);
}
