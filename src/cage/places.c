/* One table says which places of the system are a plugin's to have: a second list elsewhere could
 * drift.
 */
#include "cage/internal.h"

enum rule { TREE, MEMORY, WHOLE, SHARED };

static const struct place {
    const char *path;
    enum rule rule;
} places[] = {
#define PLACE(path, rule) {path, rule},
#include "cage/places.def"
#undef PLACE
};

static bool cage_places_is_tree(const struct place *place)
{
    return place->rule == TREE || place->rule == MEMORY;
}

/* The row that the path is, or lies in the tree of; NULL: it is nobody's. */
static const struct place *cage_places_place_of(const char *path)
{
    for (size_t i = 0; i < KG_COUNT(places); i++)
        if (cage_places_is_tree(&places[i]) ? kg_path_within(path, places[i].path)
                                            : strcmp(path, places[i].path) == 0)
            return &places[i];
    return NULL;
}

bool cage_place_may_be_given(const char *path)
{
    const struct place *place = cage_places_place_of(path);
    return place == NULL || place->rule == SHARED;
}

bool cage_place_may_be_installed(const char *path)
{
    const struct place *place = cage_places_place_of(path);
    return place == NULL || (place->rule == MEMORY && strcmp(path, place->path) != 0);
}

int cage_place_check(const char *path, enum kg_code code, struct kg_err *err)
{
    if (cage_place_may_be_given(path))
        return 0;
    const struct place *place = cage_places_place_of(path);
    int result;
    if (cage_places_is_tree(place)) {
        result = kg_fail(err, code,
                         "%s and what is in it cannot be given to a plugin: it is the "
                         "system's own",
                         place->path);
        kg_hint(err, "leave it out: the cage has a %s of its own", place->path);
    } else {
        result = kg_fail(err, code, "%s cannot be given as a whole: it is the system's own", path);
        kg_hint(err, "name the file or folder below it that the plugin needs");
    }
    return result;
}
