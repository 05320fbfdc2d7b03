/*
 * Documents and what in them can be referred to. An index holds the resources of one or more
 * documents by URI, and each resource its anchors. The metaschemas are read once for the process
 * and never change. Nothing is fetched.
 */
#include "schema/internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct schema_index {
    struct kg_arena *arena;   /* owned; resources, anchors, URIs */
    struct kg_map *resources; /* owned; URI to resource */
    struct kg_map *roots;     /* owned; node to resource */
    struct schema_resource **owned;
    size_t owned_count;
    size_t owned_capacity;
};

struct schema_registry {
    struct schema_index *indexes[2]; /* owned; by the draft of documents that do not say theirs */
    struct kg_doc **docs;            /* owned, each and all */
    size_t doc_count;
};

/* -- index ------------------------------------------------------------------------------------- */

struct schema_index *schema_index_new(void)
{
    struct schema_index *index = kg_alloc(sizeof(*index));
    index->arena = kg_arena_new();
    index->resources = kg_map_new();
    index->roots = kg_map_new();
    return index;
}

void schema_index_free(struct schema_index *index)
{
    if (index == NULL)
        return;
    for (size_t i = 0; i < index->owned_count; i++)
        kg_map_free(index->owned[i]->anchors);
    free(index->owned);
    kg_map_free(index->resources);
    kg_map_free(index->roots);
    kg_arena_free(index->arena);
    free(index);
}

static struct kg_str node_key(const struct kg_node *const *node)
{
    return (struct kg_str){(const char *)node, sizeof(*node)};
}

const struct schema_resource *schema_index_enter(const struct schema_index *index,
                                                 const struct kg_node *node,
                                                 const struct schema_resource *within)
{
    const struct schema_resource *found = kg_map_get(index->roots, node_key(&node));
    return found ? found : within;
}

/* A URI that is given twice stays the first one's. */
static void put_uri(struct schema_index *index, struct kg_str uri, struct schema_resource *resource)
{
    if (kg_map_get(index->resources, uri) == NULL)
        kg_map_set(index->resources, uri, resource);
}

static struct schema_resource *add_resource(struct schema_index *index, struct kg_str uri,
                                            const struct kg_node *root)
{
    if (index->owned_count == index->owned_capacity) {
        index->owned_capacity = index->owned_capacity ? index->owned_capacity * 2 : 8;
        index->owned = kg_realloc(index->owned, index->owned_capacity * sizeof(*index->owned));
    }
    struct schema_resource *resource = kg_arena_alloc(index->arena, sizeof(*resource));
    index->owned[index->owned_count++] = resource;
    resource->uri = kg_arena_str(index->arena, uri);
    resource->root = root;
    resource->index = index;
    resource->anchors = kg_map_new();
    kg_map_set(index->roots, node_key(&root), resource);
    put_uri(index, resource->uri, resource);
    return resource;
}

static void registry_add_anchor(struct schema_index *index, const struct schema_resource *resource,
                                struct kg_str name, const struct kg_node *node, bool dynamic)
{
    if (name.length == 0 || name.length > SCHEMA_URI_MAX ||
        kg_map_get(resource->anchors, name) != NULL)
        return;
    struct schema_anchor *anchor = kg_arena_alloc(index->arena, sizeof(*anchor));
    *anchor = (struct schema_anchor){kg_arena_str(index->arena, name), node, dynamic};
    kg_map_set(resource->anchors, name, anchor);
}

/* -- walking a document ------------------------------------------------------------------------ */

struct walk {
    struct schema_index *index;
    const struct schema_registry *registry;
    const struct schema_resource *resource; /* that the node is in */
    enum schema_draft draft;
    unsigned depth;
    size_t *subschemas; /* so far */
    size_t first;       /* resources of documents before this one */
};

/* In draft-07 nothing beside $ref counts. */
static bool is_plain_reference(const struct kg_node *node, enum schema_draft draft)
{
    return draft == SCHEMA_DRAFT_7 && kg_node_typed(node, "$ref", KG_STRING) != NULL;
}

