/*
 * Plugins that run from their authors' folders while these change them. Such a run lives as long as
 * the one who asked for it listens. It takes the place of a plugin of that name, and gives it back.
 * Its code may change without a question; what it runs by is the manifest that the operator said
 * yes to, whatever is in the folder by now, and one that asks for more stops it until the next yes.
 *
 *   look -> ask -> (a yes) -> exchange -> runs -> a change: look -> exchange: it starts again
 *                                                                -> ask: it is stopped
 */
#include "host/dev_internal.h"

#include <stdlib.h>

#define RUNS_MAX  16 /* at the same time */
#define NAMES_MAX 5  /* of what was changed, to be told */

struct look;
struct tap;

struct host_dev {
    struct host *host;
    struct host_dev *next;          /* in host->devs */
    const struct host_dev_ops *ops; /* NULL: nobody listens any more */
    void *data;
    char *path, *operator_id; /* owned, like the next; operator_id may be NULL */
    char *name;               /* NULL until its manifest was read */
    struct kg_buf text;       /* of the manifest that it runs by; empty: there was no yes yet */
    struct kg_buf offered;    /* of the one that the consent is about */
    struct kg_id consent;     /* that it waits for; "": for none */
    struct kg_id taking;      /* that is being done; "": none is */
    struct consent_listener listener;

    struct tap *taps; /* owned; on its processes */
    uint64_t start_ns;
    struct host_watch *watch;
    char **changed; /* owned; names, since it was told last */
    size_t changes;
    uint64_t device, inode, digest; /* of the folder, when it was looked at last */
    struct look *look;              /* that is under way, or NULL */
    bool look_again;
    bool behind;               /* one of that name is ending, and it looks again after that */
    struct loop_task end_task; /* at the end of a turn: whoever brings the end about may use it */

    bool exchanging;
    bool is_there; /* it has the place of the plugin */
    bool waits;    /* for a yes: it must not run */
    bool ending;
    bool warned; /* that not all of the folder is watched */
};

/* -- what is told ------------------------------------------------------------------------------ */

static int64_t host_dev_since_start_us(const struct host_dev *dev, uint64_t at_ns)
{
    return ((int64_t)at_ns - (int64_t)dev->start_ns) / 1000;
}

/* A line with its time and type, and whatever is put behind that. */
static struct kg_json_writer line_begin(const struct host_dev *dev, struct kg_buf *line,
                                        const char *type)
{
    struct kg_json_writer json = kg_json_writer(line);
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "t_us", host_dev_since_start_us(dev, kg_monotonic_ns()));
    kg_json_named_text(&json, "type", type);
    return json;
}

static void line_end(struct host_dev *dev, struct kg_buf *line, struct kg_json_writer *json)
{
    kg_json_end(json, '}');
    kg_buf_char(line, '\n');
    if (dev->ops != NULL)
        dev->ops->on_line(dev->data, kg_buf_view(line));
}

static struct host_plugin *host_dev_plugin_of(const struct host_dev *dev)
{
    return dev->name ? host_plugin_find(dev->host, kg_str(dev->name)) : NULL;
}

static void host_dev_tell_started(struct host_dev *dev, const char *type)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    const struct host_plugin *plugin = host_dev_plugin_of(dev);
    struct kg_json_writer json = line_begin(dev, &line, type);
    kg_json_named_text(&json, "name", dev->name);
    kg_json_named_text(&json, "folder", dev->path);
    kg_json_named_text(&json, "version",
                       plugin && plugin->manifest ? plugin->manifest->version : NULL);
    kg_json_named_bool(&json, "of_project",
                       plugin && plugin->manifest && !host_process_find(plugin, &host_nobody));
    line_end(dev, &line, &json);
}

static void forget_changed(struct host_dev *dev)
{
    kg_list_free(dev->changed);
    dev->changed = kg_list_new(0);
    dev->changes = 0;
}

static void tell_changed(struct host_dev *dev)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = line_begin(dev, &line, "changed");
    kg_json_named_list(&json, "files", dev->changed);
    kg_json_named_int(&json, "changes", (int64_t)dev->changes);
    line_end(dev, &line, &json);
    forget_changed(dev);
}

