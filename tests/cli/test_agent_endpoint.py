"""`mindx agent` and `task` against a real endpoint that misbehaves, and with state that was damaged: exit codes, and
state that is whole afterwards."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

SERVER = Path(__file__).parents[1] / "providers" / "server.py"
SUM = {"calls": [{"name": "calculator", "arguments": {"expression": "17*3"}}]}


@pytest.fixture(scope="module")
def address():
    """The endpoint's host and port."""
    process = subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True)
    with process:
        yield f"http://127.0.0.1:{process.stdout.readline().split()[1]}"
        process.terminate()


@pytest.fixture
def ask(mindx, address):
    """Run an agent whose endpoint behaves as `mode` says."""

    def run(mode, *turns, base=address, **options):
        if turns:
            body = json.dumps(turns).encode()
            urllib.request.urlopen(f"{base}/t{id(run)}/control/script", body).close()
        env = {"MINDX_API_KEY": "key-of-a-test", "MINDX_BASE_URL": f"{base}/t{id(run)}/{mode}/v1", "MINDX_MODELS": "m"}
        return mindx("agent", "--mind", "react", "17*3?", "--json", *options.get("words", ()), env=env)

    return run


@pytest.mark.parametrize(
    ("mode", "code"),
    [
        ("malformed", "provider_malformed_answer"),
        ("half", "provider_interrupted"),
        ("half-cut", "provider_interrupted"),
        ("status-401", "provider_auth"),
        ("code-400-context_length_exceeded", "provider_context_too_long"),
        ("redirect", "provider_redirected"),
    ],
)
def test_an_endpoint_that_fails_is_exit_code_6_and_a_run_that_tells_why(mindx, ask, mode, code):
    done = ask(mode)
    assert (done.code, done.json["error"]["details"]["code"]) == (6, code)
    assert "key-of-a-test" not in done.out + done.err
    (run,) = mindx("runs", "list", "--json").json["runs"]
    assert run["outcome"] == "error"
    assert mindx("trace", "replay", "last").code == 0
    assert ask("ok").code == 0


def test_a_wrong_address_is_exit_code_6_and_says_where_it_comes_from(ask, mindx):
    done = ask("no", base="http://127.0.0.1:1")
    assert (done.code, done.json["error"]["details"]["code"]) == (6, "provider_unreachable")
    assert "MINDX_BASE_URL" in done.json["error"]["message"]


def test_bad_arguments_and_a_refused_call_have_their_answers_and_the_run_goes_on(ask):
    """Three calls at once: one is done, one has 10 MB of arguments, one is no tool. The model hears of each."""
    huge = {"name": "calculator", "arguments": json.dumps({"expression": "1" * 10_000_000})}
    calls = [SUM["calls"][0], huge, {"name": "no_such", "arguments": "{"}]
    done = ask("script", {"calls": calls}, {"text": "It is 51."})
    assert (done.code, done.json["final_answer"], done.json["actions"]) == (0, "It is 51.", 3)


def test_an_endless_loop_of_calls_ends_at_its_limit(ask, mindx):
    done = ask("script", *[SUM] * 30, words=("--max-steps", "4"))
    assert (done.code, done.json["error"]["code"]) == (5, "max_steps_exceeded")
    assert len(mindx("trace", "replay", "last", "--json").json["steps"]) == 4


@pytest.mark.parametrize("harm", [b"", b"{", b"[]", b'{"task_id": 3}', b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_ledger_is_told_and_left_as_it_is(mindx, script, harm):
    assert mindx("task", "run", "17*3?", "--id", "sum", "--max-steps", "1", "--script", script(SUM)).code == 5
    (ledger,) = mindx.state.glob("tasks/sum/ledger.json")
    ledger.write_bytes(harm)
    done = mindx("task", "resume", "sum", "--script", script("never said"))
    assert done.code == 2, done.err
    assert "ledger.json" in done.err
    assert ledger.read_bytes() == harm
    assert mindx("task", "list").code in (0, 2)
