#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An OpenAI-compatible server that generates nothing and knows exactly when it said what.

mock_server.py [--truth FILE] [--port 0] [--ttft-ms 50 --gap-ms 10 ...] prints "port N" when it
listens on 127.0.0.1. It ends on SIGTERM, or when its standard input is closed (--until-eof).

Every request has a plan: its time to first piece, gaps, stalls, faults. The plan follows from the
seed and the ordinal of the request (or, with --plan-by id, its X-Request-Id) alone. A request can
change the options by a query in the model's name: "m?gap_ms=2&reset_pct=100".

FILE gets one object a line when a request ends; times are CLOCK_MONOTONIC in ns, those of pieces taken
right before the write: {"id", "ordinal", "path", "arrived_ns", "received_ns", "pieces": [[ns, tokens],
...], "end_ns", "end": "ok" | "error" | "reset" | "silent" | "closed" (by the client), "status",
"prompt_tokens", "output_tokens"}. The kernel notes when the last bytes of a request arrived, this
program when it read them; what lies between is its own slowness and none of the client's. arrived_ns is
null where the kernel notes nothing. POST /mock/reset begins a new count of ordinals.
"""

import argparse
import asyncio
import collections
import gc
import json
import random
import signal
import socket
import struct
import sys
import time
import urllib.parse

OPTIONS = {  # name: (default, help)
    "ttft_ms": (50.0, "time to the first piece"),
    "gap_ms": (10.0, "time between pieces"),
    "jitter": (0.2, "share by which each of these times varies, uniformly"),
    "stall_pct": (0.0, "gaps that are stalls"),
    "stall_ms": (200.0, "how long a stall lasts"),
    "burst_pct": (0.0, "pieces that carry several tokens"),
    "burst_max": (4.0, "the most tokens of a burst"),
    "merge_pct": (0.0, "pieces sent in one write with the one before"),
    "split_pct": (0.0, "pieces that are sent in two halves, 1 ms apart"),
    "error_pct": (0.0, "requests refused with error_status"),
    "error_status": (500.0, "status of refused requests"),
    "reset_pct": (0.0, "requests whose connection is reset in the middle"),
    "silent_pct": (0.0, "requests that are never answered"),
    "output_tokens": (0.0, "tokens of an answer; 0: max_tokens of the request, or 16"),
    "usage": (1.0, "0: no usage, as some servers have none"),
    "slots": (0.0, "requests served at once, others wait; 0: all"),
    "stale_pct": (0.0, "kept connections that are reset when they are used again"),
    "close": (0.0, "1: the connection ends with each answer, without a length"),
}
# linux/net_tstamp.h: the kernel timestamps received packets and reports the timestamps.
SO_TIMESTAMPING, RX_SOFTWARE, SOFTWARE = 37, 1 << 3, 1 << 4
WORDS = (" the", " model", " routes", " each", " token", " to", " two", " experts", " and", " sums")


class Plan:
    """What one request gets: events of (delay in s, tokens, ways), or a fault."""

    def __init__(self, options, key, max_tokens):
        rng = random.Random(key)
        o = options
        chance = lambda pct: pct > 0 and rng.random() * 100 < pct
        vary = lambda ms: ms * 1e-3 * (1 + o["jitter"] * (2 * rng.random() - 1))
        self.tokens = int(o["output_tokens"]) or max_tokens or 16
        self.fault = ("error" if chance(o["error_pct"]) else
                      "reset" if chance(o["reset_pct"]) else
                      "silent" if chance(o["silent_pct"]) else None)
        self.status = int(o["error_status"])
        self.events = []  # (delay, tokens, split)
        left = self.tokens
        while left > 0:
            n = min(left, rng.randint(2, int(o["burst_max"])) if chance(o["burst_pct"]) else 1)
            left -= n
            if not self.events:
                delay = vary(o["ttft_ms"])
            elif chance(o["merge_pct"]):
                delay = 0
            elif chance(o["stall_pct"]):
                delay = o["stall_ms"] * 1e-3
            else:
                delay = vary(o["gap_ms"])
            self.events.append((delay, n, chance(o["split_pct"])))
        self.reset_at = rng.randint(1, len(self.events)) if self.fault == "reset" else None


class Server:
    def __init__(self, args):
        self.options = {name: getattr(args, name) for name in OPTIONS}
        self.seed, self.plan_by, self.model = args.seed, args.plan_by, args.model
        self.truth = open(args.truth, "w", buffering=1 << 16) if args.truth else None
        self.ordinal = 0
        self.active = set()
        self.served = 0
        self.waiting = collections.deque()
        self.stale = random.Random(args.seed)

    def enter(self, request):
        if self.options["slots"] and self.served >= self.options["slots"]:
            self.waiting.append(request)
        else:
            self.served += 1
            request.serving = True
            request.start()

    def leave(self, request):
        self.active.discard(request)
        if request.serving:
            self.served -= 1
        while self.waiting and self.served < self.options["slots"]:
            following = self.waiting.popleft()
            if not following.done:
                self.served += 1
                following.serving = True
                following.start()

    def plan(self, request):
        options = self.options
        model = str(request.body.get("model", ""))
        if "?" in model:
            options = dict(options)
            for name, value in urllib.parse.parse_qsl(model.split("?", 1)[1]):
                options[name] = float(value)
        request.options = options
        key = request.id if self.plan_by == "id" and request.id else request.ordinal
        maximum = request.body.get("max_completion_tokens") or request.body.get("max_tokens") or 0
        return Plan(options, f"{self.seed}:{key}", int(maximum))


class Request:
    """One request in flight. Only the event loop touches it."""

    def __init__(self, connection, path, headers, body):
        server = connection.server
        self.connection, self.path, self.body = connection, path, body
        self.id = headers.get("x-request-id", "")
        self.ordinal = server.ordinal
        server.ordinal += 1
        server.active.add(self)
        self.arrived_ns, self.received_ns = connection.arrived_ns, connection.received_ns
        self.pieces = []
        self.sent_tokens = 0
        self.timer = None
        self.at = 0
        self.done = False
        self.chat = path.endswith("/chat/completions")
        self.stream = bool(body.get("stream"))
        self.plan = server.plan(self)
        self.prompt_tokens = count_words(body)
        self.serving = False
        server.enter(self)

    def start(self):
        plan, loop = self.plan, self.connection.loop
        if plan.fault == "silent":
            return
        self.due = loop.time() + plan.events[0][0]
        if plan.fault == "error":
            self.timer = loop.call_at(self.due, self.refuse)
            return
        if not self.stream:
            total = sum(delay for delay, _, _ in plan.events)
            self.timer = loop.call_at(loop.time() + total, self.whole)
            return
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        self.head = (f'{{"id":"cmpl-{self.ordinal}","object":"{kind}","created":1700000000,'
                     f'"model":{json.dumps(str(self.body.get("model", "")))},"choices":[').encode()
        self.chunked = not self.options["close"]
        head = ("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
                f"x-request-id: {self.id or self.ordinal}\r\n" +
                ("transfer-encoding: chunked\r\n\r\n" if self.chunked else
                 "connection: close\r\n\r\n"))
        self.connection.write(head.encode())
        if self.chat:  # a first event with the role and no text, as real servers send it
            self.connection.write(self.event(
                b'{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}'))
        self.timer = loop.call_at(self.due, self.piece)

    def event(self, rest):
        data = b"data: " + self.head + rest + b"\n\n"
        return b"%x\r\n%s\r\n" % (len(data), data) if self.chunked else data

    def text_event(self, tokens, last):
        first = self.sent_tokens
        text = "".join([WORDS[i % 10] for i in range(first, first + tokens)]).encode()
        finish = b'"length"' if last else b"null"
        if self.chat:
            return self.event(b'{"index":0,"delta":{"content":"' + text +
                              b'"},"finish_reason":' + finish + b"}]}")
        return self.event(b'{"index":0,"text":"' + text + b'","logprobs":null,"finish_reason":' +
                          finish + b"}]}")

    def piece(self):
        """Sends the due event and those merged with it."""
        events = self.plan.events
        out = []
        counts = []
        while True:
            _, tokens, split = events[self.at]
            self.at += 1
            out.append(self.text_event(tokens, self.at == len(events)))
            counts.append(tokens)
            self.sent_tokens += tokens
            if self.at == self.plan.reset_at:
                break
            if self.at == len(events) or events[self.at][0] > 0:
                break
        data = b"".join(out)
        now = time.monotonic_ns()
        if split and len(out) == 1:
            half = len(data) // 2
            self.connection.write(data[:half])
            self.timer = self.connection.loop.call_later(
                1e-3, self.second_half, data[half:], counts)
            return
        self.connection.write(data)
        self.after(now, counts)

    def second_half(self, data, counts):
        now = time.monotonic_ns()
        self.connection.write(data)
        self.after(now, counts)

    def after(self, now, counts):
        self.pieces += [[now, tokens] for tokens in counts]
        if self.at == self.plan.reset_at:
            self.finish("reset", 200)
            self.connection.reset()
        elif self.at < len(self.plan.events):
            self.due += self.plan.events[self.at][0]
            self.timer = self.connection.loop.call_at(self.due, self.piece)
        else:
            self.tail()

    def tail(self):
        options = self.body.get("stream_options") or {}
        data = b""
        if options.get("include_usage") and self.options["usage"]:
            data = self.event(b'],"usage":' + self.usage() + b"}")
        done = b"data: [DONE]\n\n"
        data += b"%x\r\n%s\r\n0\r\n\r\n" % (len(done), done) if self.chunked else done
        self.finish("ok", 200)
        self.connection.write(data)
        self.connection.next(close=not self.chunked)

    def usage(self):
        return (b'{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}' %
                (self.prompt_tokens, self.plan.tokens, self.prompt_tokens + self.plan.tokens))

    def whole(self):
        text = "".join(WORDS[i % 10] for i in range(self.plan.tokens))
        choice = {"index": 0, "finish_reason": "length"}
        choice.update({"message": {"role": "assistant", "content": text}} if self.chat else
                      {"text": text})
        body = {"id": f"cmpl-{self.ordinal}", "model": self.body.get("model"),
                "object": "chat.completion" if self.chat else "text_completion",
                "choices": [choice]}
        if self.options["usage"]:
            body["usage"] = json.loads(self.usage())
        self.pieces = [[time.monotonic_ns(), self.plan.tokens]]
        self.finish("ok", 200)
        self.connection.answer(200, body)

    def refuse(self):
        self.finish("error", self.plan.status)
        self.connection.answer(self.plan.status, {"error": {
            "message": "the plan of this request is to fail", "type": "mock_error",
            "code": self.plan.status}})

    def finish(self, end, status):
        if self.done:
            return
        self.done = True
        if self.timer:
            self.timer.cancel()
        server = self.connection.server
        server.leave(self)
        if server.truth:
            server.truth.write(json.dumps({
                "id": self.id, "ordinal": self.ordinal, "path": self.path,
                "arrived_ns": self.arrived_ns, "received_ns": self.received_ns,
                "pieces": self.pieces,
                "end_ns": time.monotonic_ns(), "end": end, "status": status,
                "prompt_tokens": self.prompt_tokens,
                "output_tokens": sum(tokens for _, tokens in self.pieces)}) + "\n")


def count_words(body):
    """Tokens of a prompt: its words."""
    prompt = body.get("prompt", "")
    if "messages" in body:
        prompt = " ".join(m["content"] if isinstance(m.get("content"), str) else
                          " ".join(part.get("text", "") for part in m.get("content") or [])
                          for m in body["messages"])
    if isinstance(prompt, list):
        return len(prompt) if prompt and isinstance(prompt[0], int) else len(
            " ".join(map(str, prompt)).split())
    return len(str(prompt).split())


def realtime_offset_ns():
    """CLOCK_REALTIME, which the kernel's timestamps use, minus CLOCK_MONOTONIC."""
    best = None
    for _ in range(5):  # a pause in between would count
        before, now, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        if best is None or after - before < best[0]:
            best = (after - before, now - (before + after) // 2)
        if after - before < 2000:
            break
    return best[1]


class StampedSocket(socket.socket):
    """Knows when the kernel got the last bytes read: arrived_ns, None if it did not say."""
    arrived_ns = None

    def accept(self):
        connection, address = super().accept()
        return StampedSocket(fileno=connection.detach()), address

    def recv(self, size):
        data, notes, _, _ = self.recvmsg(size, 256)
        self.arrived_ns = None
        for level, kind, value in notes:
            if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPING):
                seconds, nanoseconds = struct.unpack_from("qq", value)
                if seconds:
                    self.arrived_ns = seconds * 10**9 + nanoseconds - realtime_offset_ns()
        return data


