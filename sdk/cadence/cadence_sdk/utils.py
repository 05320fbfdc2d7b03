"""Small questions that packages ask in validate_dependencies."""
import importlib.util


def check_dependency_installed(name: str) -> bool:
    """Whether a module of that name can be imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
