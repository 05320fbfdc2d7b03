/*
 * What a plugin is and what it may do, so that its reader sees it at one glance: capabilities in
 * words, dangerous ones marked with "!" and the reason, also where there is no colour. They stand
 * last, right above the question, however long the rest is. All that a plugin says of itself is
 * hostile, and is escaped here.
 */
#include "cli/install.h"
#include "cli/rows.h"

#include <inttypes.h>

#define COLUMNS_MAX     40 /* a longer capability has its words on the next line */
#define FILES_SHOWN_MAX 10

static const char red[] = "\033[1;31m", plain[] = "\033[0m";

/* -- parts ------------------------------------------------------------------------------------- */

static struct kg_str item_text(const struct kg_node *list, uint32_t index)
{
    const struct kg_node *item = &list->items[index];
    return item->type == KG_STRING ? item->text : KG_STR("");
}

/* Who made it, where it comes from, and by what its files are known. */
static const struct row fact_rows[] = {
    {.label = "description: ", .words = "{description:hint}"},
    {.label = "author: ", .words = "{author:hint}"},
    {.label = "license: ", .words = "{license:hint}"},
    {.label = "homepage: ", .words = "{homepage:hint}"},
    {"source", .words = "  source: {source} ({origin})\n"},
    {.words = "  files: {files:count} ({bytes:bytes})\n"},
    {.label = "hash: ", .words = "{hash}"},
    {.each = "warnings", .words = "  warning: {.:hint}\n"},
    {0},
};
static const struct row head_rows[] = {
    {.label = "version: ", .words = "{version:hint}"},
    {.label = "kaged_api: ", .words = "{kaged_api:hint}"},
    {.rows = fact_rows},
    {0},
};

/* A name is not what tells plugins apart. */
static void put_other_source(struct kg_buf *out, const struct kg_node *offer, bool colors)
{
    if (!show_is_of_other_source(offer))
        return;
    kg_buf_printf(out, "%sANOTHER SOURCE%s: this is another plugin of that name.\n",
                  colors ? red : "", colors ? plain : "");
    print_words(out, offer, "  installed from: {installed_from}\n  this one from: {from}\n");
    kg_buf_text(out,
                "  It would get the storage, files, settings and grants of the installed one.\n");
}

/* -- capabilities ------------------------------------------------------------------------------ */

static bool differs_as(const struct kg_node *capability, const char *difference)
{
    return kg_str_is(cli_text(capability, "difference"), difference);
}

/* The widest of those that stand beside their words; so the words are a column. */
static size_t widest(const struct kg_node *capabilities)
{
    size_t width = 0;
    for (uint32_t i = 0; i < capabilities->count; i++) {
        size_t length = cli_text(&capabilities->items[i], "capability").length;
        if (length > width && length <= COLUMNS_MAX)
            width = length;
    }
    return width;
}

/* How one is listed: by its sign, and behind it what became of it. */
struct style {
    size_t indent;
    char sign;
    const char *tag;
    bool marks; /* dangerous ones have '!' as their sign, unless that is '+' */
    bool colors;
};

static void install_show_put_danger(struct kg_buf *out, struct kg_str danger, size_t indent,
                                    bool colors)
{
    kg_buf_printf(out, "%*s%sDANGEROUS: ", (int)indent, "", colors ? red : "");
    kg_buf_escaped(out, danger);
    kg_buf_printf(out, "%s\n", colors ? plain : "");
}

/* What a line of the operator's says to the same. */
static void put_own_word(struct kg_buf *out, const struct kg_node *capability, size_t indent)
{
    struct kg_str said = cli_text(capability, "operator");
    if (said.length > 0)
        kg_buf_printf(out, "%*s%s\n", (int)indent, "",
                      kg_str_is(said, "closed") ? "you closed it, and it stays closed"
                                                : "you already granted it yourself");
}

/* "    ! exec:bash:/opt  may run bash", and below it "DANGEROUS: ..." */
static void install_show_put_capability(struct kg_buf *out, const struct kg_node *capability,
                                        size_t width, const struct style *style)
{
    struct kg_str danger = cli_text(capability, "danger"),
                  text = cli_text(capability, "capability");
    bool marked = danger.length > 0 && style->marks;
    const char *on = marked && style->colors ? red : "", *off = on[0] != '\0' ? plain : "";
    char sign = marked && style->sign != '+' ? '!' : style->sign;
    bool beside = text.length <= COLUMNS_MAX;
    kg_buf_printf(out, "%*s%s%c ", (int)style->indent, "", on, sign);
    kg_buf_escaped(out, text);
    kg_buf_text(out, off);
    if (beside)
        kg_buf_printf(out, "%*s", (int)(width - text.length), "");
    else
        kg_buf_printf(out, "\n%*s", (int)(style->indent + 2 + width), "");
    kg_buf_text(out, style->tag);
    print_words(out, capability, "  {words}\n");
    put_own_word(out, capability, style->indent + 4);
    if (marked)
        install_show_put_danger(out, danger, style->indent + 4, style->colors);
}

