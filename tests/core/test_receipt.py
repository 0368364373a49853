"""What is told of a Receipt is what the Receipt says, each figure under its own name."""

from mindx.core.receipt import ExitCause, KilledProcess, Receipt
from mindx.core.run import ReceiptRecord

RECEIPT = Receipt(
    exit_cause=ExitCause.OOM,
    exit_code=3,
    signal=9,
    duration_s=1.5,
    cpu_s=2.5,
    max_rss_bytes=4,
    stdout_bytes=5,
    stderr_bytes=6,
    stdout_sha256="a" * 64,
    stderr_sha256="b" * 64,
    oom_kills=7,
    killed=(KilledProcess(8, "hopper"),),
    killed_count=9,
    memory_peak_bytes=10,
    pids_refused=11,
    throttled_s=12.5,
    files_changed=("a.txt",),
    files_changed_count=13,
    files_changed_complete=True,
)
CHOSEN_BY_PROGRAMS = {"killed", "files_changed", "files_changed_count", "files_changed_complete"}


def test_the_figures_are_all_that_mindx_has_measured() -> None:
    wanted = {name: value for name, value in RECEIPT._asdict().items() if name not in CHOSEN_BY_PROGRAMS}
    assert RECEIPT.figures() == {**wanted, "exit_cause": "oom"}


def test_the_record_of_a_run_has_the_same_values() -> None:
    told = ReceiptRecord.of(RECEIPT).model_dump()
    killed, changed = told.pop("killed"), told.pop("files_changed")
    assert told == {name: getattr(RECEIPT, name) for name in told}
    assert (killed, changed) == (({"pid": 8, "name": "hopper"},), ("a.txt",))
