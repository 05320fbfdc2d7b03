"""The modes:

    discover FOLDER [WHEELS]           one JSON document about the package on stdout, and the end
    run FOLDER VERSION [WHEELS]        kaged's protocol on stdin and stdout, until shutdown
    fetch INDEX FILE FOLDER BYTES NAME...
                                       package.zip in FOLDER: FILE, and the wheels of INDEX that it needs

FOLDER is the unpacked package, WHEELS the operator's folder of wheels.
"""
import os
import sys


def take_stdio():
    """The wire under numbers of its own: what a package prints goes to stderr, and it reads nothing."""
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    return source, sink


def write_all(sink, data):
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view):]


def describe(folder, wheels):
    try:
        from .discover import discover
    except ImportError as error:
        import json
        words = f"the Python runtime cannot run packages: {error}"
        return json.dumps({"error": {"stage": "runtime", "message": words}}).encode("ascii")
    return discover(folder, wheels)


def main(words):
    if len(words) in (2, 3) and words[0] == "discover":
        source, sink = take_stdio()
        os.close(source)
        write_all(sink, describe(words[1], words[2] if len(words) == 3 else None))
        os._exit(0)  # whatever threads it has left
    if len(words) in (3, 4) and words[0] == "run":
        source, sink = take_stdio()
        from .serve import Runner
        Runner(words[1], words[2], words[3] if len(words) == 4 else None, source, sink).serve()
        os._exit(0)
    if len(words) > 5 and words[0] == "fetch":
        from .fetch import fetch
        write_all(1, fetch(words[1], words[2], words[3], int(words[4]), words[5:]))
        return 0
    sys.stderr.write(__doc__)
    return 2
