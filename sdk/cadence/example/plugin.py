"""A package of the catalog: tells where parcels are. It is an agent of its own (specialized), and can be
held to one parcel (scoped)."""
from typing import Any, Dict, List

from cadence_sdk import (BasePlugin, BaseScopedAgent, BaseSpecializedAgent, PluginMetadata, UvTool,
                         plugin_settings, uvtool)
from pydantic import BaseModel, Field

from .data import PARCELS


class FindArguments(BaseModel):
    query: str = Field(min_length=1, description="A place, a state, or a part of a number")
    limit: int = Field(default=5, ge=1, le=50, description="How many parcels at most")


class EstimateArguments(BaseModel):
    parcel_id: str = Field(description="The number of the parcel, such as KX-1001")


def without_key(result: Dict[str, Any]) -> Dict[str, Any]:
    """What a client is shown while the model still works on the answer."""
    return {"parcel": result["parcel"], "days_left": result["days_left"]}


class ParcelAgent(BaseSpecializedAgent, BaseScopedAgent):
    def __init__(self) -> None:
        self._carrier, self._limit, self._key = "", 50, ""
        self._tools = [self._make_find(), self._make_estimate()]

    def initialize(self, config: Dict[str, Any]) -> None:
        self._carrier = config.get("carrier") or "Kestrel Express"
        self._limit = config.get("max_results") or 50
        self._key = config["api_key"]

    def _make_find(self) -> UvTool:
        @uvtool(args_schema=FindArguments)
        def find_parcels(query: str, limit: int = 5) -> Dict[str, Any]:
            """Finds parcels by place, state or number."""
            wanted = query.lower()
            found = [parcel for parcel in PARCELS.values()
                     if any(wanted in str(value).lower() for value in parcel.values())]
            return {"carrier": self._carrier, "parcels": found[:min(limit, self._limit)]}

        return find_parcels

    def _make_estimate(self) -> UvTool:
        @uvtool(args_schema=EstimateArguments, stream=True, stream_filter=without_key)
        async def estimate_delivery(parcel_id: str) -> Dict[str, Any]:
            """Tells in how many days a parcel arrives."""
            parcel = PARCELS.get(parcel_id)
            if parcel is None:
                raise LookupError(f"there is no parcel {parcel_id}")
            return {"parcel": parcel_id, "days_left": parcel["days_left"], "asked_with": self._key[-2:]}

        return estimate_delivery

    def get_tools(self) -> List[UvTool]:
        return self._tools

    def get_system_prompt(self) -> str:
        return "You find parcels and tell when they arrive. Never guess: use your tools."

    async def load_anchor(self, resource_id: str) -> Dict[str, Any]:
        return dict(PARCELS.get(resource_id, {}))

    def build_scope_rules(self, context: Dict[str, Any]) -> str:
        return f"Talk about parcel {context['id']} only, which goes to {context['to']}."


@plugin_settings([
    {"key": "api_key", "type": "str", "description": "The key of the carrier's service",
     "required": True, "sensitive": True},
    {"key": "carrier", "name": "Carrier", "type": "str", "description": "Whose parcels they are",
     "default": "Kestrel Express"},
    {"key": "max_results", "type": "int", "description": "How many parcels a search may find",
     "default": 20},
])
class ParcelPlugin(BasePlugin):
    @staticmethod
    def get_metadata() -> PluginMetadata:
        return PluginMetadata(
            pid="com.example.parcels",
            name="Parcels",
            version="1.0.0",
            description="Tells where parcels are, and when they arrive.",
            capabilities=["tracking", "estimates"],
            dependencies=["cadence-sdk>=2.0", "pydantic>=2"],
        )

    @staticmethod
    def create_agent() -> ParcelAgent:
        return ParcelAgent()

    @staticmethod
    def health_check() -> Dict[str, Any]:
        return {"status": "ok", "parcels": len(PARCELS)}
