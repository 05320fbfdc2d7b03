/*
 * System plugins: shared objects of the operator, loaded into the daemon at its start and trusted
 * like it. What can be kept from them is: hooks that their table does not name, time of the loop,
 * and secrets that an event is not about. include/kaged/system-plugin.h is what they see.
 *
 *   loop: native_tell -> a copy -> queue (bounded) -> the plugin's own thread: its hook
 *   loop <- messages (bounded) <- its functions: http, audit, run_on_loop
 */
#ifndef KAGED_NATIVE_H
#define KAGED_NATIVE_H

#include "audit/audit.h"
#include "base/json/json.h"
#include "config/local.h"
#include "fetch/fetch.h"

enum native_hook {
#define NATIVE_HOOK(symbol, member, name, when, ...) NATIVE_##symbol,
#include "native/hooks.def"
#undef NATIVE_HOOK
    NATIVE_HOOKS
};

#define NATIVE_FIELDS_MAX 8
struct native_hook_row {
    const char *name;
    const char *when;
    const char *fields[NATIVE_FIELDS_MAX + 1]; /* NULL-ended */
    size_t offset;                             /* in struct kaged_system_plugin */
};
extern const struct native_hook_row native_hook_rows[NATIVE_HOOKS];

#define NATIVE_HASH_TEXT 72 /* "sha256:", 64 digits and NUL */
/*
 * Whether the file may be loaded: it and its folders belong to root or to owner and can be written
 * by nobody else, it is a shared object for this machine, and its hash is the table's.
 */
int native_check_file(const struct local_system_plugin *plugin, uid_t owner,
                      char ret_hash[NATIVE_HASH_TEXT], struct kg_err *err);

/* -- in the daemon ----------------------------------------------------------------------------- */

struct native_parts {
    struct helper_place place;
    const struct cage_facts *facts; /* NULL: no cage can be built, and no request be sent */
    struct audit *audit;
    const struct local *local; /* read here, and not kept */
    const char *local_file;
    const char *state_dir; /* where it is written down what each is doing */
};
struct native;
/*
 * Loads all, each on a thread of its own, and does not wait for them, but for those that are
 * required. Fails, with that one's sentence, if one of these cannot be used.
 */
struct native *native_open(const struct native_parts *parts, struct kg_err *err);

/* Whether anybody wants it: what it costs to tell can be spared. NULL: nobody does. */
bool native_wants(const struct native *native_or_null, enum native_hook hook);
/* What happened, by the fields of the hook's row; copied. */
void native_tell_values(struct native *native_or_null, enum native_hook hook,
                        const struct audit_value *values, size_t count);
#define native_tell(native, hook, ...)                                                             \
    native_tell_values(native, hook, (const struct audit_value[]){__VA_ARGS__},                    \
                       sizeof((const struct audit_value[]){__VA_ARGS__}) /                         \
                           sizeof(struct audit_value))
/* The same of an object, by its members. */
void native_tell_object(struct native *native_or_null, enum native_hook hook, struct kg_str json);

/* Ends the threads, those that take too long by leaving them; on_stopped once, never before. */
void native_stop(struct native *native, void (*on_stopped)(void *data), void *data);
void native_free(struct native *native); /* takes NULL */

/* All of them as a list of objects; or the one of that name, false if there is none. */
void native_put_all(struct native *native_or_null, struct kg_json_writer *json);
bool native_put_one(struct native *native_or_null, struct kg_str name, struct kg_json_writer *json);

#endif
