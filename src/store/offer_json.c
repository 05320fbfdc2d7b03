/* The one JSON form of an offer: what the API answers and `--json` prints. */
#include "store/internal.h"

static void offer_json_put_number(struct kg_json_writer *json, const char *key, uint64_t value)
{
    kg_json_named_int(json, key, (int64_t)value);
}

static void put_hash(struct kg_json_writer *json, const char *key, const char *hash)
{
    kg_json_named_text(json, key, hash[0] != '\0' ? hash : NULL);
}

static void offer_json_put_manifest(struct kg_json_writer *json, const struct manifest *manifest)
{
    kg_json_named_text(json, "name", manifest->name);
    kg_json_named_text(json, "package", manifest->package);
    kg_json_named_text(json, "version", manifest->version);
    offer_json_put_number(json, "kaged_api", (uint64_t)manifest->kaged_api);
    kg_json_named_text(json, "protocol", manifest->is_mcp ? "mcp" : "kaged");
    kg_json_named_text(json, "description", manifest->description);
    kg_json_named_text(json, "author", manifest->author);
    kg_json_named_text(json, "license", manifest->license);
    kg_json_named_text(json, "homepage", manifest->homepage);
    kg_json_named_list(json, "command", manifest->command);
}

static void offer_json_put_capabilities(struct kg_json_writer *json,
                                        const struct store_offer *offer)
{
    kg_json_named_begin(json, "capabilities", '[');
    for (size_t i = 0; i < offer->capability_count; i++) {
        const struct store_capability *capability = &offer->capabilities[i];
        kg_json_begin(json, '{');
        kg_json_named_text(json, "capability", capability->text);
        kg_json_named_text(json, "words", capability->words);
        kg_json_named_text(json, "danger", capability->danger);
        kg_json_named_text(json, "difference", store_difference_names[capability->difference]);
        kg_json_named_text(json, "operator", capability->operator_says);
        kg_json_end(json, '}');
    }
    kg_json_end(json, ']');
}

static void offer_json_put_own(struct kg_json_writer *json, const struct store_offer *offer)
{
    kg_json_named_begin(json, "own", '[');
    for (size_t i = 0; i < offer->own_count; i++) {
        const struct store_own_line *line = &offer->own[i];
        kg_json_begin(json, '{');
        kg_json_named_text(json, "kind", store_own_names[line->kind]);
        kg_json_named_text(json, "line", line->text);
        kg_json_named_text(json, "words", line->words);
        kg_json_named_text(json, "danger", line->danger);
        kg_json_named_text(json, "difference", store_difference_names[line->difference]);
        kg_json_end(json, '}');
    }
    kg_json_end(json, ']');
}

static void offer_json_put_changes(struct kg_json_writer *json, const struct store_offer *offer)
{
    kg_json_named_begin(json, "changes", '[');
    for (size_t i = 0; i < offer->change_count; i++) {
        kg_json_begin(json, '{');
        kg_json_named_text(json, "what", offer->changes[i].what);
        kg_json_named_list(json, "before", offer->changes[i].before);
        kg_json_named_list(json, "after", offer->changes[i].after);
        kg_json_end(json, '}');
    }
    kg_json_end(json, ']');
}

static void offer_json_put_files(struct kg_json_writer *json, const struct store_tree_diff *diff)
{
    kg_json_named_begin(json, "file_changes", '{');
    kg_json_named_list(json, "added", diff->added);
    kg_json_named_list(json, "removed", diff->removed);
    kg_json_named_list(json, "changed", diff->changed);
    offer_json_put_number(json, "added_count", diff->added_count);
    offer_json_put_number(json, "removed_count", diff->removed_count);
    offer_json_put_number(json, "changed_count", diff->changed_count);
    kg_json_end(json, '}');
}

void store_offer_json(const struct store_offer *offer, struct kg_json_writer *json)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "id", offer->id.text);
    kg_json_named_text(json, "change", store_change_names[offer->kind]);
    kg_json_named_text(json, "source", offer->source);
    kg_json_named_text(json, "origin", offer->origin);
    offer_json_put_manifest(json, offer->manifest);
    kg_json_named_text(json, "installed_version", offer->installed_version);
    kg_json_named_text(json, "from", offer->from);
    kg_json_named_text(json, "installed_from", offer->installed_from);
    kg_json_named_bool(json, "other_source", store_offer_is_of_other_source(offer));
    put_hash(json, "hash", offer->hash);
    put_hash(json, "approved_hash", offer->approved_hash);
    offer_json_put_number(json, "files", offer->files);
    offer_json_put_number(json, "bytes", offer->bytes);
    kg_json_named_bool(json, "local", offer->local);
    kg_json_named_bool(json, "compared", offer->compared);
    offer_json_put_capabilities(json, offer);
    offer_json_put_number(json, "capabilities_new", offer->capabilities_new);
    kg_json_named_bool(json, "widens", store_offer_widens(offer));
    offer_json_put_own(json, offer);
    offer_json_put_changes(json, offer);
    offer_json_put_files(json, &offer->diff);
    kg_json_named_list(json, "warnings", offer->warnings);
    offer_json_put_number(json, "packages_missing", offer->packages_missing);
    kg_json_end(json, '}');
}
