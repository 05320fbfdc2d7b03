/* kaged org: orgs, their members, and the users that tokens can belong to. */
#include "cli/cli.h"

/* "/api/orgs/NAME" and what follows. */
static void put_org_target(struct kg_buf *target, const char *tree, const char *org,
                           const char *rest)
{
    kg_buf_text(target, tree);
    kg_buf_percent(target, kg_str(org));
    kg_buf_text(target, rest);
}

bool cli_put_org(const struct cli *cli, struct kg_buf *target)
{
    const char *org = cli_option_value(cli, "org");
    if (org == NULL) {
        print_problem(CLI_USAGE, KG_STR("--org is missing"),
                      KG_STR("kaged org list shows the orgs"));
        return false;
    }
    put_org_target(target, "/api/orgs/", org, "");
    return true;
}

static void put_orgs(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    static const char *const headings[] = {"NAME", "DOMAIN", "STATUS", "ID", "CREATED", NULL};
    static const char *const keys[] = {"name", "domain", "status", "org_id", "created_at", NULL};
    const struct kg_node *orgs = kg_node_list(answer, "orgs");
    (void)cli;
    if (orgs->count == 0) {
        kg_buf_text(out, "there are no orgs\n");
        return;
    }
    struct table *table = table_new(headings);
    for (uint32_t i = 0; i < orgs->count; i++)
        table_texts(table, &orgs->items[i], keys);
    table_print(table);
}

int cli_org_list(struct cli *cli)
{
    const struct client_request request = {.method = "GET", .target = "/api/orgs"};
    return cli_show(cli, &request, put_orgs);
}

static void put_made(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    (void)cli;
    print_words(out, answer, "org {name} is there, by the id {org_id}\n");
}

int cli_org_create(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", cli_argument(cli, 0));
    if (cli_option_value(cli, "domain") != NULL)
        kg_json_named_text(&json, "domain", cli_option_value(cli, "domain"));
    kg_json_end(&json, '}');
    const struct client_request request = {
        .method = "POST", .target = "/api/admin/orgs", .body = kg_buf_view(&body)};
    return cli_show(cli, &request, put_made);
}

static void put_changed(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    (void)cli;
    if (kg_node_is_true(answer, "is_deleted"))
        print_words(out, answer, "org {name} is deleted\n");
    else
        print_words(out, answer, "org {name} is {status}\n");
}

static int org_change(const struct cli *cli, const char *change)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    put_org_target(&target, "/api/admin/orgs/", cli_argument(cli, 0), "");
    const struct client_request request = {
        .method = "PATCH", .target = kg_buf_terminate(&target), .body = kg_str(change)};
    return cli_show(cli, &request, put_changed);
}

int cli_org_activate(struct cli *cli)
{
    return org_change(cli, "{\"status\":\"active\"}");
}

int cli_org_deactivate(struct cli *cli)
{
    return org_change(cli, "{\"status\":\"inactive\"}");
}

int cli_org_delete(struct cli *cli)
{
    return org_change(cli, "{\"is_deleted\":true}");
}

/* -- members and users ------------------------------------------------------------------------- */

static void put_users(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    static const char *const headings[] = {"NAME", "ROLE", "EMAIL", "ID", NULL};
    const struct kg_node *users = kg_node_list(answer, "users");
    (void)cli;
    if (users->count == 0) {
        kg_buf_text(out, "there are none\n");
        return;
    }
    struct table *table = table_new(headings);
    for (uint32_t i = 0; i < users->count; i++) {
        const struct kg_node *user = &users->items[i];
        bool of_org = kg_node_get(user, "org_id") != NULL;
        table_cell(table, cli_text(user, "name"), NULL);
        table_cell(table,
                   kg_node_is_true(user, "is_sys_admin") ? KG_STR("sys_admin")
                   : kg_node_is_true(user, "is_admin")   ? KG_STR("org_admin")
                   : of_org                              ? KG_STR("org_member")
                                                         : KG_STR(""),
                   NULL);
        table_texts(table, user, (const char *const[]){"email", "user_id", NULL});
    }
    table_print(table);
}

int cli_org_users(struct cli *cli)
{
    const struct client_request request = {.method = "GET", .target = "/api/admin/users"};
    return cli_show(cli, &request, put_users);
}

int cli_org_members(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    put_org_target(&target, "/api/orgs/", cli_argument(cli, 0), "/users");
    const struct client_request request = {.method = "GET", .target = kg_buf_terminate(&target)};
    return cli_show(cli, &request, put_users);
}

static void put_member(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    print_words(out, answer, "{name}");
    kg_buf_printf(out, " is %s of %s\n",
                  kg_node_is_true(answer, "is_admin") ? "an admin" : "a member",
                  cli_argument(cli, 0));
}

int cli_org_add_member(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    put_org_target(&target, "/api/orgs/", cli_argument(cli, 0), "/members");
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "user", cli_argument(cli, 1));
    kg_json_named_bool(&json, "is_admin", cli_has(cli, "admin"));
    kg_json_end(&json, '}');
    const struct client_request request = {
        .method = "POST", .target = kg_buf_terminate(&target), .body = kg_buf_view(&body)};
    return cli_show(cli, &request, put_member);
}

static void put_removed(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    (void)answer;
    kg_buf_printf(out, "%s is not a member of %s any more\n", cli_argument(cli, 1),
                  cli_argument(cli, 0));
}

int cli_org_remove_member(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    put_org_target(&target, "/api/orgs/", cli_argument(cli, 0), "/users/");
    kg_buf_percent(&target, kg_str(cli_argument(cli, 1)));
    const struct client_request request = {.method = "DELETE", .target = kg_buf_terminate(&target)};
    return cli_show(cli, &request, put_removed);
}
