/*
 * What a command, or a granted program, needs from the host, and no more: its file, the links that
 * lead to it, the interpreter that its first line names, the folders that it cannot do without. A
 * path that a stranger wrote (in the manifest, or as a link in a folder of the plugin's) may name a
 * system program, a file of the plugin or one below a granted path, never another file.
 */
#include "cage/internal.h"

#include <stdlib.h>

#define LINKS_MAX        16
#define INTERPRETERS_MAX 4
#define HEAD_BYTES       256 /* what the kernel looks at */
#define WORDS_MAX        16  /* of an env line */

/* Where bare names are looked for: the PATH of a cage. */
static const char *const program_folders[] = {"/usr/bin", "/usr/local/bin"};

/* Where the operator keeps programs; only these may be named by a stranger. */
static const char *const system_roots[] = {"/usr",   "/bin", "/sbin",     "/lib",
                                           "/lib64", "/opt", "/nix/store"};

/* What programs of the distribution cannot do without, besides what is in /usr/lib. */
static const struct {
    const char *names[5];
    const char *reads[5];    /* folders */
    const char *runs[3];     /* folders of the system with programs of its own */
    const char *programs[3]; /* bare names */
} support[] = {
    {.names = {"node", "nodejs"}, .reads = {"/usr/share/nodejs", "/usr/share/node_modules"}},
    {.names = {"perl"}, .reads = {"/etc/perl", "/usr/share/perl", "/usr/share/perl5"}},
    {.names = {"git"},
     .reads = {"/usr/share/git-core"},
     .runs = {"/usr/lib/git-core", "/usr/libexec/git-core"}},
    {.names = {"java"},
     .reads = {"/etc/java-11-openjdk", "/etc/java-17-openjdk", "/etc/java-21-openjdk",
               "/etc/java-25-openjdk"}},
    {.names = {"gcc", "cc", "g++", "c++"},
     .reads = {"/usr/include"},
     .runs = {"/usr/lib/gcc", "/usr/libexec/gcc"},
     .programs = {"as", "ld"}},
};

/* Every dynamic program begins in one of these, by the name that was linked into it. */
static const char *const loaders[] = {
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-linux-armhf.so.3",
    "/lib/ld-linux-riscv64-lp64d.so.1",
    "/lib64/ld-linux-loongarch-lp64d.so.1",
    "/lib64/ld64.so.2",
    "/lib/ld64.so.1",
    "/lib/ld-linux.so.2",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
};

struct search {
    const struct cage_policy *policy;
    const struct cage_host *host;
    struct cage_plan *plan;
    struct cage_steps *steps; /* of the plan */
    struct kg_err *err;
};

static int cage_program_add_path(struct search *search, const char *path, unsigned depth);
static int cage_program_add_word(struct search *search, const char *word, unsigned depth);

static bool cage_program_is_system(const char *path)
{
    for (size_t i = 0; i < KG_COUNT(system_roots); i++)
        if (kg_path_within(path, system_roots[i]) && strcmp(path, system_roots[i]) != 0)
            return true;
    return false;
}

static bool cage_program_is_own(const struct search *search, const char *path)
{
    return kg_path_within(path, search->policy->install_dir);
}

/* The plugin's own files are at one path in the cage, and may be at another on the host. */
static char *on_host(const struct search *search, const char *path)
{
    const struct cage_policy *policy = search->policy;
    return kg_path_moved(path, policy->install_dir, cage_install_source(policy));
}

/* The real path of a folder, as the cage has it; owned. NULL: it is not there. */
static char *real_folder_of(const struct search *search, const char *folder)
{
    const struct cage_policy *policy = search->policy;
    kg_auto(kg_free) char *there = on_host(search, folder);
    kg_auto(kg_free) char *real = search->host->real(there);
    return real ? kg_path_moved(real, cage_install_source(policy), policy->install_dir) : NULL;
}

static enum cage_file cage_program_kind_of(const struct search *search, const char *path)
{
    kg_auto(kg_free) char *there = on_host(search, path);
    return search->host->kind(there);
}

static bool cage_program_is_writable(const struct search *search, const char *path)
{
    const struct cage_policy *policy = search->policy;
    for (size_t i = 0; i < policy->path_count; i++)
        if (policy->paths[i].write && kg_path_within(path, policy->paths[i].path))
            return true;
    return false;
}

