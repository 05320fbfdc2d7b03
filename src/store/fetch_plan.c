/*
 * The cage of kaged-unpack. It holds the program, the source, read-only, and one folder to write
 * to; a network only for git over https, and in it one host and one port, and for npm, and in it
 * the registries that npm is set to. git and node come with it only where they are needed.
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
#define NPM_PROCESSES        64
#define NPM_TMP_BYTES        ((size_t)64 << 20)
#define NPM_MEMORY_BYTES     ((uint64_t)1 << 30)
#define CPU_SHARES           256
#define PATHS_MAX            4
#define PROGRAMS_MAX         3

static const char *format_of(const struct store_source *source)
{
    if (source->kind == STORE_ARCHIVE)
        return source_archive_format(source->place);
    if (source->kind == STORE_CATALOG)
        return "zip";
    return store_source_kind_names[source->kind];
}

static char **make_command(const char *program, const struct store_source *source,
                           const struct npm *npm_or_null, const struct store_limits *limits,
                           const char *folder)
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
    if (source->version != NULL && (source->kind == STORE_GIT || source->kind == STORE_NPM))
        kg_list_add(&command, kg_format("version=%s", source->version));
    if (npm_or_null != NULL) {
        kg_list_add(&command, kg_format("node=%s", npm_or_null->node->program));
        kg_list_add(&command, kg_format("npm=%s", npm_or_null->cli));
    }
    return command;
}

/* The path on this machine that the source is, or NULL. */
static const char *path_of(const struct store_source *source)
{
    if (source->kind == STORE_NPM)
        return NULL;
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

/* What of the machine the cage has, by what it is for. */
struct needs {
    struct cage_path paths[PATHS_MAX];
    struct cage_program programs[PROGRAMS_MAX];
    struct cage_reach reaches[NPM_REACHES_MAX + 1];
    size_t path_count, program_count, reach_count;
    unsigned processes;
    size_t tmp_bytes;
    uint64_t memory_bytes;
};

static void add_program(struct needs *needs, const char *program, const char *folder)
{
    needs->programs[needs->program_count++] =
        (struct cage_program){.program = program, .folder = folder};
}

/* host: of a remote one; NULL: it is on this machine. */
static void add_git(struct needs *needs, const char *folder, const char *host, uint16_t port)
{
    needs->processes = GIT_PROCESSES;
    needs->tmp_bytes = GIT_TMP_BYTES;
    needs->memory_bytes = GIT_MEMORY_BYTES;
    add_program(needs, "git", folder);
    if (host != NULL)
        needs->reaches[needs->reach_count++] = (struct cage_reach){.host = host, .port = port};
    else /* git starts the other side of it by a shell */
        add_program(needs, "sh", folder);
}

/* node, and what npm trusts; a runtime that is not the system's with its whole folder. */
static void add_npm(struct needs *needs, const struct npm *npm, const char *folder)
{
    needs->processes = NPM_PROCESSES;
    needs->tmp_bytes = NPM_TMP_BYTES;
    needs->memory_bytes = NPM_MEMORY_BYTES;
    add_program(needs, npm->node->program, folder);
    if (!npm->node->is_own)
        needs->paths[needs->path_count++] = (struct cage_path){.path = npm->node->folder};
    if (npm->ca_file != NULL)
        needs->paths[needs->path_count++] = (struct cage_path){.path = npm->ca_file};
    for (size_t i = 0; i < npm->reach_count; i++)
        needs->reaches[needs->reach_count++] = npm->reaches[i];
}

static struct cage_plan *plan_for(const struct store *store, const struct store_source *source,
                                  const struct npm *npm_or_null, char **command, const char *folder,
                                  struct kg_err *err)
{
    const char *path = path_of(source);
    kg_auto(kg_free) char *host = NULL;
    uint16_t port = 0;
    bool is_remote = source_host(source->place, &host, &port);
    struct needs needs = {.paths = {{.path = folder, .write = true, .own = true}, {.path = path}},
                          .path_count = path != NULL ? 2 : 1,
                          .processes = ARCHIVE_PROCESSES,
                          .tmp_bytes = ARCHIVE_TMP_BYTES,
                          .memory_bytes = ARCHIVE_MEMORY_BYTES};
    if (source->kind == STORE_GIT)
        add_git(&needs, folder, is_remote ? host : NULL, port);
    if (npm_or_null != NULL)
        add_npm(&needs, npm_or_null, folder);
    const struct cage_policy policy = {
        .name = "kaged-unpack",
        .command = (const char *const *)command,
        .paths = needs.paths,
        .path_count = needs.path_count,
        .programs = needs.programs,
        .program_count = needs.program_count,
        .reaches = needs.reaches,
        .reach_count = needs.reach_count,
        .processes_max = needs.processes,
        .tmp_bytes = needs.tmp_bytes,
        .memory_bytes = needs.memory_bytes,
        .cpu_shares = CPU_SHARES,
    };
    return helper_plan(command[0], policy, store->parts.facts, err);
}

struct cage_plan *fetch_plan(const struct store *store, const struct store_source *source,
                             const struct npm *npm_or_null, const struct store_limits *limits,
                             const char *folder, struct kg_err *err)
{
    kg_auto(kg_free) char *program = helper_program("kaged-unpack", err);
    if (program == NULL || check_apart(source, folder, err) < 0)
        return NULL;
    char **command = make_command(program, source, npm_or_null, limits, folder);
    struct cage_plan *plan = plan_for(store, source, npm_or_null, command, folder, err);
    kg_list_free(command);
    return plan;
}
