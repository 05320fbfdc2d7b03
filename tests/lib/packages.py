"""Packages of the catalog for tests: one that is good, whose parts can be replaced, and wheels."""
import os
import textwrap
import zipfile

PLUGIN = '''
from cadence_sdk import BasePlugin, BaseAgent, BaseScopedAgent, BaseSpecializedAgent, PluginMetadata, plugin_settings, uvtool
{before}
@uvtool
def say(text: str, times: int = 1) -> str:
    """Says it."""
    return text * times

class Agent(BaseSpecializedAgent):
    def get_tools(self):
        return [say]
    def get_system_prompt(self):
        return "You say things."
{agent}
{decorator}
class Plugin(BasePlugin):
    @staticmethod
    def get_metadata():
        return PluginMetadata(pid="com.example.say", name="Say", version="1.0", description="Says things."{metadata})
    @staticmethod
    def create_agent():
        return Agent()
{plugin}
'''


def write(folder, files=(), **parts):
    """A package in that folder; parts are put into its plugin.py: before, agent, decorator, metadata, plugin."""
    known = {name: "" for name in ("before", "agent", "decorator", "metadata", "plugin")}
    for name in ("agent", "plugin"):
        if name in parts:
            parts[name] = textwrap.indent(textwrap.dedent(parts[name]), "    ")
    put(folder, {"plugin.py": PLUGIN.format(**{**known, **parts}), **dict(files)})
    return folder


def put(folder, files):
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
    return folder


def wheel(path, name, version, module, tag="py3-none-any", needs=()):
    """NAME-VERSION-TAG.whl in that folder, with one module of that text."""
    os.makedirs(path, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(os.path.join(path, f"{name}-{version}-{tag}.whl"), "w") as archive:
        archive.writestr(f"{name}.py", module)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
                         + "".join(f"Requires-Dist: {each}\n" for each in needs))
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        archive.writestr(f"{info}/RECORD", "")
