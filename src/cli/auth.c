/*
 * kaged auth: a browser's way in, and API tokens. What is secret is printed on stdout, alone, and
 * never given to another program as an argument, where everybody on the machine could read it.
 */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* -- open -------------------------------------------------------------------------------------- */

static bool has_screen(void)
{
    const char *x11 = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");
    return (x11 != NULL && x11[0] != '\0') || (wayland != NULL && wayland[0] != '\0');
}

/* A page that only the operator can read, which sends the browser on. */
static int write_page(const char *path, struct kg_str url)
{
    unlink(path);
    kg_auto(kg_close) int fd =
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    kg_auto(kg_buf_free) struct kg_buf page = {0};
    kg_buf_printf(&page,
                  "<!DOCTYPE html><meta charset=\"utf-8\"><meta name=\"referrer\" "
                  "content=\"no-referrer\"><meta http-equiv=\"refresh\" content=\"0;url=%.*s\">"
                  "<title>kaged</title>\n",
                  KG_STR_ARG(url));
    return kg_write_all(fd, page.data, page.length);
}

/* It may stay for as long as the browser does: nobody waits for it. */
static void start_browser(const char *page)
{
    pid_t child = fork();
    if (child > 0)
        waitpid(child, NULL, 0);
    if (child != 0)
        return;
    if (fork() != 0)
        _exit(0);
    setsid();
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd <= 2; fd++)
        dup2(null, fd);
    execlp("xdg-open", "xdg-open", page, (char *)NULL);
    _exit(127);
}

static void open_browser(const struct cli *cli, struct kg_str url)
{
    kg_auto(kg_free) char *page = kg_format("%s/launch.html", cli->paths.run_dir);
    int result = write_page(page, url);
    if (result < 0)
        fprintf(stderr, "kaged: open the browser yourself: %s: %s\n", page, strerror(-result));
    else
        start_browser(page);
}

/* Shown before a browser is, in case that none opens. */
static void show_launch(struct kg_buf *out, const struct cli *cli, const struct kg_node *launch)
{
    struct kg_str url = cli_text(launch, "url");
    (void)out;
    print_text(url);
    if (!cli_has(cli, "print") && isatty(STDOUT_FILENO) && has_screen())
        open_browser(cli, url);
}

int cli_auth_open(struct cli *cli)
{
    const struct client_request request = {.method = "POST", .target = "/api/v1/launch"};
    return cli_show(cli, &request, show_launch);
}

/* -- tokens ------------------------------------------------------------------------------------ */

static void put_scopes(struct kg_json_writer *json, const char *scopes)
{
    kg_json_named_begin(json, "scopes", '[');
    for (const char *at = scopes; *at != '\0';) {
        size_t length = strcspn(at, ",");
        kg_json_str(json, (struct kg_str){at, length});
        at += length + (at[length] == ',');
    }
    kg_json_end(json, ']');
}

static void put_wish(const struct cli *cli, struct kg_buf *out)
{
    struct kg_json_writer json = kg_json_writer(out);
    const char *scopes = cli_option_value(cli, "scope");
    const char *expires = cli_option_value(cli, "expires");
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", cli_option_value(cli, "name"));
    if (scopes != NULL)
        put_scopes(&json, scopes);
    if (expires != NULL)
        kg_json_named_text(&json, "expires", expires);
    if (cli_option_value(cli, "user") != NULL)
        kg_json_named_text(&json, "user", cli_option_value(cli, "user"));
    if (cli_option_value(cli, "profile") != NULL)
        kg_json_named_text(&json, "profile", cli_option_value(cli, "profile"));
    kg_json_end(&json, '}');
}

static void show_token(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    (void)out, (void)cli;
    print_text(cli_text(answer, "token"));
    if (isatty(STDERR_FILENO))
        fputs("kaged keeps only a hash of it: this is the one time that it is shown\n", stderr);
}

int cli_auth_token_create(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf wish = {0};
    struct kg_err err;
    if (cli_option_value(cli, "name") == NULL) {
        kg_fail(&err, KG_E_USAGE, "a token needs a name: --name NAME");
        return print_error(&err);
    }
    put_wish(cli, &wish);
    const struct client_request request = {
        .method = "POST", .target = "/api/v1/tokens", .body = kg_buf_view(&wish)};
    return cli_show(cli, &request, show_token);
}

static void put_scope_cell(struct table *table, const struct kg_node *scopes)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    for (uint32_t i = 0; i < scopes->count; i++) {
        if (kg_str_is(scopes->items[i].text, "admin"))
            text.length = 0; /* it has the others */
        else if (i > 0)
            kg_buf_char(&text, ',');
        kg_buf_str(&text, scopes->items[i].text);
    }
    table_cell(table, kg_buf_view(&text), NULL);
}

static void put_tokens(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    static const char *const headings[] = {"ID",      "NAME",    "SCOPES",    "OPERATOR",
                                           "CREATED", "EXPIRES", "LAST USED", NULL};
    const struct kg_node *tokens = kg_node_list(answer, "tokens");
    (void)cli;
    if (tokens->count == 0) {
        kg_buf_text(out, "there are no API tokens\n");
        return;
    }
    struct table *table = table_new(headings);
    for (uint32_t i = 0; i < tokens->count; i++) {
        const struct kg_node *token = &tokens->items[i];
        bool expired = kg_node_is_true(token, "expired");
        table_texts(table, token, (const char *const[]){"id", "name", NULL});
        put_scope_cell(table, kg_node_list(token, "scopes"));
        table_texts(table, token, (const char *const[]){"operator", "created_at", NULL});
        table_cell(table, expired ? KG_STR("expired") : cli_text(token, "expires_at"), NULL);
        table_cell(table, cli_text(token, "last_used_at"), NULL);
    }
    table_print(table);
}

int cli_auth_token_list(struct cli *cli)
{
    const struct client_request request = {.method = "GET", .target = "/api/v1/tokens"};
    return cli_show(cli, &request, put_tokens);
}

static void put_revoked(struct kg_buf *out, const struct cli *cli, const struct kg_node *token)
{
    (void)cli;
    print_words(out, token, "token {name} is revoked\n");
}

int cli_auth_token_revoke(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    client_put_target(&target, "tokens", cli_argument(cli, 0), "");
    const struct client_request request = {.method = "DELETE", .target = kg_buf_terminate(&target)};
    return cli_show(cli, &request, put_revoked);
}
