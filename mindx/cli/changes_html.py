"""The Changes of a run as one HTML page: no scripts, nothing loaded from elsewhere, every text escaped."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterator, Sequence
from pathlib import Path

from mindx.cli.changes_show import remarks, shown_name
from mindx.cli.escape import escape, escape_line
from mindx.core.atomic_file import write_whole
from mindx.core.count import counted
from mindx.core.output import plain_text
from mindx.errors import WorkspaceError
from mindx.workspace.baseline import Baseline
from mindx.workspace.changes import executable
from mindx.workspace.copy_in import format_bytes
from mindx.workspace.diff import FileDiff, Hunk, TextDiff

MAX_LINES = 20_000  # a page that a browser still opens at once
_STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1f2328;--soft:#59636e;--line:#d1d9e0;--head:#f6f8fa;
--add:#dafbe1;--del:#ffebe9;--addn:#aceebb;--deln:#ffcecb;--hunk:#ddf4ff;--warn:#9a6700;--warnbg:#fff8c5}
@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--soft:#9198a1;--line:#3d444d;--head:#151b23;
--add:#12261e;--del:#25171c;--addn:#1c4428;--deln:#542426;--hunk:#121d2f;--warn:#e3b341;--warnbg:#272115}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:72rem;padding:1.5rem 1rem 4rem;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.4rem;margin:0 0 .25rem}
p{margin:.25rem 0;color:var(--soft)}
a{color:inherit}
code,td,.name{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.name{overflow-wrap:anywhere;font-size:.9rem}
.list{margin:1rem 0 2rem;padding:0;list-style:none;border:1px solid var(--line);border-radius:6px}
.list li{display:flex;gap:.75rem;align-items:baseline;padding:.3rem .75rem;border-top:1px solid var(--line)}
.list li:first-child{border-top:0}
.list .name{flex:1}
.word{font-size:.75rem;font-weight:600;min-width:4.5rem}
.added{color:#1a7f37}.deleted{color:#cf222e}.modified{color:#9a6700}.renamed{color:#0969da}
@media(prefers-color-scheme:dark){.added{color:#3fb950}.deleted{color:#f85149}.modified{color:#d29922}
.renamed{color:#4493f8}}
.count{white-space:nowrap;font-size:.8rem;color:var(--soft)}
.mark{font-size:.8rem;color:var(--warn);background:var(--warnbg);border:1px solid currentColor;border-radius:1em;
padding:0 .6em;white-space:nowrap}
details{margin:0 0 1rem;border:1px solid var(--line);border-radius:6px;overflow:hidden}
summary{display:flex;gap:.75rem;align-items:baseline;padding:.5rem .75rem;background:var(--head);cursor:pointer}
summary .name{flex:1;font-weight:600}
.remark{color:var(--soft);padding:.4rem .75rem;border-top:1px solid var(--line);font-size:.85rem}
.remark.warn{color:var(--warn);background:var(--warnbg)}
.scroll{overflow-x:auto;border-top:1px solid var(--line)}
table{border-collapse:collapse;width:100%}
td{padding:0 .75rem;font-size:.8rem;line-height:1.45;white-space:pre;vertical-align:top}
td.n{width:1%;text-align:right;color:var(--soft);user-select:none}
tr.p td{background:var(--add)}tr.p td.n{background:var(--addn)}
tr.m td{background:var(--del)}tr.m td.n{background:var(--deln)}
tr.h td{background:var(--hunk);color:var(--soft)}
"""


def write_page(path: Path, run_id: str, baseline: Baseline, diffs: Sequence[FileDiff]) -> None:
    """Write the page to `path`, whole or not at all. Raises WorkspaceError."""
    pieces = (piece.encode("utf-8", "backslashreplace") for piece in page(run_id, baseline, diffs))
    try:
        write_whole(path, pieces, mode=0o666)
    except OSError as error:
        reason = error.strerror or str(error)
        raise WorkspaceError("page_unwritable", f"{str(path)!a} cannot be written: {reason}") from error


