/* A bucket that is full at first, and fills again slowly. */
#include "base/burst.h"

bool kg_burst_pass(struct kg_burst *burst, uint32_t most, uint32_t refill_ms, uint64_t now_ms)
{
    uint64_t back = (now_ms - burst->since_ms) / refill_ms;
    burst->since_ms += back * refill_ms;
    burst->used -= back < burst->used ? (uint32_t)back : burst->used;
    if (burst->used >= most)
        return false;
    if (burst->used++ == 0)
        burst->since_ms = now_ms;
    return true;
}