def stamped_listener(port):
    """Listens on loopback. The kernel starts to timestamp a while after it was asked to, so this
    waits for a first timestamp, within reason."""
    listener = StampedSocket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:  # accepted sockets inherit it
        listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, RX_SOFTWARE | SOFTWARE)
    except OSError:
        pass
    listener.bind(("127.0.0.1", port))
    listener.listen(4096)
    with socket.create_connection(listener.getsockname()) as writer, listener.accept()[0] as reader:
        for _ in range(10000):
            writer.sendall(b"x")
            reader.recv(1)
            if reader.arrived_ns:
                break
    return listener


class Connection(asyncio.Protocol):
    def __init__(self, server, loop):
        self.server, self.loop = server, loop
        self.buffer = b""
        self.request = None
        self.requests = 0

    def connection_made(self, transport):
        self.transport = transport
        # asyncio returns a wrapper; the socket under it has the kernel's timestamps.
        self.socket = transport.get_extra_info("socket")._sock
        self.write = transport.write

    def connection_lost(self, exc):
        if self.request:
            self.request.finish("silent" if self.request.plan.fault == "silent" else "closed", 0)
        self.request = None

    def data_received(self, data):
        self.received_ns = time.monotonic_ns()
        self.arrived_ns = self.socket.arrived_ns
        self.buffer += data
        self.parse()

    def parse(self):
        while not self.request:
            head, found, rest = self.buffer.partition(b"\r\n\r\n")
            if not found:
                return
            lines = head.decode("latin-1").split("\r\n")
            method, path = lines[0].split(" ")[:2]
            headers = {}
            for line in lines[1:]:
                name, _, value = line.partition(":")
                headers[name.strip().lower()] = value.strip()
            length = int(headers.get("content-length", 0))
            if headers.get("expect") == "100-continue" and not rest:
                self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            if len(rest) < length:
                return
            self.buffer = rest[length:]
            self.serve(method, path.split("?")[0], headers, rest[:length])

    def serve(self, method, path, headers, data):
        if path == "/health":
            self.answer(200, {"status": "ok"})
        elif path == "/v1/models":
            self.answer(200, {"object": "list", "data": [
                {"id": self.server.model, "object": "model", "created": 1700000000,
                 "owned_by": "mock", "max_model_len": 1 << 20}]})
        elif path == "/mock/reset":
            self.server.ordinal = 0
            self.answer(200, {"status": "ok"})
        elif path in ("/v1/completions", "/v1/chat/completions") and method == "POST":
            try:
                body = json.loads(data)
            except ValueError as bad:
                self.answer(400, {"error": {"message": f"bad JSON: {bad}"}})
                return
            self.requests += 1
            stale = self.server.options["stale_pct"]
            if self.requests > 1 and stale and self.server.stale.random() * 100 < stale:
                self.reset()
                return
            self.request = Request(self, path, headers, body)
        else:
            self.answer(404, {"error": {"message": f"nothing at {method} {path}"}})

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.write(f"HTTP/1.1 {status} {'OK' if status == 200 else 'Error'}\r\n"
                   f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode()
                   + data)
        if self.request:
            self.next()

    def next(self, close=False):
        self.request = None
        if close:
            self.transport.close()
        elif self.buffer:
            self.parse()

    def reset(self):
        self.request = None
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


async def serve(args):
    loop = asyncio.get_running_loop()
    server = Server(args)
    listener = await loop.create_server(lambda: Connection(server, loop),
                                        sock=stamped_listener(args.port), backlog=4096)
    print("port", listener.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if args.until_eof:
        loop.add_reader(sys.stdin, lambda: sys.stdin.buffer.read1(4096) or ended.set())
    gc.freeze()
    gc.disable()  # a collection would stall every stream; a test's server lives briefly
    await ended.wait()
    for request in list(server.active):
        request.finish("silent" if request.plan.fault == "silent" else "closed", 0)
    if server.truth:
        server.truth.close()


def main():
    parser = argparse.ArgumentParser(description="An OpenAI-compatible server with a plan.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--truth", help="file for what was sent when")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plan-by", choices=("ordinal", "id"), default="ordinal")
    parser.add_argument("--model", default="mock", help="the name that /v1/models tells")
    parser.add_argument("--until-eof", action="store_true", help="end with standard input")
    for name, (default, text) in OPTIONS.items():
        parser.add_argument("--" + name.replace("_", "-"), type=float, default=default, help=text)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
