/* A wait is in one list at most and knows which, so that it can leave from anywhere. */
#include "base/wait.h"

void kg_wait_add(struct kg_waits *list, struct kg_wait *wait,
                 void (*on_done)(struct kg_wait *wait, const struct kg_err *err_or_null))
{
    wait->list = list;
    wait->on_done = on_done;
    wait->next = NULL;
    wait->previous = list->last;
    if (list->last != NULL)
        list->last->next = wait;
    else
        list->first = wait;
    list->last = wait;
}

void kg_wait_withdraw(struct kg_wait *wait)
{
    struct kg_waits *list = wait->list;
    if (list == NULL)
        return;
    if (wait->previous != NULL)
        wait->previous->next = wait->next;
    else
        list->first = wait->next;
    if (wait->next != NULL)
        wait->next->previous = wait->previous;
    else
        list->last = wait->previous;
    wait->list = NULL;
}

void kg_waits_tell(struct kg_waits *list, const struct kg_err *err_or_null)
{
    struct kg_waits told = *list; /* who begins to wait meanwhile is not told now */
    *list = (struct kg_waits){0};
    for (struct kg_wait *wait = told.first; wait != NULL; wait = wait->next)
        wait->list = &told;
    while (told.first != NULL) {
        struct kg_wait *wait = told.first;
        kg_wait_withdraw(wait);
        wait->on_done(wait, err_or_null);
    }
}
