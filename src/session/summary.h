/* Summaries that models write, for the strategy of that name; see live.h. */
#ifndef KAGED_SESSION_SUMMARY_H
#define KAGED_SESSION_SUMMARY_H

struct live_session;
struct live_summary;
/* `summarize` of struct sessions. */
void session_summarize(struct live_session *live, const struct live_summary *summary);

#endif
