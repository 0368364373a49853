"""An OpenAI-compatible endpoint that misbehaves as it is told: standard library only, so that it runs anywhere.

The base URL is `http://HOST:PORT/<token>/<mode>/v1`: the token keeps the tests apart, the mode says how to behave.
Control, in the same way: `GET /<token>/control/requests`, `GET /<token>/control/closed` (answers when the client has
closed a connection that was kept waiting), `POST /<token>/control/script` (a list of turns, for the mode `script`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Token:
    requests: list[dict[str, Any]] = field(default_factory=list)
    script: list[dict[str, Any]] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    stalled: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Request:
    method: str
    path: list[str]
    headers: dict[str, str]
    body: Any


class Endpoint:
    def __init__(self) -> None:
        self._tokens: dict[str, Token] = {}

    def token(self, name: str) -> Token:
        return self._tokens.setdefault(name, Token())

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while (request := await wire.read_request()) is not None:
                if not await self._answer(request, wire):
                    break
        writer.close()

    async def _answer(self, request: Request, wire: Wire) -> bool:
        """Answer; False when the connection is to end."""
        name, mode, *rest = [*request.path, "", ""]
        token = self.token(name)
        if mode == "control":
            await self._control(rest[0], token, request, wire)
            return True
        recorded = {"path": "/".join(part for part in rest if part), "body": request.body, "headers": request.headers}
        token.requests.append(recorded)
        return await Behaviour(token, request, wire, recorded["path"].endswith("responses")).run(mode)

    async def _control(self, what: str, token: Token, request: Request, wire: Wire) -> None:
        if what == "script":
            token.script = list(request.body)
        elif what in ("closed", "stalled"):
            await getattr(token, what).wait()
        await wire.send_json(200, token.requests if what == "requests" else {"ok": True})


class Wire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def read_request(self) -> Request | None:
        line = (await self.reader.readline()).decode()
        if not line.strip():
            return None
        method, target, _ = line.split(" ", 2)
        headers: dict[str, str] = {}
        while (header := (await self.reader.readline()).decode().strip()) != "":
            name, _, value = header.partition(":")
            headers[name.lower()] = value.strip()
        data = await self.reader.readexactly(int(headers.get("content-length", "0")))
        body = json.loads(data) if data else None
        return Request(method, target.split("?")[0].strip("/").split("/"), headers, body)

    async def send(
        self, status: int, data: bytes, kind: str = "application/json", headers: dict[str, str] | None = None
    ) -> None:
        lines = [f"HTTP/1.1 {status} Status", f"Content-Type: {kind}", f"Content-Length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + data)
        await self.writer.drain()

    async def send_json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        await self.send(status, json.dumps(value).encode(), headers=headers)

    async def begin_stream(self) -> None:
        self.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        await self.writer.drain()

    async def event(self, value: Any) -> None:
        text = value if isinstance(value, str) else json.dumps(value)
        kind = f"event: {value['type']}\n" if isinstance(value, dict) and "type" in value else ""
        data = f"{kind}data: {text}\n\n".encode()
        self.writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self.writer.drain()

    async def end_stream(self) -> None:
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()


class Behaviour:
    def __init__(self, token: Token, request: Request, wire: Wire, responses: bool) -> None:
        self.token, self.request, self.wire, self.responses = token, request, wire, responses
        self.body = request.body if isinstance(request.body, dict) else {}
        self.streams = self.body.get("stream") is True

    async def run(self, mode: str) -> bool:
        name, _, argument = mode.partition("-")
        return await getattr(self, f"do_{name}", self.do_ok)(argument)

    async def turn(self, turn: dict[str, Any]) -> bool:
        if turn.get("drop"):
            return False
        if turn.get("stall"):
            return await self.stall()
        if "status" in turn:
            await self.wire.send_json(turn["status"], turn.get("body", {}), turn.get("headers"))
            return True
        render = (responses_events if self.responses else chat_chunks) if self.streams else None
        if render is None:
            await self.wire.send_json(200, (responses_body if self.responses else chat_body)(turn))
            return True
        await self.wire.begin_stream()
        for event in render(turn):
            await self.wire.event(event)
        if not self.responses:
            await self.wire.event("[DONE]")
        await self.wire.end_stream()
        return True

    async def stall(self) -> bool:
        """Wait until the client goes away."""
        self.token.stalled.set()
        await self.wire.reader.read(1)
        self.token.closed.set()
        return False

    async def do_ok(self, argument: str) -> bool:
        return await self.turn({"text": "hello"})

    async def do_script(self, argument: str) -> bool:
        turn = self.token.script.pop(0) if self.token.script else {"status": 500, "body": {"error": "no turn left"}}
        return await self.turn(turn)

    async def do_stall(self, argument: str) -> bool:
        if argument == "body":
            await self.wire.begin_stream()
            await self.wire.event(chat_chunks({"text": "hello"})[0])
        return await self.stall()

    async def do_drop(self, argument: str) -> bool:
        if argument == "body":
            self.wire.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{")
            await self.wire.writer.drain()
        return False

    async def do_half(self, argument: str) -> bool:
        """Half a stream, which then ends as if it were whole, breaks off (`half-cut`), or waits (`half-wait`)."""
        await self.wire.begin_stream()
        render = responses_events if self.responses else chat_chunks
        for event in render({"text": "hello world, this is half"})[:3]:
            await self.wire.event(event)
        if argument == "error":
            error = {"message": "lost it", "code": "server_overloaded"}
            await self.wire.event({"type": "error", **error} if self.responses else {"error": error})
        if argument == "cut":
            return False
        if argument == "wait":
            return await self.stall()
        await self.wire.end_stream()
        return True

    async def do_malformed(self, argument: str) -> bool:
        if self.streams:
            await self.wire.begin_stream()
            await self.wire.event('{"choices": [')
            await self.wire.end_stream()
        elif argument == "html":
            await self.wire.send(200, b"<html>hello</html>", "text/html")
        elif argument == "shape":
            await self.wire.send_json(200, {"choices": "none", "output": 3})
        elif argument == "deep":
            await self.wire.send(200, b"[" * 200_000)
        else:
            await self.wire.send(200, b'{"choices": [{"message": {"content": "he')
        return True

    async def do_status(self, argument: str) -> bool:
        """`status-503-2`: two times 503, then an answer; `status-503`: always."""
        status, _, times = argument.partition("-")
        if times and len(self.token.requests) > int(times):
            return await self.do_ok("")
        error = {"message": f"status {status}", "type": "test", "code": None}
        headers = {"Retry-After": "7"} if status == "429" else {}
        await self.wire.send_json(int(status), {"error": error}, headers)
        return True

    async def do_code(self, argument: str) -> bool:
        """`code-400-context_length_exceeded`: that status with that error code."""
        status, _, code = argument.partition("-")
        await self.wire.send_json(int(status), {"error": {"message": f"because of {code}", "code": code}})
        return True

    async def do_echo(self, argument: str) -> bool:
        """A refusal that repeats the key, as careless endpoints do."""
        key = self.request.headers.get("authorization", "")
        await self.wire.send_json(int(argument or 400), {"error": {"message": f"bad key {key}", "code": "odd"}})
        return True

    async def do_redirect(self, argument: str) -> bool:
        location = f"/{self.request.path[0]}/ok/v1/chat/completions"
        await self.wire.send(307, b"", headers={"Location": location})
        return True

    async def do_endless(self, argument: str) -> bool:
        await self.wire.begin_stream()
        piece = b" " * 65536
        while True:
            self.wire.writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await self.wire.writer.drain()

    async def do_gzip(self, argument: str) -> bool:
        await self.wire.send(200, b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
        return True

    async def do_nochat(self, argument: str) -> bool:
        if self.responses:
            return await self.do_ok("")
        await self.wire.send_json(404, {"error": {"message": "no such path"}})
        return True

    async def do_noimages(self, argument: str) -> bool:
        if not self.responses and "image_url" in json.dumps(self.body):
            await self.wire.send_json(400, {"error": {"message": "image_url is not supported here", "code": None}})
            return True
        return await self.do_ok("")

    async def do_strict(self, argument: str) -> bool:
        """An endpoint that refuses what not all of them know."""
        for name, advice in (("stream_options", "stream_options"), ("max_tokens", "use max_completion_tokens")):
            if name in self.body:
                error = {"message": f"Unsupported parameter: {advice}", "param": name}
                await self.wire.send_json(400, {"error": error})
                return True
        return await self.do_ok("")


USAGE = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14, "prompt_tokens_details": {"cached_tokens": 8}}
RESPONSES_USAGE = {
    "input_tokens": 11,
    "output_tokens": 3,
    "total_tokens": 14,
    "input_tokens_details": {"cached_tokens": 8},
}


def calls_of(turn: dict[str, Any]) -> list[dict[str, str]]:
    return [
        {
            "id": call.get("id", f"call_{index}"),
            "name": call["name"],
            "arguments": call["arguments"] if isinstance(call["arguments"], str) else json.dumps(call["arguments"]),
        }
        for index, call in enumerate(turn.get("calls", []))
    ]


def finish_of(turn: dict[str, Any]) -> str:
    return str(turn.get("finish", "tool_calls" if turn.get("calls") else "stop"))


def chat_body(turn: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.get("text")}
    if turn.get("calls"):
        message["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in calls_of(turn)
        ]
    choice = {"index": 0, "message": message, "finish_reason": finish_of(turn)}
    return {
        "id": "chat_1",
        "object": "chat.completion",
        "created": 0,
        "model": "served",
        "choices": [choice],
        "usage": USAGE,
    }


def chat_chunks(turn: dict[str, Any]) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in pieces(turn.get("text") or "")]
    for index, call in enumerate(calls_of(turn)):
        head = {
            "index": index,
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": ""},
        }
        deltas.append({"tool_calls": [head]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces(call["arguments"])
        ]
    base = {"id": "chat_1", "object": "chat.completion.chunk", "created": 0, "model": "served"}
    chunks = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish_of(turn)}]})
    return [*chunks, {**base, "choices": [], "usage": USAGE}]


def responses_body(turn: dict[str, Any]) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if turn.get("text"):
        part = {"type": "output_text", "text": turn["text"], "annotations": []}
        output.append({"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]})
    output += [
        {
            "type": "function_call",
            "id": f"f{index}",
            "call_id": call["id"],
            "name": call["name"],
            "arguments": call["arguments"],
        }
        for index, call in enumerate(calls_of(turn))
    ]
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "model": "served",
        "status": "completed",
        "output": output,
        "usage": RESPONSES_USAGE,
    }


def responses_events(turn: dict[str, Any]) -> list[dict[str, Any]]:
    whole = responses_body(turn)
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}
    ]
    for index, item in enumerate(whole["output"]):
        started = {**item, "arguments": ""} if item["type"] == "function_call" else {**item, "content": []}
        events.append({"type": "response.output_item.added", "output_index": index, "item": started})
        if item["type"] == "function_call":
            events += [
                {
                    "type": "response.function_call_arguments.delta",
                    "output_index": index,
                    "item_id": item["id"],
                    "delta": piece,
                }
                for piece in pieces(item["arguments"])
            ]
        else:
            events += [
                {
                    "type": "response.output_text.delta",
                    "output_index": index,
                    "content_index": 0,
                    "item_id": "m",
                    "delta": piece,
                }
                for piece in pieces(item["content"][0]["text"])
            ]
    events = [{**event, "sequence_number": number} for number, event in enumerate(events)]
    return [*events, {"type": "response.completed", "sequence_number": len(events), "response": whole}]


def pieces(text: str) -> list[str]:
    size = max(4, len(text) // 50)
    return [text[start : start + size] for start in range(0, len(text), size)]


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    server = await asyncio.start_server(Endpoint().serve, arguments.host, arguments.port, limit=2**26)
    print(f"ready {server.sockets[0].getsockname()[1]}", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
