/*
 * What the operator said of plugins by enable and disable. All of it is in memory, since whoever
 * looks at a plugin asks for it; what he says counts once it is in kaged.db.
 */
#include "host/internal.h"

#include <stdlib.h>

/* What the map points to. */
static enum state_choice values[] = {[STATE_UNSAID] = STATE_UNSAID,
                                     [STATE_ENABLED] = STATE_ENABLED,
                                     [STATE_DISABLED] = STATE_DISABLED};

static void set(struct host *host, const char *plugin, enum state_choice choice)
{
    if (choice == STATE_UNSAID)
        kg_map_remove(host->choices, kg_str(plugin));
    else
        kg_map_set(host->choices, kg_str(plugin), &values[choice]);
}

static void on_choice(void *data, const struct state_plugin_choice *said)
{
    set(data, said->plugin, said->choice);
}

int host_choices_open(struct host *host, struct kg_err *err)
{
    host->choices = kg_map_new();
    return state_plugin_choices(state_keeper_state(host->keeper), on_choice, host, err);
}

enum state_choice host_choice(const struct host *host, const char *name)
{
    const enum state_choice *said = kg_map_get(host->choices, kg_str(name));
    return said != NULL ? *said : STATE_UNSAID;
}

struct choosing {
    struct host *host;
    char *name; /* owned */
    enum state_choice choice;
    host_acted_fn *on_done;
    void *data;
};

static void on_kept(void *data, const struct kg_err *err_or_null)
{
    struct choosing *choosing = data;
    if (err_or_null == NULL)
        set(choosing->host, choosing->name, choosing->choice);
    if (choosing->on_done != NULL)
        choosing->on_done(choosing->data, err_or_null);
    else if (err_or_null != NULL)
        kg_log_about(KG_ERROR_LEVEL, choosing->name, "%s", err_or_null->message);
    free(choosing->name);
    free(choosing);
}

void host_choose(struct host *host, const char *name, enum state_choice choice,
                 host_acted_fn *on_done, void *data)
{
    struct choosing *choosing = kg_alloc(sizeof(*choosing));
    *choosing = (struct choosing){host, kg_strdup(name), choice, on_done, data};
    const struct state_plugin_choice row = {name, choice};
    state_keep_choice(host->keeper, &row, on_kept, choosing);
}

void host_choices_removed(struct host *host, const char *name)
{
    set(host, name, STATE_UNSAID);
    if (host->consents != NULL)
        consent_plugin_removed(host->consents, name);
}
