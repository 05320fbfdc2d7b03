/* What the files of the MCP row share: mcp.c (greeting), mcp_call.c (calls), mcp_result.c (what
 * their results mean), mcp_hear.c (what a server says by itself). */
#ifndef KAGED_DIALECT_MCP_H
#define KAGED_DIALECT_MCP_H

#include "dialect/internal.h"

#define MCP_PAGES_MAX      100
#define MCP_LIST_MAX_BYTES ((size_t)4 << 20)

/* What a server can do, by its own word. */
struct mcp_features {
    bool tools, resources, subscribe, prompts, completions, logging;
    bool tools_change, resources_change, prompts_change; /* and it tells so */
};

struct mcp {
    struct dialect_talk *talk;
    struct mcp_features has;
    bool is_greeted;
    bool is_listing, is_stale;      /* tools are being listed; they changed meanwhile */
    struct loop_timer listing_rest; /* until they may be listed again */
    char **subscribed;              /* owned list; what a legacy server was told */
    struct kg_buf token;            /* the same memory for each call */
    uint64_t listening; /* the request by which a modern one tells of changes; 0: none */
};

static inline bool mcp_is_modern(const struct dialect_talk *talk)
{
    return talk->variant == DIALECT_MCP_MODERN;
}
/* What we answer of what a server may ask, by the host's name of it. */
bool mcp_may_request(const struct dialect_talk *talk, const char *method);
/* What a server asks, by its own name and as it says it, in the host's; NULL: that is not known. */
const char *mcp_translate(struct kg_str method, struct kg_str params, struct kg_buf *ret_params);
bool mcp_has_roots(const struct dialect_talk *talk); /* of its own: those of its project */
void mcp_put_roots(struct dialect_talk *talk, struct kg_buf *ret_json);
/* Its tools changed: they are listed again, now or soon. */
void mcp_list_again(struct mcp *mcp);

int mcp_call(struct dialect_call *call, const struct dialect_message *message, struct kg_err *err);
enum dialect_reading mcp_read(struct dialect_call *call, enum peer_outcome outcome,
                              struct kg_str payload, struct kg_buf *ret_json);
void mcp_end(struct dialect_call *call);

/* What a result means, and whether an error's words say that there is no such tool. */
enum mcp_verdict {
    MCP_COMPLETE,
    MCP_FAILED,
    MCP_ASKS,
    MCP_NO_SUCH_TOOL,
    MCP_BAD_BYTES,
    MCP_NO_OBJECT
};
enum mcp_verdict mcp_judge(struct kg_str result);
bool mcp_says_unknown_tool(struct kg_str words);

bool mcp_on_request(struct dialect_talk *talk, int64_t request, struct kg_str method,
                    struct kg_str params);
enum dialect_hearing mcp_on_notification(struct dialect_talk *talk, struct kg_str method,
                                         struct kg_str params);

#endif
