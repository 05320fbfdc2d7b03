/*
 * What the runs of one plugin need, in a folder of its own that goes with the room. The operator's
 * folders are named to the planner as what no capability may reach, and not opened.
 */
#include "kit/run.h"

#include "host/host.h"
#include "store/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LAST_WAIT_MS 5000

static const int signals[KIT_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

/* -- folders ----------------------------------------------------------------------------------- */

static int write_file(const char *path, struct kg_str text, struct kg_err *err)
{
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || kg_write_all(fd, text.data, text.length) < 0)
        return kg_fail_errno(err, errno, "write %s", path);
    return 0;
}

/* What stands there is an author's guess at a project: a name with a suffix is a file. */
static int make_declared(const char *root, const char *rest, struct kg_err *err)
{
    kg_auto(kg_free) char *path = kg_format("%s/%s", root, rest);
    const char *name = strrchr(path, '/') + 1;
    bool is_file = strchr(name, '.') > name;
    if (access(path, F_OK) == 0)
        return 0;
    if (!is_file)
        return kg_make_dirs(path, 0700, err);
    kg_auto(kg_free) char *folder = kg_path_folder(path);
    int result = kg_make_dirs(folder, 0700, err);
    return result < 0 ? result : write_file(path, KG_STR(""), err);
}

/* Each place below config:/ and project:/ that the manifest names. */
static int make_places(const struct kit_room *room, struct kg_err *err)
{
    static const char config[] = "config:/", project[] = "project:/";
    const struct capability_set *set = &room->parts.manifest->capability_set;
    kg_auto(kg_free) char *own =
        kg_format("%s/%s", room->paths.plugin_data_dir, room->parts.manifest->name);
    int result = kg_make_dirs(own, 0700, err);
    for (size_t i = 0; i < set->count && result == 0; i++) {
        const char *path = set->items[i].path;
        if (kg_str_starts(kg_str(path), config))
            result = make_declared(own, path + sizeof(config) - 1, err);
        else if (kg_str_starts(kg_str(path), project))
            result = make_declared(room->project, path + sizeof(project) - 1, err);
    }
    return result;
}

static int make_project(const struct kit_room *room, struct kg_err *err)
{
    kg_auto(kg_free) char *folder = kg_format("%s/.kaged", room->project);
    kg_auto(kg_free) char *file = kg_format("%s/project.yaml", folder);
    int result = kg_make_dirs(folder, 0700, err);
    return result < 0 ? result : write_file(file, KG_STR("name: " KIT_PROJECT "\n"), err);
}

static int make_folders(struct kit_room *room, struct kg_err *err)
{
    const char *tmp = getenv("TMPDIR");
    kg_auto(kg_free) char *real = realpath(tmp != NULL && tmp[0] == '/' ? tmp : "/tmp", NULL);
    kg_auto(kg_free) char *folder = kg_format("%s/kaged-kit-XXXXXX", real != NULL ? real : "/tmp");
    if (mkdtemp(folder) == NULL)
        return kg_fail_errno(err, errno, "make a folder like %s", folder);
    room->folder = kg_steal(&folder);
    kg_auto(kg_free) char *home = kg_format("%s/home", room->folder);
    room->project = kg_format("%s/project", room->folder);
    if (config_paths_find(home, &room->paths, err) < 0 ||
        config_paths_make(&room->paths, geteuid(), err) < 0 || make_project(room, err) < 0)
        return -EIO;
    return make_places(room, err);
}

static void remove_folders(struct kit_room *room)
{
    struct kg_err err;
    if (room->folder != NULL && tree_remove(AT_FDCWD, room->folder, &err) < 0)
        kg_log(KG_WARN, "%s is left behind: %s", room->folder, err.message);
    config_paths_free(&room->paths);
    free(room->folder);
    free(room->project);
}

/* -- settings ---------------------------------------------------------------------------------- */

