/* What may come in a burst, but not for ever. */
#ifndef KAGED_BURST_H
#define KAGED_BURST_H

#include "base/base.h"

struct kg_burst {
    uint64_t since_ms; /* from when on what was used comes back */
    uint32_t used;
};
/* Whether one more may pass: `most` at once, and then one in each refill_ms. */
bool kg_burst_pass(struct kg_burst *burst, uint32_t most, uint32_t refill_ms, uint64_t now_ms);

#endif
