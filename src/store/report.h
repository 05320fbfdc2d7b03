/*
 * What the audit log is told of a change of the store, whoever makes it: the daemon, or a command
 * while none runs.
 */
#ifndef KAGED_REPORT_H
#define KAGED_REPORT_H

#include "audit/audit.h"
#include "store/store.h"

/* The facts of an offer, kept for when it is used up. */
struct store_report;
struct store_report *store_report_new(const struct store_offer *offer, bool local,
                                      const char *operator_id);
void store_report_free(struct store_report *report); /* takes NULL */
/* It was taken: plugin.installed, plugin.upgraded or plugin.approved. */
void store_report_taken(const struct store_report *report, struct audit *audit);

void store_report_removed(struct audit *audit, const char *name,
                          const struct store_removed *removed, const char *operator_id);
void store_report_promoted(struct audit *audit, const char *name, const char *operator_id);

#endif
