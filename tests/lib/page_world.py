"""A daemon with something of everything, for the tests of the operator's page and its screenshots."""
import os
import shutil
import time

from harness import PLUGINS, Daemon, wait_for
from models import END, STREAM, Provider, delta, event
from staged import stage

PROJECT = """\
version: 1
name: garden
primary:
  model: deep
  prompt: You help with a garden, and keep notes.
  plugins:
    notes: { package: notes, config: { page_max: 5 } }
    knobs: { package: all-knobs, config: { turns: 7 } }
  compaction: { strategy: drop, keep_recent: 1 }
  subagents:
    reader:
      plugins:
        notes: { package: notes }
"""
ANSWER = """\
There are **two** notes about tomatoes:

1. Sow them indoors in *March*.
2. Move them out after the last frost.

```
notes.search {"query": "tomatoes"}
```
See [the almanac](https://example.org/almanac) for dates.
"""


def calls(name, arguments):
    return STREAM + delta("Let me look. ") + event({"choices": [{"delta": {"tool_calls": [
        {"index": 0, "id": "c0", "function": {"name": name, "arguments": arguments}}]}}]}) + \
        event({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}) + b"data: [DONE]\n\n"


def slowly(text, seconds=1.0):
    """Says it word by word."""
    words = text.split(" ")

    def answer(connection):
        connection.sendall(STREAM)
        for at, word in enumerate(words):
            connection.sendall(delta(word + (" " if at < len(words) - 1 else "")))
            time.sleep(seconds / len(words))
        connection.sendall(END)
    return answer


class PageWorld(Daemon):
    """notes, echo and workspace as they come; all-knobs, and one that crashes; a project and its model."""

    def __init__(self, *answers, config=None):
        self.provider = Provider(*answers)
        super().__init__(["all-knobs", "crash-at-start", "reads-files"], {
            "daemon.bind": "127.0.0.1:0", "limits.restart_failures": 2, "sandbox.root_writable": ["/tmp"],
            **(config or {})})
        for name in ("notes", "echo", "workspace"):
            shutil.copytree(stage(name), os.path.join(self.home, "plugins", name))
            self.enabled.append(name)
        self.write_config(**{"plugins__enabled": self.enabled})
        self.write_local(f'[providers.p]\nkind = "openai"\nbase_url = "{self.provider.url}"\napi_key = "k3y-of-tests"\n'
                         'retries = 0\n[models.deep]\nprovider = "p"\nmodel = "d"\nreasoning = true\n'
                         'context_window = 8000\n')
        self.root = self.write_project("garden", PROJECT)

    def environment(self):
        return {**super().environment(), "HOME": os.path.join(self.base, "user")}

    def __exit__(self, *exception):
        self.provider.__exit__(*exception)
        super().__exit__(*exception)

    def begin(self):
        """Loads the project; the id of a new session of it."""
        status, answer = self.api("POST", "/projects", {"path": self.root})
        assert status == 200, answer
        status, session = self.api("POST", "/projects/garden/sessions", {})
        assert status == 201, session
        return session["id"]

    def offer(self, name, version="1.0.0", capabilities="[]", source=None):
        """The id of a consent that waits: a plugin of tests/plugins, as this version."""
        folder = os.path.join(self.base, f"offered-{name}")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(os.path.join(PLUGINS, source or name), folder)
        manifest = os.path.join(folder, "kaged-plugin.yaml")
        with open(manifest) as file:
            lines = file.read().splitlines()
        with open(manifest, "w") as file:
            for line in lines:
                key = line.split(":")[0]
                changed = {"name": name, "version": version, "capabilities": capabilities}.get(key)
                file.write((f"{key}: {changed}" if changed else line) + "\n")
        status, consent = self.api("POST", "/plugins", {"source": folder})
        assert status == 202, consent
        return self.wait_consent(consent["id"], "offered")

    def wait_consent(self, consent, state):
        def look():
            _, now = self.api("GET", f"/consents/{consent}")
            assert now["state"] == state or now["state"] not in ("failed", "expired"), now
            return now["state"] == state
        wait_for(look, f"a consent that is {state}")
        return consent
