"""Runs a script from the web and tells what it did: output, processes that it left, files that it changed."""

from pathlib import Path

import mindx

with mindx.SyncSession(workspace=Path(__file__).parent / "stranger") as session:
    result = session.run(["sh", "install.sh"], timeout_s=20)
    print(result.stdout_text, end="")
    print(f"it ended with {result.exit_code}; {result.receipt.killed_count} process that it left was killed")
    for change in session.changes():
        print(change.kind, change.path)
