/*
 * kage.exec and kage.fs, as the daemon serves them: what a stranger asks for is checked and becomes
 * a program in a cage, see script_run.c. A path is meant below the session's folder;
 * one that leads out of it is refused here with words, and would reach nothing there.
 */
#include "host/internal.h"

#include "base/base64.h"
#include "helper/helper.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#define OUTPUT_MAX      ((size_t)1 << 20)
#define WORDS_MAX       1024
#define WORDS_BYTES_MAX ((size_t)128 * 1024)
#define FILE_SEC        30
#define EXEC_SEC_MAX    300
#define HEAD_BYTES_MAX  4096

void host_script_refuse(struct host_script_request *request, const char *call, struct kg_err *err)
{
    kg_wrap(err, 0, "%s", call);
    host_script_fail(request, err);
}

/* -- what comes back --------------------------------------------------------------------------- */

static void reply_output(struct host_script_request *request, const struct helper_run_result *ran)
{
    kg_auto(kg_buf_free) struct kg_buf result = {0};
    struct kg_json_writer json = kg_json_writer(&result);
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "code", ran->how.signal != 0 ? -1 : ran->how.exit_code);
    kg_json_named_bytes(&json, "stdout", kg_buf_view(&ran->out));
    kg_json_named_bytes(&json, "stderr", kg_buf_view(&ran->err));
    kg_json_named_bool(&json, "timed_out", ran->timed_out);
    kg_json_named_bool(&json, "truncated", ran->truncated);
    kg_json_end(&json, '}');
    host_script_reply(request, kg_buf_view(&result));
}

int host_script_number(const struct kg_node *params, const char *key, int64_t fallback, int64_t max,
                       int64_t *ret_number, struct kg_err *err)
{
    const struct kg_node *node = kg_node_get(params, key);
    *ret_number = fallback;
    if (node == NULL || (kg_node_int(node, ret_number) && *ret_number >= 1 && *ret_number <= max))
        return 0;
    return kg_fail(err, KG_E_INVALID_PARAMS, "%s must be from 1 to %lld", key, (long long)max);
}

/* -- paths ------------------------------------------------------------------------------------- */

static bool script_files_is_plain(struct kg_str text)
{
    return text.length > 0 && memchr(text.data, '\0', text.length) == NULL;
}

/* Links followed, of the longest part that is there; owned. */
static char *real_part(const char *path)
{
    kg_auto(kg_free) char *at = kg_strdup(path);
    for (;;) {
        char *real = realpath(at, NULL);
        if (real != NULL || strcmp(at, "/") == 0)
            return real != NULL ? real : kg_strdup("/");
        char *above = kg_path_folder(at);
        free(at);
        at = above;
    }
}

/* Where it is, or would be; owned. NULL: that is not in the session's folder. */
static char *find_below(const struct host_script_request *request, struct kg_str path,
                        struct kg_err *err)
{
    const char *root = host_script_whom(request)->root;
    if (root == NULL || !script_files_is_plain(path) || path.length >= PATH_MAX) {
        kg_fail(err, KG_E_INVALID_PARAMS,
                root ? "a path must be a text of 1 to %d bytes" : "the session has no folder",
                PATH_MAX - 1);
        return NULL;
    }
    kg_auto(kg_free) char *text = kg_str_dup(path);
    kg_auto(kg_free) char *joined = cage_path_join(root, text);
    kg_auto(kg_free) char *real_root = realpath(root, NULL), *real = real_part(joined);
    if (real_root != NULL && kg_path_within(joined, root) && kg_path_within(real, real_root))
        return kg_steal(&joined);
    kg_fail(err, KG_E_REFUSED, "%.*s is not in the session's folder",
            KG_STR_CUT(path, KG_CUT_WORD));
    return NULL;
}

/* "env -C FOLDER", which is what a command begins with: HOST_ENV_WORDS. Owned. */
static char **begin_command(const char *folder)
{
    char **command = kg_list_new(0);
    kg_list_add(&command, kg_strdup("/usr/bin/env"));
    kg_list_add(&command, kg_strdup("-C"));
    kg_list_add(&command, kg_strdup(folder));
    return command;
}

/* -- kage.exec --------------------------------------------------------------------------------- */

static void on_executed(struct host_script_request *request, struct helper_run_result *ran)
{
    reply_output(request, ran);
}