/* Takes the node's $id, if it starts a resource; a fragment in it is an anchor of draft-07. */
static void registry_take_id(struct walk *walk, const struct kg_node *node)
{
    const struct kg_node *id = kg_node_typed(node, "$id", KG_STRING);
    kg_auto(kg_buf_free) struct kg_buf uri = {0};
    struct kg_str fragment;
    if (id == NULL || id->text.length > SCHEMA_URI_MAX ||
        walk->index->owned_count - walk->first > SCHEMA_RESOURCES_MAX ||
        !schema_uri_resolve(walk->resource->uri, id->text, &uri, &fragment))
        return;
    if (id->text.length > 0 && id->text.data[0] != '#' && walk->resource->root != node) {
        struct schema_resource *resource = add_resource(walk->index, kg_buf_view(&uri), node);
        resource->draft = walk->draft;
        resource->up = walk->resource;
        walk->resource = resource;
    }
    if (walk->draft == SCHEMA_DRAFT_7)
        registry_add_anchor(walk->index, walk->resource, fragment, node, false);
}

static void take_anchors(struct walk *walk, const struct kg_node *node)
{
    const struct kg_node *anchor = kg_node_typed(node, "$anchor", KG_STRING);
    const struct kg_node *dynamic = kg_node_typed(node, "$dynamicAnchor", KG_STRING);
    if (walk->draft == SCHEMA_DRAFT_7)
        return;
    if (dynamic != NULL)
        registry_add_anchor(walk->index, walk->resource, dynamic->text, node, true);
    if (anchor != NULL)
        registry_add_anchor(walk->index, walk->resource, anchor->text, node, false);
}

/* A resource may be of another draft than what it stands in. */
static void take_dialect(struct walk *walk, const struct kg_node *node)
{
    const struct kg_node *dialect = kg_node_typed(node, "$schema", KG_STRING);
    unsigned vocabularies;
    if (dialect == NULL ||
        (walk->resource != NULL && kg_node_typed(node, "$id", KG_STRING) == NULL))
        return;
    schema_dialect(walk->index, walk->registry, dialect->text, &walk->draft, &vocabularies);
}

static int walk_node(void *data, const struct kg_node *node, struct schema_step step)
{
    (void)step;
    struct walk walk = *(const struct walk *)data;
    if (++*walk.subschemas > SCHEMA_SUBSCHEMAS_MAX || ++walk.depth > SCHEMA_DEPTH_MAX)
        return -E2BIG;
    if (node->type == KG_OBJECT && !is_plain_reference(node, walk.draft)) {
        const struct schema_resource *outer = walk.resource;
        take_dialect(&walk, node);
        registry_take_id(&walk, node);
        take_anchors(&walk, node);
        if (walk.resource != outer || node == walk.resource->root) {
            struct schema_resource *own = walk.index->owned[walk.index->owned_count - 1];
            own->draft = walk.draft;
            own->dialect = kg_node_typed(node, "$schema", KG_STRING);
        }
    }
    return schema_each_child(node, walk.draft, walk_node, &walk);
}

static struct schema_resource *add_root(struct schema_index *index, struct kg_str uri,
                                        const struct kg_node *root)
{
    const struct kg_node *id =
        root->type == KG_OBJECT ? kg_node_typed(root, "$id", KG_STRING) : NULL;
    kg_auto(kg_buf_free) struct kg_buf own = {0};
    struct kg_str fragment;
    bool named = id != NULL && schema_uri_resolve(uri, id->text, &own, &fragment);
    struct schema_resource *resource = add_resource(index, named ? kg_buf_view(&own) : uri, root);
    put_uri(index, kg_arena_str(index->arena, uri), resource);
    return resource;
}

int schema_index_add(struct schema_index *index, const struct schema_registry *registry,
                     struct kg_str uri, const struct kg_node *root, enum schema_draft draft,
                     struct kg_err *err)
{
    size_t subschemas = 0;
    struct schema_resource *resource = add_root(index, uri, root);
    const struct kg_node *dialect = kg_node_typed(root, "$schema", KG_STRING);
    unsigned vocabularies;
    if (dialect != NULL)
        schema_dialect(index, registry, dialect->text, &draft, &vocabularies);
    resource->draft = draft;
    resource->dialect = dialect;
    struct walk walk = {index, registry, resource, draft, 0, &subschemas, index->owned_count};
    if (walk_node(&walk, root, (struct schema_step){0}) == 0)
        return 0;
    return kg_fail(err, KG_E_INVALID_PARAMS,
                   "%u:%u: #: is too large: at most %d subschemas, nested at most %d deep",
                   root->line, root->column, SCHEMA_SUBSCHEMAS_MAX, SCHEMA_DEPTH_MAX);
}

