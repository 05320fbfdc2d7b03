/* The one JSON form of an offer: what the API answers and `--json` prints. */
#include "store/internal.h"

static void put_text(struct kg_json_writer *json, const char *key, const char *value)
{
    kg_json_key(json, key);
    kg_json_text(json, value);
}

static void put_number(struct kg_json_writer *json, const char *key, uint64_t value)
{
    kg_json_key(json, key);
    kg_json_int(json, (int64_t)value);
}

static void put_bool(struct kg_json_writer *json, const char *key, bool value)
{
    kg_json_key(json, key);
    kg_json_bool(json, value);
}

static void put_list(struct kg_json_writer *json, const char *key, char *const *list)
{
    kg_json_key(json, key);
    kg_json_begin(json, '[');
    for (size_t i = 0; list != NULL && list[i] != NULL; i++)
        kg_json_text(json, list[i]);
    kg_json_end(json, ']');
}

static void put_hash(struct kg_json_writer *json, const char *key, const char *hash)
{
    put_text(json, key, hash[0] != '\0' ? hash : NULL);
}

static void put_manifest(struct kg_json_writer *json, const struct manifest *manifest)
{
    put_text(json, "name", manifest->name);
    put_text(json, "package", manifest->package);
    put_text(json, "version", manifest->version);
    put_number(json, "kaged_api", (uint64_t)manifest->kaged_api);
    put_text(json, "description", manifest->description);
    put_text(json, "author", manifest->author);
    put_text(json, "license", manifest->license);
    put_text(json, "homepage", manifest->homepage);
    put_list(json, "command", manifest->command);
}

static void put_capabilities(struct kg_json_writer *json, const struct store_offer *offer)
{
    kg_json_key(json, "capabilities");
    kg_json_begin(json, '[');
    for (size_t i = 0; i < offer->capability_count; i++) {
        const struct store_capability *capability = &offer->capabilities[i];
        kg_json_begin(json, '{');
        put_text(json, "capability", capability->text);
        put_text(json, "words", capability->words);
        put_text(json, "danger", capability->danger);
        put_text(json, "difference", store_difference_names[capability->difference]);
        kg_json_end(json, '}');
    }
    kg_json_end(json, ']');
}

static void put_changes(struct kg_json_writer *json, const struct store_offer *offer)
{
    kg_json_key(json, "changes");
    kg_json_begin(json, '[');
    for (size_t i = 0; i < offer->change_count; i++) {
        kg_json_begin(json, '{');
        put_text(json, "what", offer->changes[i].what);
        put_list(json, "before", offer->changes[i].before);
        put_list(json, "after", offer->changes[i].after);
        kg_json_end(json, '}');
    }
    kg_json_end(json, ']');
}

static void put_files(struct kg_json_writer *json, const struct store_tree_diff *diff)
{
    kg_json_key(json, "file_changes");
    kg_json_begin(json, '{');
    put_list(json, "added", diff->added);
    put_list(json, "removed", diff->removed);
    put_list(json, "changed", diff->changed);
    put_number(json, "added_count", diff->added_count);
    put_number(json, "removed_count", diff->removed_count);
    put_number(json, "changed_count", diff->changed_count);
    kg_json_end(json, '}');
}

void store_offer_json(const struct store_offer *offer, struct kg_json_writer *json)
{
    kg_json_begin(json, '{');
    put_text(json, "id", offer->id.text);
    put_text(json, "change", store_change_names[offer->kind]);
    put_text(json, "source", offer->source);
    put_text(json, "origin", offer->origin);
    put_manifest(json, offer->manifest);
    put_text(json, "installed_version", offer->installed_version);
    put_hash(json, "hash", offer->hash);
    put_hash(json, "approved_hash", offer->approved_hash);
    put_number(json, "files", offer->files);
    put_number(json, "bytes", offer->bytes);
    put_bool(json, "local", offer->local);
    put_bool(json, "compared", offer->compared);
    put_capabilities(json, offer);
    put_number(json, "capabilities_new", offer->capabilities_new);
    put_bool(json, "widens", store_offer_widens(offer));
    put_changes(json, offer);
    put_files(json, &offer->diff);
    put_list(json, "warnings", offer->warnings);
    kg_json_end(json, '}');
}
