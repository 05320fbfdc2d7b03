"""Contexts for tests, and the rules that kaged holds an answer to."""
import random

PLUGIN = "smart-compactor"
WORDS = ("the quick brown fox jumps over lazy dogs src/base/alloc.c kg_alloc camelCase error "
         "failed we decided to use file.py remember this 学习 naïve 12345 {\"a\":1}").split()


class Context:
    """Messages as kaged tells them; what has to stay is marked."""

    def __init__(self):
        self.messages, self.stays = [], set()

    def add(self, content, role="user", stays=False, **more):
        message = {"id": f"01M{len(self.messages):023d}", "role": role, "content": content,
                   "position": len(self.messages), **more}
        self.messages.append(message)
        if stays:
            self.stays.add(message["id"])
        return message["id"]

    def call(self, name, result, stays=False, **arguments):
        call = self.add({"name": name, "arguments": arguments}, "assistant", stays,
                        kind="tool_call")
        return call, self.add(result, "tool", stays, kind="tool_result", parent=call, plugin="x")

    def params(self, **more):
        stays = [message for message in self.messages if message["id"] in self.stays]
        goes = [message for message in self.messages if message["id"] not in self.stays]
        return {"role": "compactor", "messages_being_compacted": goes, "messages_remaining": stays,
                "strategy": "delegate", "trigger": "manual", **more}

    def after(self, messages):
        """The context that such an answer leads to."""
        known, after = {message["id"]: message for message in self.messages}, Context()
        for message in messages:
            if "id" in message:
                old = known[message["id"]]
                after.messages.append({**old, "position": len(after.messages)})
            else:
                text = f"<plugin:{PLUGIN}>\n{message['content']}\n</plugin:{PLUGIN}>"
                after.add(text, message["role"], kind="summary", plugin=PLUGIN)
                after.messages[-1]["id"] = f"01N{id(after):x}{len(after.messages)}"
        after.stays = {message["id"] for message in after.messages} & self.stays
        return after


def talk(seed, count):
    """A conversation of about that many messages, of nonsense that the rules know."""
    chance, context = random.Random(seed), Context()

    def nonsense():
        return " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 40)))
    context.add(nonsense(), stays=True)
    while len(context.messages) < count:
        kind = chance.random()
        if kind < 0.3:
            context.add(nonsense())
        elif kind < 0.6:
            context.add([{"type": "text", "text": nonsense()}], "assistant")
        elif kind < 0.7:  # two calls at once
            calls = [context.add({"name": "x.y"}, "assistant", kind="tool_call") for _ in range(2)]
            for call in calls:
                context.add({"result": nonsense()}, "tool", kind="tool_result", parent=call)
        elif kind < 0.75:
            context.add({"name": "x.lost", "arguments": {}}, "assistant", kind="tool_call")
        else:
            result = {"error": nonsense()} if chance.random() < 0.2 else {"result": nonsense() * 9}
            context.call("x.read", result, path="src/base/alloc.c")
    for message in context.messages[-4:]:
        context.stays.add(message["id"])
    partners = {message["parent"]: message["id"] for message in context.messages
                if "parent" in message}
    for call, result in partners.items():  # kaged keeps the one with the other
        if context.stays & {call, result}:
            context.stays |= {call, result}
    return context


def problem(context, messages, superseded):
    """What kaged would refuse an answer for, or None."""
    known = {message["id"]: message for message in context.messages}
    listed = [message["id"] for message in messages if "id" in message]
    positions = [known[one]["position"] for one in listed]
    if positions != sorted(set(positions)):
        return "not in the old order"
    if not context.stays <= set(listed):
        return "something that has to stay is left out"
    if set(superseded) != set(known) - set(listed):
        return "superseded is not what is left out"
    if len(messages) - len(listed) > 256:
        return "too many new messages"
    partners = {}
    for message in context.messages:
        if message.get("kind") == "tool_result" and message["parent"] in known:
            partners[message["id"]] = message["parent"]
            partners[message["parent"]] = message["id"]
    open_calls = 0
    for message in messages:
        if "id" not in message:
            if open_calls:
                return "a new message between a call and its result"
        elif message["id"] in partners:
            if partners[message["id"]] not in listed:
                return "a call without its result"
            open_calls += 1 if known[message["id"]]["kind"] == "tool_call" else -1
    return None
