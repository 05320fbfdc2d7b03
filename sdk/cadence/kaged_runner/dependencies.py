"""Whether what a package depends on is here: in the runtime, or in wheels that are on the path."""
import ast
import importlib.metadata
import os

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

import cadence_sdk

from .package import Refused

DEPENDENCIES_MAX = 20


def version_of(name):
    if name == "cadence-sdk":
        return cadence_sdk.__version__
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _parse(text):
    if not isinstance(text, str) or text.startswith("-") or len(text) > 200:
        raise Refused("dependencies", f"{str(text)[:80]!r} is not a dependency")
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise Refused("dependencies", f"{text[:80]!r} is not a dependency: {str(error)[:120]}") from None
    if requirement.url:
        raise Refused("dependencies", f"{text[:80]!r} names an address; only names and versions may be named")
    return requirement


def check(texts, where):
    """Refuses with the names of all that are missing."""
    if not isinstance(texts, (list, tuple)):
        raise Refused("dependencies", f"the dependencies in {where} are not a list")
    if len(texts) > DEPENDENCIES_MAX:
        raise Refused("dependencies", f"{where} names {len(texts)} dependencies; {DEPENDENCIES_MAX} may be")
    missing, wanted = [], []
    for requirement in map(_parse, texts):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        version = version_of(canonicalize_name(requirement.name))
        if version is None:
            missing.append(str(requirement))
            wanted.append(str(requirement))
        elif not requirement.specifier.contains(version, prereleases=True):
            missing.append(f"{requirement} (here is {version})")
            wanted.append(str(requirement))
    if missing:
        raise Refused("dependencies", f"{where} names what is not in the Python runtime, nor in its "
                      f"wheels/: {', '.join(missing)[:500]}", wanted)


def written_in(place):
    """What plugin.py names as dependencies=[...], read without running it; () if it says that another way."""
    try:
        with open(os.path.join(place, "plugin.py"), encoding="utf-8") as file:
            tree = ast.parse(file.read(1 << 20))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "dependencies" and isinstance(node.value, (ast.List, ast.Tuple)):
            return [item.value for item in node.value.elts if isinstance(item, ast.Constant)]
    return ()


def of_project_file(place):
    """The dependencies of pyproject.toml; () if there is none, and None if there is no such file."""
    import tomllib
    try:
        with open(os.path.join(place, "pyproject.toml"), "rb") as file:
            text = file.read(1 << 20)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused("structure", f"pyproject.toml cannot be read: {error.strerror}") from None
    try:
        project = tomllib.loads(text.decode("utf-8")).get("project", {})
    except ValueError as error:
        raise Refused("structure", f"pyproject.toml is not TOML: {error}") from None
    return project.get("dependencies", ()) if isinstance(project, dict) else ()
