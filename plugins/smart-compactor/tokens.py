"""How many tokens kaged counts for a text, in sixths of one; kaged-session(7) has the table."""
import json
import re

FRAME = 8  # tokens of each message
DELIMITER = 24  # sixths, beside the plugin's name; the text of a plugin stands between two
LONG_RUN = 20  # letters and digits; what follows them weighs more

_LONG = re.compile(rb"[A-Za-z0-9]{%d,}" % (LONG_RUN + 1))
_WEIGHTS = {"letter": 2, "digit": 3, "mark": 3, "two": 6, "three": 9, "four": 15, "inner": 0}


def _weight(byte):
    if byte >= 0x80:
        wide = ("inner", "two", "three", "four")
        return _WEIGHTS[wide[(byte >= 0xC0) + (byte >= 0xE0) + (byte >= 0xF0)]]
    if chr(byte).isalpha() or byte in b" \n\t":
        return _WEIGHTS["letter"]
    return _WEIGHTS["digit" if chr(byte).isdigit() else "mark"]


# Each byte becomes its weight, so that counting is done by the library.
_TABLE = bytes(_weight(byte) for byte in range(256))


def sixths(data):
    """The weight of bytes of JSON."""
    weights = data.translate(_TABLE)
    total = sum(weight * weights.count(weight) for weight in set(_WEIGHTS.values()))
    for run in _LONG.finditer(data):
        rest = run.group()[LONG_RUN:]
        total += 4 * len(rest) - sum(rest.translate(_TABLE))
    return total


def text_sixths(text):
    """The same of a text within a JSON string; of several behind each other, the sum."""
    return sixths(json.dumps(text, ensure_ascii=False).encode()[1:-1])


def content_tokens(content):
    """Those of a message, where kaged did not tell."""
    return FRAME + -(-sixths(json.dumps(content, ensure_ascii=False).encode()) // 6)


def new_message_tokens(sixths_of_text, plugin):
    """Those of a message of a plugin's."""
    quotes = 2 * _WEIGHTS["mark"]
    delimiters = 2 * (text_sixths(plugin) + DELIMITER)
    return FRAME + -(-(sixths_of_text + quotes + delimiters) // 6)
