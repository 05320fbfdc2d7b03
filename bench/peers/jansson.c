/* Each line becomes a tree of jansson's. usage: jansson FILE */
#include "scan.h"

#include <jansson.h>

static long parse(const char *line, unsigned long length)
{
    json_t *tree = json_loadb(line, length, 0, NULL);
    long id = json_is_object(json_object_get(tree, "result"))
                  ? (long)json_integer_value(json_object_get(tree, "id"))
                  : 0;
    json_decref(tree);
    return id;
}

int main(int argc, char **argv)
{
    return scan_serve(argc == 2 ? argv[1] : NULL, parse);
}
