/*
 * What a command needs from the host, and no more: its program, the links that lead to it, the
 * interpreter that its first line names. A path that a stranger wrote (in the manifest, or as a
 * link in the plugin's folder) may name a system program or a file of the plugin, never another
 * file.
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

/* What the interpreters of the distribution read besides /usr/lib. */
static const struct {
    const char *program;
    const char *folders[4];
} support[] = {
    {"node", {"/usr/share/nodejs", "/usr/share/node_modules"}},
    {"nodejs", {"/usr/share/nodejs", "/usr/share/node_modules"}},
    {"perl", {"/etc/perl", "/usr/share/perl", "/usr/share/perl5"}},
    {"git", {"/usr/share/git-core"}},
};

struct search {
    const struct cage_policy *policy;
    const struct cage_host *host;
    struct cage_steps *steps;
    struct kg_err *err;
};

static int add_path(struct search *search, const char *path, unsigned depth);

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == path ? kg_strdup("/")
                         : kg_str_dup((struct kg_str){path, (size_t)(slash - path)});
}

static bool is_system(const char *path)
{
    for (size_t i = 0; i < KG_COUNT(system_roots); i++)
        if (cage_path_within(path, system_roots[i]) && strcmp(path, system_roots[i]) != 0)
            return true;
    return false;
}

static bool is_own(const struct search *search, const char *path)
{
    return cage_path_within(path, search->policy->install_dir);
}

static int fail_missing(struct search *search, const char *program)
{
    int result = kg_fail(search->err, KG_E_CAGE, "plugin %s: program %s is not on this machine",
                         search->policy->name, program);
    kg_hint(search->err,
            "install it in /usr/bin or /usr/local/bin, or ship it in the plugin's folder");
    return result;
}

static int fail_outside(struct search *search, const char *path)
{
    int result = kg_fail(search->err, KG_E_CAGE,
                         "plugin %s: program %s is neither the plugin's nor the system's",
                         search->policy->name, path);
    kg_hint(search->err, "use a program below /usr or /opt, or ship it in the plugin's folder");
    return result;
}

static int check_program(struct search *search, const char *path)
{
    enum cage_file kind = search->host->kind(path);
    if (kind == CAGE_FILE_PROGRAM)
        return 0;
    if (kind == CAGE_FILE_NONE)
        return fail_missing(search, path);
    int result = kg_fail(search->err, KG_E_CAGE, "plugin %s: program %s %s", search->policy->name,
                         path, kind == CAGE_FILE_PLAIN ? "is not executable" : "is not a file");
    if (kind == CAGE_FILE_PLAIN)
        kg_hint(search->err, "chmod +x %s", path);
    return result;
}

/* Support folders are matched by name, also with a version behind it: perl5.36. */
static void add_support(struct search *search, const char *path)
{
    const char *name = base_name(path);
    for (size_t i = 0; i < KG_COUNT(support); i++) {
        size_t length = strlen(support[i].program);
        if (strncmp(name, support[i].program, length) != 0 ||
            strspn(name + length, "0123456789.") != strlen(name + length))
            continue;
        for (const char *const *folder = support[i].folders; *folder != NULL; folder++)
            if (!cage_steps_reach(search->steps, *folder) &&
                search->host->kind(*folder) == CAGE_FILE_FOLDER)
                cage_steps_add(search->steps, CAGE_STEP_SYSTEM, *folder, *folder, 0);
    }
}

static void add_file(struct search *search, const char *path)
{
    if (is_own(search, path) || cage_steps_reach(search->steps, path))
        return;
    /* What is not the system's may sit where the cage's user cannot go; that is staged. */
    enum cage_step_kind kind = is_system(path) ? CAGE_STEP_SYSTEM : CAGE_STEP_BIND;
    cage_steps_add(search->steps, kind, path, path, 0);
}

