/*
 * The keys of a cluster, as a node has them: one file, which is its operator's alone to read and is
 * put in its place whole. They are made by kaged-link, since the daemon knows nothing of
 * certificates.
 */
#include "cluster/link.h"

#include "base/json/json.h"
#include "helper/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cage/message.h"

#define FILE_BYTES   ((size_t)64 * 1024)
#define OUTPUT_BYTES ((size_t)256 * 1024)
#define TOOL_MS      20000
#define KEY_TEXT     (2 * LINK_KEY_BYTES + 1)

void link_wipe(struct kg_buf *secret)
{
    if (secret->data != NULL)
        sodium_memzero(secret->data, secret->capacity);
    kg_buf_free(secret);
}

void link_keys_free(struct link_keys *keys)
{
    link_wipe(&keys->authority);
    link_wipe(&keys->authority_key);
    link_wipe(&keys->certificate);
    link_wipe(&keys->key);
    sodium_memzero(keys->cluster_key, sizeof(keys->cluster_key));
}

/* -- the file ---------------------------------------------------------------------------------- */

#define KEYS_PARTS 4
static void keys_parts(struct link_keys *keys, struct kg_buf *ret_parts[KEYS_PARTS])
{
    ret_parts[0] = &keys->authority;
    ret_parts[1] = &keys->authority_key;
    ret_parts[2] = &keys->certificate;
    ret_parts[3] = &keys->key;
}
static const char *const keys_names[KEYS_PARTS] = {"authority", "authority_key", "certificate",
                                                   "key"};

static int keys_parse(const struct kg_node *root, struct link_keys *keys)
{
    struct kg_buf *parts[KEYS_PARTS];
    size_t length = 0;
    keys_parts(keys, parts);
    for (size_t i = 0; i < KEYS_PARTS; i++)
        kg_buf_str(parts[i], kg_node_text(root, keys_names[i]));
    struct kg_str digits = kg_node_text(root, "cluster_key");
    bool whole = keys->certificate.length > 0 && keys->key.length > 0 &&
                 keys->authority.length > 0 && digits.length == KEY_TEXT - 1 &&
                 sodium_hex2bin(keys->cluster_key, sizeof(keys->cluster_key), digits.data,
                                digits.length, NULL, &length, NULL) == 0;
    return whole ? 0 : -EINVAL;
}

int link_keys_read(const char *path, struct link_keys *ret_keys, struct kg_err *err)
{
    kg_auto(link_wipe) struct kg_buf text = {0};
    kg_auto(link_keys_free) struct link_keys keys = {0};
    struct stat there;
    if (stat(path, &there) < 0)
        return errno == ENOENT ? 1 : kg_fail_errno(err, errno, "keys of the cluster: %s", path);
    if ((there.st_mode & 077) != 0) {
        kg_fail(err, KG_E_REFUSED, "keys of the cluster: others than its owner can read %s", path);
        return kg_hint(err, "chmod 600 %s, and make the cluster's keys anew", path);
    }
    int result = kg_read_file(path, FILE_BYTES, &text, err);
    if (result < 0)
        return result;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&text), NULL);
    if (doc == NULL || keys_parse(doc->root, &keys) < 0)
        return kg_fail(err, KG_E_INVALID_CONFIG, "keys of the cluster: %s is damaged", path);
    *ret_keys = keys;
    keys = (struct link_keys){0};
    return 0;
}

static void keys_print(struct link_keys *keys, struct kg_buf *out)
{
    char digits[KEY_TEXT];
    struct kg_buf *parts[KEYS_PARTS];
    struct kg_json_writer json = kg_json_writer(out);
    kg_buf_reserve(out, FILE_BYTES); /* it does not move, and leaves nothing behind */
    keys_parts(keys, parts);
    kg_json_begin(&json, '{');
    for (size_t i = 0; i < KEYS_PARTS; i++)
        kg_json_named_str(&json, keys_names[i], kg_buf_view(parts[i]));
    sodium_bin2hex(digits, sizeof(digits), keys->cluster_key, sizeof(keys->cluster_key));
    kg_json_named_text(&json, "cluster_key", digits);
    kg_json_end(&json, '}');
    sodium_memzero(digits, sizeof(digits));
}

