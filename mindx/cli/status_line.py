"""One line that says what is being done and for how long: at a terminal in place, else a plain line for each step."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from types import TracebackType

import click

from mindx.cli.escape import escape_line
from mindx.cli.prose import colours, note

TICK_S = 0.5
SHOWN_AFTER_S = 1.0


class StatusLine:
    """Takes lines of progress; use it with `with`.

    At a terminal the newest stands in one line on stderr, with the seconds since the beginning once there is one; it is
    gone at the end. Elsewhere each is a line of its own, as a log wants it.
    """

    def __init__(self) -> None:
        self._live = colours(sys.stderr)
        self._began = time.monotonic()
        self._text = ""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(self, text: str) -> None:
        """Take one line; from any thread."""
        if not self._live:
            note(text)
            return
        with self._lock:
            self._text = escape_line(text, ci=False)
            self._draw()

    def __enter__(self) -> StatusLine:
        if self._live:
            self._thread = threading.Thread(target=self._tick, name="mindx-status", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            click.echo("\r\x1b[2K", err=True, nl=False)

    def _tick(self) -> None:
        while not self._ended.wait(TICK_S):
            with self._lock:
                if self._text:
                    self._draw()

    def _draw(self) -> None:
        seconds = time.monotonic() - self._began
        since = f"{seconds:4.0f} s  " if seconds >= SHOWN_AFTER_S else ""
        width = max(shutil.get_terminal_size().columns - 1, 20)
        click.echo(f"\r\x1b[2K{f'{since}{self._text}'[:width]}", err=True, nl=False)
