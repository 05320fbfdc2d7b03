/*
 * A conversation needs a model. Where the project's agent has none that local.toml knows, what is
 * at hand is looked for: an Ollama on this machine, a provider's key in the environment. Nothing is
 * written but after a yes; a key goes to the store of secrets, and its name alone into the file.
 */
#include "cli/rows.h"
#include "cli/session.h"

#include "config/edit.h"
#include "config/local.h"
#include "project/project.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define OLLAMA_PORT    11434
#define OLLAMA_WAIT_MS 2000
#define ANSWER_MAX     ((size_t)1 << 20)
#define NAME_MAX_BYTES 200
#define OWN_ALIAS      "chat" /* for an agent that names no model */

/* What could be written: a provider, and a model of it. Texts are owned. */
struct offer {
    const char *provider, *kind, *key_variable; /* the last NULL: it needs no key */
    char *base_url, *model;
};

static void offer_free(struct offer *offer)
{
    free(offer->base_url);
    free(offer->model);
}

/* -- an Ollama on this machine ------------------------------------------------------------------
 */

/* OLLAMA_HOST as its own client takes it, if that is this machine; else the usual port. */
static uint16_t ollama_port(void)
{
    const char *given = getenv("OLLAMA_HOST");
    const char *colon = given ? strrchr(given, ':') : NULL;
    if (colon == NULL ||
        (strncmp(given, "127.0.0.1:", 10) != 0 && strncmp(given, "localhost:", 10) != 0))
        return OLLAMA_PORT;
    long port = strtol(colon + 1, NULL, 10);
    return port > 0 && port <= UINT16_MAX ? (uint16_t)port : OLLAMA_PORT;
}

static bool chat_model_wait_for(int fd, short events, uint64_t until_ms)
{
    struct pollfd one = {.fd = fd, .events = events};
    uint64_t now_ms = kg_monotonic_ms();
    return now_ms < until_ms && poll(&one, 1, (int)(until_ms - now_ms)) > 0;
}

static int dial(uint16_t port, uint64_t until_ms)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int error = 0, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t length = sizeof(error);
    if (fd >= 0 && (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 ||
                    (errno == EINPROGRESS && chat_model_wait_for(fd, POLLOUT, until_ms) &&
                     getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0)))
        return fd;
    kg_close(&fd);
    return -1;
}

/* Which models it has, as it says so; bounded in time and size. */
static bool ask_ollama(uint16_t port, struct kg_buf *ret_answer)
{
    static const char request[] = "GET /api/tags HTTP/1.0\r\nHost: localhost\r\n\r\n";
    uint64_t until_ms = kg_monotonic_ms() + OLLAMA_WAIT_MS;
    kg_auto(kg_close) int fd = dial(port, until_ms);
    char piece[4096];
    ssize_t got = -1;
    if (fd < 0 || write(fd, request, sizeof(request) - 1) != (ssize_t)sizeof(request) - 1)
        return false;
    while (ret_answer->length < ANSWER_MAX && chat_model_wait_for(fd, POLLIN, until_ms) &&
           (got = read(fd, piece, sizeof(piece))) > 0)
        kg_buf_append(ret_answer, piece, (size_t)got);
    return got == 0;
}

static bool find_ollama(struct offer *ret_offer)
{
    kg_auto(kg_buf_free) struct kg_buf answer = {0};
    uint16_t port = ollama_port();
    const char *body =
        ask_ollama(port, &answer) ? strstr(kg_buf_terminate(&answer), "\r\n\r\n") : NULL;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = body ? kg_json_read(kg_str(body + 4), NULL) : NULL;
    const struct kg_node *models = kg_node_list(doc ? doc->root : NULL, "models");
    struct kg_str name = models->count > 0 ? cli_text(&models->items[0], "name") : KG_STR("");
    if (name.length == 0 || name.length > NAME_MAX_BYTES)
        return false;
    *ret_offer = (struct offer){.provider = "ollama",
                                .kind = "openai",
                                .base_url = kg_format("http://127.0.0.1:%u/v1", (unsigned)port),
                                .model = kg_str_dup(name)};
    return true;
}