/* Those of one difference; NULL: all. Dangerous ones come last. */
static size_t put_those(struct kg_buf *out, const struct kg_node *offer,
                        const char *difference_or_null, const struct style *style)
{
    const struct kg_node *capabilities = kg_node_list(offer, "capabilities");
    kg_auto(kg_buf_free) struct kg_buf dangerous = {0};
    size_t count = 0;
    for (uint32_t i = 0; i < capabilities->count; i++) {
        const struct kg_node *capability = &capabilities->items[i];
        if (difference_or_null != NULL && !differs_as(capability, difference_or_null))
            continue;
        bool is_dangerous = cli_text(capability, "danger").length > 0 && style->marks;
        install_show_put_capability(is_dangerous ? &dangerous : out, capability,
                                    widest(capabilities), style);
        count++;
    }
    kg_buf_str(out, kg_buf_view(&dangerous));
    return count;
}

/* The operator's own lines: none of them is the plugin's to ask for. */
static void install_show_put_own(struct kg_buf *out, const struct kg_node *offer, size_t indent,
                                 bool colors)
{
    const struct kg_node *own = kg_node_list(offer, "own");
    if (own->count > 0)
        kg_buf_printf(out, "%*sYours, whatever it asks for:\n", (int)indent, "");
    for (uint32_t i = 0; i < own->count; i++) {
        const struct kg_node *line = &own->items[i];
        bool is_closed = kg_str_is(cli_text(line, "kind"), "closed");
        bool is_new = differs_as(line, "new");
        kg_buf_printf(out, "%*s%c ", (int)indent + 2, "", is_closed ? '-' : is_new ? '+' : '=');
        print_words(out, line, is_closed ? "{line}  (closed)\n" : "{line}  {words}");
        if (!is_closed)
            kg_buf_text(out, is_new ? "  (granted with this yes)\n" : "\n");
        if (cli_text(line, "danger").length > 0)
            install_show_put_danger(out, cli_text(line, "danger"), indent + 6, colors);
    }
}

static void install_show_put_capabilities(struct kg_buf *out, const struct kg_node *offer,
                                          bool colors)
{
    kg_auto(kg_buf_free) struct kg_buf list = {0};
    install_show_put_own(out, offer, 2, colors);
    size_t count = put_those(&list, offer, NULL, &(struct style){4, '-', "", true, colors});
    kg_buf_text(out, count > 0 ? "  capabilities:\n" : "  capabilities: none\n");
    kg_buf_str(out, kg_buf_view(&list));
}

static void put_capability_changes(struct kg_buf *out, const struct kg_node *offer, bool colors)
{
    static const char *const tags[] = {"  (NEW)    ", "  (REMOVED)"};
    kg_auto(kg_buf_free) struct kg_buf changes = {0}, same = {0}, own = {0};
    install_show_put_own(&own, offer, 0, colors);
    kg_buf_text(out, own.length > 0 ? "\n" : "");
    kg_buf_str(out, kg_buf_view(&own));
    size_t count =
        put_those(&changes, offer, "new", &(struct style){2, '+', tags[0], true, colors}) +
        put_those(&changes, offer, "removed", &(struct style){2, '-', tags[1], false, colors});
    if (count == 0)
        kg_buf_text(out, "\nCapability changes: none\n");
    if (put_those(&same, offer, "same", &(struct style){2, '=', "", true, colors}) > 0)
        kg_buf_text(out, "\nCapabilities that stay:\n");
    kg_buf_str(out, kg_buf_view(&same));
    if (count > 0)
        kg_buf_text(out, "\nCapability changes:\n");
    kg_buf_str(out, kg_buf_view(&changes));
}

size_t show_new_capabilities(struct kg_buf *out, const struct kg_node *offer)
{
    const struct kg_node *capabilities = kg_node_list(offer, "capabilities");
    size_t count = 0;
    for (uint32_t i = 0; i < capabilities->count; i++) {
        if (!differs_as(&capabilities->items[i], "new") ||
            kg_str_is(cli_text(&capabilities->items[i], "capability"), "net:[]"))
            continue;
        kg_buf_text(out, count++ > 0 ? ", " : "");
        kg_buf_escaped(out, cli_text(&capabilities->items[i], "capability"));
    }
    return count;
}

