import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "scripts" / "mutate_policy.py"


def test_no_mutant_of_the_engine_lives() -> None:
    """A fair sample in bounded time; `python scripts/mutate_policy.py` runs all, and MINDX_MUTATIONS=all here."""
    limit = [] if os.environ.get("MINDX_MUTATIONS") == "all" else ["--seconds", "30"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *limit], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > 10


def test_a_mutant_that_nothing_notices_is_told() -> None:
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "import mutate_policy as m\n"
        "class Same(m.Mutant):\n"
        "    def tree(self):\n"
        "        return m._parsed(self.module)\n"
        "mutant = next(m.mutants('rules.py'))\n"
        "m._prepare()\n"
        "same = Same('rules.py', 0, '', '', '', 0, 0)\n"
        "print(m.survives(same), m.survives(mutant))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(ROOT), str(SCRIPT.parent)], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stdout.split() == ["True", "False"], done.stderr
