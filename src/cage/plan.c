/*
 * A plan is made from a policy and the host's facts and from nothing else: the same two give the
 * same plan. What it does not name is not in the cage. Order matters: a later step may cover an
 * earlier one, so the plugin's own folder comes after what might hold it, and the root is closed
 * last.
 */
#include "cage/internal.h"

#include <stdlib.h>

/*
 * Every mount costs a start a tenth or two of a millisecond, since bwrap reads the list of all
 * mounts after each. So what a cage has no use for is left out, a file is copied, and a folder of
 * links made again.
 */
#define FEW_ENTRIES 8 /* of a folder that may be made again */

/* What programs of any kind expect of a system, if the host has it. */
static const char *const system_paths[] = {
    "/usr/lib",         "/usr/lib64",          "/lib",           "/lib64",
    "/etc/ld.so.cache", "/usr/share/zoneinfo", "/etc/localtime",
};

/* Of these, those that on many systems hold nothing but a link to the loader. */
static const char *const loader_folders[] = {"/usr/lib64", "/lib64"};

/* Whom to believe in a network. */
static const char *const certificate_paths[] = {"/usr/share/ca-certificates", "/etc/ssl/certs"};

/* No terminals: a plugin has none, and the kernel's part of them has many corners. */
static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/urandom"};
static const char *const device_links[][2] = {
    {"/dev/random", "urandom"},         {"/dev/fd", "/proc/self/fd"},
    {"/dev/stdin", "/proc/self/fd/0"},  {"/dev/stdout", "/proc/self/fd/1"},
    {"/dev/stderr", "/proc/self/fd/2"},
};

/*
 * What the kernel shows to everybody, and a plugin has no need of: whose keys the daemon holds, and
 * the command line of the boot, which may have passwords in it. /dev/null cannot be opened where
 * it is bound.
 */
static const char *const masked_files[] = {"/proc/keys", "/proc/cmdline"};

/* True if the steps bring the path, or something below it, into the cage. */
static bool is_made(const struct cage_steps *steps, const char *path)
{
    bool made = cage_steps_reach(steps, path);
    for (size_t i = 0; i < steps->count; i++)
        made = made || kg_path_within(steps->items[i].path, path);
    return made;
}

/* True for a folder of a few links into what is there, as /usr/lib64 of Debian: they were added. */
static bool add_as_links(struct cage_steps *steps, const struct cage_host *host, const char *folder)
{
    kg_auto(cage_words_free) struct cage_words names = {0};
    bool is_loaders = false;
    for (size_t i = 0; i < KG_COUNT(loader_folders); i++)
        is_loaders = is_loaders || strcmp(folder, loader_folders[i]) == 0;
    if (!is_loaders || !host->list(folder, FEW_ENTRIES, &names) || names.count == 0)
        return false;
    kg_auto(cage_steps_free) struct cage_steps links = {0};
    for (size_t i = 0; i < names.count; i++) {
        kg_auto(kg_free) char *path = cage_path_join(folder, names.items[i]);
        kg_auto(kg_free) char *target = host->link(path);
        kg_auto(kg_free) char *real = host->real(path);
        if (target == NULL || real == NULL || !cage_steps_reach(steps, real))
            return false;
        cage_steps_add(&links, CAGE_STEP_LINK, path, real, 0);
    }
    for (size_t i = 0; i < links.count; i++)
        cage_steps_add(steps, CAGE_STEP_LINK, links.items[i].path, links.items[i].source, 0);
    return true;
}

/* A link that leads into what is there stays a link; one that leads elsewhere is followed. */
static void add_system_path(struct cage_steps *steps, const struct cage_host *host,
                            const char *path)
{
    enum cage_file kind = host->kind(path);
    if (kind != CAGE_FILE_PLAIN && kind != CAGE_FILE_PROGRAM && kind != CAGE_FILE_FOLDER)
        return;
    kg_auto(kg_free) char *target = host->link(path);
    kg_auto(kg_free) char *real = host->real(path);
    if (real == NULL)
        return;
    if (target != NULL && is_made(steps, real))
        cage_steps_add(steps, CAGE_STEP_LINK, path, target, 0);
    else if (kind != CAGE_FILE_FOLDER)
        cage_steps_add(steps, CAGE_STEP_COPY, path, real, 0);
    else if (target != NULL || !add_as_links(steps, host, path))
        cage_steps_add(steps, CAGE_STEP_SYSTEM, path, real, 0);
}