/* If no configuration can be made that fits, what the daemon would send without one. */
static void make_settings(struct kit_room *room)
{
    const struct manifest *manifest = room->parts.manifest;
    kit_make_config(manifest, false, &room->settings);
    if (room->settings.length == 0 &&
        (manifest->config_schema != NULL || manifest->system_config_schema != NULL))
        kg_buf_text(&room->settings, "{}");
}

/* -- waiting ----------------------------------------------------------------------------------- */

void kit_signals_keep(sigset_t *ret_before)
{
    sigset_t ours;
    sigemptyset(&ours);
    for (size_t i = 0; i < KIT_SIGNALS; i++)
        sigaddset(&ours, signals[i]);
    pthread_sigmask(SIG_BLOCK, &ours, ret_before);
}

void kit_signals_as(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

static void on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    struct kit_room *room = handle->data;
    room->interrupted = true;
}

static void begin_signals(struct kit_room *room)
{
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < KIT_SIGNALS; i++) {
        uv_signal_init(loop_uv(room->loop), &room->signals[i]);
        room->signals[i].data = room;
        uv_signal_start(&room->signals[i], on_signal, signals[i]);
    }
}

static void end_signals(struct kit_room *room)
{
    for (size_t i = 0; i < KIT_SIGNALS; i++)
        uv_close((uv_handle_t *)&room->signals[i], NULL);
}

struct waiting {
    const struct kit_room *room;
    bool (*done)(void *data);
    void *data;
};

static bool is_over(void *data)
{
    const struct waiting *waiting = data;
    return waiting->done(waiting->data) || waiting->room->interrupted || waiting->room->lost;
}

bool kit_room_wait(struct kit_room *room, bool (*done)(void *data), void *data, uint64_t timeout_ms)
{
    struct waiting waiting = {room, done, data};
    loop_run_until(room->loop, is_over, &waiting, timeout_ms);
    return done(data);
}

/* -- the cage ---------------------------------------------------------------------------------- */

static void on_lost(void *data)
{
    struct kit_room *room = data;
    room->lost = true;
}

/* All of a set, but for what the operator closed; borrowed. */
static struct grants grants_of(const struct kit_room *room, const struct capability_set *set)
{
    struct grants grants = {.set = *set, .declared = set->count};
    if (room->parts.closed != NULL)
        grants.closed = *room->parts.closed;
    return grants;
}

/* tried: what it would have, for a plan that is only tried; NULL: what its manifest declares. */
static struct cage_plan *make_plan(const struct kit_room *room, const struct grants *tried,
                                   struct kg_err *err)
{
    const struct kit_room_parts *parts = &room->parts;
    const struct grants declared = grants_of(room, &parts->manifest->capability_set);
    kg_auto(kg_free) char *project_file = kg_format("%s/.kaged/project.yaml", room->project);
    const char *project_root = kit_room_project_root(room);
    const struct host_cage_parts cage = {
        .manifest = parts->manifest,
        .grants = tried != NULL ? tried : &declared,
        .dir = room->dir,
        .plugins_dir = room->paths.plugins_dir,
        .config = parts->config,
        .paths = &room->paths,
        .also_kept = parts->paths,
        .settings = kg_buf_view(&room->settings),
        .project_root = project_root,
        .project_id = project_root != NULL ? KIT_PROJECT : NULL,
        .project_file = project_root != NULL ? project_file : NULL,
        .facts = room->facts,
        .unguarded = tried != NULL,
        .make_folders = tried == NULL,
        .observed = parts->observed,
        .asks = parts->asks && tried == NULL,
    };
    return host_cage_plan(&cage, err);
}

int kit_room_declare(struct kit_room *room, const struct manifest *manifest, struct kg_err *err)
{
    room->parts.manifest = manifest;
    return make_places(room, err);
}

struct cage_plan *kit_room_plan(const struct kit_room *room, struct kg_err *err)
{
    return make_plan(room, NULL, err);
}

