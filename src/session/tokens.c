/*
 * How many tokens a model would count, without knowing its tokenizer; the estimate errs upward, so
 * that a window is not overrun. By the bytes of the JSON:
 *   letters and white space    1/3 token each (English has about four characters to a token)
 *   digits, marks, controls    1/2 (code and JSON are dense)
 *   what follows the 20th byte of a run of letters and digits    2/3 (base64, hashes)
 *   a character of two bytes 1, of three 3/2, of four 5/2 (scripts that tokenizers know less well)
 * and for each message a little for its role and its frame.
 */
#include "session/internal.h"

#define FRAME_TOKENS 8
#define LONG_RUN     20 /* bytes of letters and digits: no word is longer */
#define SIXTHS       6
#define DELIMITER    UINT64_C(24) /* sixths, besides the plugin's name; a text has two */

enum {
    LETTER = 2,
    DIGIT = 3,
    MARK = 3,
    DENSE = 4,
    TWO_BYTES = 6,
    THREE_BYTES = 9,
    FOUR_BYTES = 15
};

static unsigned wide_weight(unsigned char lead)
{
    if (lead < 0xC0)
        return 0; /* what continues a character */
    return lead < 0xE0 ? TWO_BYTES : lead < 0xF0 ? THREE_BYTES : FOUR_BYTES;
}

static uint64_t sixths(struct kg_str text)
{
    uint64_t sum = 0;
    size_t run = 0;
    for (size_t i = 0; i < text.length; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (kg_is_letter(c) || kg_is_digit(c)) {
            run++;
            sum += run > LONG_RUN ? DENSE : kg_is_digit(c) ? DIGIT : LETTER;
            continue;
        }
        run = 0;
        sum += c >= 0x80 ? wide_weight(c) : c == ' ' || c == '\n' || c == '\t' ? LETTER : MARK;
    }
    return sum;
}

uint64_t session_tokens(struct kg_str content, const char *source)
{
    uint64_t sum = sixths(content);
    if (source != NULL)
        sum += 2 * (sixths(kg_str(source)) + DELIMITER);
    return FRAME_TOKENS + (sum + SIXTHS - 1) / SIXTHS;
}
