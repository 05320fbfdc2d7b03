/* The decimal point of JSON is a point, even where the author's program has set a locale. */
#include "internal.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

/* Made once; it lives as long as the program. */
static locale_t plain_locale(void)
{
    static locale_t plain;
    if (plain == (locale_t)0)
        plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return plain;
}

double number_read(const char *text)
{
    return strtod_l(text, NULL, plain_locale());
}

/* The shortest text that reads as the same number. */
void number_write(double value, char ret_text[NUMBER_TEXT])
{
    locale_t before = uselocale(plain_locale());
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(ret_text, NUMBER_TEXT, "%.*g", digits, value);
        if (strtod(ret_text, NULL) == value)
            break;
    }
    uselocale(before);
}
