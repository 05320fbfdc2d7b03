"""Messages as text: what they say, which paths and names they mention, and the gist of them.

Each step walks a text a fixed number of times, however it is made.
"""
import json
import re

TERMS_MAX = 200  # of one message
GIST_CHARS = 160
_GIST_FROM = 4000  # characters that the gist is looked for in

_CANDIDATE = re.compile(r"[A-Za-z0-9_~./][A-Za-z0-9_./:#@~-]{2,119}")
_CAMEL = re.compile(r"[a-z0-9][A-Z]")
_FILE = re.compile(r"[A-Za-z0-9_]\.[A-Za-z]")
_HASH = re.compile(r"(?=[a-f]*[0-9])[0-9a-f]{7,64}\Z")
_DELIMITER = re.compile(r"\A<plugin:[^>\n]*>\n|\n</plugin:[^>\n]*>\Z")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def content_text(content):
    """A string is what it says, of parts their text; all else is its JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(part if isinstance(part, str) else part["text"] for part in content
                         if isinstance(part, str)
                         or isinstance(part, dict) and isinstance(part.get("text"), str))
    return json.dumps(content, ensure_ascii=False)


def message_text(message):
    """The words of a message; those of a plugin without their delimiters."""
    text = content_text(message.get("content"))
    return _DELIMITER.sub("", text) if message.get("plugin") else text


def call_text(content):
    """name(arguments)"""
    if not isinstance(content, dict):
        return content_text(content)
    arguments = json.dumps(content.get("arguments", {}), ensure_ascii=False)
    return f"{content.get('name', 'a tool')}({arguments})"


def result_text(content):
    """(what came of a call, whether that was an error)"""
    if not isinstance(content, dict):
        return content_text(content), False
    if "error" in content:
        return content_text(content["error"]), True
    return content_text(content.get("result", content)), False


def _is_term(word):
    return ("/" in word.strip("/") or "_" in word.strip("_") or "#" in word
            or bool(_CAMEL.search(word) or _FILE.search(word) or _HASH.match(word)))


def terms(text):
    """Paths, file names, identifiers and hashes, in the order of their first mention."""
    words = dict.fromkeys(word.rstrip(".:/#@-~") for word in _CANDIDATE.findall(text))
    return [word for word in words if len(word) > 3 and _is_term(word)][:TERMS_MAX]


def one_line(text, most):
    """Cut at a word, without line breaks and controls."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[:4 * most]).split())
    if len(line) <= most:
        return line
    cut = line.rfind(" ", most // 2, most)
    return line[:cut if cut > 0 else most] + "..."


def gist(text, matches):
    """The first sentence that matches, or the first of all, in one line."""
    sentences = [one for one in _SENTENCE_END.split(text[:_GIST_FROM]) if one.strip()]
    chosen = next((one for one in sentences if matches(one)), sentences[0] if sentences else "")
    return one_line(chosen, GIST_CHARS)


def shortened(text, most, matches):
    """Its beginning, lines in the middle that match, and its end: about `most` characters."""
    head, tail = text[:most // 2], text[-(most // 4):]
    middle, room = [], most // 4
    for line in text[len(head):-len(tail)].splitlines():
        if room <= 0:
            break
        if line and matches(line):
            middle.append(one_line(line, min(GIST_CHARS, room)))
            room -= len(middle[-1])
    return "\n[...]\n".join([head, *(["\n".join(middle)] if middle else []), tail])
