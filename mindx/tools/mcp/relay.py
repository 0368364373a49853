"""The program that stands beside an MCP server inside its container: files come in, lines go out.

A command of the sandbox has its whole standard input from the start, while a server wants its messages one by one. So
the host writes each batch of lines as a file of the workspace, numbered, and the relay hands them to the server as
they appear. What the server says goes straight to the command's own output. The relay ends when the server does, and
the container when the host does.
"""

from __future__ import annotations

INBOX = ".mindx-mcp"

# Runs in the container with its python3: standard library only, any version from 3.8.
SCRIPT = """
import os, subprocess, sys, threading, time
box = sys.argv[1]
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE)
ended = threading.Event()
def wait():
    server.wait()
    ended.set()
threading.Thread(target=wait, daemon=True).start()
number, idle = 0, 0.002
while not ended.is_set():
    path = os.path.join(box, "%d" % number)
    try:
        with open(path, "rb") as file:
            lines = file.read()
    except FileNotFoundError:
        ended.wait(idle)
        idle = min(0.05, idle * 1.5)
        continue
    os.remove(path)
    number, idle = number + 1, 0.002
    try:
        server.stdin.write(lines)
        server.stdin.flush()
    except (BrokenPipeError, ValueError):
        break
server.wait()
sys.exit(server.returncode if server.returncode >= 0 else 1)
"""
