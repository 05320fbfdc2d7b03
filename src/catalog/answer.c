/*
 * An operation of the catalog that needs kaged.db lives in one record until it is answered; its
 * task runs on the keeper's thread and touches nothing of the loop's. Nobody is answered twice.
 */
#include "catalog/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void *catalog_op_new(const struct catalog_request *request, size_t size)
{
    struct catalog_op *op = kg_alloc(size);
    op->catalog = request->catalog;
    op->asker = request->asker;
    op->on_answer = request->on_answer;
    op->data = request->data;
    kg_str_copy(request->org, op->org, sizeof(op->org));
    op->task.org = catalog_scope(op->org);
    return op;
}

static void catalog_op_free(struct catalog_op *op)
{
    if (op->clean != NULL)
        op->clean(op);
    kg_buf_free(&op->json);
    free(op);
}

void catalog_op_answer(struct catalog_op *op, const struct kg_err *err_or_null)
{
    op->on_answer(op->data, kg_buf_view(&op->json), err_or_null);
    catalog_op_free(op);
}

static void on_op_done(struct state_task *task, const struct kg_err *err_or_null)
{
    struct catalog_op *op = KG_CONTAINER(task, struct catalog_op, task);
    if (err_or_null == NULL && op->then != NULL)
        op->then(op);
    catalog_op_answer(op, err_or_null);
}

void catalog_op_read(struct catalog_op *op)
{
    op->task.done = on_op_done;
    state_keeper_read(catalog_keeper(op->catalog), &op->task);
}

void catalog_op_write(struct catalog_op *op)
{
    op->task.done = on_op_done;
    state_keeper_write(catalog_keeper(op->catalog), &op->task);
}

void catalog_reply(const struct catalog_request *request, struct kg_buf *json)
{
    request->on_answer(request->data, kg_buf_view(json), NULL);
}

void catalog_fail(const struct catalog_request *request, const struct kg_err *err)
{
    request->on_answer(request->data, KG_STR_NULL, err);
}

void catalog_exists(struct kg_err *err, const char *format, ...)
{
    char words[KG_ERR_MESSAGE_MAX];
    if (err->errnum != EEXIST)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof(words), format, args);
    va_end(args);
    kg_fail(err, KG_E_EXISTS, "%s", words);
}

struct catalog_org *catalog_request_org(const struct catalog_request *request)
{
    struct kg_err err = {0};
    struct catalog_org *org = kg_map_get(request->catalog->orgs, request->org);
    if (org != NULL && !org->deleted)
        return org;
    kg_fail(&err, KG_E_NOT_FOUND, "there is no org \"%.*s\"", KG_STR_CUT(request->org, 64));
    kg_hint(&err, "kaged org list shows those that there are");
    catalog_fail(request, &err);
    return NULL;
}
