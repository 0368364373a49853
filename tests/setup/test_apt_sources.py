"""Reading a host's package sources: the distribution's own, in both formats, and nobody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindx.sandbox.apt_sources import parse_deb822, parse_one_line, read_distribution, read_sources

DEBIAN_KEY = "/usr/share/keyrings/debian-archive-keyring.gpg"
UBUNTU_KEY = "/usr/share/keyrings/ubuntu-archive-keyring.gpg"

DEB822 = f"""\
# a comment
Types: deb deb-src
URIs: http://mirror.invalid/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: {DEBIAN_KEY}

Types: deb
URIs: http://mirror.invalid/security
Suites: bookworm-security
Components: main
Signed-By: {DEBIAN_KEY}

Enabled: no
Types: deb
URIs: http://off.invalid/debian
Suites: bookworm
Components: main
"""

ONE_LINE = f"""\
deb http://mirror.invalid/debian bookworm main contrib # the main one
deb [arch=amd64 signed-by={DEBIAN_KEY}] http://mirror.invalid/debian bookworm-updates main
#deb http://off.invalid/debian bookworm main
deb-src http://mirror.invalid/debian bookworm main
deb cdrom:[Debian 12]/ bookworm main
"""

UBUNTU = f"""\
Types: deb
URIs: http://mirror.invalid/ubuntu
Suites: noble noble-updates noble-backports
Components: main universe restricted multiverse
Signed-By: {UBUNTU_KEY}

Types: deb
URIs: http://security.invalid/ubuntu
Suites: noble-security
Components: main universe
Signed-By: {UBUNTU_KEY}
"""

INLINE = """\
Types: deb
URIs: http://mirror.invalid/debian
Suites: trixie
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 AAAA
 -----END PGP PUBLIC KEY BLOCK-----
"""


def make_host(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / "etc/apt" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_deb822_of_debian(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"sources.list.d/debian.sources": DEB822})
    assert [source.one_line() for source in read_sources("bookworm", host)] == [
        f"deb [signed-by={DEBIAN_KEY}] http://mirror.invalid/debian bookworm main",
        f"deb [signed-by={DEBIAN_KEY}] http://mirror.invalid/debian bookworm-updates main",
        f"deb [signed-by={DEBIAN_KEY}] http://mirror.invalid/security bookworm-security main",
    ]


def test_one_line_of_debian(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"sources.list": ONE_LINE})
    assert [source.one_line() for source in read_sources("bookworm", host)] == [
        "deb http://mirror.invalid/debian bookworm main",
        f"deb [arch=amd64 signed-by={DEBIAN_KEY}] http://mirror.invalid/debian bookworm-updates main",
    ]


def test_ubuntu_keeps_universe(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"sources.list": "# moved\n", "sources.list.d/ubuntu.sources": UBUNTU})
    found = read_sources("noble", host)
    assert [source.suite for source in found] == ["noble", "noble-updates", "noble-security"]
    assert {source.components for source in found} == {("main", "universe")}


@pytest.mark.parametrize(
    "foreign",
    [
        "deb [signed-by=/etc/apt/keyrings/vendor.gpg] http://vendor.invalid/debian bookworm main",
        "deb http://vendor.invalid/debian bookworm stable",
        "deb http://vendor.invalid/debian bookworm-vendor main",
        "deb http://vendor.invalid/debian ./",
        "deb http://vendor.invalid/debian sid main",
    ],
)
def test_sources_of_others_are_left_out(tmp_path: Path, foreign: str) -> None:
    host = make_host(tmp_path, {"sources.list.d/debian.sources": DEB822, "sources.list.d/vendor.list": foreign + "\n"})
    assert "vendor" not in " ".join(source.one_line() for source in read_sources("bookworm", host))


def test_a_mirror_that_signs_anew_serves_when_it_is_all_there_is(tmp_path: Path) -> None:
    line = "deb [signed-by=/etc/apt/keyrings/company.gpg] http://mirror.invalid/debian bookworm main"
    host = make_host(tmp_path, {"sources.list": line + "\n"})
    assert [source.one_line() for source in read_sources("bookworm", host)] == [line]


def test_a_disabled_file_is_not_read(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"sources.list.d/debian.sources.disabled": DEB822})
    assert read_sources("bookworm", host) == []


def test_a_key_that_stands_in_the_source_is_kept() -> None:
    (source,) = parse_deb822(INLINE)
    assert source.inline_key.splitlines() == [
        "",
        "-----BEGIN PGP PUBLIC KEY BLOCK-----",
        "",
        "AAAA",
        "-----END PGP PUBLIC KEY BLOCK-----",
    ]
    assert source.one_line("/tmp/key.asc") == "deb [signed-by=/tmp/key.asc] http://mirror.invalid/debian trixie main"


def test_options_that_are_about_the_host_are_dropped() -> None:
    (source,) = parse_one_line(
        "deb [ lang=en trusted=yes target=Packages ] http://mirror.invalid/debian bookworm main\n"
    )
    assert source.options == {"trusted": "yes"}


@pytest.mark.parametrize(
    ("text", "codename"),
    [
        ('ID=debian\nVERSION_CODENAME=bookworm\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n', "bookworm"),
        ("ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\nUBUNTU_CODENAME=noble\n", "noble"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_CODENAME=wilma\nUBUNTU_CODENAME=noble\n', "noble"),
        ("ID=fedora\nVERSION_ID=40\n", None),
        ("ID=debian\n", None),
    ],
)
def test_the_distribution_is_read(tmp_path: Path, text: str, codename: str | None) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text(text)
    found = read_distribution(tmp_path)
    assert (found.codename if found else None) == codename


def test_a_host_without_os_release_is_no_distribution(tmp_path: Path) -> None:
    assert read_distribution(tmp_path) is None
