"""The plugin's log: one JSON object a line, on stderr, never on stdout."""
from __future__ import annotations

import json
import os
import sys
import threading
from datetime import datetime, timezone
from typing import Any, Callable

LEVELS = ("debug", "info", "warn", "error")


def _to_stderr(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()


class Log:
    """log.info("scanned", presets=42); what is below KAGED_LOG_LEVEL is left out."""

    def __init__(self, write: Callable[[str], None] = _to_stderr) -> None:
        level = os.environ.get("KAGED_LOG_LEVEL", "info")
        self._least = LEVELS.index(level) if level in LEVELS else 1
        self._write = write
        self._lock = threading.Lock()

    def debug(self, message: str, /, **fields: Any) -> None:
        self._log("debug", message, fields)

    def info(self, message: str, /, **fields: Any) -> None:
        self._log("info", message, fields)

    def warn(self, message: str, /, **fields: Any) -> None:
        self._log("warn", message, fields)

    def error(self, message: str, /, **fields: Any) -> None:
        self._log("error", message, fields)

    def _log(self, level: str, message: str, fields: Any) -> None:
        if LEVELS.index(level) < self._least:
            return
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        entry = {"time": now.replace("+00:00", "Z"), **fields, "level": level,
                 "message": str(message)}
        line = json.dumps(entry, default=str, separators=(",", ":")) + "\n"
        with self._lock:
            try:
                self._write(line)
            except (OSError, ValueError):
                pass  # a log that nobody reads is no reason to fail