/* -- a key in the environment ------------------------------------------------------------------ */

static const struct {
    const char *variable, *provider, *kind, *model;
} keys[] = {
    {"ANTHROPIC_API_KEY", "anthropic", "anthropic", "claude-sonnet-4-5"},
    {"OPENAI_API_KEY", "openai", "openai", "gpt-5-mini"},
};

static bool chat_model_find_key(size_t row, struct offer *ret_offer)
{
    const char *value = getenv(keys[row].variable);
    if (value == NULL || value[0] == '\0')
        return false;
    *ret_offer = (struct offer){.provider = keys[row].provider,
                                .kind = keys[row].kind,
                                .key_variable = keys[row].variable,
                                .model = kg_strdup(keys[row].model)};
    return true;
}

/* -- writing it -------------------------------------------------------------------------------- */

struct block {
    const struct offer *offer;
    const char *alias;
};

static int chat_model_put_table(struct kg_buf *text, const char *table, const char *name,
                                const char *const (*pairs)[2], size_t count, struct kg_err *err)
{
    const char *path[] = {table, name};
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    struct kg_json_writer writer = kg_json_writer(&json);
    kg_json_begin(&writer, '{');
    for (size_t i = 0; i < count; i++)
        if (pairs[i][1] != NULL)
            kg_json_named_text(&writer, pairs[i][0], pairs[i][1]);
    kg_json_end(&writer, '}');
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&json), err);
    return doc == NULL ? -EINVAL : edit_toml_set(text, path, KG_COUNT(path), doc->root, err);
}

static int add_block(struct kg_buf *text, void *data, struct kg_err *err)
{
    const struct block *block = data;
    const struct offer *offer = block->offer;
    kg_auto(kg_free) char *key =
        offer->key_variable ? kg_format("${secret:%s}", offer->key_variable) : NULL;
    const char *const provider[][2] = {
        {"kind", offer->kind}, {"base_url", offer->base_url}, {"api_key", key}};
    const char *const model[][2] = {{"provider", offer->provider}, {"model", offer->model}};
    int result =
        chat_model_put_table(text, "providers", offer->provider, provider, KG_COUNT(provider), err);
    if (result == 0)
        result = chat_model_put_table(text, "models", block->alias, model, KG_COUNT(model), err);
    return result;
}

static int keep_key(const struct cli *cli, const char *variable)
{
    static const struct cli_page page = {"PUT", "/api/v1/secrets/{0}",
                                         .silence_ms = CLIENT_WAIT_FOREVER};
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    rows_put_text(&body, "value", kg_str(getenv(variable)));
    const struct page_given given = {.name = variable, .body = kg_buf_view(&body)};
    int code = page_tell(cli, &page, &given);
    explicit_bzero(body.data, body.length);
    return code;
}

/* What the conversation is with. */
struct seat {
    const char *project, *agent, *alias; /* the alias NULL: its project names none */
    const char *root;
};

static int write_offer(const struct cli *cli, const struct seat *seat, const struct offer *offer)
{
    static const struct cli_page page = {"POST", "/api/v1/projects/{0}/reload",
                                         .silence_ms = CLIENT_WAIT_FOREVER};
    struct block block = {offer, seat->alias ? seat->alias : OWN_ALIAS};
    kg_auto(project_location_free) struct project_location location = {0};
    struct kg_err err = {0};
    int code = offer->key_variable ? keep_key(cli, offer->key_variable) : CLI_DONE;
    if (code != CLI_DONE)
        return code;
    if (edit_file(cli->paths.local_file, add_block, &block, &err) < 0)
        return print_error(&err);
    if (seat->alias == NULL && (project_locate(seat->root, &location, &err) < 0 ||
                                project_set_model(&location, seat->agent, block.alias, &err) < 0))
        return print_error(&err);
    code = page_tell(cli, &page_daemon_reload, NULL);
    if (code == CLI_DONE)
        code = page_tell(cli, &page, &(struct page_given){.name = seat->project});
    if (code == CLI_DONE)
        printf("wrote [providers.%s] and [models.%s] to %s\n", offer->provider, block.alias,
               cli->paths.local_file);
    return code;
}