int link_keys_write(const char *path, const struct link_keys *keys, struct kg_err *err)
{
    kg_auto(link_wipe) struct kg_buf text = {0};
    kg_auto(kg_free) char *fresh = kg_format("%s.new", path);
    struct link_keys copy = *keys;
    keys_print(&copy, &text);
    (void)unlink(fresh);
    kg_auto(kg_close) int fd =
        open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return kg_fail_errno(err, errno, "keys of the cluster: make %s", fresh);
    int result = kg_write_all(fd, text.data, text.length);
    if (result == 0 && (fsync(fd) < 0 || rename(fresh, path) < 0))
        result = -errno;
    if (result == 0)
        return 0;
    (void)unlink(fresh);
    return kg_fail_errno(err, -result, "keys of the cluster: write %s", path);
}

/* -- kaged-link, for one thing ----------------------------------------------------------------- */

static int tool_spawn(const char *const *words, int in, int out, int errors, pid_t *ret_pid,
                      struct kg_err *err)
{
    kg_auto(kg_free) char *program = helper_program("kaged-link", err);
    const char *argv[8] = {"kaged-link"};
    posix_spawn_file_actions_t files;
    if (program == NULL)
        return -ENOENT;
    for (size_t i = 0; i + 2 < KG_COUNT(argv) && words[i] != NULL; i++)
        argv[i + 1] = words[i];
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
    int errnum = posix_spawn(ret_pid, program, &files, NULL, (char *const *)argv,
                             (char *const *)helper_environment);
    posix_spawn_file_actions_destroy(&files);
    return errnum == 0 ? 0 : kg_fail_errno(err, errnum, "run %s", program);
}

/* Up to the end, a bound, or too late: then false. */
static bool tool_read(int fd, struct kg_buf *text, uint64_t until_ms)
{
    for (;;) {
        uint64_t now_ms = kg_monotonic_ms();
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        int left_ms = now_ms < until_ms ? (int)(until_ms - now_ms) : 0;
        if (left_ms == 0 || text->length > OUTPUT_BYTES || poll(&readable, 1, left_ms) == 0)
            return false;
        kg_buf_reserve(text, 4096);
        ssize_t got = read(fd, text->data + text->length, 4096);
        if (got == 0)
            return true;
        if (got < 0 && errno != EINTR)
            return false;
        text->length += got > 0 ? (size_t)got : 0;
    }
}

