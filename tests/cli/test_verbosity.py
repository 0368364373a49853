"""`--quiet` and `--verbose` mean the same wherever they stand: less and more on stderr, the same on stdout."""

import json

import pytest

VERBS = (
    ["run"],
    ["exec"],
    ["agent"],
    ["chat"],
    ["task", "run"],
    ["task", "resume"],
    ["image", "build"],
    ["image", "pull"],
    ["image", "export"],
    ["image", "import"],
    ["setup"],
)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_that_works_for_a_while_has_both_and_not_at_once(mindx, verb):
    help_text = mindx(*verb, "--help").out
    assert "-q, --quiet" in help_text
    assert "-v, --verbose" in help_text
    for given in (["-q", "-v"], ["--verbose", "--quiet"]):
        done = mindx(*verb, *given, "x", "y")
        assert (done.code in (2, 125), "do not go together" in done.err) == (True, True), done.err


def test_exec_tells_what_it_took_only_when_asked(engine_mindx):
    argv = ("--no-stdin", "--", "sh", "-c", "echo out; echo err >&2")
    plain, quiet, verbose = (engine_mindx("exec", *flag, *argv) for flag in ([], ["-q"], ["-v"]))
    assert plain.stdout == quiet.stdout == verbose.stdout == b"out\n"
    assert plain.stderr == quiet.stderr == b"err\n"
    assert "starting the sandbox" in verbose.err
    assert " s of CPU, " in verbose.err


def test_a_quiet_command_still_says_its_errors(engine_mindx):
    done = engine_mindx("exec", "-q", "--no-stdin", "--", "no-such-program")
    assert "no-such-program" in done.err
    done = engine_mindx("image", "build", "no-such-image", "-q")
    assert (done.code, "no image" in done.err) == (2, True), done.err


def test_a_quiet_agent_says_its_answer_alone(mindx):
    turns = [{"calls": [{"name": "calculator", "arguments": {"expression": "17*3"}}]}, "It is 51."]
    (mindx.folder / "turns.jsonl").write_text("".join(f"{json.dumps(turn)}\n" for turn in turns))
    done = mindx("agent", "--mind", "react", "17*3?", "--script", "turns.jsonl", "-q")
    assert (done.code, done.out, done.err) == (0, "It is 51.\n", "")
    done = mindx("agent", "--mind", "react", "17*3?", "--script", "turns.jsonl")
    assert (done.code, done.out, "calculator" in done.err) == (0, "It is 51.\n", True)


def test_what_is_no_number_is_said_in_plain_words(mindx):
    """click speaks of `a valid float range`; 5m is what a policy takes, so people type it here too."""
    done = mindx("exec", "--timeout", "5m", "--", "true")
    assert done.code == 125
    assert "'5m' is not a number. (see `mindx exec --help`)" in done.err
    assert "'x' is not a whole number." in mindx("runs", "output", "last", "x").err
    assert mindx("completion").err.count("\n") == 1