def page(run_id: str, baseline: Baseline, diffs: Sequence[FileDiff]) -> Iterator[str]:
    """Yield the page piece by piece."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>Changes of run {_text(run_id)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>Changes of run <code>{_text(run_id)}</code></h1>\n"
    )
    folder = plain_text(baseline.folder)
    yield f"<p>{_text(_sum(diffs))}{f', in <code>{_text(folder)}</code>' if folder else ''}</p>\n"
    yield '<ul class="list">\n' + "".join(_row(number, diff) for number, diff in enumerate(diffs)) + "</ul>\n"
    left = MAX_LINES
    for number, diff in enumerate(diffs):
        if not _has_card(diff):
            continue
        shown = _size(diff)
        yield from _card(number, diff, with_lines=shown <= left)
        left -= shown if shown <= left else 0
    yield "</body>\n</html>\n"


def _has_card(diff: FileDiff) -> bool:
    """Return True unless all is said of it in the list: a plain folder."""
    return diff.change.entry != "directory" or bool(remarks(diff))


def _row(number: int, diff: FileDiff) -> str:
    mark = '<span class="mark">runs on your machine</span>' if diff.marks else ""
    name = _text(shown_name(diff))
    link = f'<a class="name" href="#c{number}">{name}</a>' if _has_card(diff) else f'<span class="name">{name}</span>'
    return f'<li>{_word(diff)}{link}{mark}<span class="count">{_text(_count(diff))}</span></li>\n'


def _card(number: int, diff: FileDiff, *, with_lines: bool) -> Iterator[str]:
    yield (
        f'<details id="c{number}" open>\n<summary>{_word(diff)}<span class="name">{_text(shown_name(diff))}</span>'
        f'<span class="count">{_text(_count(diff))}</span></summary>\n'
    )
    for line in remarks(diff):
        warn = " warn" if line.startswith("runs on") else ""
        yield f'<div class="remark{warn}">{_text(line)}</div>\n'
    if facts := _facts(diff):
        yield f'<div class="remark">{_text(", ".join(facts))}</div>\n'
    if diff.text is not None and not with_lines:
        yield '<div class="remark">too many lines for this page; `mindx changes show --patch` has them</div>\n'
    elif diff.text is not None:
        yield '<div class="scroll"><table>\n'
        for hunk in diff.text.hunks():
            yield from _hunk(diff.text, hunk)
        yield "</table></div>\n"
    yield "</details>\n"


def _hunk(text: TextDiff, hunk: Hunk) -> Iterator[str]:
    yield f'<tr class="h"><td class="n"></td><td class="n"></td><td>{_text(hunk.heading)}</td></tr>\n'
    shift = hunk.new_start - hunk.old_start
    for sign, line_number, line in text.lines(hunk):
        if sign == "+":
            old_number, shift = "", shift + 1
        elif sign == "-":
            old_number, shift = str(line_number), shift - 1
        else:
            old_number = str(line_number - shift)
        new_number = "" if sign == "-" else str(line_number)
        kind = {"+": ' class="p"', "-": ' class="m"', " ": ""}[sign]
        shown = _text(escape(line.decode("utf-8", "surrogateescape").removesuffix("\n"), ci=False))
        ending = "" if line.endswith(b"\n") else ' <span class="count">(no line feed)</span>'
        numbers = f'<td class="n">{old_number}</td><td class="n">{new_number}</td>'
        yield f"<tr{kind}>{numbers}<td>{sign}{shown}{ending}</td></tr>\n"


def _facts(diff: FileDiff) -> list[str]:
    change = diff.change
    lines = []
    if change.collapsed:
        lines.append(f"{change.collapsed} of {counted(change.files, 'file')}, {format_bytes(change.size)}")
    if change.entry == "link":
        lines.append(f"link to {escape_line(change.state.target, ci=False)}")
    if diff.remark:
        lines.append(diff.remark)
    states = [state for state in (change.before, change.after) if state is not None and state.entry == "file"]
    if states and not change.collapsed:
        modes = list(dict.fromkeys(f"{state.mode:04o}" for state in states))
        if diff.text is None:
            lines.append(" -> ".join(dict.fromkeys(format_bytes(state.size) for state in states)))
            lines.append("sha256 " + " -> ".join(dict.fromkeys(state.sha256 or "unknown" for state in states)))
        if len(modes) > 1 or diff.text is None or executable(change.state):
            lines.append(f"mode {' -> '.join(modes)}")
    return lines


def _size(diff: FileDiff) -> int:
    hunks = diff.text.hunks() if diff.text is not None else []
    return sum(hunk.old_end - hunk.old_start + hunk.new_end - hunk.new_start for hunk in hunks)


def _count(diff: FileDiff) -> str:
    return f"+{diff.text.added} -{diff.text.removed}" if diff.text is not None else ""


def _word(diff: FileDiff) -> str:
    return f'<span class="word {diff.word}">{diff.word}</span>'


def _sum(diffs: Sequence[FileDiff]) -> str:
    added = sum(diff.text.added for diff in diffs if diff.text)
    removed = sum(diff.text.removed for diff in diffs if diff.text)
    marked = sum(bool(diff.marks) for diff in diffs)
    changes = counted(len(diffs), "change")
    runs = f" ({marked} of them in files that run on your machine later)" if marked else ""
    return f"{changes}{runs}, {counted(added, 'line')} added, {removed} removed"


def _text(text: str) -> str:
    return html.escape(plain_text(text), quote=True)
