"""A provider of models on loopback, as a program of its own: it has a tool called once, and then answers. The first line
on stdout is its port; it ends with its stdin."""
import asyncio
import json
import sys

TOOL, ARGUMENTS = sys.argv[1:3]


def event(value):
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def stream(*events):
    body = b"".join(map(event, events)) + b"data: [DONE]\n\n"
    return (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: "
            + str(len(body)).encode() + b"\r\n\r\n" + body)


CALLS = stream({"choices": [{"delta": {"tool_calls": [
    {"index": 0, "id": "c0", "function": {"name": TOOL, "arguments": ARGUMENTS}}]}}]},
    {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
SAYS = stream({"choices": [{"delta": {"content": "Here it is."}}]}, {"choices": [{"delta": {}, "finish_reason": "stop"}]})


async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
            last = json.loads(await reader.readexactly(length))["messages"][-1]
            writer.write(SAYS if last["role"] == "tool" else CALLS)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def run():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(run())
