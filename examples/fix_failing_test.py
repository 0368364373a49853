"""Runs a project's tests, tries a repair in the container, and shows the repair only when the tests pass."""

from pathlib import Path

import mindx

PROJECT = Path(__file__).parent / "broken"
TESTS = ["python3", "-m", "unittest", "-q"]

with mindx.SyncSession(workspace=PROJECT) as session:
    before = session.run(TESTS)
    print("before:", before.exit_code, before.stderr_text.splitlines()[-1])
    source = session.read("prices.py").decode()
    session.write("prices.py", source.replace("cents * percent // 100", "(cents * percent + 50) // 100"))
    after = session.run(TESTS)
    print("after:", after.exit_code, after.stderr_text.splitlines()[-1])
    if after.ok:
        for change in session.changes():
            print(change.kind, change.path)
