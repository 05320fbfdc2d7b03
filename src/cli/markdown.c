/*
 * What a model says, as a terminal shows it while it comes: headings and strong words are bold,
 * code is coloured, lists have dots. Only a sign or two that may still become a mark are held back,
 * so that words appear as they are said. What comes in has no control characters any more.
 */
#include "cli/cli.h"

static const char reset[] = "\033[0m", bold[] = "\033[1m", dim[] = "\033[2m", code[] = "\033[36m";

static void put_style(const struct markdown *markdown, struct kg_buf *out)
{
    kg_buf_text(out, reset);
    kg_buf_text(out, markdown->heading || markdown->strong ? bold : "");
    kg_buf_text(out, markdown->code ? code : "");
    kg_buf_text(out, markdown->fence ? dim : "");
}

static void take_inline(struct markdown *markdown, char sign, struct kg_buf *out)
{
    bool was_star = markdown->star;
    markdown->star = false;
    if (was_star && sign == '*') {
        markdown->strong = !markdown->strong;
        put_style(markdown, out);
        return;
    }
    if (was_star)
        kg_buf_char(out, '*');
    if (sign == '*' && !markdown->code && !markdown->fence) {
        markdown->star = true;
    } else if (sign == '`' && !markdown->fence) {
        markdown->code = !markdown->code;
        put_style(markdown, out);
    } else {
        kg_buf_char(out, sign);
    }
}

/* What was held at the start of a line is not a mark. */
static void markdown_let_go(struct markdown *markdown, struct kg_buf *out)
{
    size_t count = markdown->held;
    markdown->held = 0;
    markdown->within = true;
    for (size_t i = 0; i < count; i++)
        take_inline(markdown, markdown->mark, out);
}

static void take_fence(struct markdown *markdown, struct kg_buf *out)
{
    markdown->held = 0;
    markdown->fence = !markdown->fence;
    markdown->skips = true;
    markdown->within = true;
    put_style(markdown, out);
}

/* True: the sign is a part of what may become a mark, or ends one. */
static bool take_mark(struct markdown *markdown, char sign, struct kg_buf *out)
{
    bool may_mark = strchr(markdown->fence ? "`" : "#`-*+", sign) != NULL &&
                    (markdown->held == 0 || sign == markdown->mark);
    if (markdown->held == 0 && sign == ' ') {
        kg_buf_char(out, ' ');
        return true;
    }
    if (may_mark && markdown->held < 6) {
        markdown->mark = sign;
        markdown->held++;
        if (sign == '`' && markdown->held == 3)
            take_fence(markdown, out);
        return true;
    }
    if (markdown->held == 0 || sign != ' ' || markdown->mark == '`' ||
        (markdown->mark != '#' && markdown->held > 1))
        return false;
    markdown->heading = markdown->mark == '#';
    markdown->held = 0;
    markdown->within = true;
    if (markdown->heading)
        put_style(markdown, out);
    else
        kg_buf_text(out, "• ");
    return true;
}

static void markdown_end_line(struct markdown *markdown, struct kg_buf *out)
{
    markdown_let_go(markdown, out);
    if (markdown->star)
        kg_buf_char(out, '*');
    bool styled = markdown->heading || markdown->strong || markdown->code;
    *markdown = (struct markdown){.fence = markdown->fence};
    if (styled)
        put_style(markdown, out);
}

void markdown_put(struct markdown *markdown, struct kg_str text, struct kg_buf *out)
{
    for (size_t i = 0; i < text.length; i++) {
        char sign = text.data[i];
        if (sign == '\n') {
            bool was_fence = markdown->skips;
            markdown_end_line(markdown, out);
            if (!was_fence)
                kg_buf_char(out, '\n');
        } else if (markdown->skips || (!markdown->within && take_mark(markdown, sign, out))) {
            continue;
        } else {
            markdown_let_go(markdown, out);
            take_inline(markdown, sign, out);
        }
    }
}

void markdown_end(struct markdown *markdown, struct kg_buf *out)
{
    bool styled = markdown->fence;
    markdown_end_line(markdown, out);
    *markdown = (struct markdown){0};
    kg_buf_text(out, styled ? reset : "");
}
