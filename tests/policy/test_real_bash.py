"""What the engine lets through, a real bash runs here: a program that no rule allows must never start."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from mindx.core.command import Exec
from mindx.policy.engine import PolicyEngine
from mindx.policy.load import parse_policy

# Lines that may run, and hold the forbidden name only where it is no program; noise is put into them.
SEEDS = [
    "ls -l | wc -l evil", "for i in evil b; do ls $i; done", "if ls evil; then wc; else cat evil; fi",
    "cat <<'E'\nevil\nE\nls", "cat <<E\nevil $x\nE\n", "case evil in evil) ls;; *) wc;; esac", 'x=evil; ls "$x"',
    "ls 'evil' \"evil\" e\\vil", "echo $(ls evil) `cat evil`", "[ -f evil ] && [[ evil == e* ]]", "ls > evil 2>&1",
    "{ ls evil; cat; } | wc", "( ls; cat evil )", "while read x; do echo evil; done < evil",
    'export A=evil B="evil x"', "a=(evil b); echo ${a[@]}", "echo ${x:-evil} ${x%evil}", "ls # evil\nwc",
    "trap 'ls evil' EXIT", "bash -c 'ls evil'", "eval 'ls evil'", "cat <<< evil", "ls <(cat evil)", "! ls evil",
    'echo "a $(ls evil) b"', "printf '%s\n' evil", "env A=evil ls", "xargs ls evil < x", "unset evil; read evil",
]  # fmt: skip
NOISE = [
    "ls", "evil", "evil", "evil", " ", " ", "$", "(", ")", "{", "}", "`", "'", '"', "\\", "\n", ";", "|", "&", "<", ">",
    "<<E\n", "<<'E'\n", "\nE\n", "x", "=", "[", "]", "[[ ", " ]]", "#", "*", "~", "$(", "${x:-", "${", "((", "))",
    "$((",
    "do ", "done", "if ", "then ", "fi", "else ", "for i in ", "case x in ", " esac", "! ", "1", "eval ", "export ",
    "x=", "$x", "'evil'", '"evil"', "$'evil'", "\\\n", "-c ", "bash -c ", "<<<", "x) ", ";;", "&&", "||", "|&", ">&",
    "2>&1", ":", "trap ", "set ", "-- ", "command ", "exec ", "time ", "$[", "${x/", "<(", ">(", "declare ", "test ",
    "\t", "{ ", "; }", "( ", " )", "while ", "f()", "let ", "printf ", "echo ", "unset ", "x[", "+=", "-v ",
]  # fmt: skip
# Found by this very search, each of them once let through.
FOUND = ["x=\\\n\nevil", "x=\\\n  evil", ">&:\\\n# evil", "[ -f ||evil ] && [[ evil == e* ]]", "[ -f\nevil ]"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with bin/ (harmless programs, and `evil`, which leaves MARK) and an empty cwd/."""
    root = tmp_path_factory.mktemp("bash")
    (root / "bin").mkdir()
    (root / "cwd").mkdir()
    bash = shutil.which("bash")
    assert bash is not None, "these tests need bash"
    for name in ("bash", "sh"):
        (root / "bin" / name).symlink_to(bash)
    for name in ("ls", "wc", "cat", "tee", "xargs", "env"):
        write(root / "bin" / name, "exit 0")
    write(root / "bin" / "evil", f"echo x > '{root / 'MARK'}'")
    return root


def write(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def started(folder: Path, line: str) -> bool:
    """Run a line and return whether `evil` started. It finds no other programs than those of the folder."""
    mark = folder / "MARK"
    mark.unlink(missing_ok=True)
    process = subprocess.Popen(
        ["bash", "-o", "pipefail", "-c", line],
        executable=str(folder / "bin" / "bash"),
        cwd=folder / "cwd",
        env={"PATH": str(folder / "bin")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:  # a loop without end
        os.killpg(process.pid, 9)
        process.wait()
    return mark.exists()


def spoilt(rng: random.Random) -> str:
    line = rng.choice(SEEDS)
    if rng.random() < 0.3:
        line += rng.choice(["; ", " | ", " && ", "\n"]) + rng.choice(SEEDS)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at, other = sorted((rng.randrange(len(line) + 1), rng.randrange(len(line) + 1)))
        kind = rng.random()
        if kind < 0.5:
            line = line[:at] + rng.choice(NOISE) + line[at:]
        else:
            line = line[:at] + line[at + 1 if kind < 0.8 else other :]
    return line


def engine() -> PolicyEngine:
    rules = "version: 1\ncommands: [{allow: [bash, sh, ls, wc, cat, tee, env, xargs]}]\n"
    return PolicyEngine(parse_policy(rules.encode(), source="t").policy, autonomous=False)


def test_the_search_would_notice(folder: Path) -> None:
    assert started(folder, "ls; evil")
    assert not started(folder, "ls evil")


@pytest.mark.parametrize("line", FOUND)
def test_what_was_found_once_is_refused(folder: Path, line: str) -> None:
    assert engine().judge(Exec(("bash", "-c", line))).decision == "deny"


@pytest.mark.parametrize("seed", range(4))
def test_no_line_that_is_let_through_starts_a_program_without_a_rule(folder: Path, seed: int) -> None:
    rng, judge, ran = random.Random(seed), engine().judge, 0
    for _ in range(2000):
        line = spoilt(rng)
        if ran < 80 and judge(Exec(("bash", "-c", line))).allowed:
            ran += 1
            assert not started(folder, line), repr(line)
    assert ran > 40
