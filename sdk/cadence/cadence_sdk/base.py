"""The classes that a package derives from: a plugin, which makes an agent, which has tools."""
import logging
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Optional

from .types import UvTool


class Loggable:
    """Gives a class a logger that is named after it."""

    @property
    def logger(self) -> logging.Logger:
        return logging.getLogger(f"{type(self).__module__}.{type(self).__qualname__}")


@dataclass
class PluginMetadata:
    """Who a package is. The first four must be there; a version has two or three parts."""

    pid: str
    name: str
    version: str
    description: str
    capabilities: List[str] = field(default_factory=list)
    dependencies: List[str] = field(default_factory=list)
    sdk_version: str = ">=2.0.0,<3.0.0"
    stateless: bool = True

    def __post_init__(self) -> None:
        for required in ("pid", "name", "version", "description"):
            if not getattr(self, required):
                raise ValueError(f"plugin metadata: {required} must not be empty")
        if len(str(self.version).split(".")) not in (2, 3):
            raise ValueError(f"plugin metadata: version {self.version!r} must be MAJOR.MINOR or "
                             "MAJOR.MINOR.PATCH")

    def to_dict(self) -> Dict[str, Any]:
        return asdict(self)


class BaseAgent(ABC):
    """What has the tools. One is made for each process, and set up once."""

    @abstractmethod
    def get_tools(self) -> List[UvTool]:
        """The tools, made by uvtool."""

    def initialize(self, config: Dict[str, Any]) -> None:
        """The settings, before the first call."""

    async def cleanup(self) -> None:
        """After the last call."""


class BaseSpecializedAgent(BaseAgent):
    """An agent of its own: others can hand work to it."""

    @abstractmethod
    def get_system_prompt(self) -> str:
        """What its model is told first; not empty."""


class BaseScopedAgent(BaseAgent):
    """An agent that talks about one resource, and keeps to it."""

    @abstractmethod
    async def load_anchor(self, resource_id: str) -> Dict[str, Any]:
        """What is known of the resource; {} if there is none."""

    @abstractmethod
    def build_scope_rules(self, context: Dict[str, Any]) -> str:
        """What the agent may talk about, given what load_anchor returned."""


class BasePlugin(ABC):
    """A factory without a state; all of it is static."""

    @staticmethod
    @abstractmethod
    def get_metadata() -> PluginMetadata:
        """Who the package is."""

    @staticmethod
    @abstractmethod
    def create_agent() -> BaseAgent:
        """A new agent, not set up yet."""

    @staticmethod
    def validate_dependencies() -> List[str]:
        """What is missing, in words; any of them keeps the package from being loaded."""
        return []

    @staticmethod
    def get_settings_schema() -> Optional[List[Dict[str, Any]]]:
        """The settings, beside those of the decorator plugin_settings."""
        return []

    @staticmethod
    def health_check() -> Dict[str, Any]:
        return {"status": "unknown"}