static void tell_problem(struct host_dev *dev, const char *type, const struct kg_err *err,
                         const struct kg_problems *problems_or_null)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = line_begin(dev, &line, type);
    kg_json_named_text(&json, "code", kg_error_row(err->code)->name);
    kg_json_named_text(&json, "message", err->message);
    kg_json_named_text(&json, "hint", err->hint[0] != '\0' ? err->hint : NULL);
    if (problems_or_null != NULL && problems_or_null->count > 0) {
        kg_json_key(&json, "problems");
        kg_problems_json(problems_or_null, &json);
    }
    line_end(dev, &line, &json);
}

static void tell_consent(struct host_dev *dev, const struct consent *consent)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = line_begin(dev, &line, "consent");
    kg_json_key(&json, "consent");
    consent_json(consent, true, &json);
    line_end(dev, &line, &json);
}

/* -- what is said with its processes ----------------------------------------------------------- */

struct tap {
    struct host_trace_listener listener;
    struct host_dev *dev;
    struct tap *next;
};

static void host_dev_on_record(struct host_trace_listener *listener, uint64_t at_ns,
                               struct kg_str body)
{
    const struct tap *tap = KG_CONTAINER(listener, struct tap, listener);
    struct host_dev *dev = tap->dev;
    const struct host_process *process = listener->process;
    kg_auto(kg_buf_free) struct kg_buf line = {0}, whole = {0};
    if (dev->ops == NULL)
        return;
    if (process->whom.kind != HOST_NOBODY) /* it is one of several; no name needs escapes */
        kg_buf_printf(&whole, "\"process\":\"%s\",", process->name);
    kg_buf_str(&whole, body);
    int64_t t_us = host_dev_since_start_us(dev, at_ns);
    trace_put_record(&line, t_us, kg_buf_view(&whole));
    dev->ops->on_record(dev->data, t_us, kg_buf_view(&line));
}

static void tap_free(struct tap *tap)
{
    KG_UNLINK(tap->dev->taps, tap);
    free(tap);
}

static void on_tap_end(struct host_trace_listener *listener)
{
    tap_free(KG_CONTAINER(listener, struct tap, listener));
}

void host_dev_joined(struct host_dev *dev, struct host_process *process)
{
    struct kg_err err;
    struct tap *tap = kg_alloc(sizeof(*tap));
    *tap = (struct tap){{.on_record = host_dev_on_record, .on_end = on_tap_end}, dev, dev->taps};
    dev->taps = tap;
    if (host_trace_listen(process, &tap->listener, &err) == 0)
        return;
    tap_free(tap);
    tell_problem(dev, "warning", &err, NULL);
}

void host_dev_left(struct host_dev *dev, const struct host_process *process)
{
    for (struct tap *tap = dev->taps, *next; tap != NULL; tap = next) {
        next = tap->next;
        if (tap->listener.process != process)
            continue;
        host_trace_unlisten(&tap->listener);
        tap_free(tap);
    }
}

/* -- the end ----------------------------------------------------------------------------------- */

static void advance(struct host_dev *dev);

static void dev_free(struct host_dev *dev)
{
    loop_undefer(dev->host->loop, &dev->end_task);
    host_watch_free(dev->watch);
    kg_list_free(dev->changed);
    kg_buf_free(&dev->text);
    kg_buf_free(&dev->offered);
    free(dev->path);
    free(dev->operator_id);
    free(dev->name);
    free(dev);
}

static void unlist(struct host_dev *dev)
{
    KG_UNLINK(dev->host->devs, dev);
    if (dev->host->consents != NULL)
        consent_unlisten(dev->host->consents, &dev->listener);
    for (struct host_dev *other = dev->host->devs; other != NULL; other = other->next) {
        other->behind = false;
        advance(other);
    }
}

/* The consent that has that id, which is forgotten; NULL: there is none any more. */
static struct consent *take_consent(const struct host_dev *dev, struct kg_id *id)
{
    const struct consent_queue *queue = dev->host->consents;
    struct kg_id taken = *id;
    id->text[0] = '\0';
    return queue != NULL ? consent_find(queue, kg_str(taken.text), NULL) : NULL;
}

/* Nobody needs an answer to it any more. */
static void host_dev_withdraw(struct host_dev *dev)
{
    struct kg_err err;
    struct consent *consent = take_consent(dev, &dev->consent);
    if (consent != NULL && consent_decline(consent, NULL, &err) < 0)
        kg_log_about(KG_ERROR_LEVEL, dev->name, "%s", err.message);
}

