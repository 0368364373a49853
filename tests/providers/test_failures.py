"""The table of failures is complete, and nothing of it shows a key."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import openai
import pytest

import mindx
from mindx.errors import ProviderError
from mindx.providers.failures import BY_BODY, BY_CLASS, BY_STATUS, FAILURES, failure_code, provider_error, status_code
from mindx.providers.retry import RETRIED


def sdk_classes():
    found = {openai.OpenAIError, openai.InvalidWebhookSignatureError}
    todo = [openai.OpenAIError]
    while todo:
        for child in todo.pop().__subclasses__():
            if child.__module__ in ("openai", "openai._exceptions") and not child.__name__.startswith("_"):
                found.add(child)
            todo.append(child)
    return sorted(found, key=lambda item: item.__name__)


@pytest.mark.parametrize("kind", sdk_classes(), ids=lambda kind: kind.__name__)
def test_every_exception_of_the_sdk_has_its_own_line(kind):
    assert kind.__name__ in BY_CLASS


def test_the_sdk_was_really_looked_through():
    names = {kind.__name__ for kind in sdk_classes()}
    assert {"APIStatusError", "RateLimitError", "APITimeoutError", "APIResponseValidationError"} <= names
    assert len(names) >= 15


@pytest.mark.parametrize("table", [BY_CLASS, BY_STATUS, BY_BODY], ids=["class", "status", "body"])
def test_every_code_is_a_known_failure(table):
    assert set(table.values()) <= set(FAILURES)


def test_only_what_may_pass_is_tried_again():
    assert {code for code in RETRIED if not FAILURES[code].recoverable} == set()


@pytest.mark.parametrize("code", sorted(FAILURES))
def test_every_failure_says_what_to_do_and_ends_with_code_6(code):
    error = provider_error(code, "here", spot=1)
    assert isinstance(error, ProviderError)
    assert error.exit_code == 6
    assert error.message.startswith("here: ")
    assert len(FAILURES[code].advice) > 15
    assert error.to_dict()["details"] == {"spot": 1}


@pytest.mark.parametrize(
    ("status", "code"),
    [(200, None), (301, "provider_redirected"), (418, "provider_bad_request"), (401, "provider_auth"),
     (429, "provider_rate_limited"), (500, "provider_server_error"), (529, "provider_overloaded"),
     (599, "provider_server_error")],
)  # fmt: skip
def test_statuses(status, code):
    assert status_code(status) == code


def test_a_fault_of_our_own_is_no_failure_of_the_provider():
    assert failure_code(KeyError("x")) is None
    assert failure_code(AttributeError("x")) is None
    assert failure_code(ValueError("x")) is None


def test_the_documentation_lists_every_failure():
    text = (Path(__file__).parents[2] / "docs" / "providers.md").read_text()
    for kind in FAILURES.values():
        assert f"| `{kind.code}` | {kind.advice} |" in text
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == set(FAILURES)


def test_only_these_modules_import_the_sdk_and_its_http_client():
    imports = re.compile(r"^\s*(import|from) (openai|httpx2)\b", re.MULTILINE)
    modules = Path(mindx.__file__).parent.rglob("*.py")
    assert {path.name for path in modules if imports.search(path.read_text())} == {
        "openai_client.py",
        "capped_stream.py",
        "http.py",  # of the MCP client, which has the same one
    }


WITHOUT_SDK = """
import sys
sys.modules["openai"] = sys.modules["httpx2"] = None
import mindx.providers.openai, mindx
mindx.ProviderReasoner(mindx.ScriptedProvider())
"""


def test_the_core_needs_no_model_client_and_runs_from_python_3_10_on():
    """What an installation of mindx itself brings: the clients of models and of MCP servers only as extras."""
    from importlib.metadata import metadata, requires

    needed = [line for line in requires("mindx") or [] if "extra ==" not in line]
    assert needed
    assert not any(line.startswith(("openai", "mcp", "tiktoken")) for line in needed)
    assert metadata("mindx")["Requires-Python"] == ">=3.10"


def test_everything_imports_without_the_sdk():
    done = subprocess.run([sys.executable, "-c", WITHOUT_SDK], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
