"""Lets a program that nobody vetted look at your data: it sees a copy, and cannot send it anywhere."""

import json
from pathlib import Path

import mindx

PROGRAM = """
import csv, json
with open("sales.csv", newline="") as file:
    rows = [row for row in csv.DictReader(file) if row["pieces"]]
pieces = {}
for row in rows:
    pieces[row["city"]] = pieces.get(row["city"], 0) + int(row["pieces"])
print(json.dumps(pieces))
"""

with mindx.SyncSession(workspace=Path(__file__).parent / "sales") as session:
    result = session.run(["python3", "-c", PROGRAM], timeout_s=10)
    if not result.ok:
        raise SystemExit(result.stderr_text)
    # What it printed is a stranger's text: parse it, never evaluate it.
    for city, pieces in sorted(json.loads(result.stdout_text).items()):
        print(f"{city}: {int(pieces)}")
