/*
 * What looks like a key. A value that is wrongly taken for one only moves to the store of secrets,
 * where it is as good as before; one that is missed stays in a manifest: so the rules are wide.
 */
#include "import/internal.h"

#define LONG_WORD 24 /* letters and digits of so many, mixed, are nobody's word */

/* Parts of names: between separators, in any case. */
static const char *const parts[] = {
    "KEY",  "APIKEY",     "TOKEN",       "SECRET", "PASSWORD", "PASSWD",        "PASS",   "PAT",
    "AUTH", "CREDENTIAL", "CREDENTIALS", "COOKIE", "DSN",      "AUTHORIZATION", "BEARER", "PRIVATE",
};
/* What tokens of well-known services begin with. */
static const char *const starts[] = {
    "ghp_",  "gho_",    "github_pat_", "glpat-", "sk-",     "sk_live_", "sk_test_",
    "xoxb-", "xoxp-",   "xapp-",       "AKIA",   "AIza",    "ya29.",    "eyJ",
    "hf_",   "npm_",    "pk_live_",    "ntn_",   "secret_", "lin_api_", "tvly-",
    "figd_", "dop_v1_", "Bearer ",     "Basic ",
};

static bool is_part(struct kg_str part)
{
    for (size_t i = 0; i < KG_COUNT(parts); i++)
        if (part.length == strlen(parts[i]) && strncasecmp(part.data, parts[i], part.length) == 0)
            return true;
    return false;
}

static bool name_is_key(struct kg_str name)
{
    size_t start = 0;
    for (size_t i = 0; i <= name.length; i++) {
        if (i < name.length && kg_is_letter_or_digit(name.data[i]))
            continue;
        if (is_part((struct kg_str){name.data + start, i - start}))
            return true;
        start = i + 1;
    }
    return kg_str_ends(name, "KEY") || kg_str_ends(name, "TOKEN") || kg_str_ends(name, "Key") ||
           kg_str_ends(name, "Token");
}

/* postgres://user:password@host */
static bool has_password(struct kg_str word)
{
    const char *scheme = memmem(word.data, word.length, "://", 3);
    if (scheme == NULL)
        return false;
    struct kg_str rest = kg_str_from(word, (size_t)(scheme + 3 - word.data));
    struct kg_str authority = kg_str_cut(&rest, '/');
    struct kg_str user = kg_str_cut(&authority, '@');
    return authority.length > 0 && memchr(user.data, ':', user.length) != NULL;
}

/* Long, and letters of both cases or hex, with digits among them. */
static bool is_random(struct kg_str word)
{
    size_t digits = 0, letters = 0;
    for (size_t i = 0; i < word.length; i++) {
        char c = word.data[i];
        digits += kg_is_digit(c);
        letters += kg_is_letter(c);
        if (!kg_is_letter_or_digit(c) && c != '_' && c != '-')
            return false;
    }
    return word.length >= LONG_WORD && digits * 6 >= word.length && letters > 0;
}

bool import_word_is_key(struct kg_str word)
{
    for (size_t i = 0; i < KG_COUNT(starts); i++)
        if (kg_str_starts(word, starts[i]) && word.length > strlen(starts[i]) + 4)
            return true;
    return word.length > 0 && (has_password(word) || is_random(word));
}

bool import_is_key(struct kg_str name, struct kg_str value)
{
    return value.length > 0 && (name_is_key(name) || import_word_is_key(value));
}