/* True if a path of the policy, or a folder of one of its programs, brings it into the cage. */
static bool cage_program_is_granted(const struct search *search, const char *path)
{
    const struct cage_policy *policy = search->policy;
    for (size_t i = 0; i < policy->path_count; i++)
        if (kg_path_within(path, policy->paths[i].path))
            return true;
    for (size_t i = 0; i < policy->program_count; i++)
        if (kg_path_within(path, policy->programs[i].folder))
            return true;
    return false;
}

static int fail_missing(struct search *search, const char *program)
{
    int result = kg_fail(search->err, KG_E_CAGE, "plugin %s: program %s is not installed",
                         search->policy->name, program);
    kg_hint(search->err,
            "install it in /usr/bin or /usr/local/bin, or ship it in the plugin's folder");
    return result;
}

/* Most often it was not compiled yet. */
static int fail_unbuilt(struct search *search, const char *program)
{
    int result = kg_fail(search->err, KG_E_CAGE, "plugin %s: program %s does not exist",
                         search->policy->name, program);
    kg_hint(search->err,
            "build it, for example with make or npm run build, or fix command in the manifest");
    return result;
}

static int fail_outside(struct search *search, const char *path)
{
    int result = kg_fail(search->err, KG_E_CAGE,
                         "plugin %s: program %s is neither the plugin's nor the system's",
                         search->policy->name, path);
    kg_hint(search->err,
            "use a program below /usr or /opt, ship it in the plugin's folder, or grant "
            "the plugin to read it");
    return result;
}

static int cage_program_check_program(struct search *search, const char *path)
{
    enum cage_file kind = cage_program_kind_of(search, path);
    if (kind == CAGE_FILE_PROGRAM)
        return 0;
    if (kind == CAGE_FILE_NONE)
        return cage_program_is_own(search, path) ? fail_unbuilt(search, path)
                                                 : fail_missing(search, path);
    int result = kg_fail(search->err, KG_E_CAGE, "plugin %s: program %s %s", search->policy->name,
                         path, kind == CAGE_FILE_PLAIN ? "is not executable" : "is not a file");
    if (kind == CAGE_FILE_PLAIN)
        kg_hint(search->err, "chmod +x %s", path);
    return result;
}

static void add_executable(struct search *search, const char *path)
{
    if (!cage_program_is_own(search, path) && !cage_words_have(&search->plan->executables, path))
        cage_words_add(&search->plan->executables, path);
}

/* Names match with a version behind them too: perl5.36, gcc-12. */
static bool cage_program_is_named(const char *path, const char *program)
{
    const char *name = kg_path_name(path);
    size_t length = strlen(program);
    return strncmp(name, program, length) == 0 &&
           strspn(name + length, "0123456789.-") == strlen(name + length);
}

static bool cage_program_is_one_of(const char *path, const char *const *names)
{
    for (; *names != NULL; names++)
        if (cage_program_is_named(path, *names))
            return true;
    return false;
}

static void add_folder(struct search *search, const char *folder)
{
    kg_auto(kg_free) char *real = search->host->real(folder);
    if (real == NULL || search->host->kind(folder) != CAGE_FILE_FOLDER ||
        cage_steps_reach(search->steps, folder))
        return;
    enum cage_step_kind kind = cage_program_is_system(real) ? CAGE_STEP_SYSTEM : CAGE_STEP_BIND;
    cage_steps_add(search->steps, kind, folder, real, 0);
}

static void add_run_folder(struct search *search, const char *folder)
{
    add_folder(search, folder);
    if (cage_steps_reach(search->steps, folder))
        add_executable(search, folder);
}

/* Helpers that a program names itself may be missing: then it has to do without. */
static void add_known_support(struct search *search, const char *path, unsigned depth)
{
    for (size_t i = 0; i < KG_COUNT(support); i++) {
        if (!cage_program_is_one_of(path, support[i].names))
            continue;
        for (const char *const *folder = support[i].reads; *folder != NULL; folder++)
            add_folder(search, *folder);
        for (const char *const *folder = support[i].runs; *folder != NULL; folder++)
            if (search->host->kind(*folder) == CAGE_FILE_FOLDER)
                add_run_folder(search, *folder);
        struct search quiet = *search;
        quiet.err = NULL;
        for (const char *const *word = support[i].programs; *word != NULL; word++)
            (void)cage_program_add_word(&quiet, *word, depth + 1);
    }
}

