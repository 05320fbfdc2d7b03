/*
 * kaged auth: a browser's way in, and API tokens. What is secret is printed on stdout, alone, and
 * never given to another program as an argument, where everybody on the machine could read it.
 */
#include "cli/rows.h"

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
static int cli_auth_write_page(const char *path, struct kg_str url)
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
    int result = cli_auth_write_page(page, url);
    if (result < 0)
        fprintf(stderr, "kaged: open the URL in a browser yourself: %s: %s\n", page,
                strerror(-result));
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

static const struct row launch_rows[] = {{.put = show_launch}, {0}};
const struct cli_page page_auth_open = {"POST", "/api/v1/launch", .rows = launch_rows};

/* -- tokens ------------------------------------------------------------------------------------ */

static const struct member wish[] = {{"name", "--name"},       {"scopes", "--scope", MEMBER_PARTS},
                                     {"expires", "--expires"}, {"user", "--user"},
                                     {"profile", "--profile"}, {0}};

static void show_token(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    (void)out, (void)cli;
    print_text(cli_text(answer, "token"));
    if (isatty(STDERR_FILENO))
        fputs("kaged keeps only a hash of it: it is not shown again\n", stderr);
}

static const struct row token_rows[] = {{.put = show_token}, {0}};

int cli_auth_token_create(struct cli *cli)
{
    static const struct cli_page page = {"POST", "/api/v1/tokens", wish, .rows = token_rows};
    struct kg_err err;
    if (cli_option_value(cli, "name") != NULL)
        return page_show(cli, &page);
    kg_fail(&err, KG_E_USAGE, "a token needs a name: --name NAME");
    return print_error(&err);
}

static const struct cell list_cells[] = {{"SCOPES", "scopes~admin", "admin", NULL}, /* has all */
                                         {"SCOPES", NULL, "{scopes:commas}", NULL},
                                         {"EXPIRES", "expired", "expired", NULL},
                                         {"EXPIRES", NULL, "{expires_at}", NULL},
                                         {0}};
static const struct row list_rows[] = {
    {"!tokens", .words = "there are no API tokens\n"},
    {.each = "tokens",
     .table = "ID={id}; NAME={name}; SCOPES; OPERATOR={operator}; CREATED={created_at}; EXPIRES; "
              "LAST USED={last_used_at}",
     .cells = list_cells},
    {0},
};
const struct cli_page page_auth_token_list = {"GET", "/api/v1/tokens", .rows = list_rows};
const struct cli_page page_auth_token_revoke = {"DELETE", "/api/v1/tokens/{1}",
                                                .words = "token {name} is revoked\n"};