static int tool_end(pid_t pid, bool read, struct kg_buf *errors, struct kg_err *err)
{
    int status = 0;
    if (!read)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (read && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    struct kg_str said = kg_buf_view(errors);
    struct kg_str line = kg_str_cut(&said, '\n');
    const char *named = "kaged-link: ";
    if (kg_str_starts(line, named))
        line = kg_str_from(line, strlen(named));
    return kg_fail(
        err, KG_E_NODE_AWAY, "%.*s",
        KG_STR_CUT(read && line.length > 0 ? line : KG_STR("kaged-link did not answer"), 300));
}

int link_tool(const char *const *words, struct kg_str input, struct kg_buf *ret_output,
              struct kg_err *err)
{
    int out[2], errors[2];
    pid_t pid = 0;
    kg_auto(kg_buf_free) struct kg_buf said = {0};
    kg_auto(kg_close) int in = cage_memory_file("input", input.data, input.length, err);
    if (in < 0)
        return in;
    if (pipe2(out, O_CLOEXEC) < 0)
        return kg_fail_errno(err, errno, "make a pipe");
    kg_auto(kg_close) int from = out[0], to = out[1];
    if (pipe2(errors, O_CLOEXEC) < 0)
        return kg_fail_errno(err, errno, "make a pipe");
    kg_auto(kg_close) int errors_from = errors[0], errors_to = errors[1];
    int result = tool_spawn(words, in, to, errors_to, &pid, err);
    kg_close(&to);
    kg_close(&errors_to);
    if (result < 0)
        return result;
    uint64_t until_ms = kg_monotonic_ms() + TOOL_MS;
    bool read = tool_read(from, ret_output, until_ms) && tool_read(errors_from, &said, until_ms);
    return tool_end(pid, read, &said, err);
}

void link_fingerprint(struct kg_str certificate, char ret_text[LINK_FINGERPRINT])
{
    static const char begin[] = "-----BEGIN CERTIFICATE-----", end[] = "-----END";
    unsigned char hash[crypto_hash_sha256_BYTES];
    const char *from = memmem(certificate.data, certificate.length, begin, sizeof(begin) - 1);
    const char *to =
        from != NULL
            ? memmem(from + sizeof(begin) - 1,
                     certificate.length - (size_t)(from - certificate.data) - (sizeof(begin) - 1),
                     end, sizeof(end) - 1)
            : NULL;
    size_t length = 0;
    kg_auto(kg_free) unsigned char *bytes = kg_alloc(certificate.length + 1);
    ret_text[0] = '\0';
    if (to == NULL || sodium_base642bin(bytes, certificate.length, from + sizeof(begin) - 1,
                                        (size_t)(to - from) - (sizeof(begin) - 1), "\n", &length,
                                        NULL, sodium_base64_VARIANT_ORIGINAL) != 0)
        return;
    crypto_hash_sha256(hash, bytes, length);
    sodium_bin2hex(ret_text, LINK_FINGERPRINT, hash, sizeof(hash));
}

/* -- new ones ---------------------------------------------------------------------------------- */

/* "-----BEGIN CERTIFICATE-----...", then the key behind it. */
static int keys_split(const struct kg_buf *both, struct kg_buf *ret_first, struct kg_buf *ret_key,
                      struct kg_err *err)
{
    static const char mark[] = "-----BEGIN PRIVATE KEY-----";
    const char *key = memmem(both->data, both->length, mark, sizeof(mark) - 1);
    if (key == NULL)
        return kg_fail(err, KG_E_INTERNAL, "kaged-link made no key");
    kg_buf_append(ret_first, both->data, (size_t)(key - both->data));
    kg_buf_append(ret_key, key, (size_t)(both->data + both->length - key));
    return 0;
}

static int keys_ask(const char *act, const char *name, struct kg_buf *ret_first,
                    struct kg_buf *ret_key, struct kg_err *err)
{
    kg_auto(link_wipe) struct kg_buf made = {0};
    int result = link_tool((const char *const[]){act, name, NULL}, KG_STR(""), &made, err);
    return result < 0 ? result : keys_split(&made, ret_first, ret_key, err);
}

int link_keys_request(const char *node, struct kg_buf *ret_request, struct kg_buf *ret_key,
                      struct kg_err *err)
{
    return keys_ask("request", node, ret_request, ret_key, err);
}

int link_keys_sign(const struct link_keys *keys, const char *node, struct kg_str request,
                   struct kg_buf *ret_certificate, struct kg_err *err)
{
    kg_auto(link_wipe) struct kg_buf input = {0};
    kg_buf_reserve(&input, FILE_BYTES);
    kg_buf_str(&input, kg_buf_view(&keys->authority));
    kg_buf_str(&input, kg_buf_view(&keys->authority_key));
    kg_buf_str(&input, request);
    return link_tool((const char *const[]){"certificate", node, NULL}, kg_buf_view(&input),
                     ret_certificate, err);
}

int link_keys_make(const char *node, struct link_keys *ret_keys, struct kg_err *err)
{
    kg_auto(link_keys_free) struct link_keys keys = {0};
    kg_auto(kg_buf_free) struct kg_buf request = {0};
    if (sodium_init() < 0)
        return kg_fail(err, KG_E_INTERNAL, "libsodium does not start");
    int result = keys_ask("authority", "kaged cluster", &keys.authority, &keys.authority_key, err);
    if (result == 0)
        result = link_keys_request(node, &request, &keys.key, err);
    if (result == 0)
        result = link_keys_sign(&keys, node, kg_buf_view(&request), &keys.certificate, err);
    if (result < 0)
        return kg_wrap(err, result, "keys of the cluster");
    randombytes_buf(keys.cluster_key, sizeof(keys.cluster_key));
    *ret_keys = keys;
    keys = (struct link_keys){0};
    return 0;
}
