/*
 * Where a plugin comes from, in the one form by which two installs of a name are told apart:
 * versions and refs are left out, and what kaged brought itself is the same wherever that was
 * installed to.
 */
#include "store/internal.h"

#include "config/config.h"

#include <stdlib.h>

static char *key_of_folder(const struct store_source *source, const struct manifest *manifest)
{
    kg_auto(kg_free) char *share = config_share_dir();
    kg_auto(kg_free) char *plugins = kg_format("%s/plugins", share);
    kg_auto(kg_free) char *shipped = realpath(plugins, NULL);
    kg_auto(kg_free) char *place = kg_format("%s/%s", shipped ? shipped : "", manifest->name);
    if (shipped != NULL && strcmp(source->place, place) == 0)
        return kg_format("kaged:%s", manifest->name);
    return kg_format("folder:%s", source->place);
}

/* The names of archives have versions in them: the folder counts, and what is inside. */
static char *key_of_archive(const struct store_source *source, const struct manifest *manifest)
{
    size_t folder = (size_t)(strrchr(source->place, '/') - source->place);
    return kg_format("archive:%.*s/%s", (int)folder, source->place, manifest->package);
}

/* A host is one in any case, and a repository one with and without ".git". */
static char *key_of_git(const struct store_source *source, const struct manifest *manifest)
{
    (void)manifest;
    static const char suffix[] = ".git";
    struct kg_str url = kg_str(source->place);
    while (url.length > 0 && url.data[url.length - 1] == '/')
        url.length--;
    if (kg_str_ends(url, suffix))
        url.length -= strlen(suffix);
    char *key = kg_format("git:%.*s", KG_STR_ARG(url));
    char *host = strstr(key, "://");
    for (char *at = host ? host + 3 : key; *at != '\0' && *at != '/'; at++)
        *at = kg_is_letter(*at) ? (char)(*at | 0x20) : *at;
    return key;
}

static char *key_of_npm(const struct store_source *source, const struct manifest *manifest)
{
    (void)manifest;
    return kg_format("npm:%s", source->place);
}

static char *key_of_server(const struct store_source *source, const struct manifest *manifest)
{
    (void)manifest;
    return kg_format("%s:%s", store_source_kind_names[source->kind], source->place);
}

char *store_source_key(const struct store_source *source, const struct manifest *manifest)
{
    static char *(*const keys[])(const struct store_source *, const struct manifest *) = {
        [STORE_FOLDER] = key_of_folder,  [STORE_ARCHIVE] = key_of_archive,
        [STORE_GIT] = key_of_git,        [STORE_NPM] = key_of_npm,
        [STORE_PROGRAM] = key_of_server, [STORE_REMOTE] = key_of_server,
        [STORE_CATALOG] = key_of_server,
    };
    return keys[source->kind](source, manifest);
}

bool store_offer_is_of_other_source(const struct store_offer *offer)
{
    return offer->from != NULL && offer->installed_from != NULL &&
           strcmp(offer->from, offer->installed_from) != 0;
}

int store_check_source(const struct store_offer *offer, bool replace_source, struct kg_err *err)
{
    if (replace_source || !store_offer_is_of_other_source(offer))
        return 0;
    kg_fail(err, KG_E_REFUSED,
            "plugin %s is installed from another source: %" KG_S_CAUSE ", and this is %" KG_S_CAUSE,
            offer->manifest->name, offer->installed_from, offer->from);
    return kg_hint(err, "another plugin in its place needs an approval of its own: "
                        "--replace-source, or replace_source over the API");
}