/* A relative folder below the session's. Owned. */
static char *script_files_find_folder(const struct host_script_request *request,
                                      const struct kg_node *params, struct kg_err *err)
{
    struct kg_str cwd = kg_node_text(params, "cwd");
    struct stat there;
    if (cwd.length > 0 && (cwd.data[0] == '/' || memmem(cwd.data, cwd.length, "..", 2) != NULL)) {
        kg_fail(err, KG_E_INVALID_PARAMS,
                "cwd must be a path below the session's folder, without ..");
        return NULL;
    }
    kg_auto(kg_free) char *folder = find_below(request, cwd.length > 0 ? cwd : KG_STR("."), err);
    if (folder != NULL && (stat(folder, &there) < 0 || !S_ISDIR(there.st_mode))) {
        kg_fail(err, KG_E_NOT_FOUND, "cwd %.*s is not a folder", KG_STR_CUT(cwd, KG_CUT_WORD));
        return NULL;
    }
    return kg_steal(&folder);
}

/* As env takes it: a name is looked for in the system, a path is meant from the folder on. */
static int script_files_add_program(struct kg_str cmd, const char *folder, char ***command,
                                    struct kg_err *err)
{
    bool is_path = cmd.length > 0 && memchr(cmd.data, '/', cmd.length) != NULL;
    if (!script_files_is_plain(cmd) || cmd.length >= PATH_MAX || cmd.data[0] == '-' ||
        memchr(cmd.data, '=', cmd.length) != NULL)
        return kg_fail(err, KG_E_INVALID_PARAMS, "cmd must be the name of a program");
    kg_auto(kg_free) char *name = kg_str_dup(cmd);
    kg_list_add(command, is_path ? cage_path_join(folder, name) : kg_steal(&name));
    return 0;
}

static int script_files_add_words(const struct kg_node *params, char ***command, struct kg_err *err)
{
    const struct kg_node *words = kg_node_list(params, "args");
    size_t bytes = 0;
    for (uint32_t i = 0; i < words->count; i++) {
        const struct kg_node *word = &words->items[i];
        bool fits = word->type == KG_STRING &&
                    (word->text.length == 0 || script_files_is_plain(word->text));
        bytes += fits ? word->text.length + 1 : 0;
        if (!fits || i >= WORDS_MAX || bytes > WORDS_BYTES_MAX)
            return kg_fail(err, KG_E_INVALID_PARAMS,
                           "args must be a list of at most %d texts and %zu bytes", WORDS_MAX,
                           WORDS_BYTES_MAX);
        kg_list_add(command, kg_str_dup(word->text));
    }
    return 0;
}

void host_script_serve_exec(struct host_script_request *request, const struct kg_node *params,
                            void *data)
{
    static const char call[] = "kage.exec";
    struct kg_str cmd = kg_node_text(params, "cmd");
    struct kg_err err = {0};
    int64_t seconds = 0;
    (void)data;
    if (host_script_check(request, POWER_EXEC, cmd, call, &err) < 0) {
        host_script_fail(request, &err);
        return;
    }
    kg_auto(kg_free) char *folder = script_files_find_folder(request, params, &err);
    char **command = begin_command(folder ? folder : "");
    if (folder == NULL || script_files_add_program(cmd, folder, &command, &err) < 0 ||
        script_files_add_words(params, &command, &err) < 0 ||
        host_script_number(params, "timeout_secs", FILE_SEC, EXEC_SEC_MAX, &seconds, &err) < 0) {
        kg_list_free(command);
        host_script_refuse(request, call, &err);
        return;
    }
    host_script_run(request, &(struct host_script_wish){.call = call,
                                                        .command = command,
                                                        .capability = "write:fs:project:/",
                                                        .runs_all = true,
                                                        .output_max = OUTPUT_MAX,
                                                        .timeout_ms = (uint64_t)seconds * 1000,
                                                        .on_ran = on_executed});
}

/* -- kage.fs ----------------------------------------------------------------------------------- */

