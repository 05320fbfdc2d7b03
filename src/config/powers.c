/*
 * What scripts may be granted: one row is the whole truth about one of them. A name that is in no
 * row is an error of the file that it stands in: a grant with a slip in it would be none at all.
 */
#include "config/config.h"

#include <string.h>

#define WHAT_BYTES_MAX 255

struct power {
    const char *of;   /* what it is narrowed to by NAME:..., "PROGRAM"; NULL: it never is */
    bool only;        /* it is given narrowed alone */
    const char *mark; /* what besides letters and digits may be in that */
    const char *words;
};

const char *const config_power_names[POWER_COUNT] = {
    [POWER_SESSION_WRITE] = "session_write",
    [POWER_EXEC] = "exec",
    [POWER_FS_WRITE] = "fs_write",
    [POWER_CONTEXT] = "context",
    [POWER_PROVIDER] = "provider",
    [POWER_ENV] = "env",
    [POWER_NET] = "net",
    [POWER_CRYPTO] = "crypto",
};

static const struct power powers[POWER_COUNT] = {
    [POWER_SESSION_WRITE] = {.words = "list the entries of the conversation, move it to another "
                                      "branch or session, and say things in the user's place"},
    [POWER_EXEC] = {"PROGRAM", false, "._-+",
                    "run programs of this machine in the session's folder, which they may change"},
    [POWER_FS_WRITE] = {.words = "write files in the session's folder"},
    [POWER_CONTEXT] = {.words = "read all that is said to the model, and change it on its way"},
    [POWER_PROVIDER] = {.words = "register model providers; not used in this version"},
    [POWER_ENV] = {"NAME", true, "_", "read a variable of the daemon's environment"},
    [POWER_NET] = {"HOST", false, ".-_",
                   "send requests to hosts on the Internet, and read what "
                   "they answer"},
    [POWER_CRYPTO] = {.words = "use cryptographic functions; not used in this version"},
};

/* "exec:git" is "exec", and "git" in *ret_what. */
static struct kg_str powers_name_of(struct kg_str grant, struct kg_str *ret_what)
{
    const char *colon = grant.length > 0 ? memchr(grant.data, ':', grant.length) : NULL;
    size_t length = colon != NULL ? (size_t)(colon - grant.data) : grant.length;
    *ret_what = colon != NULL ? kg_str_from(grant, length + 1) : KG_STR_NULL;
    return kg_str_first(grant, length);
}

/* POWER_COUNT: there is none of that name. */
static enum config_power powers_find(struct kg_str name)
{
    for (enum config_power i = 0; i < POWER_COUNT; i++)
        if (kg_str_is(name, config_power_names[i]))
            return i;
    return POWER_COUNT;
}

static bool is_narrowed_well(const struct power *power, struct kg_str what)
{
    if (what.data == NULL)
        return !power->only;
    if (power->of == NULL || what.length == 0 || what.length > WHAT_BYTES_MAX)
        return false;
    for (size_t i = 0; i < what.length; i++)
        if (!kg_is_letter_or_digit(what.data[i]) &&
            memchr(power->mark, what.data[i], strlen(power->mark)) == NULL)
            return false;
    return true;
}

bool config_grant_fits(struct kg_str grant)
{
    struct kg_str what;
    enum config_power power = powers_find(powers_name_of(grant, &what));
    return power < POWER_COUNT && is_narrowed_well(&powers[power], what);
}

void config_grant_explain(struct kg_str grant, struct kg_err *err)
{
    struct kg_str what;
    struct kg_str name = powers_name_of(grant, &what);
    enum config_power power = powers_find(name);
    if (power == POWER_COUNT) {
        const char *nearest = kg_str_nearest(name, config_power_names, POWER_COUNT);
        kg_fail(err, KG_E_INVALID_CONFIG, "there is no capability \"%.*s\"",
                KG_STR_CUT(name, KG_CUT_NAME));
        kg_hint(err, nearest != NULL ? "did you mean %s?" : "kaged-script(7) lists them", nearest);
    } else if (powers[power].of != NULL) {
        kg_fail(err, KG_E_INVALID_CONFIG, "\"%.*s\" is not a capability",
                KG_STR_CUT(grant, KG_CUT_NAME));
        kg_hint(err, "write %s%s%s:%s", powers[power].only ? "" : config_power_names[power],
                powers[power].only ? "" : ", or ", config_power_names[power], powers[power].of);
    } else {
        kg_fail(err, KG_E_INVALID_CONFIG, "%s can only be granted as a whole",
                config_power_names[power]);
        kg_hint(err, "write %s", config_power_names[power]);
    }
}

bool config_grants_have(char *const *grants, enum config_power power)
{
    struct kg_str what;
    for (; grants != NULL && *grants != NULL; grants++)
        if (powers_find(powers_name_of(kg_str(*grants), &what)) == power)
            return true;
    return false;
}

static bool any_gives(char *const *grants, enum config_power power, struct kg_str wanted,
                      bool whole)
{
    struct kg_str what;
    for (; grants != NULL && *grants != NULL; grants++)
        if (powers_find(powers_name_of(kg_str(*grants), &what)) == power &&
            (what.data == NULL ? whole : kg_str_equal(what, wanted)))
            return true;
    return false;
}

bool config_grants_cover(char *const *grants, enum config_power power, struct kg_str what)
{
    return any_gives(grants, power, what, true);
}

bool config_grants_name(char *const *grants, enum config_power power, struct kg_str what)
{
    return any_gives(grants, power, what, false);
}

void config_grant_words(struct kg_str grant, struct kg_buf *out)
{
    struct kg_str what;
    enum config_power power = powers_find(powers_name_of(grant, &what));
    if (power == POWER_COUNT)
        return;
    kg_buf_text(out, powers[power].words);
    if (what.data != NULL)
        kg_buf_printf(out, ": %.*s alone", KG_STR_ARG(what));
}
