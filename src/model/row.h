/*
 * Who is served by one provider, and who waits for it: so many at the same time, so many more in a
 * row. Places are given evenly to groups, which are orgs or projects, and within one to its
 * sessions: nobody waits for all that another one has asked before. A row that is full takes
 * somebody of a group that has less in it, and the newest of the group that has most goes instead.
 */
#ifndef KAGED_MODEL_ROW_H
#define KAGED_MODEL_ROW_H

#include "base/base.h"

struct model_row;
struct model_party;

/* Embed it, zeroed, in who is served or waits. */
struct model_seat {
    struct model_seat *next; /* behind it, while it waits */
    struct model_party *group, *session;
    bool waits;
};

struct model_row *model_row_new(void);
/* From now on; nobody goes who is there. */
void model_row_bound(struct model_row *row, uint32_t served_max, uint32_t waiting_max);
void model_row_free(struct model_row *row); /* when nobody is in it any more */

enum model_row_entry { MODEL_ROW_SERVED, MODEL_ROW_WAITS, MODEL_ROW_FULL };
/* MODEL_ROW_WAITS may have put somebody else out, who has left: *ret_out, or NULL. */
enum model_row_entry model_row_enter(struct model_row *row, struct model_seat *seat,
                                     const char *group, const char *session,
                                     struct model_seat **ret_out);
/* Of one that is served or waits. */
void model_row_leave(struct model_row *row, struct model_seat *seat);
/* Who is served from now on; NULL: nobody waits, or there is no place. */
struct model_seat *model_row_next(struct model_row *row);
/* Any of those that wait; NULL: nobody does. */
struct model_seat *model_row_waiting(const struct model_row *row);

uint32_t model_row_served_count(const struct model_row *row);
uint32_t model_row_waiting_count(const struct model_row *row);

#endif