/* -- what else changes ------------------------------------------------------------------------- */

static void install_show_put_words(struct kg_buf *out, const struct kg_node *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        kg_buf_text(out, i > 0 ? " " : "");
        kg_buf_escaped(out, item_text(list, i));
    }
    if (list->count == 0)
        kg_buf_text(out, "none");
}

static bool has_text(const struct kg_node *list, struct kg_str text)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (kg_str_equal(item_text(list, i), text))
            return true;
    return false;
}

/* Those of a list that the other one has not, each with its sign. */
static void install_show_put_missing(struct kg_buf *out, char sign, const struct kg_node *list,
                                     const struct kg_node *other)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (has_text(other, item_text(list, i)))
            continue;
        kg_buf_printf(out, " %c", sign);
        kg_buf_escaped(out, item_text(list, i));
    }
}

/* A command is read in order; of all else only what came and went matters. */
static void install_show_put_change(struct kg_buf *out, const struct kg_node *change)
{
    const struct kg_node *before = kg_node_list(change, "before"),
                         *after = kg_node_list(change, "after");
    print_words(out, change, "  {what}:");
    if (kg_str_is(cli_text(change, "what"), "command")) {
        kg_buf_char(out, ' ');
        install_show_put_words(out, before);
        kg_buf_text(out, " → ");
        install_show_put_words(out, after);
    } else {
        install_show_put_missing(out, '+', after, before);
        install_show_put_missing(out, '-', before, after);
    }
    kg_buf_char(out, '\n');
}

static void install_show_put_changes(struct kg_buf *out, const struct kg_node *offer)
{
    const struct kg_node *changes = kg_node_list(offer, "changes");
    if (changes->count > 0)
        kg_buf_text(out, "\nAlso changed:\n");
    for (uint32_t i = 0; i < changes->count; i++)
        install_show_put_change(out, &changes->items[i]);
}

/* What a plugin has that nobody agreed to before: "  hooks: pre_compact, post_compact". */
static void put_first(struct kg_buf *out, const struct kg_node *offer)
{
    const struct kg_node *changes = kg_node_list(offer, "changes");
    for (uint32_t i = 0; i < changes->count; i++) {
        const struct kg_node *after = kg_node_list(&changes->items[i], "after");
        print_words(out, &changes->items[i], "  {what}: ");
        for (uint32_t k = 0; k < after->count; k++) {
            kg_buf_text(out, k > 0 ? ", " : "");
            kg_buf_escaped(out, item_text(after, k));
        }
        kg_buf_char(out, '\n');
    }
}

/* The rest is counted. */
static void put_paths(struct kg_buf *out, char sign, const struct kg_node *paths, int64_t count,
                      uint32_t *shown)
{
    uint32_t i = 0;
    for (; i < paths->count && *shown < FILES_SHOWN_MAX; i++, (*shown)++) {
        kg_buf_printf(out, "  %c ", sign);
        kg_buf_escaped(out, item_text(paths, i));
        kg_buf_char(out, '\n');
    }
    if (count > i)
        kg_buf_printf(out, "  %c %s%" PRId64 " %s\n", sign, i > 0 ? "and " : "", count - i,
                      i > 0 ? "more" : "files");
}

static void install_show_put_files(struct kg_buf *out, const struct kg_node *offer)
{
    static const struct {
        char sign;
        const char *list, *count;
    } rows[] = {{'+', "added", "added_count"},
                {'-', "removed", "removed_count"},
                {'~', "changed", "changed_count"}};
    const struct kg_node *diff = kg_node_get(offer, "file_changes");
    int64_t all = 0;
    uint32_t shown = 0;
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        all += kg_node_number(diff, rows[i].count);
    if (all == 0)
        return;
    kg_buf_text(out, "\nFiles:\n");
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        put_paths(out, rows[i].sign, kg_node_list(diff, rows[i].list),
                  kg_node_number(diff, rows[i].count), &shown);
}

/* -- the whole --------------------------------------------------------------------------------- */

static bool was_approved(const struct kg_node *offer)
{
    return cli_text(offer, "approved_hash").length > 0;
}

static bool install_show_is_unchanged(const struct kg_node *offer)
{
    return kg_str_equal(cli_text(offer, "approved_hash"), cli_text(offer, "hash"));
}

/* Of a server: its operator chose the arguments. */
static void install_show_put_command(struct kg_buf *out, const struct kg_node *offer)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    const struct kg_node *command = kg_node_list(offer, "command");
    if (!kg_str_is(cli_text(offer, "protocol"), "mcp"))
        return;
    for (uint32_t i = 0; i < command->count; i++) {
        kg_buf_text(&words, i > 0 ? " " : "");
        kg_buf_shell(&words, command->items[i].text);
    }
    print_fact(out, 0, "runs: ", kg_buf_view(&words));
}