/* The operator's own list: what is in these folders may be read and run. */
static int add_listed_support(struct search *search, const char *path)
{
    const struct cage_policy *policy = search->policy;
    for (size_t i = 0; i < policy->support_count; i++) {
        const struct cage_support *listed = &policy->supports[i];
        if (!cage_program_is_named(path, listed->program))
            continue;
        for (const char *const *folder = listed->folders; *folder != NULL; folder++) {
            if (!cage_path_plain(*folder) || !cage_place_may_be_given(*folder))
                return kg_fail(search->err, KG_E_CAGE,
                               "plugin %s: program %s: %s cannot be a folder for it", policy->name,
                               listed->program, *folder);
            add_run_folder(search, *folder);
        }
    }
    return 0;
}

/* A program that has a bin folder of its own in /usr/lib has its helpers around it: JVMs, LLVM. */
static void add_home(struct search *search, const char *file)
{
    kg_auto(kg_free) char *bin = kg_path_folder(file);
    kg_auto(kg_free) char *home = kg_path_folder(bin);
    if (strcmp(kg_path_name(bin), "bin") == 0 && kg_path_within(home, "/usr/lib") &&
        strcmp(home, "/usr/lib") != 0)
        add_executable(search, home);
}

/* A name says something about a program of the operator's, not about one of the plugin's. */
static int add_support(struct search *search, const char *path, unsigned depth)
{
    if (cage_program_is_own(search, path) || cage_program_is_writable(search, path))
        return 0;
    add_known_support(search, path, depth);
    return add_listed_support(search, path);
}

static void cage_program_add_file(struct search *search, const char *path)
{
    add_executable(search, path);
    add_home(search, path);
    if (cage_program_is_own(search, path) || cage_program_is_granted(search, path) ||
        cage_steps_reach(search->steps, path))
        return;
    /* What is not the system's may sit where the cage's user cannot go; that is staged. */
    enum cage_step_kind kind = cage_program_is_system(path) ? CAGE_STEP_SYSTEM : CAGE_STEP_BIND;
    cage_steps_add(search->steps, kind, path, path, 0);
}

static void add_link(struct search *search, const char *path, const char *target)
{
    if (!cage_program_is_own(search, path) && !cage_program_is_granted(search, path) &&
        !cage_steps_reach(search->steps, path))
        cage_steps_add(search->steps, CAGE_STEP_LINK, path, target, 0);
}

/*
 * Follows path, recreating each link on the way, to the file itself. A stranger's word carries only
 * into the system's folders; from there on the links are the operator's, unless the plugin may
 * write there.
 */
static char *cage_program_follow(struct search *search, const char *start)
{
    kg_auto(kg_free) char *path = kg_strdup(start);
    bool trusted = false;
    for (unsigned links = 0; links < LINKS_MAX; links++) {
        if (!trusted && !cage_program_is_own(search, path) && !cage_program_is_system(path) &&
            !cage_program_is_granted(search, path)) {
            fail_outside(search, path);
            return NULL;
        }
        trusted = (trusted || cage_program_is_system(path)) && !cage_program_is_own(search, path) &&
                  !cage_program_is_writable(search, path);
        kg_auto(kg_free) char *folder = kg_path_folder(path);
        kg_auto(kg_free) char *real_folder = real_folder_of(search, folder);
        if (real_folder == NULL) {
            fail_missing(search, path);
            return NULL;
        }
        if (strcmp(folder, real_folder) != 0) {
            char *moved = cage_path_join(real_folder, kg_path_name(path));
            add_link(search, path, moved);
            free(path);
            path = moved;
            continue;
        }
        kg_auto(kg_free) char *there = on_host(search, path);
        kg_auto(kg_free) char *target = search->host->link(there);
        if (target == NULL)
            return kg_steal(&path);
        add_link(search, path, target);
        free(path);
        path = cage_path_join(folder, target);
    }
    kg_fail(search->err, KG_E_CAGE, "plugin %s: program %s: too many links", search->policy->name,
            start);
    return NULL;
}

