/*
 * webhook-notify: POSTs the launch URL, and what else its `events` name, to a URL of the
 * operator's, by a template for the body. What cannot be sent is tried again after growing pauses,
 * one after the other, and no more of it waits than a bound. webhook-notify(7) has its settings.
 */
#include <kaged/system-plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_MAX      64
#define BODY_MAX       65536
#define MESSAGE_MAX    8192
#define TRIES_MAX      8
#define FIRST_PAUSE_MS 1000 /* doubled with each try */

/* One notification; the first of the queue is the one that is sent. */
struct note {
    struct note *next;
    char what[32];
    char body[];
};

static const struct kaged *kaged;
static const char *url, *template;
static char *header, *content_type; /* lines of the request, or NULL */
static int escapes;                 /* values go into strings of JSON */
static struct note *first, **last = &first;
static unsigned waiting, tries, lost;

/* -- texts ------------------------------------------------------------------------------------- */

/* A buffer that is cut at its end, and always ends in NUL. */
struct text {
    char *data;
    size_t length, size;
};

static void put(struct text *to, const char *bytes, size_t length)
{
    if (length > to->size - 1 - to->length)
        length = to->size - 1 - to->length;
    memcpy(to->data + to->length, bytes, length);
    to->length += length;
    to->data[to->length] = '\0';
}

static void put_value(struct text *to, const char *value)
{
    for (; *value != '\0'; value++) {
        char escape[8];
        unsigned char c = (unsigned char)*value;
        if (escapes && (c < 0x20 || c == '"' || c == '\\'))
            put(to, escape, (size_t)snprintf(escape, sizeof(escape), "\\u%04x", c));
        else
            put(to, value, 1);
    }
}

/* -- events ------------------------------------------------------------------------------------ */

static const char *field(const struct kaged_event *event, const char *name)
{
    const char *value = kaged->field(event, name);
    return value != NULL ? value : "";
}

/* "{name}" at the text: its length, else 0. */
static size_t placeholder_at(const char *text)
{
    size_t length = *text == '{' ? strspn(text + 1, "abcdefghijklmnopqrstuvwxyz_") : 0;
    return length > 0 && text[1 + length] == '}' ? length + 2 : 0;
}

static const char *const placeholders[] = {"{json}", "{event}",  "{message}", "{url}",
                                           "{name}", "{reason}", "{kind}"};

static void fill(struct text *body, const struct kaged_event *event, const char *what,
                 const char *message)
{
    for (const char *at = template; *at != '\0';) {
        size_t length = placeholder_at(at);
        if (length == 0)
            put(body, at, 1);
        else if (strncmp(at, "{json}", length) == 0)
            put(body, event->json, strlen(event->json));
        else if (strncmp(at, "{event}", length) == 0)
            put_value(body, what);
        else if (strncmp(at, "{message}", length) == 0)
            put_value(body, message);
        else if (strncmp(at, "{url}", length) == 0)
            put_value(body, field(event, "url"));
        else if (strncmp(at, "{name}", length) == 0)
            put_value(body, field(event, "name"));
        else if (strncmp(at, "{reason}", length) == 0)
            put_value(body, field(event, "reason"));
        else
            put_value(body, field(event, "kind"));
        at += length > 0 ? length : 1;
    }
}

/* -- sending ----------------------------------------------------------------------------------- */

static void send_first(void *data);

static void drop_first(void)
{
    struct note *note = first;
    first = note->next;
    if (first == NULL)
        last = &first;
    waiting--;
    tries = 0;
    free(note);
}

/* What the server will refuse again is not sent again: 4xx, but for "too many" and "too late". */
static int is_final(int status)
{
    return (status >= 200 && status < 300) ||
           (status >= 400 && status < 500 && status != 408 && status != 429);
}

static void on_answer(void *data, const struct kaged_http_answer *answer)
{
    char line[512];
    (void)data;
    int final = is_final(answer->status);
    if (answer->status < 200 || answer->status >= 300) {
        snprintf(line, sizeof(line), "%s was not taken: status %d %.300s", first->what,
                 answer->status, answer->error);
        kaged->log(kaged, KAGED_WARN, line);
    }
    if (!final && tries < TRIES_MAX &&
        kaged->timer(kaged, FIRST_PAUSE_MS << (tries - 1), send_first, NULL) == 0)
        return;
    drop_first();
    if (first != NULL)
        send_first(NULL);
}

static void send_first(void *data)
{
    (void)data;
    while (first != NULL) {
        const char *const headers[] = {content_type, header, NULL};
        const struct kaged_http_request request = {
            .size = sizeof(request), .url = url, .headers = headers, .body = first->body};
        tries++;
        if (kaged->http(kaged, &request, on_answer, NULL) == 0)
            return;
        drop_first(); /* the log says why */
    }
}

static void notify(const struct kaged_event *event, const char *what, const char *message)
{
    if (waiting == QUEUE_MAX) {
        char line[128];
        snprintf(line, sizeof(line), "%s is not sent: %u wait already; %u were lost so far", what,
                 waiting, ++lost);
        kaged->log(kaged, KAGED_WARN, line);
        return;
    }
    struct note *note = calloc(1, sizeof(*note) + BODY_MAX);
    if (note == NULL)
        return;
    struct text body = {.data = note->body, .size = BODY_MAX};
    snprintf(note->what, sizeof(note->what), "%s", what);
    fill(&body, event, what, message);
    *last = note;
    last = &note->next;
    if (++waiting == 1)
        send_first(NULL);
}

/* -- hooks ------------------------------------------------------------------------------------- */

