/* Paths are compared and cut as they are written: nothing here looks at a disk or follows a link.
 */
#include "base/base.h"

bool kg_path_within(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    if (length == 0 || strncmp(path, folder, length) != 0)
        return false;
    return path[length] == '\0' || path[length] == '/' || folder[length - 1] == '/';
}

const char *kg_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

char *kg_path_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return kg_strdup(".");
    return kg_str_dup((struct kg_str){path, slash == path ? 1 : (size_t)(slash - path)});
}

char *kg_path_join(const char *folder, const char *name)
{
    return kg_format("%s/%s", strcmp(folder, "/") == 0 ? "" : folder, name);
}

char *kg_path_moved(const char *path, const char *from, const char *to)
{
    return kg_path_within(path, from) ? kg_format("%s%s", to, path + strlen(from))
                                      : kg_strdup(path);
}
