"""The four workspace tools over the driver: in the fake for their logic, in a container for find, grep and programs."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mindx.core.action import ActionRequest, ActionRisk
from mindx.core.agent_session import SessionEnvironment
from mindx.core.command import Exec
from mindx.core.evidence import EvidenceKind
from mindx.core.observation import Observation, Status
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import load_policy, parse_policy
from mindx.sandbox.container import ContainerSettings
from mindx.sandbox.docker import DockerSandbox
from mindx.sandbox.driver import Driver
from mindx.sandbox.fake import FakeSandbox
from mindx.sandbox.image import DerivedImage
from mindx.tools.executor import ToolExecutor
from mindx.tools.registry import ToolRegistry
from mindx.tools.workspace.exec_command import ExecCommandTool
from mindx.tools.workspace.file_edit import FileEditTool
from mindx.tools.workspace.file_read import FileReadTool
from mindx.tools.workspace.file_search import FileSearchTool
from mindx.tools.workspace.paths import WorkspacePathError, WorkspacePathResolver, container_path
from tests.tools.tool_kit import opener, run_context

Do = Callable[..., Awaitable[Observation]]
TOOLS = ToolRegistry([FileSearchTool(), FileReadTool(), FileEditTool(), ExecCommandTool()])


def caller(sandbox: Any, **values: Any) -> Do:
    executor = ToolExecutor(TOOLS)
    context = run_context(open_sandbox=opener(sandbox), **values)

    async def do(name: str, **arguments: Any) -> Observation:
        return await executor.execute(ActionRequest("action-1", name, arguments), context)

    return do


def faked(work: Callable[[Do, FakeSandbox], Awaitable[None]], **values: Any) -> None:
    async def main() -> None:
        async with FakeSandbox() as sandbox:
            driver = Driver(sandbox, PolicyEngine(load_policy().policy, autonomous=False).judge)
            await work(caller(driver, **values), sandbox)

    asyncio.run(main())


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_file_is_made_replaced_and_read() -> None:
    async def work(do: Do, sandbox: FakeSandbox) -> None:
        made = await do("file_edit", path="src/a.py", mode="create", content="one\ntwo\nthree\n")
        assert dict(made.result) == {
            "status": "SUCCESS",
            "path": "src/a.py",
            "mode": "create",
            "size": 14,
            "sha256": sha256("one\ntwo\nthree\n"),
        }
        again = await do("file_edit", path="src/a.py", mode="create", content="x")
        assert "is there already" in again.message
        changed = await do("file_edit", path="src/a.py", mode="replace", old_text="two", new_text="2")
        assert changed.result["previous_sha256"] == made.result["sha256"]
        read = await do("file_read", path="src/a.py")
        assert read.result["content"] == "one\n2\nthree\n"
        assert (read.result["total_lines"], read.result["sha256"]) == (3, sha256("one\n2\nthree\n"))
        assert read.evidence[0].kind is EvidenceKind.FILE_SNAPSHOT
        assert read.evidence[0].data["sha256"] == read.result["sha256"]
        anew = await do("file_edit", path="src/a.py", mode="overwrite", content="new\n")
        assert anew.ok
        assert sandbox.tree.read("/workspace/src/a.py", 100) == b"new\n"

    faked(work)


def test_a_replacement_is_of_text_that_is_there_exactly_once() -> None:
    async def work(do: Do, sandbox: FakeSandbox) -> None:
        sandbox.tree.write("/workspace/a", b"aa bb aaa", None)
        for old, words in (("aa", "more than once"), ("bbb", "is not in the file")):
            refused = await do("file_edit", path="a", mode="replace", old_text=old, new_text="x")
            assert words in refused.message
        sandbox.tree.write("/workspace/b", b"aaa", None)
        assert (
            "more than once" in (await do("file_edit", path="b", mode="replace", old_text="aa", new_text="x")).message
        )
        assert sandbox.tree.read("/workspace/a", 100) == b"aa bb aaa"
        assert (
            "there is no file" in (await do("file_edit", path="c", mode="replace", old_text="a", new_text="x")).message
        )

    faked(work)


def test_an_edit_of_what_has_changed_meanwhile_is_refused() -> None:
    async def work(do: Do, sandbox: FakeSandbox) -> None:
        sandbox.tree.write("/workspace/a", b"old", None)
        seen = (await do("file_read", path="a")).result["sha256"]
        sandbox.tree.write("/workspace/a", b"other", None)
        edit = {"path": "a", "mode": "overwrite", "content": "mine", "expected_sha256": seen}
        assert "read it again" in (await do("file_edit", **edit)).message
        assert sandbox.tree.read("/workspace/a", 10) == b"other"
        assert (await do("file_edit", **{**edit, "expected_sha256": sha256("other")})).ok

    faked(work)


def test_reading_by_lines_and_by_anchor() -> None:
    async def work(do: Do, sandbox: FakeSandbox) -> None:
        lines = "".join(f"line {number}\n" for number in range(1, 1001))
        sandbox.tree.write("/workspace/a", lines.encode(), None)
        piece = (await do("file_read", path="a", start_line=10, end_line=12)).result
        assert (piece["content"], piece["truncated"]) == ("line 10\nline 11\nline 12\n", False)
        around = (await do("file_read", path="a", anchor="line 500", before=1, after=1)).result
        assert (around["start_line"], around["content"]) == (499, "line 499\nline 500\nline 501\n")
        first = (await do("file_read", path="a")).result
        assert (first["end_line"], first["truncated"], first["total_lines"]) == (400, True, 1000)
        for arguments, words in (
            ({"anchor": "nowhere"}, "no line holds `nowhere`"),
            ({"start_line": 1001}, "past its end"),
        ):
            assert words in (await do("file_read", path="a", **arguments)).message

    faked(work)


def test_files_that_cannot_be_read_or_written() -> None:
    async def work(do: Do, sandbox: FakeSandbox) -> None:
        sandbox.tree.write("/workspace/big", b"x" * 1_000_001, None)
        sandbox.tree.write("/workspace/binary", b"\x7fELF\0\0", None)
        sandbox.tree.make_dir("/workspace/folder")
        sandbox.tree.link("/workspace/link", "/etc/passwd")
        sandbox.tree.write("/workspace/empty", b"", None)
        for path, words in (
            ("big", "larger"),
            ("binary", "is no text file"),
            ("folder", "directory"),
            ("link", "link"),
            ("none", "No such file"),
        ):
            observation = await do("file_read", path=path)
            assert observation.status is Status.ERROR
            assert words.lower() in observation.message.lower(), observation.message
        assert (await do("file_read", path="empty")).result["content"] == ""
        for path in ("folder", "link"):
            assert (await do("file_edit", path=path, mode="overwrite", content="x")).status is Status.ERROR
        too_large = await do("file_edit", path="new", mode="create", content="x" * 1_000_001)
        assert "at most 1,000,000" in too_large.message
        assert "surrogate" in (await do("file_edit", path="new", mode="create", content="\ud800")).message

    faked(work)


@pytest.mark.parametrize("path", ["/etc/passwd", "/workspace/a", "../a", "a/../../b", "a/..", "a\0b", "x" * 300])
@pytest.mark.parametrize("name", ["file_read", "file_edit", "file_search", "exec_command"])
def test_paths_that_leave_the_workspace_are_refused_before_a_container_exists(name: str, path: str) -> None:
    arguments = {
        "file_read": {"path": path},
        "file_edit": {"path": path, "mode": "create", "content": ""},
        "file_search": {"query": "x", "path": path},
        "exec_command": {"command": ["ls"], "cwd": path},
    }[name]
    executor = ToolExecutor(TOOLS)
    traits = executor.assess(ActionRequest("a", name, arguments), run_context())
    assert traits.problem
    observation = asyncio.run(executor.execute(ActionRequest("a", name, arguments), run_context()))
    assert (observation.status, observation.message) == (Status.ERROR, traits.problem)


def test_an_absolute_path_is_refused_with_what_to_write() -> None:
    with pytest.raises(WorkspacePathError, match="write `src/a`") as refused:
        container_path("/workspace/src/a")
    assert refused.value.code == "path_absolute"


def test_exec_command_gives_the_keys_of_the_seed() -> None:
    async def work(do: Do, sandbox: FakeSandbox) -> None:
        ran = await do("exec_command", command=["echo", "hello"])
        assert dict(ran.result) == {
            "status": "SUCCESS",
            "command": ["echo", "hello"],
            "cwd": ".",
            "exit_code": 0,
            "exit_cause": "exit",
            "stdout": "hello\n",
            "stderr": "",
            "timed_out": False,
            "output_truncated": False,
            "source": "exec_command",
        }
        assert ran.execution is not None
        failed = await do("exec_command", command=["false"])
        assert (failed.status, failed.result["exit_code"]) == (Status.FAILURE, 1)
        slow = await do("exec_command", command=["sleep", "60"], timeout_seconds=0.1)
        assert (slow.status, slow.result["timed_out"], slow.result["exit_code"]) == (Status.FAILURE, True, None)
        much = await do("exec_command", command=["echo", "x" * 5000], max_output_bytes=100)
        assert much.result["output_truncated"] is True
        env = await do("exec_command", command=["printenv", "MOOD"])
        assert env.result["stdout"] == "blue\n"
        denied = await do("exec_command", command=["curl", "http://example.com"])
        assert denied.status is Status.DENIED
        sent = [command for command in sandbox.commands if isinstance(command, Exec)]
        assert all(command.timeout_s is not None and command.timeout_s <= 60 for command in sent)

    faked(work, environment=SessionEnvironment(env_vars={"MOOD": "blue"}))


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "ls -l"},
        {"command": []},
        {"command": ["ls", 1]},
        {"command": ["ls"], "timeout_seconds": 0.05},
        {"command": ["ls"], "timeout_seconds": 301},
        {"command": ["ls"], "max_output_bytes": 1_000_001},
        {"command": ["ls"], "shell": True},
    ],
)
def test_exec_command_refuses_what_its_schema_does_not_know(arguments: dict[str, Any]) -> None:
    request = ActionRequest("a", "exec_command", arguments)
    assert ToolExecutor(TOOLS).assess(request, run_context()).problem


RISKS = [
    ("ls -la", ActionRisk.READ_ONLY),
    ("cat a", ActionRisk.READ_ONLY),
    ("find . -name x", ActionRisk.READ_ONLY),
    ("git status", ActionRisk.READ_ONLY),
    ("git log --oneline", ActionRisk.READ_ONLY),
    ("sed -n 1,5p a", ActionRisk.READ_ONLY),
    ("find . -delete", ActionRisk.WRITE),
    ("sed -i s/a/b/ f", ActionRisk.WRITE),
    ("git commit -m x", ActionRisk.WRITE),
    ("git branch -D main", ActionRisk.WRITE),
    ("mkdir x", ActionRisk.WRITE),
    ("python3 main.py", ActionRisk.WRITE),
    ("python3 -m pytest", ActionRisk.DANGEROUS),
    ("rm x", ActionRisk.DANGEROUS),
    ("sudo ls", ActionRisk.DANGEROUS),
    ("chmod 777 x", ActionRisk.DANGEROUS),
    ("kill 1", ActionRisk.DANGEROUS),
    ("dd if=a of=b", ActionRisk.DANGEROUS),
    ("shutdown now", ActionRisk.DANGEROUS),
    ("find . -exec rm x ;", ActionRisk.DANGEROUS),
    ("nobody-knows-it", ActionRisk.DANGEROUS),
    ("/bin/ls", ActionRisk.DANGEROUS),
]


@pytest.mark.parametrize(("line", "risk"), RISKS)
def test_the_risk_of_a_command_is_computed_from_its_words(line: str, risk: ActionRisk) -> None:
    # What the model says of it does not count.
    request = ActionRequest("a", "exec_command", {"command": line.split()}, risk=ActionRisk.READ_ONLY)
    assert ToolExecutor(TOOLS).assess(request, run_context()).risk is risk


def test_a_shell_line_is_taken_apart() -> None:
    def risk(line: str) -> ActionRisk:
        request = ActionRequest("a", "exec_command", {"command": ["bash", "-c", line]})
        return ToolExecutor(TOOLS).assess(request, run_context()).risk

    assert risk("ls; rm x") is ActionRisk.DANGEROUS
    assert risk("ls; curl x") is ActionRisk.DANGEROUS


@pytest.mark.parametrize("command", [["find", ".", "-exec", "rm", "x", ";"], ["bash", "-c", "ls; rm x"], ["rm", "x"]])
def test_no_rule_makes_rm_less_than_dangerous_wherever_it_stands(command: list[str]) -> None:
    text = b"version: 1\ncommands:\n  - allow: [find, bash, ls, rm]\n"
    engine = PolicyEngine(parse_policy(text, source="test", name="test").policy, autonomous=False)
    tool = ExecCommandTool(engine=engine)
    assert engine.judge(tool.program(command, run_context())).allowed
    request = ActionRequest("a", "exec_command", {"command": command})
    assert ToolExecutor([tool]).assess(request, run_context()).risk is ActionRisk.DANGEROUS


def test_the_operators_policy_decides_on_risk_limits_and_approval() -> None:
    text = b"version: 1\nlimits: {command_timeout: 5s}\ncommands:\n  - allow: ls\n  - ask: git\n"
    engine = PolicyEngine(parse_policy(text, source="test", name="test").policy, autonomous=False)
    tool = ExecCommandTool(engine=engine)

    def traits(*command: str) -> Any:
        return ToolExecutor([tool]).assess(
            ActionRequest("a", "exec_command", {"command": list(command)}), run_context()
        )

    assert traits("ls").risk is ActionRisk.READ_ONLY
    assert traits("python3", "x.py").risk is ActionRisk.DANGEROUS
    assert (traits("git", "status").require_approval, traits("ls").require_approval) == (True, False)
    assert tool.program(("ls",), run_context(), timeout_s=30).timeout_s == 5


def test_a_tool_made_for_another_folder_refuses(tmp_path: Path) -> None:
    tool = FileReadTool(tmp_path)
    assert ToolRegistry([tool, FileEditTool(tmp_path)]).workspace == tmp_path
    executor = ToolExecutor([tool])
    assert executor.workspace == tmp_path
    for root in (tmp_path / "other", None):
        context = run_context(environment=SessionEnvironment(workspace_root=root))
        observation = asyncio.run(executor.execute(ActionRequest("a", "file_read", {"path": "x"}), context))
        assert "another folder" in observation.message


def test_searching_says_when_it_cannot() -> None:
    async def work(do: Do, sandbox: FakeSandbox) -> None:
        assert "has no grep" in (await do("file_search", query="x")).message
        for arguments in ({"query": "a\nb"}, {"query": "a/b", "target": "names"}, {"query": "", "target": "names"}):
            assert (await do("file_search", **arguments)).status is Status.ERROR

    faked(work)


def test_in_a_container(derived_image: DerivedImage) -> None:
    policy = load_policy().policy

    async def main() -> None:
        judge = PolicyEngine(policy, autonomous=False).judge
        async with Driver(DockerSandbox(ContainerSettings(policy.limits)), judge) as sandbox:
            await work(caller(sandbox))

    async def work(do: Do) -> None:
        for path, content in (
            ("src/app.py", "def main():\n    return 'needle'\n"),
            ("src/deep/er/util.py", "NEEDLE = 1\nneedle = NEEDLE\n"),
            ("notes.txt", "a needle: here\n-e needle\n"),
            (".git/config", "needle\n"),
        ):
            assert (await do("file_edit", path=path, mode="create", content=content)).ok
        found = (await do("file_search", query="needle")).result
        places = [(row["path"], row["line"]) for row in found["results"]]
        assert places == [("notes.txt", 1), ("notes.txt", 2), ("src/app.py", 2), ("src/deep/er/util.py", 2)]
        assert found["results"][0]["text"] == "a needle: here"
        assert found["truncated"] is False

        async def lines(**arguments: Any) -> list[tuple[str, int]]:
            rows = (await do("file_search", **arguments)).result["results"]
            return [(row["path"], row["line"]) for row in rows]

        assert await lines(query="-e needle") == [("notes.txt", 2)]
        assert await lines(query="^NEEDLE +=", regex=True) == [("src/deep/er/util.py", 1)]
        assert len(await lines(query="needle", ignore_case=True, include="*.py")) == 3
        assert await lines(query="needle", path="src/deep") == [("src/deep/er/util.py", 2)]
        assert await lines(query="nothing like it") == []
        short = (await do("file_search", query="needle", max_results=1)).result
        assert (len(short["results"]), short["truncated"]) == (1, True)
        names = (await do("file_search", query="UTIL", target="names")).result["results"]
        assert names == [{"path": "src/deep/er/util.py"}]
        assert [row["path"] for row in (await do("file_search", query="*.py", target="names")).result["results"]] == [
            "src/app.py",
            "src/deep/er/util.py",
        ]
        assert (await do("file_search", query="[z-a", target="names")).result["results"] == []
        bad = await do("file_search", query="(", regex=True)
        assert "grep could not search" in bad.message
        # What a program planted is no way out: links are neither read nor written through.
        script = "import os; os.symlink('/etc/passwd', 'planted'); os.symlink('/etc', 'folder'); os.mkfifo('pipe')"
        assert (await do("exec_command", command=["python3", "-c", script])).ok
        for path in ("planted", "folder/passwd", "pipe"):
            assert (await do("file_read", path=path)).status is Status.ERROR
            assert (await do("file_edit", path=path, mode="overwrite", content="x")).status is Status.ERROR
        assert (await do("file_search", query="root:")).result["results"] == []
        run = await do("exec_command", command=["python3", "-c", "import os; print(os.getcwd())"], cwd="src")
        assert run.result["stdout"] == "/workspace/src\n"
        slow = await do("exec_command", command=["sleep", "30"], timeout_seconds=0.3)
        assert slow.result["timed_out"] is True

    asyncio.run(main())


def test_the_resolver_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "root" / "sub").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    root = tmp_path / "root"
    (root / "sub" / "a.txt").write_text("hello")
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    (root / "inside").symlink_to(root / "sub")
    os.mkfifo(root / "pipe")
    resolver = WorkspacePathResolver(root)
    assert resolver.resolve("sub/a.txt") == root.resolve() / "sub" / "a.txt"
    assert resolver.resolve("sub/new/b") == root.resolve() / "sub" / "new" / "b"
    assert resolver.resolve(".") == root.resolve()
    assert resolver.read("sub/a.txt", 10) == b"hello"
    assert resolver.listing() == (["folder@", "inside@", "out@", "pipe", "sub/"], False)
    assert resolver.listing(".", 2) == (["folder@", "inside@"], True)
    for path, code in (
        ("/etc/passwd", "path_absolute"),
        ("../secret", "path_outside"),
        ("sub/../../secret", "path_outside"),
        ("out", "path_link"),
        ("folder/secret", "path_link"),
        ("inside/a.txt", "path_link"),
        ("a\0b", "path_invalid"),
    ):
        for use in (resolver.resolve, lambda name: resolver.read(name, 10)):
            with pytest.raises(WorkspacePathError) as refused:
                use(path)
            assert refused.value.code == code, path
    for path, code in (("pipe", "path_invalid"), ("sub/none", "path_missing"), ("sub", "path_invalid")):
        with pytest.raises(WorkspacePathError) as refused:
            resolver.read(path, 10)
        assert refused.value.code == code, path
    with pytest.raises(WorkspacePathError) as refused:
        resolver.read("sub/a.txt", 4)
    assert refused.value.code == "path_too_large"
    with pytest.raises(WorkspacePathError):
        WorkspacePathResolver(tmp_path / "none")
