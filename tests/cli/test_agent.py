"""`mindx agent` and `chat` with a scripted model, as a user has them."""

import asyncio
import signal

import jsonschema
import pytest

from mindx.cli.approve_action import ask
from mindx.cli.schemas import schema
from mindx.core.action import ActionRequest, ActionRisk
from mindx.core.approval import ApprovalRequest, ApprovalScope

SUM = {"calls": [{"name": "calculator", "arguments": {"expression": "17*3"}}]}
EDIT = {"calls": [{"name": "file_edit", "arguments": {"path": "app.py", "mode": "overwrite", "content": "x = 2\n"}}]}
RUN = {"calls": [{"name": "exec_command", "arguments": {"command": ["cat", "app.py"]}}]}
NO_KEY = {"MINDX_API_KEY": "", "MINDAGENT_API_KEY": ""}


def test_an_answer_goes_to_stdout_and_the_steps_to_stderr(mindx, script):
    done = mindx("agent", "--mind", "react", "17*3?", "--script", script(SUM, "It is 51."))
    assert (done.code, done.out) == (0, "It is 51.\n")
    assert '[1] calculator {"expression": "17*3"}  SUCCESS' in done.err
    listed = mindx("runs", "list", "--json").json["runs"]
    assert [run["outcome"] for run in listed] == ["completed"]
    assert mindx("trace", "verify", "last").code == 0


def test_the_document_fits_its_schema(mindx, script):
    done = mindx("agent", "--mind", "react", "17*3?", "--script", script(SUM, "It is 51."), "--json")
    jsonschema.validate(done.json, schema("agent"))
    assert (done.json["outcome"], done.json["final_answer"], done.json["actions"]) == ("final", "It is 51.", 1)
    partial = mindx(
        "agent", "--mind", "react", "17*3?", "--script", script(SUM, "It is 51."), "--json", "--max-steps", "1"
    )
    jsonschema.validate(partial.json, schema("agent"))
    assert (partial.code, partial.json["outcome"], partial.json["error"]["code"]) == (
        5,
        "partial",
        "max_steps_exceeded",
    )


def test_a_missing_key_is_one_clear_message_and_no_run(mindx):
    done = mindx("agent", "--mind", "react", "hello", env=NO_KEY)
    assert (done.code, done.out) == (6, "")
    assert done.err == (
        "mindx: no API key: set MINDX_API_KEY, MINDX_BASE_URL and MINDX_MODELS in the environment or in .env\n"
    )
    assert mindx("runs", "list", "--json").json["runs"] == []


@pytest.mark.parametrize(
    ("turns", "code", "text"),
    [
        ([{"error": "provider_auth"}], 6, "MINDX_API_KEY"),
        ([SUM], 6, "no turn left"),
        ([""] * 3, 6, ""),
        ([{"calls": [{"name": "no_such", "arguments": {}}]}, "I could not."], 0, "unknown tool"),
    ],
)
def test_what_a_model_can_get_wrong(mindx, script, turns, code, text):
    done = mindx("agent", "--mind", "react", "hello", "--script", script(*turns))
    assert done.code == code
    assert text in done.err
    assert "mistake in mindx" not in done.err


@pytest.mark.parametrize("text", ["{", '{"error": "no_such"}', "17"])
def test_a_script_that_is_none_is_bad_input(mindx, text):
    (mindx.folder / "bad.jsonl").write_text(text + "\n")
    done = mindx("agent", "--mind", "react", "hello", "--script", "bad.jsonl")
    assert (done.code, done.out) == (2, "")
    assert "bad.jsonl, line 1 is no " in done.err


@pytest.mark.parametrize("verb", [("agent", "x"), ("chat",), ("task", "run", "x")])
def test_a_folder_that_is_not_there_is_told_before_a_model_is_asked(mindx, script, verb):
    done = mindx(*verb, "--workspace", "nowhere", "--script", script("never said"), stdin=b"hello\n")
    assert (done.code, done.out) == (2, "")
    assert "nowhere does not exist; name an existing folder" in done.err
    assert mindx("runs", "list", "--json").json["runs"] == []


@pytest.mark.parametrize("arguments", [[], [" "], ["x", "--mind", "none"], ["x", "--max-steps", "0"]])
def test_words_that_do_not_fit_are_bad_input(mindx, arguments):
    assert mindx("agent", *arguments).code == 2