static void host_dev_end(struct host_dev *dev, const struct kg_err *err,
                         const struct kg_problems *problems)
{
    const struct host_dev_ops *ops = dev->ops;
    if (dev->ending)
        return;
    dev->ending = true;
    dev->ops = NULL;
    if (ops != NULL)
        ops->on_end(dev->data, err, problems);
    advance(dev);
}

void host_dev_leave(struct host_dev *dev)
{
    struct kg_err err;
    dev->ops = NULL;
    kg_fail(&err, KG_E_CANCELLED, "the one who ran it has left");
    host_dev_end(dev, &err, NULL);
}

/* -- the place of the plugin ------------------------------------------------------------------- */

static void host_dev_put_in(void *data)
{
    struct host_dev *dev = data;
    struct host_plugin *plugin = host_dev_plugin_of(dev);
    host_plugin_move(plugin ? plugin : host_plugin_add(dev->host, dev->name), dev);
}

static void put_out(void *data)
{
    struct host_dev *dev = data;
    struct host_plugin *plugin = host_dev_plugin_of(dev);
    if (plugin != NULL && plugin->dev == dev)
        host_plugin_move(plugin, NULL);
}

static void on_out(void *data, const struct host_changed *changed, const struct kg_err *err_or_null)
{
    struct host_dev *dev = data;
    (void)changed;
    dev->exchanging = false;
    if (err_or_null != NULL)
        return; /* the daemon stops, and frees it */
    audit_emit(dev->host->audit, AUDIT_PLUGIN_DEV_ENDED, KG_STR_NULL, AUDIT_V_TEXT(dev->name),
               AUDIT_V_TEXT(dev->path));
    unlist(dev);
    dev_free(dev);
}

static void take_away(struct loop_task *task)
{
    struct host_dev *dev = KG_CONTAINER(task, struct host_dev, end_task);
    if (dev->host->stopping || dev->look != NULL || dev->exchanging)
        return; /* it goes with the host, or when that is done */
    host_dev_withdraw(dev);
    if (!dev->is_there) {
        unlist(dev);
        dev_free(dev);
        return;
    }
    dev->exchanging = true;
    host_exchange(dev->host, dev->name, put_out, on_out, dev);
}

static void host_dev_answer_consent(struct host_dev *dev, const struct kg_err *err_or_null)
{
    const struct host_plugin *plugin = host_dev_plugin_of(dev);
    struct consent *consent = take_consent(dev, &dev->taking);
    if (consent != NULL && err_or_null != NULL)
        consent_failed(consent, err_or_null);
    else if (consent != NULL)
        consent_taken(consent,
                      &(struct consent_outcome){
                          .name = dev->name,
                          .version = plugin && plugin->manifest ? plugin->manifest->version : NULL,
                      });
}

static void on_in(void *data, const struct host_changed *changed, const struct kg_err *err_or_null)
{
    struct host_dev *dev = data;
    const char *type = dev->is_there ? "restarted" : "started";
    dev->exchanging = false;
    host_dev_answer_consent(dev, err_or_null);
    if (err_or_null != NULL) {
        host_dev_end(dev, err_or_null, NULL);
        return;
    }
    audit_emit(dev->host->audit,
               dev->is_there ? AUDIT_PLUGIN_DEV_RESTARTED : AUDIT_PLUGIN_DEV_STARTED, KG_STR_NULL,
               AUDIT_V_TEXT(dev->name), AUDIT_V_TEXT(dev->path),
               AUDIT_V_TEXT(changed->outcome.version), AUDIT_V_TEXT(dev->operator_id));
    dev->is_there = true;
    host_dev_tell_started(dev, type);
    advance(dev);
}

/* From now on it is run by this manifest, once what runs has ended. */
static void run_by(struct host_dev *dev, struct kg_buf *text)
{
    kg_buf_free(&dev->text);
    dev->text = *text;
    *text = (struct kg_buf){0};
    dev->waits = false;
    dev->exchanging = true;
    host_exchange(dev->host, dev->name, host_dev_put_in, on_in, dev);
}

/* -- asking ------------------------------------------------------------------------------------ */

static void host_dev_on_consent(struct consent_listener *listener, struct consent *consent)
{
    struct host_dev *dev = KG_CONTAINER(listener, struct host_dev, listener);
    enum consent_state state = consent_state(consent);
    struct kg_err err;
    if (strcmp(consent_id(consent), dev->consent.text) != 0 || !consent_state_is_settled(state))
        return;
    dev->consent.text[0] = '\0';
    if (state == CONSENT_EXPIRED)
        kg_fail(&err, KG_E_REFUSED, "nobody answered in time");
    else
        kg_fail(&err, KG_E_REFUSED, "declined: it is not run");
    if (state == CONSENT_EXPIRED || dev->text.length == 0)
        host_dev_end(dev, &err, NULL);
    else
        tell_problem(dev, "declined", &err, NULL);
}

