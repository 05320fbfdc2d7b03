/*
 * The journal: one change, written and on the disk before its first step, removed after its last.
 * It is there whole or not at all, so who finds it knows all that is needed to finish.
 */
#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define JOURNAL_NAME      "journal"
#define JOURNAL_BYTES_MAX 65536

static const char *const act_names[] = {
    [STORE_ACT_PUT] = "put",
    [STORE_ACT_REVERT] = "revert",
    [STORE_ACT_REMOVE] = "remove",
};

void store_journal_free(struct store_journal *journal)
{
    free(journal->name);
    free(journal->quarantine);
    free(journal->export_to);
    store_record_free(&journal->record);
    *journal = (struct store_journal){0};
}

/* -- writing ----------------------------------------------------------------------------------- */

static void journal_put_record(struct kg_json_writer *json, const struct store_record *record)
{
    kg_json_named_begin(json, "record", '{');
    kg_json_named_text(json, "package", record->package);
    kg_json_named_text(json, "installed", record->installed);
    kg_json_named_text(json, "hash", record->hash);
    kg_json_named_text(json, "process", record->process);
    kg_json_named_text(json, "from", record->from);
    kg_json_key(json, "local");
    if (record->has_local)
        kg_json_bool(json, record->local);
    else
        kg_json_null(json);
    kg_json_end(json, '}');
}

int store_journal_write(const struct store_hold *hold, const struct store_journal *journal,
                        struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "act", act_names[journal->act]);
    kg_json_named_text(&json, "name", journal->name);
    kg_json_named_text(&json, "quarantine", journal->quarantine);
    journal_put_record(&json, &journal->record);
    kg_json_named_text(&json, "export_to", journal->export_to);
    kg_json_end(&json, '}');
    kg_buf_char(&text, '\n');
    return store_write_synced(hold->folder_fd, JOURNAL_NAME, kg_buf_view(&text), err);
}

int store_journal_remove(const struct store_hold *hold, struct kg_err *err)
{
    if (unlinkat(hold->folder_fd, JOURNAL_NAME, 0) < 0 && errno != ENOENT)
        return kg_fail_errno(err, errno, "remove the journal of the plugin store");
    return store_sync_folder(hold->folder_fd, err);
}

/* -- reading ----------------------------------------------------------------------------------- */

static char *journal_take_text(const struct kg_node *node, const char *key)
{
    const struct kg_node *value = kg_node_get(node, key);
    return value != NULL && value->type == KG_STRING ? kg_str_dup(value->text) : NULL;
}

static bool take_act(const struct kg_node *root, enum store_act *ret_act)
{
    const struct kg_node *act = kg_node_get(root, "act");
    for (size_t i = 0; act != NULL && act->type == KG_STRING && i < KG_COUNT(act_names); i++) {
        if (!kg_str_is(act->text, act_names[i]))
            continue;
        *ret_act = (enum store_act)i;
        return true;
    }
    return false;
}

/* A name of a file beside others, and nothing that leads elsewhere. */
static bool is_plain_name(const char *name)
{
    return name != NULL && name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL;
}

static bool take_journal(const struct kg_node *root, struct store_journal *journal)
{
    const struct kg_node *record = kg_node_get(root, "record");
    const struct kg_node *local = kg_node_get(record, "local");
    journal->name = journal_take_text(root, "name");
    journal->quarantine = journal_take_text(root, "quarantine");
    journal->export_to = journal_take_text(root, "export_to");
    journal->record = (struct store_record){
        .package = journal_take_text(record, "package"),
        .installed = journal_take_text(record, "installed"),
        .hash = journal_take_text(record, "hash"),
        .process = journal_take_text(record, "process"),
        .from = journal_take_text(record, "from"),
        .has_local = local != NULL && local->type == KG_BOOL,
        .local = local != NULL && local->type == KG_BOOL && local->boolean,
    };
    return take_act(root, &journal->act) && journal->name != NULL &&
           store_name_is_plugin(journal->name) && is_plain_name(journal->quarantine) &&
           (journal->export_to == NULL || is_plain_name(journal->export_to));
}

static int journal_read_text(int folder_fd, struct kg_buf *ret_text, struct kg_err *err)
{
    char buffer[JOURNAL_BYTES_MAX];
    kg_auto(kg_close) int fd =
        openat(folder_fd, JOURNAL_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return -ENOENT;
    ssize_t got = fd < 0 ? -1 : read(fd, buffer, sizeof(buffer));
    if (got < 0)
        return kg_fail_errno(err, errno, "read the journal of the plugin store");
    kg_buf_append(ret_text, buffer, (size_t)got);
    return 0;
}

int store_journal_read(const struct store_hold *hold, struct store_journal *ret_journal,
                       struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(store_journal_free) struct store_journal journal = {0};
    int result = journal_read_text(hold->folder_fd, &text, err);
    if (result < 0)
        return result;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&text), NULL);
    if (doc == NULL || doc->root->type != KG_OBJECT || !take_journal(doc->root, &journal)) {
        kg_fail(err, KG_E_CONFLICT,
                "the journal of the plugin store (" STORE_FOLDER_NAME "/" JOURNAL_NAME
                " in the plugins folder) is not one that kaged wrote");
        return kg_hint(err,
                       "see that every plugin there is as it should be, then remove that file");
    }
    *ret_journal = journal;
    journal = (struct store_journal){0};
    return 0;
}
