"""A server that nobody here wrote: the npm package @copilotkit/aimock, where Node and a registry are at hand."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from mindx.core.message import ChatMessage
from mindx.errors import ProviderError
from mindx.providers.base import ModelRequest
from mindx.providers.openai import OpenAIProvider
from mindx.providers.param import OpenAIProviderParam
from mindx.providers.router import ProviderRouter
from mindx.runtime.agent_runtime import AgentRuntime
from mindx.runtime.provider_reasoner import ProviderReasoner
from tests.providers.conftest import KEY, Waits, collect
from tests.providers.test_openai import APIS
from tests.providers.test_reasoner import ADD, Tools

PACKAGE = "@copilotkit/aimock@1.43.0"
INSTALL_LIMIT_S = 60
LONG = "Hello there, said the machine that nobody here wrote, and it went on for a while."
FIXTURES = [
    {
        "match": {"userMessage": "add", "hasToolResult": False},
        "response": {"toolCalls": [{"name": "add", "arguments": {"a": 17, "b": 25}}]},
    },
    {"match": {"hasToolResult": True}, "response": {"content": "It is 42."}},
    {"match": {"userMessage": "hello"}, "response": {"content": LONG}},
    {
        "match": {"userMessage": "limit"},
        "response": {"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429},
    },
]


@pytest.fixture(scope="module")
def aimock(tmp_path_factory) -> Iterator[str]:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not here")
    folder = tmp_path_factory.mktemp("aimock")
    install = [npm, "install", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund", PACKAGE]
    try:
        done = subprocess.run(install, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False, cwd=folder)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm gave no {PACKAGE} within {INSTALL_LIMIT_S} seconds")
    if done.returncode != 0:
        pytest.skip(
            f"npm gave no {PACKAGE}: {done.stderr.strip().splitlines()[0][:200] if done.stderr.strip() else ''}"
        )
    (folder / "fixtures.json").write_text(json.dumps({"fixtures": FIXTURES}))
    program = folder / "node_modules" / ".bin" / "llmock"
    command = [str(program), "--port", "0", "--fixtures", str(folder / "fixtures.json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder) as server:
        try:
            assert server.stdout is not None
            seen = []
            for line in server.stdout:
                seen.append(line)
                if "listening on " in line:
                    break
            else:
                pytest.fail(f"{PACKAGE} did not start: {''.join(seen)}")
            yield seen[-1].split("listening on ")[1].strip()
        finally:
            server.kill()


def provider(address: str, waits: Waits, api: str) -> OpenAIProvider:
    param = OpenAIProviderParam(api_key=KEY, base_url=f"{address}/v1", models=("m",), api=api)
    return OpenAIProvider(param, rules=waits.rules())


@pytest.mark.parametrize("api", APIS)
def test_a_text_whole_and_streamed(aimock, api):
    request = ModelRequest((ChatMessage.user("hello"),))

    async def scene():
        async with provider(aimock, Waits(), api) as endpoint:
            return await endpoint.generate(request), await collect(endpoint.stream(request))

    whole, chunks = asyncio.run(scene())
    assert whole.text == chunks[-1].response.text == LONG
    assert "".join(chunk.text for chunk in chunks) == LONG
    assert len(chunks) > 3
    assert {"input_tokens", "output_tokens", "total_tokens"} <= set(whole.usage)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [True, False])
def test_an_agent_calls_a_tool_and_answers(aimock, api, stream):
    tools = Tools()

    async def scene():
        reasoner = ProviderReasoner(ProviderRouter([provider(aimock, Waits(), api)]), [ADD], stream=stream)
        async with AgentRuntime(reasoner, tools) as runtime:
            result = await runtime.run("please add 17 and 25")
        await reasoner.close()
        return result

    assert asyncio.run(scene()).final_answer == "It is 42."
    assert [dict(request.arguments) for request in tools.done] == [{"a": 17, "b": 25}]


@pytest.mark.parametrize("api", APIS)
def test_its_rate_limit_is_waited_for(aimock, api):
    waits = Waits()

    async def scene():
        async with provider(aimock, waits, api) as endpoint:
            await endpoint.generate(ModelRequest((ChatMessage.user("limit"),)))

    with pytest.raises(ProviderError) as caught:
        asyncio.run(scene())
    assert caught.value.code == "provider_rate_limited"
    assert waits.waited == [1.0, 1.0, 2.0]
