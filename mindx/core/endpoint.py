"""Addresses that a secret may be sent to."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from mindx.core.quote import quoted


def endpoint_url(url: str, name: str) -> str:
    """Return the URL without its last slash; messages call it `name`. Raises ValueError when a key must not go there.

    Plain http is for this machine and private networks, where many endpoints live; elsewhere it would show the key.
    """
    text = url.strip().rstrip("/")
    try:
        parts = urlsplit(text)
        port_is_there = parts.port
    except ValueError:
        raise ValueError(f"{name} cannot be read") from None
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host or port_is_there == 0:
        raise ValueError(f"{name} is no http(s) URL")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"{name} must not carry a user name or password")
    if parts.query or parts.fragment or "?" in text or "#" in text:
        raise ValueError(f"{name} ends with its path: no `?`, no `#`")
    if any(character.isspace() or not character.isprintable() for character in text):
        raise ValueError(f"{name} has characters that no URL has")
    if parts.scheme == "http" and not _is_near(host):
        raise ValueError(f"plain http to {quoted(host)} would show the key on the way: use https")
    return text


def _is_near(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".localhost", ".local", ".internal", ".test"))