static void add_link(struct search *search, const char *path, const char *target)
{
    if (!is_own(search, path) && !cage_steps_reach(search->steps, path))
        cage_steps_add(search->steps, CAGE_STEP_LINK, path, target, 0);
}

/*
 * Follows path, recreating each link on the way, to the file itself. A stranger's word carries only
 * into the system's folders; from there on the links are the operator's.
 */
static char *follow(struct search *search, const char *start)
{
    kg_auto(kg_free) char *path = kg_strdup(start);
    bool trusted = false;
    for (unsigned links = 0; links < LINKS_MAX; links++) {
        if (!trusted && !is_own(search, path) && !is_system(path)) {
            fail_outside(search, path);
            return NULL;
        }
        trusted = !is_own(search, path);
        kg_auto(kg_free) char *folder = folder_of(path);
        kg_auto(kg_free) char *real_folder = search->host->real(folder);
        if (real_folder == NULL) {
            fail_missing(search, path);
            return NULL;
        }
        if (strcmp(folder, real_folder) != 0) {
            char *moved = cage_path_join(real_folder, base_name(path));
            add_link(search, path, moved);
            free(path);
            path = moved;
            continue;
        }
        kg_auto(kg_free) char *target = search->host->link(path);
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
    if (own_first && search->host->kind(own) != CAGE_FILE_NONE)
        return kg_steal(&own);
    for (size_t i = 0; i < KG_COUNT(program_folders); i++) {
        kg_auto(kg_free) char *path = cage_path_join(program_folders[i], word);
        if (search->host->kind(path) != CAGE_FILE_NONE)
            return kg_steal(&path);
    }
    return NULL;
}

static int add_word(struct search *search, const char *word, unsigned depth)
{
    kg_auto(kg_free) char *path = locate(search, word, false);
    if (path == NULL)
        return fail_missing(search, word);
    return add_path(search, path, depth);
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

/* What env would run: the first word that is no option and no NAME=value. */
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
            return add_word(search, word, depth);
        }
    }
    return 0;
}

static bool is_env(const char *path)
{
    return strcmp(base_name(path), "env") == 0;
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
    int result = add_path(search, path, depth);
    if (result < 0 || !is_env(interpreter) || *rest == '\0')
        return result;
    const char *word = rest;
    return add_env_program(search, &word, 1, depth);
}

/* Adds a program and, if it is a script, what runs it. */
static int add_path(struct search *search, const char *path, unsigned depth)
{
    kg_auto(kg_free) char *file = follow(search, path);
    if (file == NULL)
        return -1;
    int result = check_program(search, file);
    if (result < 0)
        return result;
    add_file(search, file);
    add_support(search, path);
    add_support(search, file);

    char head[HEAD_BYTES + 1];
    size_t length = search->host->head(file, head, HEAD_BYTES);
    head[length] = '\0';
    if (depth >= INTERPRETERS_MAX || strncmp(head, "#!", 2) != 0)
        return 0;
    head[strcspn(head, "\n")] = '\0';
    return add_interpreter(search, head + 2, depth + 1);
}

int cage_program_add(const struct cage_policy *policy, const struct cage_facts *facts,
                     struct cage_steps *steps, char **ret_path, struct kg_err *err)
{
    struct search search = {policy, facts->host, steps, err};
    if (policy->command[0] == NULL || policy->command[0][0] == '\0')
        return kg_fail(err, KG_E_CAGE, "plugin %s: its command is empty", policy->name);
    kg_auto(kg_free) char *path = locate(&search, policy->command[0], true);
    if (path == NULL)
        return fail_missing(&search, policy->command[0]);
    int result = add_path(&search, path, 0);
    if (result == 0 && is_env(path) && !is_own(&search, path)) {
        size_t count = 0;
        while (policy->command[count + 1] != NULL)
            count++;
        result = add_env_program(&search, policy->command + 1, count, 0);
    }
    if (result == 0)
        *ret_path = kg_steal(&path);
    return result;
}