const struct cage_tree *cage_system_tree(const struct cage_policy *policy)
{
    for (size_t i = 0; i < policy->tree_count; i++)
        if (strcmp(policy->trees[i].path, "/usr") == 0)
            return &policy->trees[i];
    return NULL;
}

/* As in a Debian whose files are all below /usr. */
static void add_tree_links(struct cage_steps *steps, const struct cage_host *host, const char *usr)
{
    static const char *const names[] = {"lib", "lib64", "bin"};
    for (size_t i = 0; i < KG_COUNT(names); i++) {
        kg_auto(kg_free) char *there = cage_path_join(usr, names[i]);
        kg_auto(kg_free) char *path = cage_path_join("/", names[i]);
        kg_auto(kg_free) char *target = kg_format("usr/%s", names[i]);
        if (host->kind(there) == CAGE_FILE_FOLDER)
            cage_steps_add(steps, CAGE_STEP_LINK, path, target, 0);
    }
}

static int add_trees(const struct cage_policy *policy, struct cage_steps *steps,
                     const struct cage_host *host, struct kg_err *err)
{
    for (size_t i = 0; i < policy->tree_count; i++) {
        const struct cage_tree *tree = &policy->trees[i];
        kg_auto(kg_free) char *real = host->real(tree->source);
        if (real == NULL || host->kind(tree->source) != CAGE_FILE_FOLDER)
            return kg_fail(err, KG_E_CAGE, "plugin %s: folder %s, for its %s, does not exist",
                           policy->name, tree->source, tree->path);
        if (!cage_path_plain(tree->path) || strcmp(real, tree->source) != 0)
            return kg_fail(err, KG_E_CAGE,
                           "plugin %s: folder %s, for its %s, is not a plain path without links",
                           policy->name, tree->source, tree->path);
        cage_steps_add(steps, CAGE_STEP_BIND, tree->path, tree->source, 0);
    }
    return 0;
}

static void plan_add_system(const struct cage_policy *policy, struct cage_steps *steps,
                            const struct cage_host *host)
{
    const struct cage_tree *tree = cage_system_tree(policy);
    bool has_network = policy->reach_count > 0;
    if (tree != NULL) {
        add_tree_links(steps, host, tree->source);
        if (has_network)
            add_system_path(steps, host, "/etc/ssl/certs");
        return;
    }
    for (size_t i = 0; i < KG_COUNT(system_paths); i++)
        add_system_path(steps, host, system_paths[i]);
    for (size_t i = 0; has_network && i < KG_COUNT(certificate_paths); i++)
        add_system_path(steps, host, certificate_paths[i]);
    /* Only as a name for /usr/bin: what is in it comes program by program. */
    kg_auto(kg_free) char *bin = host->link("/bin");
    if (bin != NULL)
        cage_steps_add(steps, CAGE_STEP_LINK, "/bin", bin, 0);
}

/*
 * /proc/1 is bwrap's reaper, of the same user as the plugin: through its mem the plugin could run
 * code in it, and outlive its keepers. It is covered whole. In what is left nothing can be written:
 * no setting of the kernel's in /proc/sys, nor how soon it ends this process when memory is short.
 */
static void add_proc(struct cage_steps *steps, const struct cage_host *host)
{
    cage_steps_add(steps, CAGE_STEP_PROC, "/proc", "", 0);
    for (size_t i = 0; i < KG_COUNT(masked_files); i++)
        if (host->kind(masked_files[i]) == CAGE_FILE_PLAIN)
            cage_steps_add(steps, CAGE_STEP_SYSTEM, masked_files[i], "/dev/null", 0);
    cage_steps_add(steps, CAGE_STEP_TMPFS, "/proc/1", "", CAGE_MASK_BYTES);
    cage_steps_add(steps, CAGE_STEP_READ_ONLY, "/proc/1", "", 0);
    cage_steps_add(steps, CAGE_STEP_READ_ONLY, "/proc", "", 0);
}

