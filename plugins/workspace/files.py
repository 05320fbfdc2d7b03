"""Files of one folder, for somebody who is not trusted with more.

The cage keeps everything else out; what is kept here is order: paths stay below the project, links are
not followed out of it, and answers have an end.
"""
import fnmatch
import os
import re
import stat
import tempfile

from kaged_sdk import InvalidParams, PluginError

FILE_MAX = 4_000_000  # bytes of a file that is read or edited
LINE_MAX = 2000  # characters of a line that is shown
READ_MAX = 100_000  # characters of an answer
LISTED_MAX = 1000
FOUND_MAX = 200
SEARCHED_MAX = 20_000  # files
SKIPPED = {".git", "node_modules", "__pycache__", ".venv"}


def place(root, path):
    """The absolute path of something below the root, with no link that leads out."""
    root = os.path.realpath(root)
    real = os.path.realpath(os.path.join(root, path or "."))
    if real != root and not real.startswith(root + os.sep):
        raise InvalidParams(f"{path} is not below the project's folder")
    return real


def shown(root, path):
    return os.path.relpath(path, os.path.realpath(root))


def load(root, path):
    """The text of a file, as it is."""
    real = place(root, path)
    try:
        there = os.stat(real)
        if not stat.S_ISREG(there.st_mode):
            raise InvalidParams(f"{path} is not a file; list shows what is there")
        if there.st_size > FILE_MAX:
            raise PluginError(f"{path} has {there.st_size} bytes, and {FILE_MAX} are the most")
        with open(real, encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError:
        raise PluginError(f"{path} is not text") from None
    except OSError as error:
        raise PluginError(f"{path}: {error.strerror}") from None


def cut(line):
    return line if len(line) <= LINE_MAX else line[:LINE_MAX] + " [cut]"


def read(root, path, from_line, count):
    lines = load(root, path).splitlines()
    out, size = [], 0
    for number in range(from_line, min(from_line + count, len(lines) + 1)):
        text = f"{number}\t{cut(lines[number - 1])}"
        size += len(text) + 1
        if size > READ_MAX and out:
            break
        out.append(text)
    after = from_line + len(out)
    result = {"path": path, "lines": len(lines), "text": "\n".join(out)}
    if after <= len(lines):
        result["next_line"] = after
    return result


def entries(folder):
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise PluginError(f"{folder}: {error.strerror}") from None


def describe(root, entry):
    name = shown(root, entry.path)
    if entry.is_symlink():
        return f"{name} -> {os.readlink(entry.path)}"
    if entry.is_dir(follow_symlinks=False):
        return name + "/"
    return f"{name} {entry.stat(follow_symlinks=False).st_size}"


def listing(root, path, depth):
    found, left_out = [], 0
    todo = [(place(root, path), 1)]
    while todo:
        folder, level = todo.pop(0)
        for entry in entries(folder):
            if entry.name == ".git":
                continue
            if len(found) == LISTED_MAX:
                left_out += 1
                continue
            found.append(describe(root, entry))
            if level < depth and entry.is_dir(follow_symlinks=False) and entry.name not in SKIPPED:
                todo.append((entry.path, level + 1))
    result = {"entries": found}
    if left_out:
        result["left_out"] = left_out
    return result


def text_files(root, path, glob):
    start = place(root, path)
    if os.path.isfile(start):
        yield start
        return
    for folder, folders, names in os.walk(start):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(names):
            if not glob or fnmatch.fnmatch(name, glob):
                yield os.path.join(folder, name)


def matcher(pattern, regex):
    if not regex:
        return lambda line: pattern in line
    try:
        return re.compile(pattern).search
    except re.error as error:
        raise InvalidParams(f"the pattern is not a regular expression: {error}") from None


def search_file(root, path, matches, found):
    """False once there are enough."""
    try:
        text = load(root, shown(root, path))
    except PluginError:
        return True  # not text, too large, or not to be read: nothing to find there
    for number, line in enumerate(text.splitlines(), 1):
        if matches(line[:LINE_MAX]):
            if len(found) == FOUND_MAX:
                return False
            found.append(f"{shown(root, path)}:{number}: {cut(line.strip())[:300]}")
    return True


def search(root, pattern, regex, path, glob):
    found, matches = [], matcher(pattern, regex)
    for count, file in enumerate(text_files(root, path, glob)):
        if count == SEARCHED_MAX:
            return {"found": found, "note": f"only {SEARCHED_MAX} files were looked at: name a folder"}
        if not search_file(root, file, matches, found):
            return {"found": found, "note": f"there are more than {FOUND_MAX}: ask for less"}
    return {"found": found}


def write(real, text):
    """Whole or not at all; a file that was there keeps its mode."""
    folder = os.path.dirname(real)
    try:
        mode = stat.S_IMODE(os.stat(real).st_mode) if os.path.exists(real) else 0o644
        os.makedirs(folder, exist_ok=True)
        number, name = tempfile.mkstemp(prefix=".workspace-", dir=folder)
        try:
            with os.fdopen(number, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            os.chmod(name, mode & 0o777)
            os.replace(name, real)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise PluginError(f"write {os.path.basename(real)}: {error.strerror}") from None


def create(root, path, text):
    real = place(root, path)
    if os.path.lexists(real):
        raise PluginError(f"{path} is there already: give the text to replace as `old`")
    write(real, text)
    return {"path": path, "created": True, "lines": len(text.splitlines())}


def edit(root, path, old, new):
    if not old:
        return create(root, path, new)
    text = load(root, path)
    times = text.count(old)
    if times != 1:
        raise PluginError(f"`old` stands {times} times in {path}, and must stand there once"
                          + ("; take more lines around it" if times else "; read it again"))
    before = text[:text.index(old)]
    write(place(root, path), text.replace(old, new))
    return {"path": path, "line": before.count("\n") + 1}
