"""`mindx watch`: a run as it goes on, as a user sees it."""

from mindx.trace.recorder import Recorder
from mindx.trace.run_folder import RunStore

SUM = {"calls": [{"name": "calculator", "arguments": {"expression": "17*3"}}]}


def test_a_run_is_watched_to_its_end(mindx, script):
    mindx("agent", "--mind", "react", "17*3?", "--script", script(SUM, "It is 51."))
    done = mindx("watch")
    assert done.code == 0
    lines = done.out.splitlines()
    assert " run_started " in lines[0]
    assert " run_finished " in lines[-1]
    assert any('actions calculator {"expression": "17*3"}' in line for line in lines)
    assert mindx("watch", "20260101T000000000-000000").code == 2


def test_a_run_is_seen_while_it_goes_on(mindx, state_dir):
    """Each event is shown when it is written; the end of whoever writes is the end, also without a last event."""
    folder = RunStore(state_dir / "runs").create()
    with Recorder(folder.trace_path) as recorder:
        recorder.record("run_started", run_id=folder.run_id)
        with mindx.start("watch") as watching:
            assert b" run_started " in watching.stdout.readline()
            recorder.record("limit_reached", limit="\x1b[2J")
            line = watching.stdout.readline()
            assert b" limit_reached " in line
            assert b"\x1b" not in line
            recorder.close()
            assert (watching.stdout.read(), watching.wait(20)) == (b"", 0)


def test_all_runs_that_go_on_are_seen_without_a_name(mindx, state_dir):
    """One that has ended is not among them; each line says whose it is, and the end is that of the last."""
    store = RunStore(state_dir / "runs")
    old, *folders = [store.create() for _ in range(3)]
    with Recorder(old.trace_path) as recorder:
        recorder.record("run_started", run_id=old.run_id)
    recorders = [Recorder(folder.trace_path) for folder in folders]
    for recorder in recorders:
        recorder.record("run_started")
    with mindx.start("watch") as watching:
        seen = [watching.stdout.readline(), watching.stdout.readline()]
        recorders[0].close()
        recorders[1].record("run_finished", outcome="completed")
        seen.append(watching.stdout.readline())
        recorders[1].close()
        assert (watching.stdout.read(), watching.wait(20)) == (b"", 0)
    marks = [line.split()[0].decode() for line in seen]
    assert sorted(marks[:2]) == sorted(folder.run_id[-6:] for folder in folders)
    assert marks[2] == folders[1].run_id[-6:]
