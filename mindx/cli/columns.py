"""Lists in columns. The first is a name that is typed again: it stays whole, and the others give way."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Mapping, Sequence

import click

from mindx.cli.escape import shortened
from mindx.cli.prose import styled

_GAP = "  "
_LEAST_PROSE = 16
_WHOLE_NAME = 26
_Row = Mapping[str, str]


def print_columns(
    rows: Sequence[_Row],
    *,
    gives_way: Sequence[str] = (),
    prose: str = "",
    right: Collection[str] = (),
    header: bool = False,
) -> None:
    """Print rows of harmless texts by column, all with the same columns; whole when piped.

    At a terminal `prose`, the last column, is cut to what is left, then the columns of `gives_way` are left out, the
    first of it first, and at last `prose`. Those in `right` are set to the right.
    """
    if not rows:
        return
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    widths = {name: max(_cells(row[name]) for row in rows) for name in rows[0]}
    if header:
        widths = {name: max(width, len(name)) for name, width in widths.items()}
    first = next(iter(widths))
    if room is not None:
        # A very long name takes a line of its own, and no room from the others.
        most = max(room // 2, _WHOLE_NAME)
        if widths[first] > most:
            widths[first] = max([len(first), *(_cells(row[first]) for row in rows if _cells(row[first]) <= most)])
        _fit(widths, room, gives_way, prose)
    if header:
        click.echo(styled(_line({name: name for name in widths}, widths, right, prose), None, sys.stdout, bold=True))
    for row in rows:
        click.echo(_line(row, widths, right, prose))


def _fit(widths: dict[str, int], room: int, gives_way: Sequence[str], prose: str) -> None:
    """Take columns out of `widths`, and make prose narrower, until a line fits."""
    for name in (*gives_way, prose, None):
        over = sum(widths.values()) + len(_GAP) * (len(widths) - 1) - room
        if over <= 0:
            return
        least = min(_LEAST_PROSE, widths.get(prose, 0))
        if prose in widths and widths[prose] - over >= least:
            widths[prose] -= over
            return
        if name is not None:
            widths.pop(name, None)


def _line(row: _Row, widths: Mapping[str, int], right: Collection[str], prose: str) -> str:
    parts = []
    for number, (name, width) in enumerate(widths.items()):
        text = shortened(row[name], width) if name == prose else row[name]
        while name == prose and _cells(text) > width:  # letters that take two columns each
            text = shortened(text, len(text) - 1)
        pad = " " * (width - _cells(text))
        if number == 0 and _cells(text) > width:
            text += "\n" + " " * width
        parts.append(pad + text if name in right else text + pad)
    return _GAP.join(parts).rstrip()


def _cells(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
