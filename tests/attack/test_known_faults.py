"""Attack D9: an engine with a hole that is known."""

from __future__ import annotations

from mindx.sandbox.doctor import EngineFacts, check_advisories
from mindx.sandbox.engine_place import EnginePlace


def test_d9_the_doctor_names_the_known_holes_of_an_old_engine():
    """It reports and refuses nothing: each hole of this runc needs an image or mounts that no plan can choose."""
    far = EnginePlace("tcp://192.0.2.1:2376", "DOCKER_HOST", named=True)

    def told(**parts):
        return {check.check_id: check for check in check_advisories(EngineFacts(far, {}, {}, parts))}

    old = told(runc="1.1.5", Engine="20.10.24")["known-runc"]
    assert old.state == "note"
    assert "needs" in old.found
    assert "upgrade runc" in old.advice
    for hole in ("CVE-2024-21626", "CVE-2025-31133", "CVE-2025-52565", "CVE-2025-52881"):
        assert hole in old.found
    assert told(runc="99.0.0")["known-runc"].state == "ok"
    assert told(runc="of our own make")["known-runc"].state == "note", "what is not understood is not called good"