int kit_room_check(const struct kit_room *room, const char *capability, struct kg_err *err)
{
    const struct capability_set *had = &room->parts.manifest->capability_set;
    kg_auto(capability_free) struct capability line = {0};
    int result = capability_parse(kg_str(capability), &line, err);
    if (result < 0)
        return result;
    struct capability *items = kg_alloc_array(had->count + 1, sizeof(*items));
    memcpy(items, had->items, had->count * sizeof(*items));
    items[had->count] = line;
    const struct capability_set set = {items, had->count + 1};
    const struct grants more = grants_of(room, &set);
    struct cage_plan *plan = make_plan(room, &more, err);
    cage_plan_free(plan);
    free(items);
    return plan != NULL ? 0 : -EINVAL;
}

static int open_cages(struct kit_room *room, struct kg_err *err)
{
    room->facts = cage_facts_probe(err);
    room->spawner = room->facts ? cage_spawner_start(err) : NULL;
    return room->spawner != NULL ? 0 : -EINVAL;
}

static int open_network(struct kit_room *room, struct kg_err *err)
{
    const struct gate_limits limits = host_gate_limits(room->parts.config);
    int result = cage_spawner_attach(room->spawner, room->loop, on_lost, room, err);
    if (result < 0)
        return result;
    sigset_t before;
    kit_signals_keep(&before);
    room->gate = gate_new(room->loop, &limits, err);
    kit_signals_as(&before);
    return room->gate != NULL ? 0 : -EINVAL;
}

static void on_damaged(void *data, const char *moved_to)
{
    (void)data, (void)moved_to; /* each request is then answered with an error that says so */
}

static void on_storage_closed(void *data)
{
    (void)data; /* storage_is_closed is asked for it */
}

struct storage *kit_room_storage(struct kit_room *room)
{
    static const struct storage_ops ops = {on_damaged, on_storage_closed};
    if (room->storage == NULL)
        room->storage = storage_new(&room->storage_place, room->parts.manifest->name, &ops, room);
    return room->storage;
}

static bool storage_has_ended(void *data)
{
    return storage_is_closed(data);
}

/* -- life -------------------------------------------------------------------------------------- */

struct kit_room *kit_room_new(const struct kit_room_parts *parts, struct kg_err *err)
{
    struct kit_room *room = kg_alloc(sizeof(*room));
    room->parts = *parts;
    room->loop = loop_new();
    begin_signals(room);
    room->dir = realpath(parts->dir, NULL);
    if (room->dir == NULL)
        kg_fail_errno(err, errno, "find the folder %s", parts->dir);
    if (room->dir == NULL || open_cages(room, err) < 0 || make_folders(room, err) < 0 ||
        open_network(room, err) < 0) {
        kit_room_free(room);
        return NULL;
    }
    make_settings(room);
    room->storage_place = (struct storage_place){
        .loop = room->loop,
        .spawner = room->spawner,
        .facts = room->facts,
        .dir = room->paths.storage_dir,
        .limits = host_storage_limits(parts->config),
    };
    return room;
}

void kit_room_free(struct kit_room *room)
{
    if (room == NULL)
        return;
    if (room->storage != NULL) {
        storage_close(room->storage);
        loop_run_until(room->loop, storage_has_ended, room->storage, LAST_WAIT_MS);
    }
    storage_free(room->storage);
    kit_serve_end(room);
    gate_free(room->gate);
    cage_spawner_free(room->spawner);
    cage_facts_free(room->facts);
    end_signals(room);
    loop_free(room->loop);
    remove_folders(room);
    kg_buf_free(&room->settings);
    free(room->dir);
    free(room);
}

const char *kit_room_project_root(const struct kit_room *room)
{
    bool is_of_project = policy_is_of_project(
        room->parts.manifest, &room->parts.manifest->capability_set, kg_buf_view(&room->settings));
    return is_of_project ? room->project : NULL;
}
