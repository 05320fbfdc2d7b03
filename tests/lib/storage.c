/* Every wait has a deadline that fails the test; the worker never outlives it. */
#include "storage.h"
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ANSWER_MS 120000

static void make_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

struct storage *storage_new(void)
{
    struct storage *storage = kg_alloc(sizeof(*storage));
    const char *root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(storage->dir, sizeof(storage->dir), "%s/kaged-storage-XXXXXX", root);
    assert_non_null(mkdtemp(storage->dir));
    snprintf(storage->path, sizeof(storage->path), "%s/plugin.db", storage->dir);
    kg_auto(kg_free) char *wal = kg_format("%s-wal", storage->path);
    make_file(storage->path);
    make_file(wal);
    return storage;
}

void storage_free(struct storage *storage)
{
    if (storage == NULL)
        return;
    if (storage->pid != 0)
        storage_kill(storage);
    chmod(storage->dir, 0700);
    folder_remove(storage->dir);
    kg_buf_free(&storage->received);
    free(storage);
}

/* build/tests/unit/unit-x and build/src/kaged-storage. */
static char *program(void)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(length > 0);
    self[length] = '\0';
    for (int i = 0; i < 3; i++)
        *strrchr(self, '/') = '\0';
    return kg_format("%s/src/kaged-storage", self);
}

static void become_worker(struct storage *storage, const char **words, int in, int out)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    if (storage->uid != 0 && (setgid(storage->uid) < 0 || setuid(storage->uid) < 0))
        _exit(125);
    execv(words[0], (char *const *)words);
    _exit(126);
}

void storage_start(struct storage *storage, const char *const *options)
{
    int to[2], from[2];
    kg_auto(kg_free) char *path = program();
    /* A loaded machine is no fault of the worker's: who wants a short time asks for it. */
    const char *words[32] = {path, storage->path, "statement_ms=60000"};
    bool timed = false;
    for (size_t i = 0; options != NULL && options[i] != NULL; i++)
        timed = timed || strncmp(options[i], "statement_ms=", 13) == 0;
    for (size_t i = 0; options != NULL && options[i] != NULL; i++)
        words[i + (timed ? 2 : 3)] = options[i];
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    storage->pid = fork();
    assert_true(storage->pid >= 0);
    if (storage->pid == 0)
        become_worker(storage, words, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    storage->in = to[1];
    storage->out = from[0];
    fcntl(storage->in, F_SETFL, O_NONBLOCK);
    storage->received.length = 0;
}

int storage_wait(struct storage *storage)
{
    int status;
    assert_int_equal(waitpid(storage->pid, &status, 0), storage->pid);
    storage->pid = 0;
    if (storage->in >= 0)
        close(storage->in);
    close(storage->out);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int storage_stop(struct storage *storage)
{
    close(storage->in);
    storage->in = -1;
    return storage_wait(storage);
}

void storage_kill(struct storage *storage)
{
    kill(storage->pid, SIGKILL);
    storage_wait(storage);
}

/* -- requests ---------------------------------------------------------------------------------- */

int64_t storage_put(struct storage *storage, struct kg_buf *text, const char *method,
                    struct kg_str params)
{
    kg_buf_printf(text, "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"method\":\"%s\",\"params\":",
                  (long long)++storage->id, method);
    kg_buf_str(text, params);
    kg_buf_text(text, "}\n");
    return storage->id;
}

static short wait_for(struct storage *storage, bool to_write)
{
    struct pollfd fds[2] = {{storage->out, POLLIN, 0}, {storage->in, POLLOUT, 0}};
    if (poll(fds, to_write ? 2 : 1, ANSWER_MS) <= 0)
        fail_msg("the worker neither answers nor reads");
    return to_write && fds[1].revents != 0 ? POLLOUT : POLLIN;
}

/* False at the end of its output. */
static bool receive(struct storage *storage)
{
    kg_buf_reserve(&storage->received, 65536);
    ssize_t got = read(storage->out, storage->received.data + storage->received.length, 65536);
    if (got > 0)
        storage->received.length += (size_t)got;
    return got > 0;
}

/* Reads while it writes, so that neither side waits for the other for ever. */
void storage_write(struct storage *storage, struct kg_str text)
{
    while (text.length > 0) {
        if (wait_for(storage, true) == POLLIN) {
            if (!receive(storage))
                return;
            continue;
        }
        ssize_t put = write(storage->in, text.data, text.length);
        if (put < 0 && errno == EPIPE)
            return;
        if (put < 0 && errno != EAGAIN)
            fail_msg("write to the worker: %s", strerror(errno));
        text.data += put > 0 ? put : 0;
        text.length -= put > 0 ? (size_t)put : 0;
    }
}

struct kg_doc *storage_read(struct storage *storage)
{
    struct kg_buf *received = &storage->received;
    char *newline;
    while ((newline = received->length ? memchr(received->data, '\n', received->length) : NULL) ==
           NULL) {
        wait_for(storage, false);
        if (!receive(storage))
            return NULL;
    }
    size_t length = (size_t)(newline - received->data);
    struct kg_err err;
    struct kg_doc *doc = kg_json_read((struct kg_str){received->data, length}, &err);
    if (doc == NULL)
        fail_msg("an answer is not JSON: %s: %.*s", err.message, (int)length, received->data);
    kg_buf_consume(received, length + 1);
    return doc;
}

struct kg_doc *storage_ask(struct storage *storage, const char *method, struct kg_str params)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    int64_t id = storage_put(storage, &text, method, params), got = 0;
    storage_write(storage, kg_buf_view(&text));
    struct kg_doc *doc = storage_read(storage);
    if (doc == NULL) {
        fail_msg("the worker went away on: %.*s", KG_STR_CUT(kg_buf_view(&text), 2000));
        return NULL;
    }
    const struct kg_node *node = kg_node_get(doc->root, "id");
    assert_true(node != NULL && kg_node_int(node, &got) && got == id);
    return doc;
}

struct kg_doc *storage_sql(struct storage *storage, const char *method, struct kg_str sql,
                           const char *values)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    kg_buf_text(&params, "{\"sql\":");
    kg_json_put_string(&params, sql);
    if (values != NULL)
        kg_buf_printf(&params, ",\"params\":%s", values);
    kg_buf_char(&params, '}');
    return storage_ask(storage, method, kg_buf_view(&params));
}