static void add_kernel(struct cage_steps *steps, const struct cage_host *host, size_t tmp_bytes)
{
    add_proc(steps, host);
    for (size_t i = 0; i < KG_COUNT(devices); i++)
        cage_steps_add(steps, CAGE_STEP_DEVICE, devices[i], devices[i], 0);
    for (size_t i = 0; i < KG_COUNT(device_links); i++)
        cage_steps_add(steps, CAGE_STEP_LINK, device_links[i][0], device_links[i][1], 0);
    cage_steps_add(steps, CAGE_STEP_TMPFS, "/dev/shm", "", tmp_bytes);
    cage_steps_add(steps, CAGE_STEP_TMPFS, "/tmp", "", tmp_bytes);
}

/* What Landlock lets be changed in every cage. */
static void add_writables(struct cage_words *writables)
{
    static const char *const folders[] = {"/tmp", "/dev"};
    for (size_t i = 0; i < KG_COUNT(folders); i++)
        cage_words_add(writables, folders[i]);
}

const char *cage_install_source(const struct cage_policy *policy)
{
    return policy->install_source ? policy->install_source : policy->install_dir;
}

/* A link in the path would let another folder be bound than the operator read. */
static int check_install_dir(const struct cage_policy *policy, const struct cage_host *host,
                             struct kg_err *err)
{
    const char *folder = cage_install_source(policy);
    if (!cage_path_plain(folder) || !cage_path_plain(policy->install_dir))
        return kg_fail(err, KG_E_CAGE, "plugin %s: install folder %s is not a plain absolute path",
                       policy->name, folder);
    kg_auto(kg_free) char *real = host->real(folder);
    if (real == NULL || host->kind(folder) != CAGE_FILE_FOLDER)
        return kg_fail(err, KG_E_CAGE, "plugin %s: install folder %s does not exist", policy->name,
                       folder);
    if (strcmp(real, folder) == 0)
        return 0;
    int result =
        kg_fail(err, KG_E_CAGE, "plugin %s: install folder %s has a symbolic link in its path",
                policy->name, folder);
    kg_hint(err, "use the real path, %s", real);
    return result;
}

/* A folder that holds a part of the cage would uncover the host's. */
static int check_not_system(const struct cage_policy *policy, const struct cage_steps *steps,
                            struct kg_err *err)
{
    const char *folder = policy->install_dir;
    bool refused = !cage_place_may_be_installed(folder);
    for (size_t i = 0; i < steps->count; i++)
        refused = refused || kg_path_within(steps->items[i].path, folder);
    if (!refused)
        return 0;
    return kg_fail(err, KG_E_CAGE, "plugin %s: install folder %s is a folder of the system",
                   policy->name, folder);
}

static int check_policy(const struct cage_policy *policy, const struct cage_host *host,
                        struct kg_err *err)
{
    if (policy->processes_max == 0 || policy->tmp_bytes == 0)
        return kg_fail(err, KG_E_CAGE, "plugin %s: a cage without %s", policy->name,
                       policy->processes_max == 0 ? "processes" : "room in /tmp");
    return check_install_dir(policy, host, err);
}

static int plan_add_command(const struct cage_policy *policy, const char *path,
                            struct cage_words *words, struct kg_err *err)
{
    cage_words_add(words, path);
    for (const char *const *word = policy->command + 1; *word != NULL; word++) {
        if (words->count == CAGE_WORDS_MAX)
            return kg_fail(err, KG_E_CAGE, "plugin %s: its command has more than %d words",
                           policy->name, CAGE_WORDS_MAX);
        cage_words_add(words, *word);
    }
    return 0;
}

