"""Every document that the command line prints fits its schema, and holds nothing that the schema does not name."""

import copy
import json

import jsonschema
import pytest

from mindx.cli.schemas import SCHEMAS, schema

ECHO = {"type": "EXECUTE_TOOL", "params": {"tool_id": "simple_coder", "command": "run", "argv": ["echo", "one\ntwo"]}}
WRITE = {
    "type": "EXECUTE_TOOL",
    "params": {"tool_id": "simple_coder", "command": "write", "path": "new.txt", "content": "new"},
}
CLOSED_BY_ITSELF = {"policy"}


def closed(value):
    """Return a schema in which every object with known keys takes no other."""
    if isinstance(value, list):
        return [closed(one) for one in value]
    if not isinstance(value, dict):
        return value
    value = {key: closed(one) for key, one in value.items()}
    if value.get("type") == "object" and value.get("properties"):
        value.setdefault("additionalProperties", False)
    return value


def fits(document, name):
    jsonschema.validate(document, closed(schema(name)), jsonschema.Draft202012Validator)
    return document


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_a_schema(name):
    found = schema(name)
    jsonschema.Draft202012Validator.check_schema(found)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"unheard-of": 1, "schema_version": 99}, closed(found))


def test_the_command_prints_them(mindx):
    assert json.loads(mindx("schema", "run").out) == json.loads(json.dumps(schema("run")))
    listed = mindx("schema").out
    assert all(f"{name} " in listed for name in SCHEMAS)
    wrong = mindx("schema", "rnu")
    assert (wrong.code, wrong.stdout) == (2, b"")
    assert "did you mean `run`" in wrong.err


def test_documents_without_a_container(mindx):
    plan = mindx.plan([ECHO])
    far = {"DOCKER_HOST": "tcp://127.0.0.1:1"}
    (mindx.folder / ".env").write_text("KEY=1")
    (mindx.folder / "a.txt").write_text("a")
    fits(mindx("run", "none.json", "--json").json, "error")
    fits(mindx("run", plan, "--json", env=far).json, "run")
    fits(mindx("check", plan, "--json").json, "check")
    fits(mindx("check", mindx.plan([{"type": "NO"}], "bad.json"), "--json").json, "check")
    fits(mindx("runs", "list", "--json").json, "runs")
    fits(mindx("config", "show", "--json").json, "config")
    fits(mindx("doctor", "--json", env=far).json, "doctor")
    fits(mindx("policy", "show", "--json").json, "policy-show")
    fits(mindx("policy", "check", "default", "--json").json, "policy-check")
    fits(mindx("policy", "test", "default", "--json").json, "policy-test")
    fits(mindx("policy", "explain", "--json", "--", "curl", "x").json, "policy-explain")
    fits(mindx("policy", "explain", "--json", "--", "git", "log").json, "policy-explain")
    found = fits(mindx("run", "--workspace", ".", "--dry-copy", "--json").json, "dry-copy")
    assert found["secrets"] == [".env"]
    assert "a.txt" in {entry["path"] for entry in found["entries"]}


def test_documents_of_a_run(engine_mindx):
    mindx = engine_mindx
    (mindx.folder / "work").mkdir()
    (mindx.folder / "work" / ".env").write_text("KEY=1")
    plan = mindx.plan([ECHO, WRITE])
    done = mindx("run", plan, "--workspace", "work", "--json")
    run = fits(done.json, "run")
    assert run["outcome"] == "completed", run
    assert "look like secrets: .env" in done.err
    fits(mindx("runs", "show", "last", "--json").json, "run")
    fits(mindx("runs", "list", "--json").json, "runs")
    fits(mindx("trace", "show", "last", "--json").json, "trace")
    fits(mindx("trace", "verify", "last", "--json").json, "trace-verify")
    shown = fits(mindx("changes", "show", "last", "--json").json, "changes")
    assert [change["path"] for change in shown["changes"]] == ["new.txt"]
    fits(mindx("changes", "apply", "last", "--yes", "--json").json, "applied")
    fits(mindx("exec", "--json", "--", "echo", "x").json, "exec")
    fits(mindx("gc", "--dry-run", "--json").json, "gc")
    fits(mindx("doctor", "--json").json, "doctor")
    fits(mindx("image", "list", "--json").json, "images")
    fits(mindx("image", "show", "python", "--json").json, "image")
    # What a step printed, and the end of the run's life.
    assert fits(mindx("runs", "output", "last", "1", "--json").json, "output")["lines"] == ["one", "two"]
    assert mindx("runs", "output", "last", "1", "--grep", "w").out == "two\n"
    assert mindx("runs", "output", "last", "1", "--tail", "1").out == "two\n"
    assert mindx("runs", "output", "last", "1", "--stderr").out == ""
    assert mindx("runs", "output", "last", "3").code == 2
    kept = fits(mindx("runs", "prune", "--keep", "1", "--json").json, "pruned")
    assert (kept["removed"], kept["kept"]) == ([], 1)
    assert mindx("runs", "prune", "--older-than", "1h").out == "nothing to remove\n"
    assert fits(mindx("runs", "prune", "--keep", "0", "--dry-run", "--json").json, "pruned")["removed"] == [
        run["run_id"]
    ]
    assert mindx("runs", "prune", "--keep", "0").code == 0
    assert mindx("runs", "list", "--json").json["runs"] == []


@pytest.mark.parametrize("arguments", [[], ["--older-than", "5"], ["--older-than", "-1d"], ["--keep", "-1"]])
def test_prune_wants_to_know_which(mindx, arguments):
    assert mindx("runs", "prune", *arguments).code == 2


def test_closing_a_schema_changes_no_original():
    before = copy.deepcopy(schema("exec"))
    closed(schema("exec"))
    assert schema("exec") == before