static void on_file_done(struct host_script_request *request, const char *call,
                         const struct helper_run_result *ran)
{
    struct kg_err err = {0};
    struct kg_str words = kg_buf_view(&ran->err);
    kg_auto(kg_buf_free) struct kg_buf result = {0};
    struct kg_json_writer json = kg_json_writer(&result);
    if (ran->timed_out)
        kg_fail(&err, KG_E_REQUEST_TIMEOUT, "the file took longer than %d s", FILE_SEC);
    else if (ran->how.exit_code != 0)
        kg_fail(&err, KG_E_REFUSED, "%.*s", KG_STR_CUT(words, KG_CUT_CAUSE));
    else if (ran->truncated)
        kg_fail(&err, KG_E_TOO_LARGE, "the file has more than %zu bytes", OUTPUT_MAX);
    if (err.code != KG_OK) {
        host_script_refuse(request, call, &err);
        return;
    }
    kg_json_begin(&json, '{');
    kg_json_named_bytes(&json, "content", kg_buf_view(&ran->out));
    kg_json_end(&json, '}');
    host_script_reply(request, kg_buf_view(&result));
}

static void script_files_on_read(struct host_script_request *request, struct helper_run_result *ran)
{
    on_file_done(request, "kage.fs.read", ran);
}

static void script_files_on_written(struct host_script_request *request,
                                    struct helper_run_result *ran)
{
    on_file_done(request, "kage.fs.write", ran);
}

/* Whether there is a file; a FIFO, or a device, would be waited for. */
static int script_files_check_file(const char *path, struct kg_str named, struct kg_err *err)
{
    struct stat there;
    if (stat(path, &there) < 0)
        return kg_fail(err, KG_E_NOT_FOUND, "%.*s: %s", KG_STR_CUT(named, KG_CUT_WORD),
                       strerror(errno));
    return S_ISREG(there.st_mode)
               ? 0
               : kg_fail(err, KG_E_REFUSED, "%.*s is not a file", KG_STR_CUT(named, KG_CUT_WORD));
}

void host_script_serve_read(struct host_script_request *request, const struct kg_node *params,
                            void *data)
{
    struct kg_str named = kg_node_text(params, "path");
    struct kg_err err = {0};
    (void)data;
    kg_auto(kg_free) char *path = find_below(request, named, &err);
    if (path == NULL || script_files_check_file(path, named, &err) < 0) {
        host_script_refuse(request, "kage.fs.read", &err);
        return;
    }
    char **command = begin_command("/");
    kg_list_add(&command, kg_strdup("cat"));
    kg_list_add(&command, kg_steal(&path));
    host_script_run(request, &(struct host_script_wish){.call = "kage.fs.read",
                                                        .command = command,
                                                        .capability = "read:fs:project:/",
                                                        .output_max = OUTPUT_MAX,
                                                        .timeout_ms = FILE_SEC * 1000,
                                                        .on_ran = script_files_on_read});
}

/* The mode that the file has, or a new one gets; a link is not written through. */
static int script_files_check_target(const char *path, struct kg_str named, mode_t *ret_mode,
                                     struct kg_err *err)
{
    struct stat there;
    bool exists = lstat(path, &there) == 0;
    *ret_mode = exists ? there.st_mode & 0777 : 0644;
    return !exists || S_ISREG(there.st_mode)
               ? 0
               : kg_fail(err, KG_E_REFUSED, "%.*s is not a file", KG_STR_CUT(named, KG_CUT_WORD));
}

void host_script_serve_write(struct host_script_request *request, const struct kg_node *params,
                             void *data)
{
    struct kg_str named = kg_node_text(params, "path");
    struct kg_buf content = {0};
    struct kg_err err = {0};
    mode_t mode = 0;
    (void)data;
    kg_auto(kg_free) char *path = find_below(request, named, &err);
    if (path == NULL || script_files_check_target(path, named, &mode, &err) < 0 ||
        kg_node_bytes(params, "content", OUTPUT_MAX, &content, &err) < 0) {
        kg_buf_free(&content);
        host_script_refuse(request, "kage.fs.write", &err);
        return;
    }
    char **command = begin_command("/");
    kg_list_add(&command, kg_strdup("install"));
    kg_list_add(&command, kg_strdup("-D"));
    kg_list_add(&command, kg_format("-m%04o", (unsigned)mode));
    kg_list_add(&command, kg_strdup("/dev/stdin"));
    kg_list_add(&command, kg_steal(&path));
    host_script_run(request, &(struct host_script_wish){.call = "kage.fs.write",
                                                        .command = command,
                                                        .capability = "write:fs:project:/",
                                                        .input = content,
                                                        .output_max = HEAD_BYTES_MAX,
                                                        .timeout_ms = FILE_SEC * 1000,
                                                        .on_ran = script_files_on_written});
}
