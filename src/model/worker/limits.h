/* What the two sides of kaged-model agree on. */
#ifndef KAGED_MODEL_LIMITS_H
#define KAGED_MODEL_LIMITS_H

#define MODEL_LINE_BYTES ((size_t)16 << 20) /* of a request, or of an event */

enum model_failure {
    MODEL_OK,
#define MODEL_FAILURE(symbol, name, again) MODEL_##symbol,
#include "model/worker/failures.def"
#undef MODEL_FAILURE
    MODEL_FAILURES
};

#endif
