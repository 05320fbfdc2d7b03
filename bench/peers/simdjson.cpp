/* Each line becomes a document of simdjson's, validated whole. usage: simdjson FILE */
#include "scan.h"

#include <simdjson.h>

static long parse(const char *line, unsigned long length)
{
    static simdjson::dom::parser parser;
    simdjson::dom::element tree;
    int64_t id = 0;
    simdjson::dom::object result;
    if (parser.parse(line, length, false).get(tree) || tree["result"].get(result) ||
        tree["id"].get(id))
        return 0;
    return static_cast<long>(id);
}

int main(int argc, char **argv)
{
    return scan_serve(argc == 2 ? argv[1] : nullptr, parse);
}
