/*
 * Any bytes as a plan for the spawner: refused, or a plan that says the same once encoded, that can
 * be printed, and whose arguments for bwrap are whole words.
 */
#include "cage/internal.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_encoding(const struct cage_plan *plan)
{
    kg_auto(kg_buf_free) struct kg_buf once = {0}, twice = {0};
    cage_plan_encode(plan, &once);
    struct cage_plan *again = cage_plan_decode(kg_buf_view(&once), NULL);
    must(again != NULL);
    cage_plan_encode(again, &twice);
    must(kg_str_equal(kg_buf_view(&once), kg_buf_view(&twice)));
    cage_plan_free(again);
}

static void check_arguments(const struct cage_plan *plan)
{
    kg_auto(kg_buf_free) struct kg_buf options = {0}, orders = {0}, text = {0};
    static const struct cage_source sources[CAGE_STEPS_MAX];
    must(plan->steps.count <= CAGE_STEPS_MAX);
    cage_argv_options(plan, sources, false, &options);
    must(options.length > 0 && options.data[options.length - 1] == '\0');
    cage_argv_orders(plan, sources, false, &orders);
    must(orders.length > 0 && orders.data[orders.length - 1] == '\0');
    cage_plan_print(plan, &text);
    cage_plan_words(plan, &text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kg_err err = {0};
    struct cage_plan *plan = cage_plan_decode((struct kg_str){(const char *)data, size}, &err);
    must((plan == NULL) == (err.code == KG_E_CAGE));
    if (plan == NULL)
        return 0;
    check_encoding(plan);
    check_arguments(plan);
    cage_plan_free(plan);
    return 0;
}