def test_it_works_on_a_copy_in_a_container(engine_mindx, script):
    mindx = engine_mindx
    (mindx.folder / "w").mkdir()
    (mindx.folder / "w" / "app.py").write_text("x = 1\n")
    done = mindx(
        "agent", "--mind", "react", "make it 2", "--workspace", "w", "--script", script(EDIT, RUN, "Done."), "--json"
    )
    assert done.code == 0, done.err
    assert [(change["path"], change["kind"]) for change in done.json["changes"]] == [("app.py", "modified")]
    assert (mindx.folder / "w" / "app.py").read_text() == "x = 1\n"
    assert "+x = 2" in mindx("changes", "show", "last", "--patch").out
    assert mindx("changes", "apply", "last", "--yes").code == 0
    assert (mindx.folder / "w" / "app.py").read_text() == "x = 2\n"


def test_a_conversation_with_its_commands(engine_mindx, script):
    mindx = engine_mindx
    (mindx.folder / "w").mkdir()
    (mindx.folder / "w" / "app.py").write_text("x = 1\n")
    lines = b"make it 2\n/diff\n/apply\n/apply\n/clear\n/what\nand now?\n/exit\nnever read\n"
    turns = [EDIT, {"text": "It is 2.", "chunks": ["It ", "is 2."]}, "Nothing more."]
    done = mindx("chat", "--workspace", "w", "--script", script(*turns), stdin=lines)
    assert done.code == 0, done.err
    assert done.out.startswith("It is 2.\n")
    assert done.out.count("It is 2.") == 1
    assert "+x = 2" in done.out
    assert done.out.endswith("Nothing more.\n")
    assert "the conversation is forgotten" in done.err
    assert "/diff /apply /clear /exit" in done.err
    assert (mindx.folder / "w" / "app.py").read_text() == "x = 2\n"


def test_a_conversation_goes_on_after_a_model_that_failed(mindx, script):
    done = mindx("chat", "--script", script({"error": "provider_timeout"}, "Here."), stdin=b"one\n/diff\ntwo\n")
    assert (done.code, done.out) == (0, "Here.\n")
    assert "did not answer in time" in done.err
    assert "nothing has changed" in done.err
    assert mindx("chat", "--script", script(), stdin=b"one\n").code == 6


@pytest.mark.parametrize(
    ("answer", "approved", "scope", "feedback"),
    [
        ("y", True, ApprovalScope.ONCE, ""),
        ("S", True, ApprovalScope.SESSION, ""),
        ("n", False, ApprovalScope.ONCE, ""),
        ("", False, ApprovalScope.ONCE, ""),
        (None, False, ApprovalScope.ONCE, ""),
        ("use git mv", False, ApprovalScope.ONCE, "use git mv"),
    ],
)
def test_only_a_yes_is_a_yes(answer, approved, scope, feedback, capsys):
    async def read(prompt):
        return answer

    action = ActionRequest("a", "exec_command", {"command": ["rm", "-r", "\x1b[2Jx"]})
    request = ApprovalRequest(action, ActionRisk.DANGEROUS, "it removes", "key")
    result = asyncio.run(ask(request, read))
    assert (result.approved, result.scope, result.feedback) == (approved, scope, feedback)
    shown = capsys.readouterr().err
    assert "rm" in shown
    assert "\x1b[2J" not in shown


def test_what_is_dangerous_is_refused_where_nobody_can_be_asked(mindx, script):
    """It does not wait for somebody either: the model is told, and goes on."""
    smash = {"calls": [{"name": "exec_command", "arguments": {"command": ["sh", "-c", "rm -rf ."]}}]}
    ask = {"calls": [{"name": "mindx_ask_user", "arguments": {"question": "May I?"}}]}
    done = mindx("agent", "--mind", "react", "clean up", "--script", script(smash, ask, "I may not."), "--json")
    assert (done.code, done.json["final_answer"], done.json["changes"]) == (0, "I may not.", [])
    assert "DENIED" in done.err


def test_an_interrupt_ends_the_container_and_leaves_a_record(engine_mindx, script):
    mindx = engine_mindx
    (mindx.folder / "w").mkdir()
    sleep = {"calls": [{"name": "exec_command", "arguments": {"command": ["sleep", "250"], "timeout_seconds": 300}}]}
    turns = script({"calls": [{**EDIT["calls"][0]}]}, sleep)
    with mindx.start("agent", "--mind", "react", "work", "--workspace", "w", "--script", turns) as process:
        for line in process.stderr:  # the edit is done, so the next thing is the program
            if b"SUCCESS" in line:
                break
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"app.py" in told
    (run,) = mindx("runs", "list", "--json").json["runs"]
    assert run["outcome"] == "cancelled"
    assert mindx("trace", "verify", "last").code == 0
    assert "x = 2" in mindx("changes", "show", "last", "--patch").out
