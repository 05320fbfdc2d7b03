/*
 * The row of those who wait for a provider, oldest first, and how much each party has of it. It
 * calls nobody, and knows no clock.
 */
#include "model/row.h"

#include <stdlib.h>

struct model_party {
    uint32_t served, waiting; /* both 0: it goes */
    struct kg_map *among;
    char *name; /* owned */
};

struct model_row {
    uint32_t served_max, waiting_max;
    struct model_party all;
    struct model_seat *first;         /* of those that wait */
    struct kg_map *groups, *sessions; /* owned, as their values: struct model_party, by name */
};

struct model_row *model_row_new(void)
{
    struct model_row *row = kg_alloc(sizeof(*row));
    row->groups = kg_map_new();
    row->sessions = kg_map_new();
    return row;
}

void model_row_bound(struct model_row *row, uint32_t served_max, uint32_t waiting_max)
{
    row->served_max = served_max;
    row->waiting_max = waiting_max;
}

void model_row_free(struct model_row *row)
{
    kg_map_free(row->groups);
    kg_map_free(row->sessions);
    free(row);
}

/* -- parties ----------------------------------------------------------------------------------- */

static struct model_party *row_party_of(struct kg_map *among, const char *name)
{
    struct model_party *party = kg_map_get(among, kg_str(name));
    if (party != NULL)
        return party;
    party = kg_alloc(sizeof(*party));
    *party = (struct model_party){.among = among, .name = kg_strdup(name)};
    kg_map_set(among, kg_str(name), party);
    return party;
}

static void party_check_over(struct model_party *party)
{
    if (party->served > 0 || party->waiting > 0)
        return;
    kg_map_remove(party->among, kg_str(party->name));
    free(party->name);
    free(party);
}

static void seat_drop_parties(struct model_seat *seat)
{
    party_check_over(kg_steal(&seat->group));
    party_check_over(kg_steal(&seat->session));
}

static void seat_count(struct model_row *row, const struct model_seat *seat, uint32_t one)
{
    struct model_party *const parties[] = {&row->all, seat->group, seat->session};
    for (size_t i = 0; i < KG_COUNT(parties); i++)
        *(seat->waits ? &parties[i]->waiting : &parties[i]->served) += one;
}

/* -- coming and going -------------------------------------------------------------------------- */

/* Who goes when somebody of a group with less comes: the newest of the group with most. */
static struct model_seat *row_out_for(const struct model_row *row, const struct model_party *group)
{
    struct model_seat *out = NULL;
    for (struct model_seat *at = row->first; at != NULL; at = at->next)
        if (at->group->waiting > group->waiting + 1 &&
            (out == NULL || at->group->waiting >= out->group->waiting))
            out = at;
    return out;
}

enum model_row_entry model_row_enter(struct model_row *row, struct model_seat *seat,
                                     const char *group, const char *session,
                                     struct model_seat **ret_out)
{
    *ret_out = NULL;
    *seat = (struct model_seat){.group = row_party_of(row->groups, group),
                                .session = row_party_of(row->sessions, session)};
    seat->waits = row->all.served >= row->served_max || row->all.waiting > 0;
    if (seat->waits && row->all.waiting >= row->waiting_max) {
        *ret_out = row_out_for(row, seat->group);
        if (*ret_out == NULL) {
            seat_drop_parties(seat);
            return MODEL_ROW_FULL;
        }
        model_row_leave(row, *ret_out);
    }
    seat_count(row, seat, 1);
    if (!seat->waits)
        return MODEL_ROW_SERVED;
    struct model_seat **last = &row->first;
    while (*last != NULL)
        last = &(*last)->next;
    *last = seat;
    return MODEL_ROW_WAITS;
}

static void seat_unlink(struct model_row *row, struct model_seat *seat)
{
    if (seat->waits)
        KG_UNLINK(row->first, seat);
    seat->next = NULL;
    seat_count(row, seat, UINT32_MAX); /* one less */
}

void model_row_leave(struct model_row *row, struct model_seat *seat)
{
    seat_unlink(row, seat);
    seat_drop_parties(seat);
}

static bool seat_goes_before(const struct model_seat *a, const struct model_seat *b)
{
    if (a->group->served != b->group->served)
        return a->group->served < b->group->served;
    return a->session->served < b->session->served;
}

struct model_seat *model_row_next(struct model_row *row)
{
    struct model_seat *next = row->first;
    if (next == NULL || row->all.served >= row->served_max)
        return NULL;
    for (struct model_seat *at = next->next; at != NULL; at = at->next)
        if (seat_goes_before(at, next))
            next = at;
    seat_unlink(row, next);
    next->waits = false;
    seat_count(row, next, 1);
    return next;
}

struct model_seat *model_row_waiting(const struct model_row *row)
{
    return row->first;
}

uint32_t model_row_served_count(const struct model_row *row)
{
    return row->all.served;
}

uint32_t model_row_waiting_count(const struct model_row *row)
{
    return row->all.waiting;
}
