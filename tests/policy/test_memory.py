"""A remembered Verdict is the one that the engine would give again."""

from dataclasses import replace

from mindx.core.command import Exec, Remove
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import load_policy, parse_policy
from mindx.policy.memory import MAX_VERDICTS, VerdictMemory


def test_it_is_that_of_the_very_same_command() -> None:
    """Folder, variables, input, deadline, output and executable count: none of them may be taken from another."""
    text = "version: 1\nworkspace: {protected: [docs/]}\ncommands: [{allow: [rm, bash, python3]}]"
    engine = PolicyEngine(parse_policy(text.encode(), source="test").policy, autonomous=True)
    memory, rm = VerdictMemory(engine), Exec(("rm", "a"))
    variants = [
        rm, replace(rm, cwd="/workspace/docs"), replace(rm, cwd="/tmp"), replace(rm, timeout_s=None),
        replace(rm, timeout_s=9999.0), replace(rm, max_output_bytes=1 << 40), replace(rm, env={"LD_PRELOAD": "x"}),
        replace(rm, executable="/workspace/rm"), Exec(("bash",)), Exec(("bash",), stdin=b"curl x"), Exec(("rm", "b")),
        Exec(("curl",)), Exec(("rm", "a" * 2000)), Exec(("rm", *("a",) * 40)),
    ]  # fmt: skip
    for command in (*variants, *reversed(variants), *variants):
        assert memory.judge(command) == engine.judge(command), command
    assert {memory.judge(command).decision for command in variants} == {"allow", "deny"}
    assert len(memory) == 10  # neither those with variables or input, nor the long ones


def test_the_grant_to_remove_files_is_looked_at_every_time() -> None:
    engine = PolicyEngine(load_policy().policy, autonomous=True)
    memory, remove = VerdictMemory(engine), Remove("/workspace/a")
    assert memory.judge(remove).allowed
    engine.autonomous = False
    assert not memory.judge(remove).allowed


def test_only_so_many_are_remembered() -> None:
    memory = VerdictMemory(PolicyEngine(load_policy().policy, autonomous=False))
    for number in range(MAX_VERDICTS + 100):
        assert memory.judge(Exec(("ls", str(number)))).allowed
    assert len(memory) == MAX_VERDICTS
