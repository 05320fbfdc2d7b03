/*
 * Whose files the cages may see. A root spawner may serve a daemon that runs as another user: then
 * everything that daemon names is opened with that user's rights, so that whoever takes it over
 * gains nothing of root's.
 */
#include "cage/internal.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <unistd.h>

struct cage_owner cage_owner_self(void)
{
    return (struct cage_owner){.uid = geteuid(), .gid = getegid()};
}

int cage_owner_find(const char *user, struct cage_owner *ret_owner, struct kg_err *err)
{
    const struct passwd *entry = getpwnam(user);
    if (entry == NULL)
        return kg_fail(err, KG_E_INVALID_CONFIG, "daemon.user: there is no user \"%s\"", user);
    struct cage_owner owner = {.uid = entry->pw_uid, .gid = entry->pw_gid};
    int count = CAGE_GROUPS_MAX;
    /* Whoever is in more groups than that has the rights of the first ones. */
    if (getgrouplist(user, entry->pw_gid, owner.groups, &count) < 0)
        count = CAGE_GROUPS_MAX;
    owner.group_count = (size_t)count;
    *ret_owner = owner;
    return 0;
}

/* -- as words of kaged-spawner's command line: UID GID[,GROUP...] ------------------------------ */

char *cage_owner_groups_text(const struct cage_owner *owner)
{
    struct kg_buf text = {0};
    kg_buf_printf(&text, "%u", (unsigned)owner->gid);
    for (size_t i = 0; i < owner->group_count; i++)
        kg_buf_printf(&text, ",%u", (unsigned)owner->groups[i]);
    return kg_buf_terminate(&text);
}

static bool parse_id(struct kg_str text, uint32_t *ret_id)
{
    int64_t id;
    if (!kg_str_to_int(text, &id) || id < 0 || id >= UINT32_MAX)
        return false;
    *ret_id = (uint32_t)id;
    return true;
}

bool cage_owner_parse(const char *uid, const char *groups, struct cage_owner *ret_owner)
{
    struct cage_owner owner = {0};
    size_t length = strcspn(groups, ",");
    if (!parse_id(kg_str(uid), &owner.uid) ||
        !parse_id((struct kg_str){groups, length}, &owner.gid))
        return false;
    for (groups += length; *groups == ','; groups += length) {
        length = strcspn(++groups, ",");
        if (owner.group_count == CAGE_GROUPS_MAX ||
            !parse_id((struct kg_str){groups, length}, &owner.groups[owner.group_count++]))
            return false;
    }
    *ret_owner = owner;
    return true;
}

/* -- his rights for a moment ------------------------------------------------------------------- */

/* To stay as somebody else, or as a mixture, would be worse than to end. */
void cage_owner_leave(void)
{
    setfsuid(0);
    setfsgid(0);
    if (setgroups(0, NULL) < 0 || setfsuid((uid_t)-1) != 0 || setfsgid((gid_t)-1) != 0)
        abort();
}

/* The kernel takes root's rights over files away with the uid, and gives them back with it. */
int cage_owner_enter(const struct cage_owner *owner, struct kg_err *err)
{
    if (setgroups(owner->group_count, owner->groups) < 0)
        return kg_fail_errno(err, errno, "take the groups of uid %u", (unsigned)owner->uid);
    setfsgid(owner->gid);
    setfsuid(owner->uid);
    if ((uid_t)setfsuid((uid_t)-1) == owner->uid && (gid_t)setfsgid((gid_t)-1) == owner->gid)
        return 0;
    cage_owner_leave();
    return kg_fail(err, KG_E_CAGE, "take the rights of uid %u: the kernel refused",
                   (unsigned)owner->uid);
}

bool cage_become_user(uid_t uid)
{
    if (geteuid() != 0)
        return true;
    return setgroups(0, NULL) == 0 && setresgid(CAGE_GID, CAGE_GID, CAGE_GID) == 0 &&
           setresuid(uid, uid, uid) == 0 && getuid() != 0 && setuid(0) < 0;
}