static void put_install(struct kg_buf *out, const struct kg_node *offer, bool colors)
{
    kg_buf_text(out, "Validating manifest...\n");
    print_fact(out, 0, "name: ", cli_text(offer, "name"));
    rows_put(out, NULL, offer, head_rows, 0);
    install_show_put_command(out, offer);
    put_first(out, offer);
    install_show_put_capabilities(out, offer, colors);
}

static void put_replacement(struct kg_buf *out, const struct kg_node *offer, bool colors)
{
    print_words(out, offer, "Plugin {name} is already installed");
    print_words(out, offer, " (version {installed_version}).\n");
    put_other_source(out, offer, colors);
    if (kg_str_is(cli_text(offer, "change"), "downgrade"))
        print_words(out, offer, "OLDER version: {version}\n");
    else if (kg_str_is(cli_text(offer, "change"), "reinstall"))
        kg_buf_text(out, install_show_is_unchanged(offer)
                             ? "The same version, with the same files:\n"
                             : "The same version, with other files:\n");
    else
        print_words(out, offer, "New version: {version}\n");
    rows_put(out, NULL, offer, fact_rows, 0);
    install_show_put_files(out, offer);
    install_show_put_changes(out, offer);
    put_capability_changes(out, offer, colors);
}

static void put_approval(struct kg_buf *out, const struct kg_node *offer, bool colors)
{
    print_words(out, offer,
                install_show_is_unchanged(offer) ? "Plugin {name} is as it was approved.\n"
                : was_approved(offer)            ? "Plugin {name} is not what was approved.\n"
                                                 : "Plugin {name} was never approved.\n");
    rows_put(out, NULL, offer, head_rows, 0);
    install_show_put_files(out, offer);
    if (kg_node_is_true(offer, "compared")) {
        install_show_put_changes(out, offer);
        put_capability_changes(out, offer, colors);
    } else {
        put_first(out, offer);
        install_show_put_capabilities(out, offer, colors);
    }
}

static void put_activation(struct kg_buf *out, const struct kg_node *offer, bool colors)
{
    print_words(out, offer, "Plugin {name} is installed");
    print_words(out, offer, " (version {version}).\n");
    rows_put(out, NULL, offer, fact_rows, 0);
    install_show_put_capabilities(out, offer, colors);
}

static const struct row dev_rows[] = {
    {.label = "version: ", .words = "{version:hint}"},
    {.label = "description: ", .words = "{description:hint}"},
    {.label = "folder: ", .words = "{source:hint}"},
    {.each = "warnings", .words = "  warning: {.:hint}\n"},
    {0},
};

/* What a yes to it means, which is not what a yes to an install means. */
static const struct row meaning_rows[] = {
    {.words = "\nIt runs from that folder until this command ends. Its code may change there "
              "without\nanother question; if it asks for more than this, it is stopped until "
              "you agree.\n"},
    {"installed_version",
     .words = "Version {installed_version} is installed: it is stopped meanwhile, and this one "
              "has its\nstorage, its files and its settings.\n"},
    {.words = "\n"},
    {0},
};

static void put_dev(struct kg_buf *out, const struct kg_node *offer, bool colors)
{
    bool compared = kg_node_is_true(offer, "compared");
    print_words(out, offer,
                compared ? "Plugin {name} asks for more than you agreed to.\n"
                         : "For development: plugin {name}\n");
    rows_put(out, NULL, offer, dev_rows, 0);
    if (compared) {
        install_show_put_changes(out, offer);
        put_capability_changes(out, offer, colors);
        return;
    }
    put_first(out, offer);
    rows_put(out, NULL, offer, meaning_rows, 0);
    install_show_put_capabilities(out, offer, colors);
}

static const struct kind {
    const char *change;
    void (*put)(struct kg_buf *out, const struct kg_node *offer, bool colors);
    const char *act; /* of the question */
    const char *did;
    bool both; /* the question and the end name both versions, or the new one */
    bool new;  /* it does not run yet */
} kinds[] = {
    {"install", put_install, "Install", "Installed", false, true},
    {"upgrade", put_replacement, "Upgrade", "Upgraded", true, false},
    {"downgrade", put_replacement, "Downgrade", "Downgraded", true, false},
    {"reinstall", put_replacement, "Reinstall", "Reinstalled", false, false},
    {"approve", put_approval, "Approve", "Approved", false, true},
    {"dev", put_dev, "Run", "Runs", false, false},
};