/* All of its processes, as host_dev_may_run says. */
static void host_dev_follow(struct host_dev *dev)
{
    struct host_plugin *plugin = host_dev_plugin_of(dev);
    if (plugin != NULL && plugin->dev == dev)
        host_plugin_follow(plugin);
}

/* Takes the offer over. */
static void host_dev_ask(struct host_dev *dev, struct store_offer *offer, struct kg_buf *text)
{
    struct host *host = dev->host;
    struct kg_err err;
    const struct consent_request request = {
        .wish = {.kind = CONSENT_DEV, .plugin = dev->name, .source = dev->path},
        .operator_id = dev->operator_id,
    };
    dev->waits = true;
    host_dev_follow(dev);
    struct consent *consent = consent_raise(host->consents, &request, &err);
    if (consent == NULL) {
        host_offer_drop(host, offer);
        host_dev_end(dev, &err, NULL);
        return;
    }
    kg_buf_free(&dev->offered);
    dev->offered = *text;
    *text = (struct kg_buf){0};
    dev->consent = consent_key(consent);
    consent_offered(consent, offer);
    tell_consent(dev, consent);
}

void host_dev_take(struct host *host, struct consent *consent, struct store_offer *offer)
{
    struct host_dev *dev = host->devs;
    struct kg_err err;
    host_offer_drop(host, offer);
    while (dev != NULL && strcmp(dev->consent.text, consent_id(consent)) != 0)
        dev = dev->next;
    if (dev == NULL) {
        kg_fail(&err, KG_E_CONFLICT, "the one who ran it has left");
        consent_failed(consent, &err);
        return;
    }
    dev->taking = dev->consent;
    dev->consent.text[0] = '\0';
    run_by(dev, &dev->offered);
}

/* -- looking ----------------------------------------------------------------------------------- */

struct look {
    struct loop_job job;
    struct host *host;
    struct host_dev *dev; /* waits for it */
    struct dev_place place;
    struct kg_buf before; /* the manifest of the last yes; empty: there was none */

    int result;
    struct kg_err err;
    struct dev_folder folder;
    struct kg_buf text;
    struct store_offer *offer; /* NULL: the manifest cannot be used */
    struct kg_err manifest_err;
    struct kg_problems problems;
};

static void look_free(struct look *look)
{
    dev_place_free(&look->place);
    dev_folder_free(&look->folder);
    kg_buf_free(&look->before);
    kg_buf_free(&look->text);
    store_offer_free(look->offer); /* which has no quarantine, and so does not block */
    kg_problems_free(&look->problems);
    free(look);
}

static void host_dev_run_look(struct loop_job *job)
{
    struct look *look = KG_CONTAINER(job, struct look, job);
    kg_auto(kg_problems_free) struct kg_problems none = {0};
    look->result = dev_folder_look(&look->place, &look->folder, &look->err);
    if (look->result < 0 || dev_folder_manifest(&look->place, &look->text, &look->manifest_err) < 0)
        return;
    struct manifest *before =
        look->before.length > 0 ? manifest_read(kg_buf_view(&look->before), &none) : NULL;
    (void)store_offer_dev(look->place.path, kg_buf_view(&look->text), before, &look->offer,
                          &look->problems, &look->manifest_err);
    manifest_free(before);
}

static bool counts(void *data, const char *name_or_null)
{
    struct host_dev *dev = data;
    if (name_or_null != NULL && !dev_folder_counts(name_or_null))
        return false;
    if (name_or_null != NULL && kg_list_count(dev->changed) < NAMES_MAX &&
        !kg_list_has(dev->changed, kg_str(name_or_null)))
        kg_list_add(&dev->changed, kg_strdup(name_or_null));
    dev->changes++;
    return true;
}

static void host_dev_on_quiet(void *data)
{
    struct host_dev *dev = data;
    dev->look_again = true;
    advance(dev);
}

