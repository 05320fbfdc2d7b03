/* One event for each change of the store, with what was approved by whom. */
#include "store/report.h"
#include "store/internal.h"

#include <stdlib.h>

/* Texts are owned; NULL where there is none. */
struct store_report {
    enum store_change_kind kind;
    char *name, *version, *old_version, *source, *hash, *operator_id;
    bool local;
    struct kg_buf diff;  /* of capabilities, as JSON */
    struct kg_buf added; /* lines of the operator's own, as JSON; empty: none */
};

static void put_differences(struct kg_json_writer *json, const char *key,
                            const struct store_offer *offer, enum store_difference difference)
{
    kg_json_named_begin(json, key, '[');
    for (size_t i = 0; i < offer->capability_count; i++)
        if (offer->capabilities[i].difference == difference)
            kg_json_text(json, offer->capabilities[i].text);
    kg_json_end(json, ']');
}

struct store_report *store_report_new(const struct store_offer *offer, bool local,
                                      const char *operator_id)
{
    struct store_report *report = kg_alloc(sizeof(*report));
    struct kg_json_writer json = kg_json_writer(&report->diff);
    report->kind = offer->kind;
    report->name = kg_strdup(offer->manifest->name);
    report->version = kg_strdup(offer->manifest->version);
    report->old_version = kg_strdup(offer->installed_version);
    report->source = kg_strdup(offer->source);
    report->hash = kg_strdup(offer->hash);
    report->operator_id = kg_strdup(operator_id);
    report->local = local;
    kg_json_begin(&json, '{');
    put_differences(&json, "added", offer, STORE_NEW);
    put_differences(&json, "removed", offer, STORE_REMOVED);
    kg_json_end(&json, '}');
    struct kg_json_writer added = kg_json_writer(&report->added);
    if (!store_own_is_empty(&offer->added))
        store_offer_added_json(offer, &added);
    return report;
}

void store_report_free(struct store_report *report)
{
    if (report == NULL)
        return;
    free(report->name);
    free(report->version);
    free(report->old_version);
    free(report->source);
    free(report->hash);
    free(report->operator_id);
    kg_buf_free(&report->diff);
    kg_buf_free(&report->added);
    free(report);
}

static void tell_installed(const struct store_report *report, struct audit *audit)
{
    audit_emit(audit, AUDIT_PLUGIN_INSTALLED, KG_STR_NULL, AUDIT_V_TEXT(report->name),
               AUDIT_V_TEXT(report->version), AUDIT_V_TEXT(report->source),
               AUDIT_V_BOOL(report->local), AUDIT_V_TEXT(report->hash),
               AUDIT_V_TEXT(report->operator_id));
}

static void tell_upgraded(const struct store_report *report, struct audit *audit)
{
    audit_emit(audit, AUDIT_PLUGIN_UPGRADED, KG_STR_NULL, AUDIT_V_TEXT(report->name),
               AUDIT_V_TEXT(report->old_version), AUDIT_V_TEXT(report->version),
               AUDIT_V_RAW(kg_buf_view(&report->diff)), AUDIT_V_TEXT(report->source),
               AUDIT_V_TEXT(report->hash), AUDIT_V_TEXT(report->operator_id));
}

static void tell_approved(const struct store_report *report, struct audit *audit)
{
    audit_emit(audit, AUDIT_PLUGIN_APPROVED, KG_STR_NULL, AUDIT_V_TEXT(report->name),
               AUDIT_V_TEXT(report->version), AUDIT_V_TEXT(report->hash),
               AUDIT_V_RAW(kg_buf_view(&report->diff)), AUDIT_V_TEXT(report->operator_id));
}

void store_report_taken(const struct store_report *report, struct audit *audit)
{
    static void (*const tells[])(const struct store_report *report, struct audit *audit) = {
        [STORE_INSTALL] = tell_installed,  [STORE_UPGRADE] = tell_upgraded,
        [STORE_DOWNGRADE] = tell_upgraded, [STORE_REINSTALL] = tell_upgraded,
        [STORE_APPROVE] = tell_approved,
    };
    tells[report->kind](report, audit);
    if (report->added.length > 0)
        audit_emit(audit, AUDIT_PLUGIN_GRANTED, KG_STR_NULL, AUDIT_V_TEXT(report->name),
                   AUDIT_V_RAW(kg_buf_view(&report->added)), AUDIT_V_TEXT(NULL),
                   AUDIT_V_TEXT(report->operator_id));
}

void store_report_removed(struct audit *audit, const char *name,
                          const struct store_removed *removed, const char *operator_id)
{
    audit_emit(audit, AUDIT_PLUGIN_UNINSTALLED, KG_STR_NULL, AUDIT_V_TEXT(name),
               AUDIT_V_TEXT(removed->version), AUDIT_V_TEXT(removed->storage),
               AUDIT_V_BOOL(removed->storage_dropped), AUDIT_V_TEXT(operator_id));
}

void store_report_promoted(struct audit *audit, const char *name, const char *operator_id)
{
    audit_emit(audit, AUDIT_PLUGIN_PROMOTED, KG_STR_NULL, AUDIT_V_TEXT(name),
               AUDIT_V_TEXT(operator_id));
}
