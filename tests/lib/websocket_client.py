"""Prints each message of a WebSocket as a line; run by the tests as a program of its own.

usage: websocket_client.py SOCKET-OR-ADDRESS URL-PATH [TOKEN]
The library is Debian's, so this may have to run with another Python than the tests. The first line
is "open"; after the end comes "closed CODE".
"""
import asyncio
import inspect
import sys

import websockets


def connect(place, url, token=None):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if place.startswith("/"):
        return websockets.unix_connect(place, "ws://localhost" + url, max_size=None)
    named = inspect.signature(websockets.connect.__init__).parameters  # version 14 renamed it
    headers_as = "extra_headers" if "extra_headers" in named else "additional_headers"
    return websockets.connect(f"ws://{place}{url}", max_size=None, **{headers_as: headers})


async def main(*where):
    async with connect(*where) as client:
        print("open", flush=True)
        try:
            async for message in client:
                print(message, flush=True)
        except websockets.ConnectionClosed:
            pass
    print("closed", client.close_code, flush=True)


asyncio.run(main(*sys.argv[1:]))
