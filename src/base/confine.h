/* What programs of ours that work in a cage give up themselves before they read a stranger's byte.
 */
#ifndef KAGED_BASE_CONFINE_H
#define KAGED_BASE_CONFINE_H

#include <stdint.h>
#include <sys/types.h>

/* No core, no new privileges, no file past its bound, no more descriptors; no signal for a write.
 */
void kg_confine(mode_t mask, int64_t file_bytes_max, int64_t open_files_max);

#endif
