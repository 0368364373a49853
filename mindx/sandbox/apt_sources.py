"""The package sources that a Debian or Ubuntu host is configured with, as mmdebstrap's mirror arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

# Options of a source in the one-line format, by their names in the deb822 format.
_OPTIONS = {
    "architectures": "arch",
    "signed-by": "signed-by",
    "trusted": "trusted",
    "check-valid-until": "check-valid-until",
    "by-hash": "by-hash",
}
# The components that hold what a base image is made of; the rest is not free, or not the distribution's.
_COMPONENTS = ("main", "universe")
_POCKETS = ("", "-updates", "-security")
_ARCHIVE_KEYRING = re.compile(r"/(?:debian|ubuntu)-archive-[^/]*$")


@dataclass(frozen=True, slots=True)
class Distribution:
    """What /etc/os-release says: `codename` is Debian's or Ubuntu's own, also on what derives from them."""

    id: str
    codename: str
    name: str


@dataclass(frozen=True, slots=True)
class Source:
    """One package source. `inline_key` is a key that stands in the source itself, "" for none."""

    uri: str
    suite: str
    components: tuple[str, ...]
    options: dict[str, str] = field(default_factory=dict)
    inline_key: str = ""

    def one_line(self, key_path: str = "") -> str:
        """Return it in the one-line format; `key_path` names the file that `inline_key` was written to."""
        options = dict(self.options)
        if key_path:
            options["signed-by"] = key_path
        written = " ".join(f"{name}={value}" for name, value in sorted(options.items()))
        words = ["deb", f"[{written}]" if written else "", self.uri, self.suite, *self.components]
        return " ".join(word for word in words if word)


def read_distribution(root: Path = Path("/")) -> Distribution | None:
    """Return the host's distribution, None when it is not Debian, Ubuntu or made from them."""
    try:
        text = (root / "etc/os-release").read_text(encoding="utf-8")
    except OSError:
        return None
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    values = {name.strip(): value.strip().strip("\"'") for name, value in pairs}
    family = {values.get("ID", ""), *values.get("ID_LIKE", "").split()}
    if not family & {"debian", "ubuntu"}:
        return None
    codename = values.get("UBUNTU_CODENAME") or values.get("DEBIAN_CODENAME") or values.get("VERSION_CODENAME", "")
    if not codename:
        return None
    return Distribution(values.get("ID", ""), codename, values.get("PRETTY_NAME") or values.get("ID", ""))


def read_sources(codename: str, root: Path = Path("/")) -> list[Source]:
    """Return the host's sources of the distribution itself: suites `codename`, its updates and its security fixes.

    Sources of others are left out, also those that name their suite after the distribution's: they are told by a
    keyring that is not the distribution's, unless no source has the distribution's keyring (a mirror that signs anew).
    """
    folder = root / "etc/apt"
    files = [folder / "sources.list", *sorted(folder.glob("sources.list.d/*"))]
    found: list[Source] = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if file.suffix == ".list":
            found.extend(parse_one_line(text))
        elif file.suffix == ".sources":
            found.extend(parse_deb822(text))
    return choose_sources(found, codename)


def choose_sources(sources: Iterable[Source], codename: str) -> list[Source]:
    """Return the sources of the distribution `codename` itself, with the components that are needed, each once."""
    suites = {codename + pocket for pocket in _POCKETS}
    chosen: list[Source] = []
    for source in sources:
        components = tuple(name for name in source.components if name in _COMPONENTS)
        own = source.suite in suites and "main" in source.components and not source.uri.startswith("cdrom:")
        if own:
            kept = Source(source.uri, source.suite, components, source.options, source.inline_key)
            if kept not in chosen:
                chosen.append(kept)
    official = [source for source in chosen if _is_official(source)]
    return official if any(source.suite == codename for source in official) else chosen


def _is_official(source: Source) -> bool:
    keyring = source.options.get("signed-by", "")
    return not source.inline_key and (not keyring or bool(_ARCHIVE_KEYRING.search(keyring)))


def parse_one_line(text: str) -> list[Source]:
    """Return the binary sources of a sources.list file; lines that are not understood are left out."""
    found: list[Source] = []
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)((?:\s+[^\s#]+)*)", line.split(" #", 1)[0])
        if not match:
            continue
        written, uri, suite, components = match.groups()
        pairs = (word.split("=", 1) for word in (written or "").split() if "=" in word)
        options = {name.lower(): value for name, value in pairs}
        kept = {name: value for name, value in options.items() if name in _OPTIONS.values()}
        found.append(Source(uri, suite, tuple(components.split()), kept))
    return found


def parse_deb822(text: str) -> list[Source]:
    """Return the binary sources of a .sources file, one for each pair of address and suite."""
    found: list[Source] = []
    for stanza in _stanzas(text):
        if "deb" not in stanza.get("types", "").split() or stanza.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        options = {short: stanza[name] for name, short in _OPTIONS.items() if stanza.get(name)}
        key = ""
        if "-----BEGIN" in options.get("signed-by", ""):
            key = "\n".join("" if line.strip() == "." else line for line in options.pop("signed-by").split("\n"))
        options = {name: ",".join(value.split()) for name, value in options.items()}
        components = tuple(stanza.get("components", "").split())
        for uri in stanza.get("uris", "").split():
            for suite in stanza.get("suites", "").split():
                found.append(Source(uri, suite, components, options, key))
    return found


def _stanzas(text: str) -> list[dict[str, str]]:
    """Split deb822 into its stanzas; names are lower-case, the lines of a folded value are joined by newlines."""
    stanzas: list[dict[str, str]] = [{}]
    name = ""
    for line in text.splitlines():
        if not line.strip():
            stanzas.append({})
            name = ""
        elif line.startswith("#"):
            continue
        elif line[0] in " \t" and name:
            stanzas[-1][name] += "\n" + line.strip()
        elif ":" in line:
            name, value = line.split(":", 1)
            name = name.strip().lower()
            stanzas[-1][name] = value.strip()
    return [stanza for stanza in stanzas if stanza]
