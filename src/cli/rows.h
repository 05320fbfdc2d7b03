/*
 * Commands that are one question to the daemon, as rows: how it is asked, and how its answer reads.
 * A row of the table of commands names its page, and needs no function then.
 *
 * Words stand between members of the object that they are about:
 *   {name}           a text or a number; {a.b} of an object within; {a|b} the first that is there
 *   {calls:short}    by a format, see put_formatted in rows.c
 *   {.}              the item itself, of a list of texts
 *   {@self}          how kaged is called in this home
 *   {@1}, {--name}   the first argument, and an option
 *   {@key}           of an item of an object, its key
 *   {@plugins}       the folder of plugins
 * All of it is escaped, whoever wrote it.
 *
 * A condition is made of these, all of which have to hold:
 *   name             it is there: true, a number over 0, a text, list or object that is not empty
 *   !name            it is not
 *   name=a|b, name>1 it is one of these words, or larger than that
 *   name~a           it is a list that has this text
 *   --name           the option was given
 *
 * A column of a table is a heading and the words of its cells. On a screen NAME~18 is cut to 18
 * columns, and the first such column has what the screen has more than 80; DESCRIPTION?20 is shown
 * only where more than 20 are left.
 */
#ifndef KAGED_CLI_ROWS_H
#define KAGED_CLI_ROWS_H

#include "cli/cli.h"

/* A cell of that column while a condition holds, the first that does. */
struct cell {
    const char *heading, *when, *words, *color;
    void (*put)(struct kg_buf *out, const struct kg_node *item); /* what words cannot say */
};

/* A line, or a part of one; a list of items in lines, or in a table. Rows end with one of zeros. */
struct row {
    const char *when;  /* NULL: always */
    const char *label; /* stands before the words, which are a line then, or none of no words */
    const char *words;
    const char *each;         /* for each item of this list or object; the first has the label */
    const struct row *rows;   /* of each item, or of the object */
    const char *table;        /* "NAME={name}; STATE": columns; one without words has cells */
    const struct cell *cells; /* end with one of zeros */
    cli_put *put;             /* what words cannot say */
    bool aside;               /* on stderr */
};

enum member_kind {
    MEMBER_TEXT,   /* if it was given */
    MEMBER_FLAG,   /* whether it was */
    MEMBER_UNLESS, /* whether it was not */
    MEMBER_PARTS,  /* a list of what commas separate */
    MEMBER_REST,   /* a list of all arguments from that one on */
    MEMBER_BEGIN,  /* an object, of which the members up to MEMBER_END are */
    MEMBER_END,
};
/* A member of a request's body; the last has no key. */
struct member {
    const char *key;
    const char *from; /* "--name", or "1" for the first argument */
    enum member_kind kind;
    const char *otherwise; /* the text if none was given; NULL: it is left out */
};

/*
 * In a target {1} stands for the first argument, {--name} for an option that has to be given, {0}
 * for a name that only code knows. Behind a "?" are queries: "tag" is the option of that name,
 * "uri=2" an argument, "limit=--lines:50" an option and what goes along without it.
 */
struct cli_page {
    const char *method, *target;
    const struct member *members; /* of the body */
    const char *body;             /* or all of it */
    int64_t silence_ms;           /* see struct client_request */
    const char *words;            /* the answer in one line, or in rows */
    const struct row *rows;
    int columns;         /* that labels have */
    const char *without; /* the target if the option in the other one was not given */
};

/* What of a request only code can make; see struct client_request. */
struct page_given {
    const char *name; /* {0} */
    struct kg_str body;
    const char *file, *headers, *content_type;
};

int page_show(const struct cli *cli, const struct cli_page *page);
int page_show_with(const struct cli *cli, const struct cli_page *page,
                   const struct page_given *given);
/* Asks, and prints nothing but what went wrong. */
int page_ask(const struct cli *cli, const struct cli_page *page,
             const struct page_given *given_or_null, struct kg_buf *ret_body,
             struct kg_doc **ret_doc);
/* Says that an option is missing; the exit code. */
int page_lacks(const char *option);
/* The same, of an answer that nobody needs. */
int page_tell(const struct cli *cli, const struct cli_page *page, const struct page_given *given);
/* A body of one member: {"key":"text"}. */
void rows_put_text(struct kg_buf *body, const char *key, struct kg_str text);

void rows_put(struct kg_buf *out, const struct cli *cli, const struct kg_node *object,
              const struct row *rows, int columns);
/* The same on stderr. */
void rows_say(const struct cli *cli, const struct kg_node *object, const struct row *rows);

#endif
