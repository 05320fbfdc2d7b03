/*
 * What the operator said of plugins by enable and disable. All of it is in memory, since whoever
 * looks at a plugin asks for it; what he says counts once it is in kaged.db.
 */
#include "host/internal.h"

#include "redact/shared.h"

#include <stdlib.h>

/* What the map points to. */
static enum state_choice values[] = {[STATE_UNSAID] = STATE_UNSAID,
                                     [STATE_ENABLED] = STATE_ENABLED,
                                     [STATE_DISABLED] = STATE_DISABLED};

static void choices_set(struct host *host, const char *plugin, enum state_choice choice)
{
    if (choice == STATE_UNSAID)
        kg_map_remove(host->choices, kg_str(plugin));
    else
        kg_map_set(host->choices, kg_str(plugin), &values[choice]);
}

static void on_choice(void *data, const struct state_plugin_choice *said)
{
    choices_set(data, said->plugin, said->choice);
}

static void on_failure(void *data, const struct state_failure *failure)
{
    struct host *host = data;
    kg_map_set(host->failures, kg_str(failure->process), kg_strdup(failure->reason));
}

int host_choices_open(struct host *host, struct kg_err *err)
{
    host->choices = kg_map_new();
    host->failures = kg_map_new();
    struct state *state = state_keeper_state(host->keeper);
    int result = state_plugin_choices(state, on_choice, host, err);
    return result < 0 ? result : state_failures(state, on_failure, host, err);
}

void host_choices_free(struct host *host)
{
    struct kg_str process;
    void *reason;
    kg_map_free(host->choices);
    for (size_t at = 0; host->failures && kg_map_next(host->failures, &at, &process, &reason);)
        free(reason);
    kg_map_free(host->failures);
}

static void on_failure_kept(void *data, const struct kg_err *err_or_null)
{
    (void)data;
    if (err_or_null != NULL)
        kg_log(KG_ERROR_LEVEL, "remember which plugins failed: %s", err_or_null->message);
}

/* A plugin's name means its processes in projects, too. */
static bool forget_failure(struct host *host, const char *name)
{
    kg_auto(kg_free) char *in_projects = kg_format("%s@", name);
    struct kg_str process;
    void *reason;
    bool found = false;
    for (size_t at = 0; kg_map_next(host->failures, &at, &process, &reason);) {
        if (!kg_str_is(process, name) && !kg_str_starts(process, in_projects))
            continue;
        free(kg_map_remove(host->failures, process));
        found = true;
        at = 0; /* what follows may have moved */
    }
    return found;
}

/* The reason may be the plugin's own words: what is kept of them has no secret in it. */
void host_set_failure(struct host *host, const char *process, const char *reason_or_null)
{
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    if (reason_or_null != NULL && redact_put_shared(kg_str(reason_or_null), &shown))
        reason_or_null = kg_buf_terminate(&shown);
    const struct state_failure failure = {process, reason_or_null};
    bool is_news = reason_or_null != NULL || forget_failure(host, process);
    if (reason_or_null != NULL) {
        free(kg_map_remove(host->failures, kg_str(process)));
        kg_map_set(host->failures, kg_str(process), kg_strdup(reason_or_null));
    }
    if (is_news && !host->closing)
        state_keep_failure(host->keeper, &failure, on_failure_kept, NULL);
}

const char *host_failure(const struct host *host, const char *process)
{
    return kg_map_get(host->failures, kg_str(process));
}

enum state_choice host_choice(const struct host *host, const char *name)
{
    const enum state_choice *said = kg_map_get(host->choices, kg_str(name));
    return said != NULL ? *said : STATE_UNSAID;
}

bool host_is_enabled(const struct host *host, const char *name)
{
    enum state_choice choice = host_choice(host, name);
    return choice != STATE_UNSAID ? choice == STATE_ENABLED
                                  : kg_list_has(host->config->plugins_enabled, kg_str(name));
}

struct choosing {
    struct host *host;
    char *name; /* owned */
    enum state_choice choice;
    host_acted_fn *on_done;
    void *data;
};

static void choices_on_kept(void *data, const struct kg_err *err_or_null)
{
    struct choosing *choosing = data;
    if (err_or_null == NULL)
        choices_set(choosing->host, choosing->name, choosing->choice);
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
    state_keep_choice(host->keeper, &row, choices_on_kept, choosing);
}

void host_choices_removed(struct host *host, const char *name)
{
    choices_set(host, name, STATE_UNSAID);
    forget_failure(host, name);
    if (host->consents != NULL)
        consent_plugin_removed(host->consents, name);
}
