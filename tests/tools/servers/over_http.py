"""The counting server over streamable HTTP on loopback: prints its port, and ends with its standard input."""

import asyncio
import logging
import socket
import sys

import uvicorn
from counting import server


class Guarded:
    """Lets in who has the header that the command line names; else it answers 401."""

    def __init__(self, app, token):
        self.app, self.token = app, token

    async def __call__(self, scope, receive, send):
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and self.token and headers.get(b"authorization") != self.token.encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})
        else:
            await self.app(scope, receive, send)


async def main(token):
    listening = socket.create_server(("127.0.0.1", 0))
    logging.disable()
    config = uvicorn.Config(Guarded(server.streamable_http_app(), token), log_level="error")
    serving = uvicorn.Server(config)
    work = asyncio.create_task(serving.serve([listening]))
    print(listening.getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    serving.should_exit = serving.force_exit = True
    await work


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else ""))
