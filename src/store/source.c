/*
 * What a SOURCE text means. A path is made real here, once, so that what is shown, opened and put
 * into the cage is one and the same; a URL is taken apart only as far as the gatekeeper and git
 * need it, and nothing in it can be read as an option or carry a password.
 */
#include "store/source.h"
#include "store/internal.h"

#include "base/semver.h"
#include "base/url.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#define TEXT_BYTES_MAX    2048
#define VERSION_BYTES_MAX 128
#define PACKAGE_BYTES_MAX 214 /* as npm has it */
#define NPM               "npm:"
#define CATALOG           "catalog:"
#define PROGRAM           "program:"
#define REMOTE            "mcp+"

const char *const store_source_kind_names[] = {
    [STORE_FOLDER] = "folder",   [STORE_ARCHIVE] = "archive", [STORE_GIT] = "git",
    [STORE_NPM] = "npm",         [STORE_PROGRAM] = "program", [STORE_REMOTE] = "remote",
    [STORE_CATALOG] = "catalog",
};

/* How an archive is called, and what kaged-unpack calls its format. */
static const struct {
    const char *suffix, *format;
} archives[] = {{".zip", "zip"}, {".tar", "tar"},  {".tar.gz", "tar"},
                {".tgz", "tar"}, {".mcpb", "zip"}, {".dxt", "zip"}};

/* -- texts ------------------------------------------------------------------------------------- */

static int store_source_refuse(struct kg_err *err, const char *text, const char *why,
                               const char *hint)
{
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    kg_buf_escaped(&shown, (struct kg_str){text, strnlen(text, TEXT_BYTES_MAX)});
    int result =
        kg_fail(err, KG_E_USAGE, "source %" KG_S_CAUSE ": %s", kg_buf_terminate(&shown), why);
    if (hint != NULL)
        kg_hint(err, "%s", hint);
    return result;
}

static bool ends_in(const char *text, const char *suffix)
{
    size_t length = strlen(text), tail = strlen(suffix);
    return length > tail && strcasecmp(text + length - tail, suffix) == 0;
}

const char *source_archive_format(const char *path)
{
    for (size_t i = 0; i < KG_COUNT(archives); i++)
        if (ends_in(path, archives[i].suffix))
            return archives[i].format;
    return NULL;
}

static int store_source_check_text(const char *text, struct kg_err *err)
{
    size_t length = strlen(text);
    if (length == 0 || length > TEXT_BYTES_MAX)
        return store_source_refuse(err, text, length == 0 ? "it is empty" : "it is too long", NULL);
    for (const char *at = text; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7F)
            return store_source_refuse(err, text, "it contains a control character", NULL);
    if (kg_utf8_valid(kg_str(text)) != length)
        return store_source_refuse(err, text, "it is not UTF-8", NULL);
    return 0;
}

/* It becomes the name of a tag, or says which of the tags or versions may be taken. */
static int store_source_check_version(const char *version, struct kg_err *err)
{
    static const char allowed[] = "0123456789abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ.+-";
    size_t length = strlen(version);
    if (length > 0 && length <= VERSION_BYTES_MAX && strspn(version, allowed) == length &&
        kg_is_letter_or_digit(version[0]) && strstr(version, "..") == NULL)
        return 0;
    struct kg_semver_range *range =
        length > 0 ? kg_semver_range_parse(kg_str(version), NULL) : NULL;
    bool is_range = range != NULL;
    kg_semver_range_free(range);
    return is_range
               ? 0
               : kg_fail(err, KG_E_USAGE,
                         "version \"%" KG_S_WORD "\" is neither like 1.2.3 nor a range like ^1.2",
                         version);
}

/* -- URLs -------------------------------------------------------------------------------------- */

static struct kg_str authority_of(const char *url)
{
    const char *start = url + strlen("https://");
    return (struct kg_str){start, strcspn(start, "/")};
}

bool source_host(const char *url, char **ret_host, uint16_t *ret_port)
{
    return strncmp(url, "https://", 8) == 0 && kg_url_host(url, ret_host, ret_port);
}

