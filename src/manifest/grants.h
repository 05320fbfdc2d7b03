/*
 * The operator's own lines over a manifest. What a plugin may do is what its manifest declares and
 * the operator granted, without what he closed: computed here, and nowhere else.
 */
#ifndef KAGED_GRANTS_H
#define KAGED_GRANTS_H

#include "config/local.h"
#include "manifest/capability.h"

struct grants {
    struct capability_set set;    /* what it may do; the declared lines come first */
    size_t declared;              /* so many of them: those that follow are the operator's */
    struct capability_set closed; /* by the operator; a line of the set may lie above one */
    struct capability_set taken;  /* lines that are closed whole, and so not in the set */
    char **texts;                 /* owned; those of the set */
    char **env; /* owned; NAME=VALUE, the operator's own, with what his secrets are */
};

/*
 * With project_or_null, also the lines for that project. Fails for a line of local.toml that is not
 * a capability, or none that can be given.
 */
int grants_make(const struct capability_set *declared, const struct local *local,
                const char *plugin, const char *project_or_null, struct grants *ret_grants,
                struct kg_err *err);
void grants_free(struct grants *grants); /* also for kg_auto; leaves an empty one */
bool grants_equal(const struct grants *a, const struct grants *b);
/* All of what local.toml says of it, for every project. */
int grants_check(const struct local *local, const char *plugin, struct kg_err *err);

/* Whether it may do that: a line of the set covers it, and none that is closed takes it away. */
bool grants_cover(const struct grants *grants, const struct capability *claimed);
/* The line that takes it away; NULL: none does. */
const struct capability *grants_closing(const struct grants *grants,
                                        const struct capability *claimed);
/* Whether closing the one takes the other, which it is or lies above, away whole. */
bool grants_closes(const struct capability *closed, const struct capability *line);

/*
 * What a grant or a revocation makes of the lines of one place in local.toml, of a plugin that may
 * do `before`. Both lists are the caller's; the texts are canonical. KG_E_CONFLICT: it has it
 * already, or it does not have it.
 */
struct grants_lines {
    char **allow, **deny;
};
int grants_allow(const struct grants *before, const char *plugin, const struct capability *wanted,
                 struct grants_lines *lines, struct kg_err *err);
int grants_deny(const struct grants *before, const char *plugin, const struct capability *unwanted,
                struct grants_lines *lines, struct kg_err *err);
void grants_lines_free(struct grants_lines *lines);

#endif
