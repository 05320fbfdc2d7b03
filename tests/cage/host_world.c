/* Every wait is for a condition, and has a deadline that fails the test. */
#include "host_world.h"

#include "../lib/folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* -- files ------------------------------------------------------------------------------------- */

static void write_file(const char *path, struct kg_str text, mode_t mode)
{
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(kg_write_all(fd, text.data, text.length), 0);
}

static void read_file(const char *path, struct kg_buf *ret_text)
{
    struct kg_err err;
    if (kg_read_file(path, 1 << 20, ret_text, &err) < 0)
        fail_msg("%s", err.message);
}

static const char none_declared[] = "\ncapabilities: []";

/* With another name on its first line, and another capability than none. */
static void write_manifest(const char *from, const char *to, const char *name,
                           const char *capability)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0}, renamed = {0};
    read_file(from, &text);
    char *rest = strchr(kg_buf_terminate(&text), '\n');
    char *none = strstr(rest, none_declared);
    assert_non_null(none);
    *none = '\0';
    kg_buf_printf(&renamed, "name: %s%s\ncapabilities: [%s]%s", name, rest, capability,
                  none + sizeof(none_declared) - 1);
    write_file(to, kg_buf_view(&renamed), 0644);
}

static void approve(struct host_world *world, const char *name)
{
    struct kg_err err;
    struct store_offer *offer = NULL;
    if (store_offer_installed(host_store(world->host), name, &offer, &err) < 0)
        fail_msg("%s", err.message);
    const struct store_consent consent = {.hash = offer->hash, .local = true};
    if (store_take(host_store(world->host), offer, &consent, NULL, &err) < 0)
        fail_msg("%s", err.message);
}

void host_world_install(struct host_world *world, const char *name, const char *capability)
{
    kg_auto(kg_free) char *folder = kg_format("%s/plugins/%s", world->home, name);
    kg_auto(kg_free) char *manifest = kg_format("%s/kaged-plugin.yaml", folder);
    kg_auto(kg_free) char *program = kg_format("%s/plugin.py", folder);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_err err;
    assert_int_equal(kg_make_dirs(folder, 0755, &err), 0);
    write_manifest(TEST_PLUGIN "/kaged-plugin.yaml", manifest, name, capability);
    read_file(TEST_PLUGIN "/plugin.py", &text);
    write_file(program, kg_buf_view(&text), 0755);
    approve(world, name);
}

/* -- waiting ----------------------------------------------------------------------------------- */

void host_world_wait(struct host_world *world, bool (*done)(void *data), void *data)
{
    if (!loop_run_until(world->loop, done, data, HOST_WORLD_WAIT_MS))
        fail_msg("it did not happen in time; the log: %s", kg_buf_terminate(&world->events));
}

struct host_status host_world_status(struct host_world *world, const char *name)
{
    struct kg_err err;
    struct host_named named;
    if (host_find(world->host, kg_str(name), &named, &err) < 0)
        fail_msg("%s", err.message);
    return host_status(named);
}

struct awaited {
    struct host_world *world;
    const char *name;
    enum instance_state state;
};

static bool is_in_state(void *data)
{
    struct awaited *awaited = data;
    return host_world_status(awaited->world, awaited->name).state == awaited->state;
}

void host_world_wait_state(struct host_world *world, const char *plugin, enum instance_state state)
{
    struct awaited awaited = {world, plugin, state};
    host_world_wait(world, is_in_state, &awaited);
}

/* -- the audit log ----------------------------------------------------------------------------- */

static void on_event(struct host_listener *listener, struct host_event *event)
{
    struct host_world *world = KG_CONTAINER(listener, struct host_world, listener);
    if (event->type != HOST_EVENT_AUDIT)
        return;
    kg_buf_str(&world->events, event->line);
    if (event->line.length == 0 || event->line.data[event->line.length - 1] != '\n')
        kg_buf_char(&world->events, '\n');
}

void host_world_forget(struct host_world *world)
{
    world->events.length = 0;
}

static bool has_all(const char *line, const char *const *texts)
{
    for (; *texts != NULL; texts++)
        if (strstr(line, *texts) == NULL)
            return false;
    return true;
}

const char *host_world_event(struct host_world *world, const char *const *texts)
{
    static char *found;
    free(found);
    found = NULL;
    kg_auto(kg_free) char *lines = kg_strdup(kg_buf_terminate(&world->events));
    char *rest = NULL;
    for (char *line = strtok_r(lines, "\n", &rest); line != NULL && found == NULL;
         line = strtok_r(NULL, "\n", &rest))
        if (has_all(line, texts))
            found = kg_strdup(line);
    return found;
}

/* -- the host ---------------------------------------------------------------------------------- */