bool source_web_host(const char *url, char **ret_host, uint16_t *ret_port)
{
    const char *start = strstr(url, "://");
    if (start == NULL)
        return false;
    size_t scheme = (size_t)(start + 3 - url), length = strcspn(url + scheme, "/?#");
    const char *user = memrchr(url + scheme, '@', length);
    kg_auto(kg_free) char *plain =
        kg_format("%.*s%s", (int)scheme, url, user ? user + 1 : url + scheme);
    return kg_url_host(plain, ret_host, ret_port);
}

/* url: from "https://" on. */
static int check_https(const char *text, const char *url, struct kg_err *err)
{
    struct kg_str authority = authority_of(url);
    kg_auto(kg_free) char *host = NULL;
    uint16_t port;
    for (const char *at = url; *at != '\0'; at++)
        if (*at <= ' ' || *at >= 0x7F || strchr("\"<>\\^`{|}", *at) != NULL)
            return store_source_refuse(err, text, "it contains a character that no URL may have",
                                       NULL);
    if (memchr(authority.data, '@', authority.length) != NULL)
        return store_source_refuse(err, text,
                                   "a password or user name would be kept with it and shown",
                                   "clone it yourself, and install that folder");
    if (!source_host(url, &host, &port))
        return store_source_refuse(err, text, "its host or port cannot be read", NULL);
    if (strlen(authority.data + authority.length) < 2)
        return store_source_refuse(err, text, "it names a host, but no repository", NULL);
    if (strpbrk(url, "#?") != NULL)
        return store_source_refuse(err, text, "a repository has no ? and # in its URL",
                                   "give the version by itself");
    if (source_archive_format(url) != NULL)
        return store_source_refuse(
            err, text, "archives are not downloaded",
            "download it yourself, and install that file; git repositories are fetched");
    return 0;
}

static int parse_https(const char *text, const char *url, struct store_source *source,
                       struct kg_err *err)
{
    int result = check_https(text, url, err);
    if (result < 0)
        return result;
    source->kind = STORE_GIT;
    source->place = kg_strdup(url);
    return 0;
}

/* -- paths ------------------------------------------------------------------------------------- */

static int real_path(const char *text, const char *path, char **ret_real, struct stat *ret_status,
                     struct kg_err *err)
{
    char *real = realpath(path, NULL);
    if (real == NULL || stat(real, ret_status) < 0) {
        int errnum = errno;
        free(real);
        int result = kg_fail_errno(err, errnum, "source %" KG_S_CAUSE, text);
        if (err != NULL && errnum == ENOENT)
            err->code = KG_E_NOT_FOUND;
        return result;
    }
    *ret_real = real;
    return 0;
}

static int parse_file_url(const char *text, const char *url, struct store_source *source,
                          struct kg_err *err)
{
    const char *path = url + strlen("file://");
    kg_auto(kg_free) char *real = NULL;
    struct stat status;
    if (path[0] != '/')
        return store_source_refuse(err, text, "a file: URL must be file:// and an absolute path",
                                   NULL);
    if (strchr(path, '%') != NULL)
        return store_source_refuse(err, text,
                                   "the path of a file: URL is taken as it is, without %", NULL);
    int result = real_path(text, path, &real, &status, err);
    if (result < 0)
        return result;
    if (!S_ISDIR(status.st_mode))
        return store_source_refuse(err, text, "it is not the folder of a git repository",
                                   "for an archive, give its path without file://");
    source->kind = STORE_GIT;
    source->place = kg_format("file://%s", real);
    return 0;
}