/* Anew each time: folders come and go. */
static void host_dev_watch(struct host_dev *dev, const struct dev_folder *folder)
{
    static const struct host_watch_ops ops = {.counts = counts, .on_quiet = host_dev_on_quiet};
    struct kg_err err;
    if (dev->watch == NULL)
        dev->watch = host_watch_new(dev->host->loop, &ops, dev);
    host_watch_renew(dev->watch);
    for (char **path = folder->folders; *path != NULL; path++)
        host_watch_add(dev->watch, *path, NULL);
    size_t failed = host_watch_begin(dev->watch, &err);
    if (failed == 0 && folder->cut)
        kg_fail(&err, KG_E_TOO_LARGE, "%" KG_S_CAUSE " holds more than can be watched", dev->path);
    if (failed == 0 && !folder->cut)
        return;
    kg_wrap(&err, 0, "not every change will be seen");
    kg_hint(&err, "after one that was missed: kaged plugin restart NAME");
    if (!dev->warned)
        tell_problem(dev, "warning", &err, NULL);
    dev->warned = true;
}

static int host_dev_check_same(const struct host_dev *dev, const struct dev_folder *folder,
                               struct kg_err *err)
{
    if (dev->inode == 0 || (folder->device == dev->device && folder->inode == dev->inode))
        return 0;
    return kg_fail(err, KG_E_CONFLICT, "folder %" KG_S_CAUSE ": it was replaced", dev->path);
}

static const struct host_dev *other_of(const struct host_dev *dev, const char *name)
{
    const struct host_dev *other = dev->host->devs;
    while (other != NULL && (other == dev || other->name == NULL || strcmp(other->name, name) != 0))
        other = other->next;
    return other;
}

/* One that is on its way out is waited for. */
static bool queue_behind(struct host_dev *dev, const char *name)
{
    const struct host_dev *other = other_of(dev, name);
    if (dev->name != NULL || other == NULL || !other->ending)
        return false;
    dev->behind = dev->look_again = true;
    dev->inode = 0; /* that look will be the first */
    return true;
}

/* What the folder may be called by does not change while it runs, and one run has the name. */
static int host_dev_check_name(const struct host_dev *dev, const char *name, struct kg_err *err)
{
    if (dev->name != NULL && strcmp(dev->name, name) != 0) {
        kg_fail(err, KG_E_INVALID_MANIFEST, "the plugin is called %s now, and was %s", name,
                dev->name);
        return kg_hint(err, "to run it by another name, end this and start again");
    }
    const struct host_dev *other = other_of(dev, name);
    if (other == NULL)
        return 0;
    kg_fail(err, KG_E_CONFLICT, "plugin %s is already run for development, from %" KG_S_CAUSE, name,
            other->path);
    return kg_hint(err, "end that first");
}

/* What is said to the operator of the plugin whose place it takes. */
static void name_installed(const struct host_dev *dev, struct store_offer *offer)
{
    const struct host_plugin *plugin = host_dev_plugin_of(dev);
    if (plugin != NULL && plugin->dev == NULL && plugin->manifest != NULL)
        offer->installed_version = kg_strdup(plugin->manifest->version);
}

/* The manifest is as it should be: it is run by, or it is asked for. */
static void follow_manifest(struct host_dev *dev, struct look *look)
{
    host_dev_withdraw(dev);
    if (!store_offer_asks(look->offer)) {
        run_by(dev, &look->text);
        return;
    }
    name_installed(dev, look->offer);
    host_dev_ask(dev, kg_steal(&look->offer), &look->text);
}

static void host_dev_judge(struct host_dev *dev, struct look *look)
{
    const char *name = look->offer ? look->offer->manifest->name : NULL;
    if (name != NULL && queue_behind(dev, name))
        return;
    if (name != NULL && host_dev_check_name(dev, name, &look->manifest_err) == 0) {
        if (dev->name == NULL)
            dev->name = kg_strdup(name);
        follow_manifest(dev, look);
    } else if (dev->name == NULL) {
        host_dev_end(dev, &look->manifest_err, &look->problems);
    } else {
        tell_problem(dev, "invalid", &look->manifest_err, &look->problems);
    }
}