static void on_launch_url(void *state, const struct kaged_event *event)
{
    char message[MESSAGE_MAX];
    (void)state;
    snprintf(message, sizeof(message), "kaged can be opened at %s", field(event, "url"));
    notify(event, "auth.launchUrlReady", message);
}

static void on_plugin_state(void *state, const struct kaged_event *event)
{
    char message[MESSAGE_MAX];
    (void)state;
    if (strcmp(field(event, "to"), "failed") != 0)
        return;
    snprintf(message, sizeof(message), "plugin %s has failed: %s", field(event, "name"),
             field(event, "reason"));
    notify(event, "plugin.failed", message);
}

static void on_consent(void *state, const struct kaged_event *event)
{
    char message[MESSAGE_MAX];
    (void)state;
    snprintf(message, sizeof(message), "plugin %s waits for your word (%s): kaged plugin install",
             field(event, "name"), field(event, "kind"));
    notify(event, "consent.raised", message);
}

static void on_audit(void *state, const struct kaged_event *event)
{
    char message[MESSAGE_MAX];
    (void)state;
    snprintf(message, sizeof(message), "the audit log cannot be written: %s",
             field(event, "reason"));
    notify(event, "audit.unavailable", message);
}

/* -- settings ---------------------------------------------------------------------------------- */

/* Those of `events` and no other are registered. What is wrong with the list, or NULL. */
static const char *take_events(const char *list)
{
    static const struct {
        const char *name;
        kaged_hook **hook, *function;
    } rows[] = {
        {"\"auth.launchUrlReady\"", &kaged_system_plugin.auth_launch_url_ready, on_launch_url},
        {"\"plugin.failed\"", &kaged_system_plugin.plugin_state, on_plugin_state},
        {"\"consent.raised\"", &kaged_system_plugin.consent_raised, on_consent},
        {"\"audit.unavailable\"", &kaged_system_plugin.audit_unavailable, on_audit},
    };
    const char *at = list + strspn(list, "[, ");
    while (*at == '"') {
        size_t i = 0;
        while (i < sizeof(rows) / sizeof(rows[0]) &&
               strncmp(at, rows[i].name, strlen(rows[i].name)) != 0)
            i++;
        if (i == sizeof(rows) / sizeof(rows[0]))
            break;
        *rows[i].hook = rows[i].function;
        at += strlen(rows[i].name);
        at += strspn(at, ", ");
    }
    return strcmp(at, "]") == 0 ? NULL
                                : "events takes a list of auth.launchUrlReady, plugin.failed, "
                                  "consent.raised and audit.unavailable";
}

static const char *check_template(void)
{
    for (const char *at = template; *at != '\0'; at++) {
        size_t length = placeholder_at(at), i = 0, count = sizeof(placeholders) / sizeof(char *);
        while (length > 0 && i < count &&
               (strlen(placeholders[i]) != length || strncmp(at, placeholders[i], length) != 0))
            i++;
        if (i == count)
            return "body has a {word} that is none of json, event, message, url, name, reason "
                   "and kind";
    }
    return NULL;
}

static int is_known(const char *key, size_t length)
{
    static const char *const known[] = {"url", "events", "header", "content_type", "body"};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strlen(known[i]) == length && strncmp(known[i], key, length) == 0)
            return 1;
    return 0;
}

/* The keys of the outer object of what the daemon wrote, which is valid JSON on one line. */
static const char *check_keys(const char *json)
{
    int depth = 0;
    for (const char *at = json; *at != '\0'; at++) {
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        if (*at != '"')
            continue;
        const char *key = ++at;
        while (*at != '"')
            at += *at == '\\' ? 2 : 1;
        if (depth == 1 && at[1] == ':' && !is_known(key, (size_t)(at - key)))
            return "its config has another key than url, events, header, content_type and body";
    }
    return NULL;
}

static int is_line(const char *value)
{
    return value == NULL || (value[0] != '\0' && strpbrk(value, "\r\n") == NULL);
}

static char *line_of(const char *before, const char *value)
{
    size_t size = strlen(before) + strlen(value) + 1;
    char *line = malloc(size);
    if (line != NULL)
        snprintf(line, size, "%s%s", before, value);
    return line;
}

static const char *start(const struct kaged *given, void **state)
{
    (void)state;
    kaged = given;
    const char *events = kaged->setting(kaged, "events");
    const char *type = kaged->setting(kaged, "content_type");
    const char *secret = kaged->setting(kaged, "header");
    url = kaged->setting(kaged, "url");
    template = kaged->setting(kaged, "body");
    if (url == NULL || (strncmp(url, "https://", 8) != 0 && strncmp(url, "http://", 7) != 0))
        return "its config needs a url that begins with https:// or http://";
    if (!is_line(secret) || (secret != NULL && strchr(secret, ':') == NULL) || !is_line(type))
        return "header takes a line \"Name: value\", and content_type one line, too";
    if (template == NULL)
        template = "{json}";
    if (type == NULL)
        type = "application/json";
    escapes = strstr(type, "json") != NULL;
    content_type = line_of("Content-Type: ", type);
    header = secret != NULL ? line_of("", secret) : NULL;
    const char *problem = check_keys(kaged->config(kaged));
    if (problem == NULL)
        problem = check_template();
    return problem != NULL ? problem : take_events(events ? events : "[\"auth.launchUrlReady\"]");
}

static void stop(void *state)
{
    (void)state;
    while (first != NULL)
        drop_first();
    free(header);
    free(content_type);
    header = content_type = NULL;
}

KAGED_SYSTEM_PLUGIN(.name = "webhook-notify", .version = "1.0.0", .start = start, .stop = stop);