static int parse_path(const char *text, const char *base, struct store_source *source,
                      struct kg_err *err)
{
    kg_auto(kg_free) char *path = text[0] == '/' ? kg_strdup(text) : kg_format("%s/%s", base, text);
    kg_auto(kg_free) char *real = NULL;
    struct stat status;
    int result = real_path(text, path, &real, &status, err);
    if (result < 0)
        return result;
    if (S_ISDIR(status.st_mode))
        source->kind = STORE_FOLDER;
    else if (!S_ISREG(status.st_mode))
        return store_source_refuse(err, text, "it is neither a folder nor a file", NULL);
    else if (source_archive_format(real) == NULL)
        return store_source_refuse(
            err, text, "it is not an archive that kaged opens",
            "give a folder, a .zip, .tar, .tar.gz, .tgz, .mcpb or .dxt file, or a git URL");
    else
        source->kind = STORE_ARCHIVE;
    source->place = kg_steal(&real);
    return 0;
}

/* -- packages of npm --------------------------------------------------------------------------- */

/* Letters, digits and -._~, not beginning with a dot, a hyphen or nothing. */
static bool is_package_part(struct kg_str part)
{
    for (size_t i = 0; i < part.length; i++)
        if (!kg_is_letter_or_digit(part.data[i]) &&
            (i == 0 || strchr("-._~", part.data[i]) == NULL))
            return false;
    return part.length > 0;
}

static bool store_source_is_package(struct kg_str name)
{
    if (name.length == 0 || name.length > PACKAGE_BYTES_MAX)
        return false;
    if (name.data[0] != '@')
        return is_package_part(name);
    struct kg_str rest = kg_str_from(name, 1), scope = kg_str_cut(&rest, '/');
    return is_package_part(scope) && rest.data != NULL && is_package_part(rest);
}

/* npm:PACKAGE or npm:PACKAGE@VERSION, in which a version may also be a range or a tag. */
static int parse_npm(const char *text, const char *version, struct store_source *source,
                     struct kg_err *err)
{
    const char *name = text + strlen(NPM);
    const char *at = name[0] != '\0' ? strchr(name + 1, '@') : NULL;
    struct kg_str package = {name, at ? (size_t)(at - name) : strlen(name)};
    if (!store_source_is_package(package))
        return store_source_refuse(
            err, text, "it is not the name of a package",
            "npm:NAME or npm:@SCOPE/NAME, with @VERSION behind it or without");
    if (at != NULL && version != NULL)
        return store_source_refuse(err, text, "its version is given twice", NULL);
    if (at != NULL && store_source_check_version(at + 1, err) < 0)
        return -EINVAL;
    source->kind = STORE_NPM;
    source->place = kg_str_dup(package);
    source->version = at ? kg_strdup(at + 1) : NULL;
    return 0;
}

/* -- packages of the catalog ------------------------------------------------------------------- */

static bool is_pid(struct kg_str text)
{
    for (size_t i = 0; i < text.length; i++)
        if (!kg_is_letter_or_digit(text.data[i]) && (i == 0 || strchr("-._", text.data[i]) == NULL))
            return false;
    return text.length > 0 && text.length <= PACKAGE_BYTES_MAX;
}

/* catalog:PID or catalog:ORG/PID, with @VERSION behind it or without. */
static int parse_catalog(const char *text, const char *version, struct store_source *source,
                         struct kg_err *err)
{
    struct kg_str place = {text + strlen(CATALOG), strcspn(text + strlen(CATALOG), "@")};
    struct kg_str pid = place, org = KG_STR_NULL;
    const char *at = place.data[place.length] == '@' ? place.data + place.length + 1 : NULL;
    if (place.length > 0 && memchr(place.data, '/', place.length) != NULL)
        org = kg_str_cut(&pid, '/');
    if (!is_pid(pid) || (org.data != NULL && !is_pid(org)))
        return store_source_refuse(
            err, text, "it is not the pid of a package",
            "catalog:PID or catalog:ORG/PID, with @VERSION behind it or without");
    if (at != NULL && version != NULL)
        return store_source_refuse(err, text, "its version is given twice", NULL);
    if (at != NULL && store_source_check_version(at, err) < 0)
        return -EINVAL;
    source->kind = STORE_CATALOG;
    source->place = kg_str_dup(place);
    source->version = kg_strdup(at);
    return 0;
}

/* -- servers ----------------------------------------------------------------------------------- */

