"""The certificates that this host trusts beyond its distribution's own set."""

from __future__ import annotations

import base64
import binascii
import configparser
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

_BUNDLE_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")
_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----\s+(.*?)-----END CERTIFICATE-----", re.DOTALL)


def extra_certificates(environ: Mapping[str, str] | None = None, root: Path = Path("/")) -> list[str]:
    """Return the certificates (PEM) that the host uses and its distribution did not bring, sorted, each once.

    They come from the bundles that SSL_CERT_FILE, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, PIP_CERT and pip's
    configuration name, and from the administrator's own folder. Files that cannot be read are passed over.
    Empty when the host uses the stock set.
    """
    environ = os.environ if environ is None else environ
    named = [Path(environ[name]) for name in _BUNDLE_VARIABLES if environ.get(name)]
    named += [Path(path) for path in _pip_bundles(environ, root)]
    own = sorted((root / "usr/local/share/ca-certificates").glob("**/*.crt"))
    stock = set(_read_all((root / "usr/share/ca-certificates").glob("**/*.crt")))
    return sorted(_as_pem(block) for block in set(_read_all([*named, *own])) - stock)


def _pip_bundles(environ: Mapping[str, str], root: Path) -> list[str]:
    home = Path(environ.get("HOME", "/"))
    config_home = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [root / "etc/pip.conf", root / "etc/xdg/pip/pip.conf", home / ".pip/pip.conf", config_home / "pip/pip.conf"]
    if environ.get("PIP_CONFIG_FILE"):
        files.append(Path(environ["PIP_CONFIG_FILE"]))
    bundles: list[str] = []
    for file in files:
        parser = configparser.RawConfigParser()
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError, OSError):
            continue
        bundles.extend(parser[section]["cert"] for section in parser.sections() if "cert" in parser[section])
    return bundles


def _read_all(files: Iterable[Path]) -> list[bytes]:
    blocks: list[bytes] = []
    for file in files:
        try:
            text = file.read_text(encoding="ascii", errors="replace")
        except OSError:
            continue
        for body in _BLOCK.findall(text):
            try:
                blocks.append(base64.b64decode("".join(body.split()), validate=True))
            except binascii.Error:
                continue
    return blocks


def _as_pem(block: bytes) -> str:
    text = base64.b64encode(block).decode("ascii")
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return "\n".join(["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""])
