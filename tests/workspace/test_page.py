"""The HTML page, opened in a real browser: what the plan wrote is shown, and none of it is obeyed."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import threading
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.workspace.support import fill, put, work
from tests.workspace.terminal import mindx

RUN = "20260101T000000000-abcdef"
BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
ATTACK = (
    "<script>document.title='obeyed'</script><img src=http://192.0.2.1/pixel onerror=\"document.title='obeyed'\">"
    "</td></table></details><style>body{display:none}</style><meta http-equiv=refresh content='0;url=http://192.0.2.1/'>"
    "<!-- <iframe srcdoc=x> &lt;script&gt; \u202e\x1b[31m"
)


def plan(tree: Any) -> None:
    put(tree, "text", "one\n2\nthree\n", 0o644)
    put(tree, "attack.html", f"{ATTACK}\n{ATTACK}")
    put(tree, "<img src=x onerror=document.title='obeyed'>", "x\n")
    put(tree, '"><script>1<\uff0fscript>', "x\n")
    put(tree, ".envrc", "echo\n")
    tree.link("/workspace/link", "/<b>bold</b>")
    put(tree, "binary", bytes(range(256)))


@pytest.fixture
def page(tmp_path: Path) -> Path:
    fill(tmp_path / "w", {"text": "one\ntwo\nthree\n"})
    (tmp_path / "state" / "runs").mkdir(parents=True)
    work(tmp_path / "w", tmp_path / "state" / "runs" / RUN, plan)
    done = mindx(tmp_path / "state", "changes", "show", "last", "--html", str(tmp_path / "page.html"))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return tmp_path / "page.html"


class _Parsed(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            assert not name.startswith("on")
            assert name not in ("src", "style", "srcdoc", "action")
            assert name != "href" or re.fullmatch(r"#c\d+", value or "")

    def handle_data(self, data: str) -> None:
        self.text += data


ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "h1", "p", "code", "ul", "li", "span", "a"),
    *("details", "summary", "div", "table", "tbody", "tr", "td"),
}


def test_the_page_holds_only_what_we_put_there(page: Path) -> None:
    parsed = _Parsed(page.read_text())
    assert parsed.tags <= ALLOWED
    assert "default-src 'none'" in page.read_text()
    assert "document.title='obeyed'" in parsed.text
    assert not [char for char in page.read_text() if char not in "\n\t" and not char.isprintable()]


def test_the_page_is_written_whole_or_not_at_all(page: Path, tmp_path: Path) -> None:
    done = mindx(tmp_path / "state", "changes", "show", "last", "--html", str(tmp_path / "none" / "p.html"))
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert [path.name for path in tmp_path.iterdir() if "page" in path.name] == ["page.html"]


class Listener:
    """A proxy that answers nothing and remembers what was asked of it."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.asked = b""
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._server.accept()
            with connection:
                connection.settimeout(5)
                request = connection.recv(4096)
                if request == b"end":
                    return
                self.asked += request

    def close(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(b"end")
        self._thread.join()
        self._server.close()


def browse(page: Path, profile: Path, *options: str, proxy: int = 1) -> str:
    assert BROWSER is not None
    return subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
         "--disable-component-update", f"--user-data-dir={profile}", f"--proxy-server=127.0.0.1:{proxy}",
         "--proxy-bypass-list=<-loopback>", *options, page.as_uri()],
        capture_output=True, text=True, check=True, timeout=100,
    ).stdout  # fmt: skip


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed here: `apt-get install chromium`")
def test_a_browser_shows_it_and_obeys_nothing(page: Path, tmp_path: Path) -> None:
    listener = Listener()
    try:
        dom = browse(page, tmp_path / "profile", "--dump-dom", "--virtual-time-budget=3000", proxy=listener.port)
    finally:
        listener.close()
    parsed = _Parsed(dom)
    assert parsed.tags <= ALLOWED
    assert f"<title>Changes of run {RUN}</title>" in dom
    assert b"192.0.2.1" not in listener.asked
    assert "runs on your machine: shell start-up file" in parsed.text
    for row in ("-two", "+2", " three"):
        assert row in parsed.text


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed here: `apt-get install chromium`")
def test_the_styles_hold_in_a_browser(page: Path, tmp_path: Path) -> None:
    # The style sheet passes the page's own policy only if its digest is right; without it the page has no colours.
    picture = tmp_path / "page.png"
    browse(page, tmp_path / "profile", f"--screenshot={picture}", "--window-size=900,1200", "--hide-scrollbars")
    plain = tmp_path / "plain.html"
    plain.write_text(re.sub(r"<style>.*?</style>", "", page.read_text(), flags=re.DOTALL))
    other = tmp_path / "plain.png"
    browse(plain, tmp_path / "profile", f"--screenshot={other}", "--window-size=900,1200", "--hide-scrollbars")
    assert picture.read_bytes()[:8] == other.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture.read_bytes() != other.read_bytes()
    broken = tmp_path / "broken.html"
    broken.write_text(page.read_text().replace("<style>", "<style> "))
    browse(broken, tmp_path / "profile", f"--screenshot={tmp_path / 'broken.png'}", "--window-size=900,1200",
           "--hide-scrollbars")  # fmt: skip
    assert (tmp_path / "broken.png").read_bytes() == other.read_bytes()
