/*
 * What a SOURCE text means. A path is made real here, once, so that what is shown, opened and put
 * into the cage is one and the same; a URL is taken apart only as far as the gatekeeper and git
 * need it, and nothing in it can be read as an option or carry a password.
 */
#include "store/source.h"

#include "base/semver.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#define TEXT_BYTES_MAX    2048
#define VERSION_BYTES_MAX 128
#define HOST_BYTES_MAX    253
#define HTTPS_PORT        443

const char *const store_source_kind_names[] = {
    [STORE_FOLDER] = "folder",
    [STORE_ARCHIVE] = "archive",
    [STORE_GIT] = "git",
};

/* How an archive is called, and what kaged-unpack calls its format. */
static const struct {
    const char *suffix, *format;
} archives[] = {{".zip", "zip"}, {".tar", "tar"}, {".tar.gz", "tar"}, {".tgz", "tar"}};

/* -- texts ------------------------------------------------------------------------------------- */

static int refuse(struct kg_err *err, const char *text, const char *why, const char *hint)
{
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    kg_buf_escaped(&shown, (struct kg_str){text, strnlen(text, TEXT_BYTES_MAX)});
    int result = kg_fail(err, KG_E_USAGE, "source %.400s: %s", kg_buf_terminate(&shown), why);
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

static int check_text(const char *text, struct kg_err *err)
{
    size_t length = strlen(text);
    if (length == 0 || length > TEXT_BYTES_MAX)
        return refuse(err, text, length == 0 ? "it is empty" : "it is too long", NULL);
    for (const char *at = text; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7F)
            return refuse(err, text, "there is a control character in it", NULL);
    if (kg_utf8_valid(kg_str(text)) != length)
        return refuse(err, text, "it is not UTF-8", NULL);
    return 0;
}

/* It becomes the name of a tag, or says which of the tags may be taken. */
static int check_version(const char *version, struct kg_err *err)
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
                         "version \"%.100s\" is neither like 1.2.3 nor a range like ^1.2", version);
}

/* -- URLs -------------------------------------------------------------------------------------- */

/* A name, an IPv4 address, or an IPv6 address in brackets, which it is returned without. */
static bool read_host(struct kg_str authority, struct kg_str *ret_host, struct kg_str *ret_port)
{
    const char *colon = memrchr(authority.data, ':', authority.length);
    struct kg_str host = authority;
    *ret_port = KG_STR_NULL;
    if (authority.length > 0 && authority.data[0] == '[') {
        const char *close = memchr(authority.data, ']', authority.length);
        if (close == NULL)
            return false;
        host = (struct kg_str){authority.data + 1, (size_t)(close - authority.data - 1)};
        if (colon != NULL && colon < close)
            colon = NULL;
        if (colon == NULL && close + 1 != authority.data + authority.length)
            return false;
        if (colon != NULL && colon != close + 1)
            return false;
    } else if (colon != NULL) {
        host.length = (size_t)(colon - authority.data);
    }
    if (colon != NULL)
        *ret_port =
            (struct kg_str){colon + 1, (size_t)(authority.data + authority.length - colon - 1)};
    *ret_host = host;
    return host.length > 0 && host.length <= HOST_BYTES_MAX;
}

static bool host_is_plain(struct kg_str host)
{
    for (size_t i = 0; i < host.length; i++)
        if (!kg_is_letter_or_digit(host.data[i]) && strchr("-.:_", host.data[i]) == NULL)
            return false;
    return host.data[0] != '-' && host.data[0] != '.';
}

static bool read_authority(struct kg_str authority, char **ret_host, uint16_t *ret_port)
{
    struct kg_str host, port;
    int64_t number = HTTPS_PORT;
    if (!read_host(authority, &host, &port) || !host_is_plain(host))
        return false;
    if (port.data != NULL && (!kg_str_to_int(port, &number) || number < 1 || number > UINT16_MAX))
        return false;
    char *name = kg_str_dup(host);
    for (char *at = name; *at != '\0'; at++)
        *at = kg_is_letter(*at) ? (char)(*at | 0x20) : *at;
    *ret_host = name;
    *ret_port = (uint16_t)number;
    return true;
}