/* -- the metaschemas --------------------------------------------------------------------------- */

static const struct {
    const char *uri;
    const char *text;
} metaschemas[] = {
    {
        "http://json-schema.org/draft-07/schema",
#include "draft-07.json.h"
    },
    {
        "https://json-schema.org/draft/2020-12/schema",
#include "schema.json.h"
    },
    {
        "https://json-schema.org/draft/2020-12/meta/core",
#include "core.json.h"
    },
    {
        "https://json-schema.org/draft/2020-12/meta/applicator",
#include "applicator.json.h"
    },
    {
        "https://json-schema.org/draft/2020-12/meta/unevaluated",
#include "unevaluated.json.h"
    },
    {
        "https://json-schema.org/draft/2020-12/meta/validation",
#include "validation.json.h"
    },
    {
        "https://json-schema.org/draft/2020-12/meta/meta-data",
#include "meta-data.json.h"
    },
    {
        "https://json-schema.org/draft/2020-12/meta/format-annotation",
#include "format-annotation.json.h"
    },
    {
        "https://json-schema.org/draft/2020-12/meta/format-assertion",
#include "format-assertion.json.h"
    },
    {
        "https://json-schema.org/draft/2020-12/meta/content",
#include "content.json.h"
    },
};

static struct schema_registry *bundled;
static pthread_once_t bundled_once = PTHREAD_ONCE_INIT;

static void read_metaschemas(void)
{
    struct schema_registry *registry = schema_registry_new();
    for (size_t i = 0; i < KG_COUNT(metaschemas); i++)
        if (schema_registry_add(registry, kg_str(metaschemas[i].uri), kg_str(metaschemas[i].text),
                                NULL) < 0)
            abort();
    bundled = registry;
}

/* -- registry ---------------------------------------------------------------------------------- */

struct schema_registry *schema_registry_new(void)
{
    struct schema_registry *registry = kg_alloc(sizeof(*registry));
    registry->indexes[0] = schema_index_new();
    registry->indexes[1] = schema_index_new();
    return registry;
}

void schema_registry_free(struct schema_registry *registry)
{
    if (registry == NULL)
        return;
    schema_index_free(registry->indexes[0]);
    schema_index_free(registry->indexes[1]);
    for (size_t i = 0; i < registry->doc_count; i++)
        kg_doc_free(registry->docs[i]);
    free(registry->docs);
    free(registry);
}

/* "http://x/y#" and "http://x/y" are one document. */
static struct kg_str without_fragment(struct kg_str uri)
{
    const char *mark = uri.length ? memchr(uri.data, '#', uri.length) : NULL;
    return (struct kg_str){uri.data, mark ? (size_t)(mark - uri.data) : uri.length};
}

int schema_registry_add(struct schema_registry *registry, struct kg_str uri, struct kg_str json,
                        struct kg_err *err)
{
    uri = without_fragment(uri);
    if (uri.length == 0 || uri.length > SCHEMA_URI_MAX)
        return kg_fail(err, KG_E_INVALID_PARAMS, "schema: its URI must have 1 to %d bytes",
                       SCHEMA_URI_MAX);
    if (kg_map_get(registry->indexes[0]->resources, uri) != NULL)
        return kg_fail(err, KG_E_CONFLICT, "schema %.*s: is already registered", KG_STR_ARG(uri));
    struct kg_doc *doc = kg_json_read(json, err);
    if (doc == NULL)
        return kg_wrap(err, -EINVAL, "schema %.*s", KG_STR_ARG(uri));
    registry->docs =
        kg_realloc(registry->docs, (registry->doc_count + 1) * sizeof(*registry->docs));
    registry->docs[registry->doc_count++] = doc;
    int result = 0;
    for (unsigned draft = 0; draft < 2 && result == 0; draft++)
        result = schema_index_add(registry->indexes[draft], registry, uri, doc->root,
                                  (enum schema_draft)draft, err);
    return result < 0 ? kg_wrap(err, result, "schema %.*s", KG_STR_ARG(uri)) : 0;
}

