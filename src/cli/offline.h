/*
 * A change of the home where no daemon runs: under the lock that a running daemon holds, so that
 * none can start in its middle, and written into the audit log as the daemon would.
 */
#ifndef KAGED_CLI_OFFLINE_H
#define KAGED_CLI_OFFLINE_H

#include "audit/audit.h"
#include "cli/cli.h"

struct offline {
    int lock_fd;
    struct audit *audit;
    struct state_cluster *cluster; /* owned; what offline_join joined, or NULL */
};
/* Both for as long as the change takes. */
int offline_begin(const struct cli *cli, const struct config *config, struct loop *loop,
                  struct offline *ret_offline, struct kg_err *err);
void offline_end(struct offline *offline);
/* What is shared of the home is to be changed, too: see state/cluster.h. */
int offline_join(const struct cli *cli, const struct config *config, struct offline *offline,
                 struct kg_err *err);
/* The lock alone, owned: for whoever replaces the log itself. */
int offline_lock(const struct cli *cli, struct kg_err *err);
/* As the daemon begins: its folders are there, and the process is its user from now on. */
int offline_become(const struct cli *cli, const struct config *config, struct kg_err *err);
char *offline_operator(void); /* who runs this; owned */

#endif