static void host_dev_on_looked(struct loop_job *job)
{
    struct look *look = KG_CONTAINER(job, struct look, job);
    struct host_dev *dev = look->dev;
    bool first = dev->inode == 0;
    dev->look = NULL;
    if (!dev->ending && look->result == 0)
        look->result = host_dev_check_same(dev, &look->folder, &look->err);
    if (dev->ending || dev->exchanging) {
        dev->look_again = true; /* a yes came first, and what it is compared with is another now */
        advance(dev);
    } else if (look->result < 0) {
        host_dev_end(dev, &look->err, NULL);
    } else {
        bool same = !first && look->folder.digest == dev->digest && !look->folder.cut;
        dev->device = look->folder.device;
        dev->inode = look->folder.inode;
        dev->digest = look->folder.digest;
        host_dev_watch(dev, &look->folder);
        if (!first && !same)
            tell_changed(dev);
        forget_changed(dev);
        if (!same)
            host_dev_judge(dev, look);
        advance(dev);
    }
    host_store_job_done(look->host);
    look_free(look);
}

static void host_dev_begin_look(struct host_dev *dev)
{
    struct look *look = kg_alloc(sizeof(*look));
    look->host = dev->host;
    look->dev = dev;
    look->place = (struct dev_place){
        .path = kg_strdup(dev->path),
        .user = kg_strdup(dev->host->user),
        .kept = policy_kept(dev->host->paths, dev->host->plugins_dir),
    };
    kg_buf_str(&look->before, kg_buf_view(&dev->text));
    look->job.run = host_dev_run_look;
    look->job.done = host_dev_on_looked;
    dev->look = look;
    dev->look_again = false;
    host_store_job(dev->host, &look->job);
}

/* Whatever is due next, if nothing is under way. */
static void advance(struct host_dev *dev)
{
    if (dev->look != NULL || dev->exchanging)
        return;
    if (dev->ending)
        loop_defer(dev->host->loop, &dev->end_task);
    else if (dev->look_again && !dev->behind)
        host_dev_begin_look(dev);
}

/* -- runs -------------------------------------------------------------------------------------- */

static int host_dev_check_start(const struct host *host, const char *path, struct kg_err *err)
{
    size_t count = 0;
    if (host->stopping)
        return kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
    if (path[0] != '/')
        return kg_fail(err, KG_E_USAGE, "folder %" KG_S_CAUSE ": not an absolute path", path);
    for (const struct host_dev *dev = host->devs; dev != NULL; dev = dev->next)
        count++;
    if (count < RUNS_MAX)
        return 0;
    return kg_fail(err, KG_E_BUSY, "%zu plugins are already run for development", count);
}

struct host_dev *host_dev_start(struct host *host, const char *path, const char *operator_id,
                                const struct host_dev_ops *ops, void *data, struct kg_err *err)
{
    if (host_dev_check_start(host, path, err) < 0)
        return NULL;
    struct host_dev *dev = kg_alloc(sizeof(*dev));
    dev->host = host;
    dev->ops = ops;
    dev->data = data;
    dev->path = kg_strdup(path);
    dev->operator_id = operator_id ? kg_strdup(operator_id) : NULL;
    dev->changed = kg_list_new(0);
    dev->end_task.run = take_away;
    dev->start_ns = kg_monotonic_ns();
    dev->next = host->devs;
    host->devs = dev;
    dev->listener.on_change = host_dev_on_consent;
    consent_listen(host->consents, &dev->listener);
    host_dev_begin_look(dev);
    return dev;
}

void host_devs_stop(struct host *host)
{
    struct kg_err err;
    kg_fail(&err, KG_E_STOPPING, "the daemon is stopping");
    for (struct host_dev *dev = host->devs; dev != NULL; dev = dev->next) {
        consent_unlisten(host->consents, &dev->listener);
        host_dev_end(dev, &err, NULL);
    }
}

void host_devs_free(struct host *host)
{
    for (struct host_dev *dev; (dev = host->devs) != NULL;) {
        host->devs = dev->next;
        dev_free(dev);
    }
}

/* -- what the rest of the host asks ------------------------------------------------------------ */

bool host_dev_may_run(const struct host_dev *dev)
{
    return !dev->waits && !dev->ending;
}

const char *host_dev_path(const struct host_dev *dev)
{
    return dev->path;
}

struct kg_str host_dev_text(const struct host_dev *dev)
{
    return kg_buf_view(&dev->text);
}

int host_check_not_dev(const struct host_plugin *plugin, struct kg_err *err)
{
    if (plugin->dev == NULL)
        return 0;
    kg_fail(err, KG_E_CONFLICT, "plugin %s is run for development, from %" KG_S_CAUSE, plugin->name,
            plugin->dev->path);
    return kg_hint(err, "end that first: Ctrl-C where kaged plugin dev runs");
}
