/*
 * Commands that are one question to the daemon, as rows: how it is asked, and how its answer reads.
 * A row of the table of commands names its page, and needs no function then.
 *
 * Words stand between members of the object that they are about:
 *   {name}           a text or a number; {a.b} of an object within; {a|b} the first that is there
 *   {calls:short}    by a format, see put_formatted in rows.c
 *   {.}              the item itself, of a list of texts
 *   {@self}, {@1}    how kaged is called in this home, and the first argument
 * All of it is escaped, whoever wrote it.
 *
 * A condition is made of these, all of which have to hold:
 *   name             it is there: true, a number over 0, a text, list or object that is not empty
 *   !name            it is not
 *   name=a|b, name>1 it is one of these words, or larger than that
 *   name~a           it is a list that has this text
 *   --name           the option was given
 */
#ifndef KAGED_CLI_ROWS_H
#define KAGED_CLI_ROWS_H

#include "cli/cli.h"

/* A cell of that column while a condition holds, the first that does. */
struct cell {
    const char *heading, *when, *words, *color;
};

/* A line, or a part of one; a list of items in lines, or in a table. Rows end with one of zeros. */
struct row {
    const char *when;  /* NULL: always */
    const char *label; /* stands before the words, which are a line then, or none of no words */
    const char *words;
    const char *each;         /* once for each item of this list; only the first has the label */
    const struct row *rows;   /* of each item, or of the object */
    const char *table;        /* "NAME={name}; STATE": its columns; without words, see cells */
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
};
/* A member of a request's body; the last has no key. */
struct member {
    const char *key;
    const char *from; /* "--name", or "1" for the first argument */
    enum member_kind kind;
};

/*
 * In a target {1} stands for the first argument, {--name} for an option; names behind a "?" are
 * options that go along as a query if they were given.
 */
struct cli_page {
    const char *method, *target;
    const struct member *members; /* of the body */
    const char *body;             /* or all of it */
    int64_t silence_ms;           /* see struct client_request */
    const char *words;            /* the answer in one line, or in rows */
    const struct row *rows;
    int columns; /* that labels have */
};

int page_show(const struct cli *cli, const struct cli_page *page);
/* The same for a target or a body that only code can make; NULL: the page's. */
int page_show_with(const struct cli *cli, const struct cli_page *page, const char *target_or_null,
                   struct kg_str body);
void rows_put(struct kg_buf *out, const struct cli *cli, const struct kg_node *object,
              const struct row *rows, int columns);

#endif