static int plan_add_env(const struct cage_policy *policy, struct cage_words *words,
                        struct kg_err *err)
{
    for (const char *const *entry = policy->env; entry != NULL && *entry != NULL; entry++) {
        const char *equals = strchr(*entry, '=');
        if (equals == NULL || equals == *entry)
            return kg_fail(err, KG_E_CAGE,
                           "plugin %s: environment: \"%" KG_S_NAME "\" is not NAME=value",
                           policy->name, *entry);
        if (words->count == CAGE_WORDS_MAX)
            return kg_fail(err, KG_E_CAGE, "plugin %s: its environment has more than %d entries",
                           policy->name, CAGE_WORDS_MAX);
        cage_words_add(words, *entry);
    }
    return 0;
}

static int plan_fill(struct cage_plan *plan, const struct cage_policy *policy,
                     const struct cage_facts *facts, struct kg_err *err)
{
    struct cage_steps *steps = &plan->steps;
    int result = check_policy(policy, facts->host, err);
    if (result < 0)
        return result;
    plan_add_system(policy, steps, facts->host);
    result = add_trees(policy, steps, facts->host, err);
    if (result < 0)
        return result;
    kg_auto(kg_free) char *path = NULL;
    result = cage_program_add(policy, facts, plan, &path, err);
    if (result < 0)
        return result;
    add_kernel(steps, facts->host, policy->tmp_bytes);
    result = check_not_system(policy, steps, err);
    if (result < 0)
        return result;
    add_writables(&plan->writables);
    result = cage_files_add(policy, facts, plan, err);
    if (result == 0)
        result = cage_network_plan(policy, facts, plan, err);
    if (result < 0)
        return result;
    cage_steps_add(steps, CAGE_STEP_BIND, policy->install_dir, cage_install_source(policy), 0);
    cage_steps_add(steps, CAGE_STEP_READ_ONLY, "/", "", 0);
    result = plan_add_command(policy, path, &plan->command, err);
    return result < 0 ? result : plan_add_env(policy, &plan->env, err);
}

static void free_plan(struct cage_plan **plan)
{
    cage_plan_free(*plan);
}

static int plan_check_size(const struct cage_plan *plan, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf bytes = {0};
    if (plan->steps.count > CAGE_STEPS_MAX || plan->executables.count > CAGE_WORDS_MAX ||
        plan->writables.count > CAGE_WORDS_MAX)
        return cage_steps_too_many(plan->name, err);
    cage_plan_encode(plan, &bytes);
    if (bytes.length <= CAGE_PLAN_MAX_BYTES)
        return 0;
    return kg_fail(err, KG_E_TOO_LARGE,
                   "plugin %s: its command and environment are larger than %zu bytes", plan->name,
                   CAGE_PLAN_MAX_BYTES);
}

struct cage_plan *cage_plan_new(const struct cage_policy *policy, const struct cage_facts *facts,
                                struct kg_err *err)
{
    kg_auto(free_plan) struct cage_plan *plan = kg_alloc(sizeof(*plan));
    plan->name = kg_strdup(policy->name);
    plan->bwrap = kg_strdup(facts->bwrap);
    plan->folder = kg_strdup(policy->install_dir);
    plan->landlock = facts->landlock > 0;
    plan->watched = policy->watched;
    plan->processes_max = policy->processes_max;
    plan->cpu_shares = policy->cpu_shares;
    plan->memory_bytes = policy->memory_bytes;
    plan->network.nft = kg_strdup("");
    if (plan_fill(plan, policy, facts, err) < 0 || plan_check_size(plan, err) < 0)
        return NULL;
    return kg_steal(&plan);
}

void cage_plan_free(struct cage_plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->name);
    free(plan->bwrap);
    free(plan->folder);
    cage_words_free(&plan->executables);
    cage_words_free(&plan->writables);
    cage_grants_free(&plan->grants);
    cage_network_free(&plan->network);
    cage_steps_free(&plan->steps);
    cage_words_free(&plan->command);
    cage_words_free(&plan->env);
    free(plan);
}

