"""One line that says what is being done and for how long, in place at a terminal: progress, or the step that runs."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import click

from mindx.cli.escape import escape_line
from mindx.cli.prose import colours, note

if TYPE_CHECKING:
    from typing_extensions import Self

TICK_S = 0.5
STEP_TICK_S = 0.2
TAIL_BYTES = 4096  # of a program's output that its last line is looked for in
SHOWN_AFTER_S = 1.0


class _LiveLine:
    """A line that a thread draws anew every `tick_s`, as long as `text` gives one; for `with`."""

    def __init__(self, live: bool, tick_s: float) -> None:
        self._live, self._tick_s = live, tick_s
        self._lock = threading.Lock()  # around each change of what `text` gives
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def text(self) -> str:
        """Return the line as it is now, "" for none."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        if self._live:
            self._thread = threading.Thread(target=self._tick, name="mindx-line", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            _draw("")

    def _tick(self) -> None:
        while not self._ended.wait(self._tick_s):
            with self._lock:
                if text := self.text():
                    _draw(text)


class StatusLine(_LiveLine):
    """Takes lines of progress; use it with `with`.

    At a terminal the newest stands in one line on stderr, with the seconds since the beginning once there is one; it is
    gone at the end. Elsewhere each is a line of its own, as a log wants it.
    """

    def __init__(self) -> None:
        super().__init__(colours(sys.stderr), TICK_S)
        self._began = time.monotonic()
        self._text = ""

    def __call__(self, text: str) -> None:
        """Take one line; from any thread."""
        if not self._live:
            note(text)
            return
        with self._lock:
            self._text = escape_line(text, ci=False)
            _draw(self.text())

    def text(self) -> str:
        """Return the newest line, with the seconds."""
        seconds = time.monotonic() - self._began
        since = f"{seconds:4.0f} s  " if seconds >= SHOWN_AFTER_S else ""
        return self._text and f"{since}{self._text}"


class StepLine(_LiveLine):
    """The step that runs, at a terminal: its label, its seconds, and the last line that its program has printed.

    A thread draws, so that a program which prints much costs nothing, and a terminal that stalls holds up nobody. Use
    it with `with`; elsewhere than at a terminal it does nothing.
    """

    def __init__(self) -> None:
        super().__init__(colours(sys.stderr) and sys.stderr.isatty(), STEP_TICK_S)
        self._label = ""
        self._began = 0.0
        self._tails: dict[str, bytes] = {}
        self._last: Literal["stdout", "stderr"] = "stdout"
        self._paused = False

    def begin(self, label: str) -> None:
        """Show a step from now on; the label is harmless text."""
        if self._live:
            with self._lock:
                self._label, self._began, self._tails = label, time.monotonic(), {}
                _draw(self.text())

    def hear(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """Take what the step's program prints; it is an OutputListener."""
        if self._live:
            self._tails[stream] = (self._tails.get(stream, b"") + data[-TAIL_BYTES:])[-TAIL_BYTES:]
            self._last = stream

    def end(self) -> None:
        """Take the line away."""
        if self._live:
            with self._lock:
                if self._label:
                    self._label = ""
                    _draw("")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Take the line away while a person is asked something."""
        with self._lock:
            self._paused = True
            if self._live:
                _draw("")
        try:
            yield
        finally:
            self._paused = False

    def text(self) -> str:
        """Return the step's line, "" between steps and while a person is asked."""
        if not self._label or self._paused:
            return ""
        seconds = time.monotonic() - self._began
        since = f" {seconds:.0f} s" if seconds >= SHOWN_AFTER_S else ""
        last = last_line(self._tails.get(self._last, b""))
        return f"{self._label} ...{since}{f'  {last}' if last else ''}"


def last_line(data: bytes) -> str:
    """Return the last line that says something, harmless; what a carriage return has overwritten is none."""
    lines = data.decode("utf-8", "replace").replace("\r", "\n").split("\n")
    return next((escape_line(line.strip(), ci=False) for line in reversed(lines) if line.strip()), "")


def _draw(text: str) -> None:
    """Put one line in place of what stands there; what is longer than a line could not be taken back."""
    width = max(shutil.get_terminal_size().columns - 3, 20)  # with room for a `^C`, which would begin another line
    click.echo(f"\r\x1b[2K{text[:width]}", err=True, nl=False)