/* -- asking ------------------------------------------------------------------------------------ */

/* True: it was written, or could not be, and *ret_code says which. */
static bool chat_model_ask_about(const struct cli *cli, int tty, const struct seat *seat,
                                 struct offer *offer, int *ret_code)
{
    kg_auto(kg_buf_free) struct kg_buf question = {0}, line = {0}, prompt = {0};
    if (offer->key_variable == NULL)
        kg_buf_text(&question, "Ollama runs on this machine and has ");
    else
        kg_buf_printf(&question, "%s is in the environment; a model of it is ",
                      offer->key_variable);
    kg_buf_escaped(&question, kg_str(offer->model));
    kg_buf_text(&question,
                offer->key_variable ? ". Keep the key as a secret, and use it?" : ". Use it?");
    if (!terminal_ask(tty, kg_buf_terminate(&question)))
        return false;
    kg_buf_text(&prompt, "Which model? (empty: ");
    kg_buf_escaped(&prompt, kg_str(offer->model));
    kg_buf_text(&prompt, ") ");
    if (!terminal_read(tty, kg_buf_view(&prompt), &line))
        return false;
    if (line.length > 0 && line.length <= NAME_MAX_BYTES)
        kg_replace(&offer->model, kg_buf_terminate(&line));
    *ret_code = write_offer(cli, seat, offer);
    return true;
}

static int offer_all(const struct cli *cli, const struct seat *seat)
{
    kg_auto(kg_close) int tty = terminal_open();
    int code = CLI_DONE;
    bool done = false;
    kg_auto(kg_free) char *self = cli_self(cli);
    if (seat->alias != NULL)
        fprintf(stderr, "%s asks for the model %s, which local.toml does not have\n", seat->agent,
                seat->alias);
    else
        fprintf(stderr, "the project names no model for %s\n", seat->agent);
    for (size_t i = 0; i <= KG_COUNT(keys) && !done && tty >= 0; i++) {
        kg_auto(offer_free) struct offer offer = {0};
        if (i == 0 ? find_ollama(&offer) : chat_model_find_key(i - 1, &offer))
            done = chat_model_ask_about(cli, tty, seat, &offer, &code);
    }
    if (!done)
        fprintf(stderr,
                "without a model there are no answers; kaged.toml(5) describes how to declare one "
                "in %s; then: %s reload\n",
                cli->paths.local_file, self);
    return code;
}

/* A file that he may not read is somebody else's to fill. */
static bool has_model(const struct cli *cli, const char *alias)
{
    struct local *local = local_load(cli->paths.local_file, LOCAL_LEAVE, NULL);
    bool found = local == NULL || local_model_find(local, kg_str(alias)) != NULL;
    local_free(local);
    return found;
}

int chat_offer_model(const struct cli *cli, const char *project, const char *agent)
{
    static const struct cli_page page = {"GET", "/api/v1/projects/{0}"};
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    int code = page_ask(cli, &page, &(struct page_given){.name = project}, &body, &doc);
    if (code != CLI_DONE)
        return code;
    const struct kg_node *agents = kg_node_list(doc->root, "agents");
    kg_auto(kg_free) char *root = kg_str_dup(cli_text(doc->root, "root"));
    for (uint32_t i = 0; i < agents->count; i++) {
        if (!kg_str_is(cli_text(&agents->items[i], "path"), agent))
            continue;
        kg_auto(kg_free) char *alias = kg_str_dup(cli_text(&agents->items[i], "model"));
        bool is_named = alias[0] != '\0';
        bool has_file = cli_text(doc->root, "file").length > 0;
        if (is_named ? has_model(cli, alias) : !has_file)
            return CLI_DONE;
        return offer_all(cli, &(struct seat){project, agent, is_named ? alias : NULL, root});
    }
    return CLI_DONE;
}
