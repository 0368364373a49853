"""Which certificates of the host go into an image: those that the distribution did not bring."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from mindx.sandbox.host_certificates import extra_certificates


def pem(content: bytes) -> str:
    body = base64.encodebytes(content * 8).decode()
    return f"-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    for folder in ("usr/share/ca-certificates/mozilla", "usr/local/share/ca-certificates", "etc"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "usr/share/ca-certificates/mozilla/stock.crt").write_text(pem(b"stock"))
    return tmp_path


def test_the_stock_set_alone_adds_nothing(host: Path) -> None:
    bundle = host / "bundle.pem"
    bundle.write_text(pem(b"stock"))
    assert extra_certificates({"SSL_CERT_FILE": str(bundle)}, host) == []


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"])
def test_a_bundle_of_the_environment_adds_what_is_not_stock(host: Path, variable: str) -> None:
    bundle = host / "bundle.pem"
    bundle.write_text("# a title\n" + pem(b"stock") + pem(b"company"))
    found = extra_certificates({variable: str(bundle)}, host)
    assert ["".join(text.split()) for text in found] == ["".join(pem(b"company").split())]


def test_pips_configuration_and_the_administrators_folder_count(host: Path) -> None:
    (host / "pip.pem").write_text(pem(b"pip"))
    (host / "etc/pip.conf").write_text(f"[global]\ncert = {host}/pip.pem\n")
    (host / "usr/local/share/ca-certificates/own.crt").write_text(pem(b"own"))
    found = extra_certificates({"HOME": str(host / "home"), "REQUESTS_CA_BUNDLE": f"{host}/pip.pem"}, host)
    assert len(found) == 2


def test_what_cannot_be_read_is_passed_over(host: Path) -> None:
    (host / "etc/pip.conf").write_text("no section\n")
    bad = host / "bad.pem"
    bad.write_text("-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n")
    assert extra_certificates({"SSL_CERT_FILE": "/no/such/file", "PIP_CERT": str(bad)}, host) == []