struct host_world *host_world_new(const char *config)
{
    struct kg_err err = {0};
    struct host_world *world = kg_alloc(sizeof(*world));
    strcpy(world->folder, "/tmp/kaged-agents-XXXXXX");
    assert_non_null(mkdtemp(world->folder));
    world->home = kg_format("%s/home", world->folder);
    world->project = kg_format("%s/project", world->folder);
    if (config_paths_find(world->home, &world->paths, &err) < 0 ||
        config_paths_make(&world->paths, geteuid(), &err) < 0 ||
        (world->facts = cage_facts_probe(&err)) == NULL ||
        (world->spawner = cage_spawner_start(&err)) == NULL)
        fail_msg("%s (%s)", err.message, err.hint);
    write_file(world->paths.config_file, kg_str(config), 0600);
    world->loop = loop_new();
    assert_int_equal(cage_spawner_attach(world->spawner, world->loop, NULL, NULL, &err), 0);
    struct host_parts parts = {
        .loop = world->loop,
        .spawner = world->spawner,
        .facts = world->facts,
        .paths = &world->paths,
        .config = config_load(world->paths.config_file, &err),
    };
    world->host = parts.config ? host_new(&parts, &err) : NULL;
    if (world->host == NULL)
        fail_msg("%s (%s)", err.message, err.hint);
    projects_open(world->host);
    world->listener.on_event = on_event;
    host_events_listen(host_events(world->host), &world->listener);
    return world;
}

void host_world_start(struct host_world *world)
{
    host_start(world->host);
}

static void on_stopped(void *data)
{
    ((struct host_world *)data)->stopped = true;
}

static bool is_stopped(void *data)
{
    return ((struct host_world *)data)->stopped;
}

void host_world_free(struct host_world *world)
{
    if (!host_is_stopping(world->host))
        host_stop(world->host, "the test is done", on_stopped, world);
    host_world_wait(world, is_stopped, world);
    host_events_unlisten(host_events(world->host), &world->listener);
    host_free(world->host);
    cage_spawner_free(world->spawner);
    cage_facts_free(world->facts);
    loop_free(world->loop);
    config_paths_free(&world->paths);
    kg_buf_free(&world->events);
    assert_int_equal(folder_remove(world->folder), 0);
    free(world->home);
    free(world->project);
    free(world);
}

/* -- the project ------------------------------------------------------------------------------- */

struct loading {
    struct host_world *world;
    bool done;
    char *id; /* owned */
};

static void on_loaded(void *data, const struct projects_loaded *loaded,
                      const struct kg_problems *problems, const struct kg_err *err)
{
    struct loading *loading = data;
    if (err != NULL)
        fail_msg("%s: %s", err->message,
                 problems && problems->count ? problems->items[0].message : "");
    loading->id = kg_strdup(projects_facts(loaded->project).id);
    loading->done = true;
}

static bool is_done(void *data)
{
    return *(bool *)data;
}

/* The operator's yes: to looking at it, and then to what was shown. */
static void say_yes(struct consent *consent)
{
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    kg_auto(kg_free) char *hash = NULL;
    struct kg_json_writer json = kg_json_writer(&shown);
    struct kg_str offer, text;
    struct kg_err err;
    consent_json(consent, true, &json);
    if (consent_state(consent) == CONSENT_OFFERED) {
        assert_true(kg_json_member(kg_buf_view(&shown), "offer", &offer));
        assert_true(kg_json_member(offer, "hash", &text));
        hash = kg_str_dup((struct kg_str){text.data + 1, text.length - 2});
    }
    const struct consent_answer yes = {.operator_id = "tester", .hash = hash};
    if (consent_approve(consent, &yes, &err) < 0)
        fail_msg("%s", err.message);
}

/* Whether it is active; what it waits for is let happen. */
static bool is_active(void *data)
{
    struct loading *loading = data;
    struct host *host = loading->world->host;
    struct consent_queue *queue = host_consents(host);
    for (size_t i = 0; i < consent_count(queue); i++) {
        enum consent_state state = consent_state(consent_at(queue, i));
        if (state == CONSENT_WANTED || state == CONSENT_OFFERED)
            say_yes(consent_at(queue, i));
    }
    struct projects_entry *project = projects_find(host, kg_str(loading->id), NULL);
    return projects_facts(project).state == PROJECTS_ACTIVE;
}

struct settled {
    struct projects_settling settling;
    bool done;
};

static void on_settled(struct kg_wait *wait, const struct kg_err *err_or_null)
{
    (void)err_or_null;
    KG_CONTAINER(wait, struct settled, settling.wait)->done = true;
}

/* What was asked for is loaded, let happen and entered. */
static void enter_loaded(struct loading *loading)
{
    struct host_world *world = loading->world;
    struct settled settled = {0};
    struct kg_err err;
    host_world_wait(world, is_done, &loading->done);
    host_world_wait(world, is_active, loading);
    if (projects_enter(world->host, kg_str(loading->id), &err) < 0)
        fail_msg("%s", err.message);
    projects_when_settled(world->host, loading->id, NULL, &settled.settling, on_settled);
    host_world_wait(world, is_done, &settled.done);
    free(loading->id);
}

void host_world_load(struct host_world *world, const char *yaml)
{
    kg_auto(kg_free) char *folder = kg_format("%s/.kaged", world->project);
    kg_auto(kg_free) char *file = kg_format("%s/project.yaml", folder);
    struct loading loading = {.world = world};
    struct kg_err err;
    assert_int_equal(kg_make_dirs(folder, 0755, &err), 0);
    write_file(file, kg_str(yaml), 0644);
    projects_load(world->host, file, false, "tester", on_loaded, &loading);
    enter_loaded(&loading);
}

void host_world_load_text(struct host_world *world, const char *id, const char *text)
{
    struct loading loading = {.world = world};
    projects_load_text(world->host, id, kg_str(text), NULL, "tester", on_loaded, &loading);
    enter_loaded(&loading);
}
