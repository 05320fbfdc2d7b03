/*
 * What git itself would look at, as far as it says where hooks and settings are: the file that
 * stands in the place of a repository, and two values of a config. All of it may be anybody's:
 * what is not understood is passed over, and each file and list has its bound.
 */
#include "host/internal.h"

#include <stdlib.h>
#include <strings.h>

#define NAME_FILE_MAX_BYTES ((size_t)4096)
#define CONFIG_MAX_BYTES    ((size_t)256 * 1024)
#define VALUES_MAX          16 /* of one kind, in one config */

static bool guards_git_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct kg_str guards_git_trim(struct kg_str text)
{
    while (text.length > 0 && guards_git_is_space(text.data[0]))
        text = kg_str_from(text, 1);
    while (text.length > 0 && guards_git_is_space(text.data[text.length - 1]))
        text.length--;
    return text;
}

static bool guards_git_is_word(struct kg_str text, const char *word)
{
    return text.length == strlen(word) && strncasecmp(text.data, word, text.length) == 0;
}

/* -- a file that holds a path ------------------------------------------------------------------ */

char *guards_git_named(const char *file, const char *head, const char *base)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (kg_read_file(file, NAME_FILE_MAX_BYTES, &text, NULL) < 0)
        return NULL;
    struct kg_str rest = kg_buf_view(&text);
    if (!kg_str_starts(rest, head))
        return NULL;
    rest = kg_str_from(rest, strlen(head));
    kg_auto(kg_free) char *name = kg_str_dup(guards_git_trim(kg_str_cut(&rest, '\n')));
    return name[0] != '\0' ? cage_path_join(base, name) : NULL;
}

/* -- a config ---------------------------------------------------------------------------------- */

/* Without quotes and what stands behind them, as git reads it. Owned. */
static char *value_of(struct kg_str text)
{
    kg_auto(kg_buf_free) struct kg_buf value = {0};
    bool quoted = false;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.data[i];
        if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '#' || c == ';'))
            break;
        else if (c == '\\' && i + 1 < text.length)
            kg_buf_char(&value, text.data[++i]);
        else
            kg_buf_char(&value, c);
    }
    return kg_str_dup(guards_git_trim(kg_buf_view(&value)));
}

/* Takes a header off the line: [core], or [includeIf "..."]. Gives the section's name. */
static struct kg_str guards_git_take_header(struct kg_str *line)
{
    size_t end = 1, name = 1;
    bool quoted = false;
    for (; end < line->length && (quoted || line->data[end] != ']'); end++)
        quoted = quoted != (line->data[end] == '"');
    while (name < end && !guards_git_is_space(line->data[name]) && line->data[name] != '"')
        name++;
    struct kg_str section = {line->data + 1, name - 1};
    *line = guards_git_trim(kg_str_from(*line, end < line->length ? end + 1 : end));
    return section;
}

static void guards_git_add_value(char ***list, struct kg_str text)
{
    kg_auto(kg_free) char *value = value_of(text);
    if (value[0] != '\0' && kg_list_count(*list) < VALUES_MAX)
        kg_list_add(list, kg_steal(&value));
}

void guards_git_config(struct kg_str text, char ***hooks, char ***includes)
{
    struct kg_str section = KG_STR_NULL;
    while (text.length > 0) {
        struct kg_str line = guards_git_trim(kg_str_cut(&text, '\n'));
        if (line.length > 0 && line.data[0] == '[')
            section = guards_git_take_header(&line);
        if (line.length == 0 || line.data[0] == '#' || line.data[0] == ';')
            continue;
        struct kg_str key = guards_git_trim(kg_str_cut(&line, '='));
        if (guards_git_is_word(section, "core") && guards_git_is_word(key, "hookspath"))
            guards_git_add_value(hooks, line);
        else if ((guards_git_is_word(section, "include") ||
                  guards_git_is_word(section, "includeif")) &&
                 guards_git_is_word(key, "path"))
            guards_git_add_value(includes, line);
    }
}

int guards_git_read(const char *file, char ***hooks, char ***includes, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_err why = {0};
    int result = kg_read_file(file, CONFIG_MAX_BYTES, &text, &why);
    if (result == 0)
        guards_git_config(kg_buf_view(&text), hooks, includes);
    if (result < 0 && why.code == KG_E_TOO_LARGE) {
        *err = why;
        return result;
    }
    return 0; /* what cannot be read here is not a file, or not the plugin's to write */
}