/* A word as a shell in the plugin's folder would take it. Owned; NULL if there is no such name. */
static char *locate(struct search *search, const char *word, bool own_first)
{
    const char *install_dir = search->policy->install_dir;
    if (strchr(word, '/') != NULL)
        return cage_path_join(install_dir, word);
    kg_auto(kg_free) char *own = cage_path_join(install_dir, word);
    if (own_first && cage_program_kind_of(search, own) != CAGE_FILE_NONE)
        return kg_steal(&own);
    for (size_t i = 0; i < KG_COUNT(program_folders); i++) {
        kg_auto(kg_free) char *path = cage_path_join(program_folders[i], word);
        if (search->host->kind(path) != CAGE_FILE_NONE)
            return kg_steal(&path);
    }
    return NULL;
}

static int cage_program_add_word(struct search *search, const char *word, unsigned depth)
{
    kg_auto(kg_free) char *path = locate(search, word, false);
    if (path == NULL)
        return fail_missing(search, word);
    return cage_program_add_path(search, path, depth);
}

static size_t split_words(char *text, const char *ret_words[WORDS_MAX])
{
    size_t count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(text, " \t", &rest); word != NULL && count < WORDS_MAX;
         word = strtok_r(NULL, " \t", &rest))
        ret_words[count++] = word;
    return count;
}

/* What env would run: the first word that is neither an option nor NAME=value. */
static int add_env_program(struct search *search, const char *const *words, size_t count,
                           unsigned depth)
{
    for (size_t i = 0; i < count; i++) {
        const char *word = words[i];
        if (strncmp(word, "-S", 2) == 0) {
            const char *line = word[2] != '\0' ? word + 2 : i + 1 < count ? words[i + 1] : "";
            kg_auto(kg_free) char *copy = kg_strdup(line);
            const char *inner[WORDS_MAX];
            size_t inner_count = split_words(copy, inner);
            if (depth >= INTERPRETERS_MAX)
                return 0;
            return add_env_program(search, inner, inner_count, depth + 1);
        }
        if (strcmp(word, "-u") == 0 || strcmp(word, "-C") == 0) {
            i++;
        } else if (word[0] != '-' && strchr(word, '=') == NULL) {
            return cage_program_add_word(search, word, depth);
        }
    }
    return 0;
}

static bool is_env(const char *path)
{
    return strcmp(kg_path_name(path), "env") == 0;
}

/* The rest of a `#!` line reaches the interpreter as one argument; only env takes it apart. */
static int add_interpreter(struct search *search, char *line, unsigned depth)
{
    char *interpreter = line + strspn(line, " \t");
    char *rest = interpreter + strcspn(interpreter, " \t");
    if (*rest != '\0')
        *rest++ = '\0';
    rest += strspn(rest, " \t");
    for (size_t length = strlen(rest); length > 0 && strchr(" \t\r", rest[length - 1]); length--)
        rest[length - 1] = '\0';

    kg_auto(kg_free) char *path = cage_path_join(search->policy->install_dir, interpreter);
    int result = cage_program_add_path(search, path, depth);
    if (result < 0 || !is_env(interpreter) || *rest == '\0')
        return result;
    const char *word = rest;
    return add_env_program(search, &word, 1, depth);
}

/* Adds a program and, if it is a script, what runs it. */
static int cage_program_add_path(struct search *search, const char *path, unsigned depth)
{
    kg_auto(kg_free) char *file = cage_program_follow(search, path);
    if (file == NULL)
        return -1;
    int result = cage_program_check_program(search, file);
    if (result < 0)
        return result;
    cage_program_add_file(search, file);
    result = add_support(search, path, depth);
    if (result == 0)
        result = add_support(search, file, depth);
    if (result < 0)
        return result;

    char head[HEAD_BYTES + 1];
    kg_auto(kg_free) char *there = on_host(search, file);
    size_t length = search->host->head(there, head, HEAD_BYTES);
    head[length] = '\0';
    if (depth >= INTERPRETERS_MAX || strncmp(head, "#!", 2) != 0)
        return 0;
    head[strcspn(head, "\n")] = '\0';
    return add_interpreter(search, head + 2, depth + 1);
}

