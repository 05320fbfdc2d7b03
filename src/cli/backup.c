/* kaged backup and restore: a whole home in one file, by this process, whether a daemon runs or
 * not. */
#include "backup/backup.h"

#include "cage/cage.h"
#include "cli/install.h"
#include "cli/offline.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static void print_object(struct kg_buf *json)
{
    kg_buf_char(json, '\n');
    print_out(json);
}

static int backup_tell_daemon(const struct cli *cli, const char *file,
                              const struct backup_made *made, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    struct client_reply reply = {0};
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "file", file);
    kg_json_named_int(&json, "files", (int64_t)made->files);
    kg_json_named_int(&json, "bytes", (int64_t)made->bytes);
    kg_json_end(&json, '}');
    const struct client_request request = {
        .method = "POST", .target = "/api/v1/backups", .body = kg_buf_view(&body)};
    int result = client_exchange(cli->paths.socket, &request, &reply, err);
    if (result == 0 && reply.status != 201)
        result = kg_fail(err, KG_E_INTERNAL, "the daemon answered %d", reply.status);
    kg_buf_free(&reply.body);
    return result;
}

typedef void emit_fn(struct audit *audit, const char *operator_id, const void *data);

/* One event, where no daemon has the log. */
static int audit_offline(const struct cli *cli, emit_fn *emit, const void *data, struct kg_err *err)
{
    struct offline offline;
    struct config *config = config_load(cli->paths.config_file, err);
    int result = config ? offline_become(cli, config, err) : -EINVAL;
    struct loop *loop = loop_new();
    if (result == 0)
        result = offline_begin(cli, config, loop, &offline, err);
    if (result == 0) {
        kg_auto(kg_free) char *operator_id = offline_operator();
        emit(offline.audit, operator_id, data);
        offline_end(&offline);
    }
    loop_free(loop);
    config_free(config);
    return result;
}

struct made_file {
    const char *file;
    const struct backup_made *made;
};

static void emit_made(struct audit *audit, const char *operator_id, const void *data)
{
    const struct made_file *told = data;
    audit_emit(audit, AUDIT_HOME_BACKED_UP, KG_STR_NULL, AUDIT_V_TEXT(told->file),
               AUDIT_V_INT((int64_t)told->made->files), AUDIT_V_INT((int64_t)told->made->bytes),
               AUDIT_V_TEXT(operator_id));
}

/* The backup is there whatever becomes of this: a home on a disk that is full, or read-only. */
static void audit_made(const struct cli *cli, const char *file, const struct backup_made *made)
{
    struct kg_err err = {0};
    kg_auto(kg_free) char *path = realpath(file, NULL);
    const struct made_file told = {path ? path : file, made};
    int result = door_daemon_runs(cli) ? backup_tell_daemon(cli, told.file, made, &err)
                                       : audit_offline(cli, emit_made, &told, &err);
    if (result < 0)
        fprintf(stderr, "kaged: the backup is made, but it is not in the audit log: %s\n",
                err.message);
}

int cli_backup(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    const char *file = cli_argument(cli, 0);
    struct backup_made made = {0};
    struct kg_err err = {0};
    if (access(cli->paths.state_dir, F_OK) < 0) {
        kg_fail(&err, KG_E_NOT_FOUND, "there is no home to back up: %s", cli->paths.state_dir);
        return print_error(&err);
    }
    if (backup_make(&cli->paths, file, &made, &err) < 0)
        return print_error(&err);
    audit_made(cli, file, &made);
    if (cli->json) {
        struct kg_json_writer json = kg_json_writer(&out);
        kg_json_begin(&json, '{');
        kg_json_named_text(&json, "file", file);
        kg_json_named_int(&json, "files", (int64_t)made.files);
        kg_json_named_int(&json, "bytes", (int64_t)made.bytes);
        kg_json_end(&json, '}');
        print_object(&out);
        return CLI_DONE;
    }
    kg_buf_printf(&out, "%zu files are in %s, ", made.files, file);
    print_bytes(&out, (int64_t)made.bytes);
    kg_buf_char(&out, '\n');
    if (access(cli->paths.secrets_key, F_OK) == 0)
        kg_buf_printf(&out, "the key of the secrets is not in it: keep a copy of %s elsewhere\n",
                      cli->paths.secrets_key);
    if (access(cli->paths.catalog_key, F_OK) == 0)
        kg_buf_printf(&out, "the key of the catalog is not in it: keep a copy of %s, too\n",
                      cli->paths.catalog_key);
    print_out(&out);
    return CLI_DONE;
}

/* -- restore ----------------------------------------------------------------------------------- */

static void put_restored(const struct cli *cli, const struct backup_restored *restored,
                         struct kg_buf *out)
{
    kg_auto(kg_free) char *self = cli_self(cli);
    if (cli->json) {
        struct kg_json_writer json = kg_json_writer(out);
        kg_json_begin(&json, '{');
        kg_json_named_int(&json, "files", (int64_t)restored->files);
        kg_json_named_time(&json, "made_at", restored->made_ms);
        kg_json_named_list(&json, "secrets_to_set", restored->forgotten);
        kg_json_named_list(&json, "moved_aside", restored->aside);
        kg_json_end(&json, '}');
        kg_buf_char(out, '\n');
        return;
    }
    kg_buf_printf(out, "%zu files are restored, of a backup made ", restored->files);
    print_when(out, restored->made_ms);
    kg_buf_char(out, '\n');
    for (char **folder = restored->aside; *folder != NULL; folder++)
        kg_buf_printf(out, "what was there before is in %s\n", *folder);
    for (char **name = restored->forgotten; *name != NULL; name++)
        kg_buf_printf(out, "to be set again: %s secret set %s\n", self, *name);
}

/* Whose the files are to be: as the daemon will run with the configuration that was restored. */
static int find_owner(const struct cli *cli, struct backup_wish *wish, struct kg_err *err)
{
    struct cage_owner owner;
    struct config *config = config_load(cli->paths.config_file, err);
    int result = config ? user_find(config, &owner, err) : -EINVAL;
    config_free(config);
    if (result == 0) {
        wish->uid = owner.uid;
        wish->gid = owner.gid;
    }
    return result;
}

/* The log goes on with who restored it. */
static void emit_restored(struct audit *audit, const char *operator_id, const void *data)
{
    const struct backup_restored *restored = data;
    char made_at[KG_TIME_TEXT];
    kg_time_format(restored->made_ms, made_at);
    audit_emit(audit, AUDIT_HOME_RESTORED, KG_STR_NULL, AUDIT_V_TEXT(made_at),
               AUDIT_V_TEXT(operator_id));
}

static int cli_backup_restore(const struct cli *cli, struct backup_restored *ret_restored,
                              struct kg_err *err)
{
    struct backup_wish wish = {.file = cli_argument(cli, 0),
                               .key_file = cli_option_value(cli, "key"),
                               .force = cli_has(cli, "force")};
    int result = find_owner(cli, &wish, err);
    if (result == 0)
        result = kg_make_dirs(cli->paths.run_dir, 0700, err);
    if (result < 0)
        return result;
    kg_auto(kg_close) int lock = offline_lock(cli, err);
    return lock < 0 ? lock : backup_restore(&cli->paths, &wish, ret_restored, err);
}

int cli_restore(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    kg_auto(backup_restored_free) struct backup_restored restored = {0};
    struct kg_err err = {0};
    if (cli_backup_restore(cli, &restored, &err) < 0 ||
        audit_offline(cli, emit_restored, &restored, &err) < 0)
        return print_error(&err);
    put_restored(cli, &restored, &out);
    print_out(&out);
    return CLI_DONE;
}
