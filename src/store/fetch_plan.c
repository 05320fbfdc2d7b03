/*
 * The cage of kaged-unpack. It holds the program, the source, read-only, and one folder to write
 * to; a network only for git over https, and in it one host and one port. git comes with it only
 * where the source is a repository.
 */
#include "helper/helper.h"
#include "store/fetch.h"
#include "store/source.h"

#define ARCHIVE_PROCESSES    8
#define ARCHIVE_TMP_BYTES    ((size_t)1 << 20)
#define ARCHIVE_MEMORY_BYTES ((uint64_t)256 << 20)
#define GIT_PROCESSES        64
#define GIT_TMP_BYTES        ((size_t)16 << 20)
#define GIT_MEMORY_BYTES     ((uint64_t)768 << 20) /* it takes deltas apart in memory */
#define CPU_SHARES           256

static const char *format_of(const struct store_source *source)
{
    if (source->kind == STORE_ARCHIVE)
        return source_archive_format(source->place);
    return source->kind == STORE_GIT ? "git" : "folder";
}

static char **make_command(const char *program, const struct store_source *source,
                           const struct store_limits *limits, const char *folder)
{
    const struct {
        const char *name;
        uint64_t value;
    } options[] = {
        {"bytes_max", limits->bytes_max},       {"file_bytes_max", limits->file_bytes_max},
        {"files_max", limits->files_max},       {"depth_max", limits->depth_max},
        {"source_bytes", limits->source_bytes},
    };
    char **command = kg_list_new(0);
    kg_list_add(&command, kg_strdup(program));
    kg_list_add(&command, kg_strdup(format_of(source)));
    kg_list_add(&command, kg_strdup(source->place));
    kg_list_add(&command, kg_strdup(folder));
    for (size_t i = 0; i < KG_COUNT(options); i++)
        kg_list_add(&command,
                    kg_format("%s=%llu", options[i].name, (unsigned long long)options[i].value));
    if (source->kind == STORE_GIT && source->version != NULL)
        kg_list_add(&command, kg_format("version=%s", source->version));
    return command;
}

/* The path on this machine that the source is, or NULL. */
static const char *path_of(const struct store_source *source)
{
    if (source->kind != STORE_GIT)
        return source->place;
    return strncmp(source->place, "file://", 7) == 0 ? source->place + 7 : NULL;
}

/* Else it would be copied into itself. */
static int check_apart(const struct store_source *source, const char *folder, struct kg_err *err)
{
    const char *path = path_of(source);
    if (path == NULL || !kg_path_within(folder, path))
        return 0;
    return kg_fail(err, KG_E_REFUSED, "the folder holds kaged's own plugin store");
}

static struct cage_plan *plan_for(const struct store *store, const struct store_source *source,
                                  char **command, const char *folder, struct kg_err *err)
{
    bool is_git = source->kind == STORE_GIT;
    const char *path = path_of(source);
    kg_auto(kg_free) char *host = NULL;
    uint16_t port = 0;
    bool is_remote = source_host(source->place, &host, &port);
    const struct cage_path paths[] = {{.path = folder, .write = true, .own = true}, {.path = path}};
    /* A shell only for a local repository: git starts the other side of it by one. */
    const struct cage_program programs[] = {{.program = "git", .folder = folder},
                                            {.program = "sh", .folder = folder}};
    const struct cage_reach reach = {.host = host, .port = port};
    const struct cage_policy policy = {
        .name = "kaged-unpack",
        .command = (const char *const *)command,
        .paths = paths,
        .path_count = path != NULL ? 2 : 1,
        .programs = programs,
        .program_count = !is_git     ? 0
                         : is_remote ? 1
                                     : 2,
        .reaches = &reach,
        .reach_count = is_remote ? 1 : 0,
        .processes_max = is_git ? GIT_PROCESSES : ARCHIVE_PROCESSES,
        .tmp_bytes = is_git ? GIT_TMP_BYTES : ARCHIVE_TMP_BYTES,
        .memory_bytes = is_git ? GIT_MEMORY_BYTES : ARCHIVE_MEMORY_BYTES,
        .cpu_shares = CPU_SHARES,
    };
    return helper_plan(command[0], policy, store->parts.facts, err);
}

struct cage_plan *fetch_plan(const struct store *store, const struct store_source *source,
                             const struct store_limits *limits, const char *folder,
                             struct kg_err *err)
{
    kg_auto(kg_free) char *program = helper_program("kaged-unpack", err);
    if (program == NULL || check_apart(source, folder, err) < 0)
        return NULL;
    char **command = make_command(program, source, limits, folder);
    struct cage_plan *plan = plan_for(store, source, command, folder, err);
    kg_list_free(command);
    return plan;
}
