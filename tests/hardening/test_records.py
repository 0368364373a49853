"""What was found at the start stands in every record: the run's document and the trace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mindx.cli.render import print_summary
from mindx.core.run import Outcome, RunResult
from mindx.policy.load import load_policy
from mindx.runtime.plan_run import PlanRun
from mindx.sandbox import seccomp
from mindx.trace.run_folder import RunStore

Sabotage = Callable[[Callable[[dict[str, Any]], None]], None]
POLICY = "version: 1\ncommands:\n  - allow: [echo]\n"
STEP = {"tool_id": "simple_coder", "command": "run", "argv": ["echo", "hello"]}
PLAN = json.dumps([{"type": "EXECUTE_TOOL", "params": STEP}]).encode()


def run_of(tmp_path: Path, policy_text: str) -> tuple[RunResult, list[dict[str, Any]]]:
    """Run the plan under a policy; return its document and the data of its `attested` events."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy_text, "ascii")
    policy.chmod(0o600)
    run = PlanRun(PLAN, load_policy(policy), RunStore(tmp_path / "runs"))
    result = asyncio.run(run.run())
    events = [json.loads(line) for line in run.folder.trace_path.read_text("utf-8").splitlines()]
    return result, [event["data"] for event in events if event["kind"] == "attested"]


def no_swap_limit(host: dict[str, Any]) -> None:
    host["MemorySwap"] = -1


def test_a_run_records_what_is_in_force(ready: None, tmp_path: Path) -> None:
    result, (attested,) = run_of(tmp_path, POLICY)
    assert result.outcome is Outcome.COMPLETED
    assert result.accepted_gaps == ()
    assert attested["accepted_gaps"] == []
    assert attested["seccomp_sha256"] == seccomp.profile_sha256()
    assert attested["facts"]["agent_capeff"] == "0" * 16
    assert attested["facts"]["memory_limit"]
    assert any(line.startswith("/workspace ") for line in attested["mounts"])


def test_a_run_with_an_accepted_gap_says_so_everywhere(
    sabotage: Sabotage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sabotage(no_swap_limit)
    result, (attested,) = run_of(tmp_path, POLICY + "accept_gaps: [swap]\n")
    assert result.outcome is Outcome.COMPLETED
    assert result.accepted_gaps == ("swap",)
    assert '"accepted_gaps": [\n    "swap"\n  ]' in result.to_json()
    assert "swap" in attested["accepted_gaps"][0]
    print_summary(result)
    assert "Not limited: swap" in capsys.readouterr().out


def test_without_the_acceptance_the_run_is_refused_and_the_record_tells_both_values(
    sabotage: Sabotage, tmp_path: Path
) -> None:
    sabotage(no_swap_limit)
    result, attested = run_of(tmp_path, POLICY)
    assert result.outcome is Outcome.ERROR
    assert attested == []
    assert result.error is not None
    assert result.error["code"] == "not_as_asked"
    ((control, _, asked, effective),) = result.error["details"]["differences"]
    assert control == "swap"
    assert asked != effective
    assert {step.status.value for step in result.steps} == {"SKIPPED"}
