#!/usr/bin/env python3
"""A host on asyncio, as small as it can be: JSON lines to the plugin, futures by id.

usage: asyncio_host.py PROGRAM     commands: calls MS IN_FLIGHT BYTES, then latencies
"""
import asyncio
import json
import sys
import time

CONTEXT = {"operator_id": "bench", "project_id": None, "agent_path": None, "session_id": None,
           "request_id": "req_01ARZ3NDEKTSV4RRFFQ69G5FAV"}
LINE_MAX = 8 << 20


class Host:
    def __init__(self, process):
        self.process, self.waiting, self.last_id = process, {}, 0
        self.reader = asyncio.create_task(self.read_answers())

    async def read_answers(self):
        while line := await self.process.stdout.readline():
            answer = json.loads(line)
            self.waiting.pop(answer["id"]).set_result(answer["result"])

    async def call(self, text):
        self.last_id += 1
        future = asyncio.get_running_loop().create_future()
        self.waiting[self.last_id] = future
        request = {"jsonrpc": "2.0", "id": self.last_id, "method": "fast.echo",
                   "params": {"_context": CONTEXT, "text": text, "count": 42}}
        self.process.stdin.write(json.dumps(request, separators=(",", ":")).encode() + b"\n")
        if await future != {"ok": True}:
            sys.exit("asyncio_host: a wrong answer")


async def run_calls(host, samples, milliseconds, in_flight, size, *_):
    text = "x" * size
    samples.clear()
    start = time.perf_counter()

    async def lane():
        while True:
            sent = time.perf_counter()
            await host.call(text)
            now = time.perf_counter()
            samples.append(now - sent)
            if now - start > milliseconds / 1000:
                return

    await asyncio.gather(*(lane() for _ in range(in_flight)))
    return {"rate": len(samples) / (time.perf_counter() - start), "calls": len(samples)}


def latencies(samples):
    samples.sort()
    return {"p50_us": samples[len(samples) // 2] * 1e6,
            "p99_us": samples[int((len(samples) - 1) * 0.99)] * 1e6}


async def main():
    host = Host(await asyncio.create_subprocess_exec(
        sys.argv[1], stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LINE_MAX))
    samples = []
    while line := await asyncio.to_thread(sys.stdin.readline):
        command, *numbers = line.split()
        figures = latencies(samples) if command == "latencies" else \
            await run_calls(host, samples, *map(int, numbers))
        print(json.dumps(figures), flush=True)
    host.process.stdin.close()
    await host.process.wait()


asyncio.run(main())
