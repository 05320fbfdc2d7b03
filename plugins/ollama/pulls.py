"""Pulls under way. Each has a thread, and there are few; a model of a server is pulled once, no
matter how many ask for it. A pull ends in exactly one of the states done, failed and cancelled.
"""
import collections
import concurrent.futures
import threading
import time

from kaged_sdk import PluginError
from kaged_sdk.errors import RESOURCE_BUSY

from api import Exchange, integer, text

LAYERS_MAX = 1000  # of one model; there are about ten
ENDED_MAX = 20  # that models.pulls still shows
PULL_SECONDS_MAX = 24 * 3600
LINES_MAX = 2_000_000  # Ollama writes one in 60 ms, so a day of them


class Pace:
    """At most one notification in an interval."""

    def __init__(self, interval_ms):
        self._interval = interval_ms / 1000
        self._next = 0.0

    def is_due(self):
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._interval
        return True


class Layers:
    """How much of all layers has come; the server names each by its digest."""

    def __init__(self):
        self._layers = {}
        self.sums = (0, 0)  # completed, total; read by other threads

    def take(self, line):
        digest, total = text(line.get("digest"), 100), integer(line.get("total"))
        if not digest or not total:
            return
        if digest not in self._layers and len(self._layers) == LAYERS_MAX:
            return
        completed = min(integer(line.get("completed")), total)
        before = self._layers.get(digest, (0, 0))
        self._layers[digest] = (completed, total)
        self.sums = (self.sums[0] + completed - before[0], self.sums[1] + total - before[1])


class Pull:
    def __init__(self, settings, model, tell):
        self.model, self.settings = model, settings
        self.state, self.status, self.error = "running", "asking Ollama", None
        self.ended = concurrent.futures.Future()
        self._tell, self._pace = tell, Pace(settings.progress_interval_ms)
        self._layers = Layers()
        self._exchange = Exchange(settings.host, settings.port, f"pull {model}")
        self._cancelled = False

    def view(self):
        completed, total = self._layers.sums
        view = {"model": self.model, "state": self.state, "status": self.status,
                "completed": completed, "total": total}
        if total:
            view["percent"] = completed * 100 // total
        if self.error is not None:
            view["error"] = self.error.message
        return view

    def cancel(self):
        self._cancelled = True
        self._exchange.abort()

    def run(self):
        try:
            self._pull()
            self.state = "done"
        except PluginError as error:
            self.state, self.error = ("cancelled", None) if self._cancelled else ("failed", error)
        except Exception as error:  # a fault of ours must not leave a pull that runs for ever
            self.state, self.error = "failed", PluginError(f"pull {self.model}: {error!r}")
        try:
            self._tell(self.view())
        finally:
            self.ended.set_result(None)

    def _pull(self):
        silence, give_up = self.settings.pull_silence_sec, time.monotonic() + PULL_SECONDS_MAX
        with self._exchange as exchange:
            exchange.send("POST", "/api/pull", silence, {"model": self.model, "stream": True})
            for count, line in enumerate(exchange.lines(silence)):
                self._take(line)
                if self.status == "success":
                    return
                if count == LINES_MAX or time.monotonic() > give_up:
                    break
            raise exchange.trouble("Ollama ended it before it was whole",
                                   "pull it again: what has come is kept")

    def _take(self, line):
        if "error" in line:
            raise self._exchange.trouble(f"Ollama says {text(line['error'], 300)!r}",
                                         "see whether the model's name is right, and whether "
                                         "Ollama reaches its registry")
        self.status = text(line.get("status"), 200)
        self._layers.take(line)
        if self._pace.is_due():
            self._tell(self.view())


class Pulls:
    def __init__(self, tell):
        self._tell = tell  # told the view of a pull
        self._lock = threading.Lock()
        self._running = {}
        self._ended = collections.deque(maxlen=ENDED_MAX)

    def start(self, settings, model):
        """The pull of that model, a new one if there is none; refused if too many run."""
        key = (settings.host, settings.port, model)
        with self._lock:
            if key in self._running:
                return self._running[key]
            if len(self._running) >= settings.pulls_max:
                names = ", ".join(pull.model for pull in self._running.values())
                raise PluginError(f"pull {model}: {len(self._running)} pulls run already "
                                  f"({names}); wait for one, cancel one with models.cancel, or "
                                  "raise pulls_max", RESOURCE_BUSY)
            pull = self._running[key] = Pull(settings, model, self._tell)
        pull.ended.add_done_callback(lambda _: self._on_end(key))
        threading.Thread(target=pull.run, daemon=True).start()
        return pull

    def _on_end(self, key):
        with self._lock:
            self._ended.append(self._running.pop(key))

    def find(self, settings, model):
        with self._lock:
            return self._running.get((settings.host, settings.port, model))

    def views(self):
        """Those that run, then those that ended, the latest first."""
        with self._lock:
            pulls = list(self._running.values()) + list(reversed(self._ended))
        return [pull.view() for pull in pulls]

    def cancel_all(self):
        with self._lock:
            running = list(self._running.values())
        for pull in running:
            pull.cancel()
