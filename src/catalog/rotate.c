/*
 * The key of what the catalog seals is replaced: a next key is made, all boxes are sealed with it
 * in one transaction, and only once that is written to stay does it take the place of the other.
 * Cut off anywhere, each box opens with one of the two, and the next rotation goes on from there.
 */
#include "catalog/internal.h"

struct rotate_op {
    struct catalog_op op;
    struct state_task after; /* the key's change of places */
    size_t count;
};

/* What has boxes in it; a row each. */
static int (*const resealers[])(const struct catalog *catalog, struct state *state, size_t *count,
                                struct kg_err *err) = {
    catalog_settings_reseal,
    catalog_orchestrators_reseal,
    catalog_llm_reseal,
};

static int run_reseal(struct state_task *task, struct state *state, struct kg_err *err)
{
    struct rotate_op *rotate = KG_CONTAINER(task, struct rotate_op, op.task);
    struct catalog *catalog = rotate->op.catalog;
    int result = secret_boxes_rotate(&catalog->seal, err);
    for (size_t i = 0; result == 0 && i < KG_COUNT(resealers); i++)
        result = resealers[i](catalog, state, &rotate->count, err);
    return result;
}

static int run_key(struct state_task *task, struct state *state, struct kg_err *err)
{
    struct rotate_op *rotate = KG_CONTAINER(task, struct rotate_op, after);
    (void)state;
    return secret_boxes_rotated(&rotate->op.catalog->seal, err);
}

static void rotate_on_rotated(struct state_task *task, const struct kg_err *err_or_null)
{
    struct rotate_op *rotate = KG_CONTAINER(task, struct rotate_op, after);
    struct catalog_op *op = &rotate->op;
    struct kg_json_writer json = kg_json_writer(&op->json);
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "sealed", (int64_t)rotate->count);
    kg_json_end(&json, '}');
    if (err_or_null == NULL)
        audit_emit(host_audit(op->catalog->host), AUDIT_CATALOG_KEY_ROTATED,
                   kg_str(op->asker.request_id), AUDIT_V_INT((int64_t)rotate->count),
                   AUDIT_V_TEXT(op->asker.operator_id));
    catalog_op_answer(op, err_or_null);
}

static void on_resealed(struct state_task *task, const struct kg_err *err_or_null)
{
    struct rotate_op *rotate = KG_CONTAINER(task, struct rotate_op, op.task);
    if (err_or_null != NULL) {
        catalog_op_answer(&rotate->op, err_or_null);
        return;
    }
    rotate->after = (struct state_task){.run = run_key, .done = rotate_on_rotated};
    state_keeper_read(catalog_keeper(rotate->op.catalog), &rotate->after);
}

void catalog_rotate(const struct catalog_request *request)
{
    struct rotate_op *rotate = catalog_op_new(request, sizeof(*rotate));
    rotate->op.task.run = run_reseal;
    rotate->op.task.org = NULL; /* of all */
    rotate->op.task.done = on_resealed;
    state_keeper_write(catalog_keeper(request->catalog), &rotate->op.task);
}