const struct schema_resource *schema_find(const struct schema_index *own,
                                          const struct schema_registry *registry,
                                          enum schema_draft draft, struct kg_str uri)
{
    const struct schema_resource *found = own ? kg_map_get(own->resources, uri) : NULL;
    if (found == NULL && registry != NULL)
        found = kg_map_get(registry->indexes[draft]->resources, uri);
    if (found == NULL && (kg_str_starts(uri, "https://json-schema.org/") ||
                          kg_str_starts(uri, "http://json-schema.org/"))) {
        pthread_once(&bundled_once, read_metaschemas);
        found = kg_map_get(bundled->indexes[draft]->resources, uri);
    }
    return found;
}

/* -- dialects ---------------------------------------------------------------------------------- */

static const struct {
    const char *uri;
    enum schema_draft draft;
} dialects[] = {
    {"https://json-schema.org/draft/2020-12/schema", SCHEMA_DRAFT_2020_12},
    {"http://json-schema.org/draft-07/schema", SCHEMA_DRAFT_7},
    {"https://json-schema.org/draft-07/schema", SCHEMA_DRAFT_7},
};

#define VOCABULARY(name) "https://json-schema.org/draft/2020-12/vocab/" name

static const struct {
    const char *uri;
    unsigned bits;
} vocabulary_rows[] = {
    {VOCABULARY("core"), SCHEMA_V_CORE},
    {VOCABULARY("applicator"), SCHEMA_V_APPLICATOR},
    {VOCABULARY("unevaluated"), SCHEMA_V_UNEVALUATED},
    {VOCABULARY("validation"), SCHEMA_V_VALIDATION},
    {VOCABULARY("meta-data"), SCHEMA_V_META_DATA},
    {VOCABULARY("format-annotation"), SCHEMA_V_FORMAT},
    {VOCABULARY("format-assertion"), SCHEMA_V_FORMAT | SCHEMA_V_ASSERT_FORMAT},
    {VOCABULARY("content"), SCHEMA_V_CONTENT},
};

/* False if the metaschema asks for a vocabulary that we do not know. */
static bool read_vocabularies(const struct kg_node *metaschema, unsigned *ret_vocabularies)
{
    const struct kg_node *listed = kg_node_get(metaschema, "$vocabulary");
    if (listed == NULL || listed->type != KG_OBJECT) {
        *ret_vocabularies = SCHEMA_V_USUAL;
        return true;
    }
    unsigned bits = SCHEMA_V_CORE;
    for (uint32_t i = 0; i < listed->count; i++) {
        unsigned known = 0;
        for (size_t row = 0; row < KG_COUNT(vocabulary_rows); row++)
            if (kg_str_is(listed->members[i].key, vocabulary_rows[row].uri))
                known = vocabulary_rows[row].bits;
        if (known == 0 && listed->members[i].value.boolean)
            return false;
        bits |= known;
    }
    *ret_vocabularies = bits;
    return true;
}

bool schema_dialect(const struct schema_index *own, const struct schema_registry *registry,
                    struct kg_str uri, enum schema_draft *ret_draft, unsigned *ret_vocabularies)
{
    uri = without_fragment(uri);
    for (size_t i = 0; i < KG_COUNT(dialects); i++) {
        if (kg_str_is(uri, dialects[i].uri)) {
            *ret_draft = dialects[i].draft;
            *ret_vocabularies = SCHEMA_V_USUAL;
            return true;
        }
    }
    const struct schema_resource *metaschema =
        schema_find(own, registry, SCHEMA_DRAFT_2020_12, uri);
    if (metaschema == NULL || metaschema->dialect == NULL ||
        !read_vocabularies(metaschema->root, ret_vocabularies))
        return false;
    *ret_draft = metaschema->draft;
    return true;
}