static struct kg_str authority_of(const char *url)
{
    const char *start = url + strlen("https://");
    return (struct kg_str){start, strcspn(start, "/")};
}

bool source_host(const char *url, char **ret_host, uint16_t *ret_port)
{
    return strncmp(url, "https://", 8) == 0 &&
           read_authority(authority_of(url), ret_host, ret_port);
}

/* url: from "https://" on. */
static int check_https(const char *text, const char *url, struct kg_err *err)
{
    struct kg_str authority = authority_of(url);
    kg_auto(kg_free) char *host = NULL;
    uint16_t port;
    for (const char *at = url; *at != '\0'; at++)
        if (*at <= ' ' || *at >= 0x7F || strchr("\"<>\\^`{|}", *at) != NULL)
            return refuse(err, text, "there is a character in it that no URL has", NULL);
    if (memchr(authority.data, '@', authority.length) != NULL)
        return refuse(err, text, "a password or user name would be kept with it and shown",
                      "clone it yourself, and install that folder");
    if (!source_host(url, &host, &port))
        return refuse(err, text, "its host or port cannot be read", NULL);
    if (strlen(authority.data + authority.length) < 2)
        return refuse(err, text, "it names a host, but no repository", NULL);
    if (strpbrk(url, "#?") != NULL)
        return refuse(err, text, "a repository has no ? and # in its URL",
                      "give the version by itself");
    if (source_archive_format(url) != NULL)
        return refuse(err, text, "archives are not downloaded",
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
        int result = kg_fail_errno(err, errnum, "source %.400s", text);
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
        return refuse(err, text, "a file: URL is file:// and an absolute path", NULL);
    if (strchr(path, '%') != NULL)
        return refuse(err, text, "the path of a file: URL is taken as it is, without %", NULL);
    int result = real_path(text, path, &real, &status, err);
    if (result < 0)
        return result;
    if (!S_ISDIR(status.st_mode))
        return refuse(err, text, "it is not the folder of a git repository",
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
        return refuse(err, text, "it is neither a folder nor a file", NULL);
    else if (source_archive_format(real) == NULL)
        return refuse(err, text, "it is no archive that kaged opens",
                      "give a folder, a .zip, .tar, .tar.gz or .tgz file, or a git URL");
    else
        source->kind = STORE_ARCHIVE;
    source->place = kg_steal(&real);
    return 0;
}

/* -- all of them ------------------------------------------------------------------------------- */

/* Something like ssh: and git:, or what git takes for ssh: user@host:path. */
static bool is_other_url(const char *text)
{
    size_t scheme = strcspn(text, ":/");
    if (text[scheme] != ':')
        return false;
    return strncmp(text + scheme, "://", 3) == 0 || strchr(text, '@') != NULL;
}

static int parse(const char *text, const char *base, struct store_source *source,
                 struct kg_err *err)
{
    static const char git[] = "git+";
    const char *url = strncmp(text, git, strlen(git)) == 0 ? text + strlen(git) : text;
    if (strncmp(url, "https://", 8) == 0)
        return parse_https(text, url, source, err);
    if (strncmp(url, "file://", 7) == 0)
        return parse_file_url(text, url, source, err);
    if (is_other_url(text))
        return refuse(err, text, "only https:// and file:// repositories are fetched",
                      "use its https:// URL, or clone it yourself and install that folder");
    return parse_path(text, base, source, err);
}

int store_source_parse(const char *text, const char *version, const char *base,
                       struct store_source **ret_source, struct kg_err *err)
{
    int result = check_text(text, err);
    if (result == 0 && version != NULL)
        result = check_version(version, err);
    if (result < 0)
        return result;
    struct store_source *source = kg_alloc(sizeof(*source));
    result = parse(text, base, source, err);
    if (result < 0) {
        store_source_free(source);
        return result;
    }
    source->text = kg_strdup(text);
    source->version = kg_strdup(version);
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
    free(source);
}
