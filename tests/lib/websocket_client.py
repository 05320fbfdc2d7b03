"""Prints each message of a WebSocket as a line; run by the tests as a program of its own.

usage: websocket_client.py SOCKET URL-PATH
The library is Debian's, so this may have to run with another Python than the tests. The first line
is "open"; after the end comes "closed CODE".
"""
import asyncio
import sys

import websockets


async def main(path, url):
    async with websockets.unix_connect(path, "ws://localhost" + url, max_size=None) as client:
        print("open", flush=True)
        try:
            async for message in client:
                print(message, flush=True)
        except websockets.ConnectionClosed:
            pass
    print("closed", client.close_code, flush=True)


asyncio.run(main(*sys.argv[1:]))
