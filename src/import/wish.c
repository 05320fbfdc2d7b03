/* What a server of a client's file is asked for with; its keys are names here, and never values. */
#include "config/local.h"
#include "import/internal.h"

#include <stdlib.h>

char *import_secret_name(const struct import_server *server, const struct import_key *key)
{
    return kg_format("%.*s.%s", (int)(LOCAL_SECRET_NAME_MAX - 1 - strlen(key->name)),
                     server->plugin, key->name);
}

char **import_env(const struct import_server *server)
{
    char **env = kg_list_copy((const char *const *)server->env);
    for (size_t i = 0; i < server->key_count; i++) {
        kg_auto(kg_free) char *secret = import_secret_name(server, &server->keys[i]);
        kg_list_add(&env, kg_format("%s=${secret:%s}", server->keys[i].name, secret));
    }
    return env;
}

static void wish_put_pairs(struct kg_json_writer *json, const char *name, char *const *pairs)
{
    if (pairs[0] == NULL)
        return;
    kg_json_named_begin(json, name, '{');
    for (; *pairs != NULL; pairs++) {
        struct kg_str value = kg_str(*pairs), text = kg_str_cut(&value, '=');
        kg_auto(kg_free) char *key = kg_str_dup(text);
        kg_json_named_str(json, key, value);
    }
    kg_json_end(json, '}');
}

void import_server_json(const struct import_server *server, struct kg_buf *out)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", server->plugin);
    kg_json_named_list(&json, "args", server->args);
    wish_put_pairs(&json, "headers", server->headers);
    kg_json_end(&json, '}');
}