/* program:/PATH. Links in it stay: they may be what makes it the program that it is. */
static int parse_program(const char *text, struct store_source *source, struct kg_err *err)
{
    const char *path = text + strlen(PROGRAM);
    struct stat status;
    if (path[0] != '/')
        return store_source_refuse(err, text, "write a program as program: and an absolute path",
                                   NULL);
    if (stat(path, &status) < 0) {
        kg_fail_errno(err, errno, "source %" KG_S_CAUSE, text);
        if (err != NULL && errno == ENOENT)
            err->code = KG_E_NOT_FOUND;
        return -EINVAL;
    }
    if (!S_ISREG(status.st_mode) || (status.st_mode & 0111) == 0)
        return store_source_refuse(err, text, "it is not a program",
                                   "give a file that can be executed");
    source->kind = STORE_PROGRAM;
    source->place = kg_strdup(path);
    return 0;
}

/* mcp+https://HOST/PATH; what a manifest with that url may not be, is said where it is read. */
static int parse_remote(const char *text, struct store_source *source, struct kg_err *err)
{
    const char *url = text + strlen(REMOTE);
    kg_auto(kg_free) char *host = NULL;
    uint16_t port;
    if (!kg_url_host(url, &host, &port))
        return store_source_refuse(err, text,
                                   "it is not the URL of a server, or its host cannot be read",
                                   "mcp+https://HOST/PATH");
    source->kind = STORE_REMOTE;
    source->place = kg_strdup(url);
    return 0;
}

/* -- all of them ------------------------------------------------------------------------------- */

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool store_source_is_path(const char *text)
{
    return !store_source_makes_manifest(text) && !begins(text, CATALOG) &&
           strstr(text, "://") == NULL;
}

bool store_source_makes_manifest(const char *text)
{
    return begins(text, NPM) || begins(text, PROGRAM) || begins(text, REMOTE);
}

/* Something like ssh: and git:, or what git takes for ssh: user@host:path. */
static bool is_other_url(const char *text)
{
    size_t scheme = strcspn(text, ":/");
    if (text[scheme] != ':')
        return false;
    return strncmp(text + scheme, "://", 3) == 0 || strchr(text, '@') != NULL;
}

static int store_source_own_parse(const char *text, const char *version, const char *base,
                                  struct store_source *source, struct kg_err *err)
{
    static const char git[] = "git+";
    if (begins(text, NPM))
        return parse_npm(text, version, source, err);
    if (begins(text, CATALOG))
        return parse_catalog(text, version, source, err);
    if (begins(text, PROGRAM))
        return parse_program(text, source, err);
    if (begins(text, REMOTE))
        return parse_remote(text, source, err);
    const char *url = strncmp(text, git, strlen(git)) == 0 ? text + strlen(git) : text;
    if (strncmp(url, "https://", 8) == 0)
        return parse_https(text, url, source, err);
    if (strncmp(url, "file://", 7) == 0)
        return parse_file_url(text, url, source, err);
    if (is_other_url(text))
        return store_source_refuse(
            err, text, "only https:// and file:// repositories are fetched",
            "use its https:// URL, or clone it yourself and install that folder");
    return parse_path(text, base, source, err);
}

int store_source_parse(const char *text, const char *version, const char *base,
                       struct store_source **ret_source, struct kg_err *err)
{
    int result = store_source_check_text(text, err);
    if (result == 0 && version != NULL)
        result = store_source_check_version(version, err);
    if (result < 0)
        return result;
    struct store_source *source = kg_alloc(sizeof(*source));
    result = store_source_own_parse(text, version, base, source, err);
    if (result < 0) {
        store_source_free(source);
        return result;
    }
    source->text = kg_strdup(text);
    if (version != NULL)
        kg_replace(&source->version, version);
    *ret_source = source;
    return 0;
}

void store_source_free(struct store_source *source)
{
    if (source == NULL)
        return;
    free(source->text);
    free(source->place);
    free(source->version);
    free(source->server);
    free(source);
}
