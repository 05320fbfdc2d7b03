/* Lists of texts: an owned array of owned strings that ends with NULL, never NULL itself. */
#include "base/base.h"

#include <stdlib.h>

char **kg_list_new(size_t count)
{
    return kg_alloc_array(count + 1, sizeof(char *));
}

size_t kg_list_count(char *const *list)
{
    size_t count = 0;
    while (list[count] != NULL)
        count++;
    return count;
}

char **kg_list_copy(const char *const *list)
{
    size_t count = kg_list_count((char *const *)list);
    char **copy = kg_list_new(count);
    for (size_t i = 0; i < count; i++)
        copy[i] = kg_strdup(list[i]);
    return copy;
}

void kg_list_add(char ***list, char *text)
{
    size_t count = kg_list_count(*list);
    *list = kg_realloc(*list, (count + 2) * sizeof(char *));
    (*list)[count] = text;
    (*list)[count + 1] = NULL;
}

bool kg_list_has(char *const *list, struct kg_str text)
{
    for (; *list != NULL; list++)
        if (kg_str_is(text, *list))
            return true;
    return false;
}

void kg_list_free(char **list)
{
    for (char **at = list; at != NULL && *at != NULL; at++)
        free(*at);
    free(list);
}
