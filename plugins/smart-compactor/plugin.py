#!/usr/bin/env python3
"""Compacts contexts by rules, and says why each message was kept or not. README.md has the rules.

kaged_sdk lies beside this file.
"""
from kaged_sdk import InvalidParams, Plugin, PluginError, compactor_result

from compactor import compact
from record import Record, Records
from units import FATES

KINDS = ("message", "tool_call", "tool_result", "injection", "summary")
LIMIT_MAX = 1000

plugin = Plugin("smart-compactor", "0.1.0")
records = Records()


def count_messages(params):
    """What is seen goes into the counts; kinds that kaged may have one day count as others."""
    seen = params["messages_being_compacted"] + params["messages_remaining"]
    kinds = [message.get("kind", "message") for message in seen]
    records.count(*(f"{kind if kind in KINDS else 'other'}_seen" for kind in kinds))


@plugin.hook("pre_compact")
def pre_compact(params, ctx):
    count_messages(params)
    if params.get("role") != "compactor":
        records.count("compactions_observed")
        return None
    plan = compact(params, ctx.config, plugin.name)
    records.count("compactions_made")
    records.put((ctx.session_id, ctx.agent_path), Record(plan, params.get("trigger")))
    return compactor_result(plan.messages, plan.superseded, plan.words())


@plugin.hook("post_compact")
def post_compact(params, ctx):
    """Whether kaged took our plan: if not, it tells of another strategy."""
    strategy = params.get("strategy")
    records.count(f"strategy_{strategy}" if strategy in ("drop", "summarize", "delegate")
                  else "strategy_other")
    record = records.get((ctx.session_id, ctx.agent_path))
    if record is not None and record.is_used is None:
        record.is_used = strategy == "delegate"
        records.count("compactions_used" if record.is_used else "compactions_not_used")


def page_of(params):
    fate, offset, limit = params.get("fate"), params.get("offset", 0), params.get("limit", 100)
    if fate is not None and fate not in FATES:
        raise InvalidParams(f"fate must be one of {', '.join(FATES)}")
    if type(offset) is not int or offset < 0:
        raise InvalidParams("offset must be a number from 0 on")
    if type(limit) is not int or not 1 <= limit <= LIMIT_MAX:
        raise InvalidParams(f"limit must be a number from 1 to {LIMIT_MAX}")
    return fate, offset, limit


def explain(session, agent, params):
    page = page_of(params)
    record = records.get((session, agent))
    if record is None:
        raise PluginError(f"explain {session}: the context of {agent} was not compacted by this "
                          "plugin since it was started; compact it, and ask again")
    return {"session_id": session, "agent_path": agent, **record.view(*page)}


@plugin.tool("explain")
def explain_own(params, ctx):
    """A model is told of its own session only."""
    return explain(ctx.session_id, ctx.agent_path, params)


@plugin.method("compaction.explain")
def explain_any(params, ctx):
    session, agent = params.get("session_id"), params.get("agent_path", "primary")
    if not isinstance(session, str) or not isinstance(agent, str):
        raise InvalidParams("session_id and agent_path must be strings")
    return explain(session, agent, params)


@plugin.method("compaction.counts")
def counts(params, ctx):
    return records.counts()


if __name__ == "__main__":
    plugin.run()