static int cage_program_add_command(struct search *search, char **ret_path)
{
    const struct cage_policy *policy = search->policy;
    if (policy->command[0] == NULL || policy->command[0][0] == '\0')
        return kg_fail(search->err, KG_E_CAGE, "plugin %s: its command is empty", policy->name);
    kg_auto(kg_free) char *path = locate(search, policy->command[0], true);
    if (path == NULL)
        return fail_missing(search, policy->command[0]);
    int result = cage_program_add_path(search, path, 0);
    if (result == 0 && is_env(path) && !cage_program_is_own(search, path)) {
        size_t count = 0;
        while (policy->command[count + 1] != NULL)
            count++;
        result = add_env_program(search, policy->command + 1, count, 0);
    }
    if (result == 0)
        *ret_path = kg_steal(&path);
    return result;
}

static int cage_program_add_granted(struct search *search)
{
    for (size_t i = 0; i < search->policy->program_count; i++) {
        const struct cage_program *program = &search->policy->programs[i];
        kg_auto(kg_free) char *path = locate(search, program->program, false);
        int result = path == NULL ? fail_missing(search, program->program)
                                  : cage_program_add_path(search, path, 0);
        if (result < 0)
            return result;
        cage_grants_add(&search->plan->grants, CAGE_GRANT_RUN, path, program->folder);
    }
    return 0;
}

static void add_loaders(struct search *search)
{
    for (size_t i = 0; i < KG_COUNT(loaders); i++) {
        bool is_there = search->host->kind(loaders[i]) == CAGE_FILE_PROGRAM;
        kg_auto(kg_free) char *real = is_there ? search->host->real(loaders[i]) : NULL;
        if (real != NULL && cage_steps_reach(search->steps, real))
            add_executable(search, real);
    }
}

/* The name, in the cage, of what a path of a tree leads to; owned. NULL: to nothing in it. */
static char *real_in_tree(const struct search *search, const struct cage_tree *tree,
                          const char *path)
{
    kg_auto(kg_free) char *there = kg_path_moved(path, tree->path, tree->source);
    kg_auto(kg_free) char *real = search->host->real(there);
    if (real == NULL || !kg_path_within(real, tree->source) ||
        search->host->kind(real) != CAGE_FILE_PROGRAM)
        return NULL;
    return kg_path_moved(real, tree->source, tree->path);
}

/* All of the tree is seen already; of its programs only this one, and its loader, may be run. */
static int add_of_tree(struct search *search, const struct cage_tree *tree, char **ret_path)
{
    const struct cage_policy *policy = search->policy;
    const char *program = policy->command[0];
    kg_auto(kg_free) char *real = program != NULL && kg_path_within(program, tree->path)
                                      ? real_in_tree(search, tree, program)
                                      : NULL;
    if (policy->program_count > 0)
        return kg_fail(search->err, KG_E_CAGE,
                       "plugin %s: it may run %s, and its /usr is not this machine's", policy->name,
                       policy->programs[0].program);
    if (real == NULL)
        return kg_fail(search->err, KG_E_CAGE, "plugin %s: program %s is not in %s", policy->name,
                       program ? program : "", tree->source);
    add_executable(search, real);
    for (size_t i = 0; i < KG_COUNT(loaders); i++) {
        kg_auto(kg_free) char *name = cage_path_join(tree->path, loaders[i] + 1);
        kg_auto(kg_free) char *loader = real_in_tree(search, tree, name);
        if (loader != NULL)
            add_executable(search, loader);
    }
    *ret_path = kg_strdup(program);
    return 0;
}

int cage_program_add(const struct cage_policy *policy, const struct cage_facts *facts,
                     struct cage_plan *plan, char **ret_path, struct kg_err *err)
{
    struct search search = {policy, facts->host, plan, &plan->steps, err};
    const struct cage_tree *tree = cage_system_tree(policy);
    if (tree != NULL)
        return add_of_tree(&search, tree, ret_path);
    kg_auto(kg_free) char *path = NULL;
    int result = cage_program_add_command(&search, &path);
    if (result == 0)
        result = cage_program_add_granted(&search);
    if (result < 0)
        return result;
    add_loaders(&search);
    cage_words_add(&plan->executables, policy->install_dir);
    *ret_path = kg_steal(&path);
    return 0;
}