static const struct kind activation = {"activate", put_activation, NULL, NULL, false, false};

static const struct kg_node *install_show_offer_of(const struct kg_node *consent)
{
    return kg_node_get(consent, "offer");
}

/* What is of no known kind came from a daemon of another version; it reads like an install. */
static const struct kind *install_show_kind_of(const struct kg_node *consent)
{
    const struct kg_node *offer = install_show_offer_of(consent);
    if (kg_str_is(cli_text(consent, "kind"), "activate") && install_show_is_unchanged(offer))
        return &activation;
    for (size_t i = 0; i < KG_COUNT(kinds); i++)
        if (kg_str_is(cli_text(offer, "change"), kinds[i].change))
            return &kinds[i];
    return &kinds[0];
}

void show_offer(struct kg_buf *out, const struct kg_node *consent, bool colors)
{
    install_show_kind_of(consent)->put(out, install_show_offer_of(consent), colors);
}

void show_question(struct kg_buf *out, const struct kg_node *consent)
{
    const struct kind *kind = install_show_kind_of(consent);
    const struct kg_node *offer = install_show_offer_of(consent);
    if (kind->act == NULL)
        print_words(out, consent, "Let {project_id} use ");
    else
        kg_buf_printf(out, "%s ", kind->act);
    print_words(out, offer, kind->both ? "{name} {installed_version} → {version}?" : "{name}?");
}

bool show_is_of_other_source(const struct kg_node *offer)
{
    return kg_node_is_true(offer, "other_source");
}

void show_source_question(struct kg_buf *out, const struct kg_node *offer)
{
    print_words(out, offer, "Replace {name} from {installed_from} by this other plugin?");
}

void show_widening_question(struct kg_buf *out, const struct kg_node *offer)
{
    kg_auto(kg_buf_free) struct kg_buf list = {0};
    size_t count = show_new_capabilities(&list, offer);
    if (count == 1)
        kg_buf_printf(out, "Allow its new capability %s?", kg_buf_terminate(&list));
    else
        kg_buf_printf(out, "Allow its %zu new capabilities?", count);
}

static void install_show_put_next(struct kg_buf *out, const struct kg_node *consent,
                                  const struct kind *kind, const char *self)
{
    const struct kg_node *offer = install_show_offer_of(consent);
    bool was_running = kg_node_is_true(kg_node_get(consent, "installed"), "was_running");
    bool for_project = cli_text(consent, "project_id").length > 0;
    if (was_running && !kind->new) {
        kg_buf_text(out, "  Plugin was running; restarting...\n");
        print_words(out, offer, "✓ {name} restarted\n");
    } else if (for_project && kind->new) {
        print_words(out, consent, "  it starts with the sessions of project {project_id}\n");
    } else if (kind->new && !was_running && self != NULL) {
        kg_buf_printf(out, "  → enable with: %s plugin enable ", self);
        print_words(out, offer, "{name}\n");
    }
}

void show_done(struct kg_buf *out, const struct kg_node *consent, const char *self)
{
    const struct kind *kind = install_show_kind_of(consent);
    const struct kg_node *offer = install_show_offer_of(consent);
    if (kind->did == NULL)
        print_words(out, consent, "✓ {project_id} may use ");
    else
        kg_buf_printf(out, "✓ %s ", kind->did);
    print_words(out, offer, kind->both ? "{name} to {version}\n" : "{name} {version}\n");
    install_show_put_next(out, consent, kind, self);
}

void show_uninstalled(struct kg_buf *out, const struct kg_node *removed)
{
    static const struct row rows[] = {
        {"was_running", .words = "✓ Stopped {name}\n"},
        {.words = "✓ Removed plugin files\n✓ Removed local config entry\n"},
        {"storage", .words = "✓ Kept its database in {storage}\n"},
        {"storage_dropped", .words = "✓ Dropped its database\n"},
        {"plugin_data", .words = "  its own files stay in {plugin_data}\n"},
        {0},
    };
    rows_put(out, NULL, removed, rows, 0);
}

void show_progress(struct kg_buf *out, const struct kg_node *consent)
{
    static const struct row figures[] = {
        {.words = ", {progress.files:count} files, {progress.bytes:bytes}"},
        {"progress.bytes_expected", .words = " of {progress.bytes_expected:bytes}"},
        {0},
    };
    static const struct row rows[] = {
        {"!progress", .words = "{state}"},
        {"progress", .words = "{progress.phase}"},
        {"progress.files", .rows = figures},
        {"!progress.files progress.bytes", .rows = figures},
        {0},
    };
    rows_put(out, NULL, consent, rows, 0);
}
