"""An MCP server in plain Python, for containers that have nothing else."""

import json
import os
import socket
import sys

TOOLS = [
    {"name": "where", "description": "Tell where it runs.", "inputSchema": {"type": "object", "properties": {}}},
    {
        "name": "echo",
        "description": "Give back a text.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}},
            "required": ["text"],
        },
    },
    {"name": "broken", "inputSchema": {"type": "object", "properties": {"x": {"type": "nonsense"}}}},
    {"name": "flood", "inputSchema": {"type": "object"}},
    {
        "name": "bomb",
        "inputSchema": {
            "type": "object",
            "allOf": [{"$ref": "#/$defs/d0"}],
            "$defs": {
                **{f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 10} for n in range(12)},
                "d12": {"type": "object"},
            },
        },
        "outputSchema": {"type": "object", "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}}},
    },
]


def network():
    try:
        socket.create_connection(("192.0.2.1", 80), timeout=2).close()
    except OSError as error:
        return error.strerror or str(error)
    return "reached"


def call(name, arguments):
    if name == "where":
        return json.dumps({"cwd": os.getcwd(), "uid": os.getuid(), "network": network(), "files": os.listdir(".")})
    if name == "flood":
        sys.stdout.write("x" * (20 * 1024 * 1024))
        sys.stdout.flush()
    return arguments.get("text", "")


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "plain", "version": "1"},
        }
    elif message["method"] == "tools/list":
        result = {"tools": TOOLS}
    elif message["method"] == "tools/call":
        text = call(message["params"]["name"], message["params"].get("arguments") or {})
        result = {"content": [{"type": "text", "text": text}]}
        if message["params"]["name"] == "bomb":
            result["structuredContent"] = {"text": "a" * 60 + "!"}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