bool cage_plan_has_network(const struct cage_plan *plan)
{
    return plan->network.any || plan->network.count > 0 || plan->watched;
}

/* Each with a letter before it: what may be written, and what may not. */
char **cage_plan_sees(const struct cage_plan *plan)
{
    char **sees = NULL;
    for (size_t i = 0; i < plan->steps.count; i++) {
        const struct cage_step *step = &plan->steps.items[i];
        bool writes = step->kind == CAGE_STEP_WRITE;
        if ((!writes && step->kind != CAGE_STEP_BIND) || strcmp(step->path, plan->folder) == 0 ||
            strcmp(step->path, step->source) != 0 || (writes && step->part))
            continue;
        if (sees == NULL)
            sees = kg_list_new(0);
        kg_list_add(&sees, kg_format("%c%s", writes ? 'w' : 'r', step->path));
    }
    return sees;
}

bool cage_sees(char *const *sees, const char *path)
{
    for (; sees != NULL && *sees != NULL; sees++)
        if (kg_path_within(path, *sees + 1) || kg_path_within(*sees + 1, path))
            return true;
    return false;
}

/* The nearest above decides, and whatever is below counts. */
bool cage_could_write(char *const *sees, const char *path)
{
    const char *nearest = NULL;
    for (; sees != NULL && *sees != NULL; sees++) {
        if (**sees == 'w' && kg_path_within(*sees + 1, path))
            return true;
        if (kg_path_within(path, *sees + 1) && (nearest == NULL || strlen(*sees) > strlen(nearest)))
            nearest = *sees;
    }
    return nearest != NULL && *nearest == 'w';
}

static void print_step(const struct cage_step *step, struct kg_buf *out)
{
    kg_buf_printf(out, "%s %s", cage_step_names[step->kind], step->path);
    if (step->kind == CAGE_STEP_LINK)
        kg_buf_printf(out, " -> %s", step->source);
    else if (step->kind == CAGE_STEP_TEXT)
        kg_buf_printf(out, " of %zu bytes", strlen(step->source));
    else if (step->source[0] != '\0' && strcmp(step->source, step->path) != 0)
        kg_buf_printf(out, " from %s", step->source);
    if (step->bytes != 0)
        kg_buf_printf(out, " %llu bytes", (unsigned long long)step->bytes);
    if (step->roots)
        kg_buf_text(out, " also of root");
    if (step->part)
        kg_buf_text(out, " as a part");
    kg_buf_char(out, '\n');
}

static void print_words(const char *what, const struct cage_words *words, struct kg_buf *out)
{
    for (size_t i = 0; i < words->count; i++)
        kg_buf_printf(out, "%s %s\n", what, words->items[i]);
}

/* Values of the environment may be secrets: only the names are printed. */
void cage_plan_print(const struct cage_plan *plan, struct kg_buf *out)
{
    for (size_t i = 0; i < plan->steps.count; i++)
        print_step(&plan->steps.items[i], out);
    cage_network_print(&plan->network, out);
    kg_buf_printf(out, "folder %s\nprocesses %u\n", plan->folder, plan->processes_max);
    if (plan->memory_bytes != 0)
        kg_buf_printf(out, "memory %llu bytes\n", (unsigned long long)plan->memory_bytes);
    if (plan->cpu_shares != 0)
        kg_buf_printf(out, "cpu %u shares\n", plan->cpu_shares);
    kg_buf_printf(out, "landlock %s\n", plan->landlock ? "on" : "off");
    if (plan->watched)
        kg_buf_text(out, "watched\n");
    print_words("execute", &plan->executables, out);
    print_words("change", &plan->writables, out);
    for (size_t i = 0; i < plan->env.count; i++)
        kg_buf_printf(out, "env %.*s\n", (int)strcspn(plan->env.items[i], "="), plan->env.items[i]);
    for (size_t i = 0; i < plan->command.count; i++)
        kg_buf_printf(out, "%s%s", i == 0 ? "command " : " ", plan->command.items[i]);
    kg_buf_char(out, '\n');
}
