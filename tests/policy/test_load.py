import os
from pathlib import Path
from typing import Any

import pytest

from mindx.errors import InputError
from mindx.policy.load import PRESETS, load_policy, parse_policy


def faults_of(text: str | bytes) -> list[dict[str, Any]]:
    data = text.encode() if isinstance(text, str) else text
    with pytest.raises(InputError) as caught:
        parse_policy(data, source="p.yaml")
    assert caught.value.code == "policy_invalid"
    faults: list[dict[str, Any]] = caught.value.details["faults"]
    for fault in faults:
        assert fault["message"] in caught.value.message
    return faults


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_loads_and_explains_itself(name: str) -> None:
    loaded = load_policy(name)
    assert (loaded.name, loaded.source) == (name, f"preset:{name}")
    assert loaded.policy.description
    assert loaded.policy.commands


def test_none_is_the_default_preset() -> None:
    assert load_policy(None) == load_policy("default")


def test_limits_become_bytes_and_seconds() -> None:
    limits = parse_policy(b"version: 1\nlimits: {memory: 2GiB, command_timeout: 500ms}", source="x").policy.limits
    assert (limits.memory_bytes, limits.command_timeout_s) == (2 << 30, 0.5)
    assert (limits.workspace_bytes, limits.output_bytes, limits.pids) == (256 << 20, 1 << 20, 128)


def test_the_digest_is_of_what_is_in_force() -> None:
    same = parse_policy(b"version: 1\nname: p\n# words\nlimits: {pids: 128}\n", source="a")
    assert same.sha256 == parse_policy(b"name: p\nversion: 1\n", source="b").sha256
    assert same.sha256 != parse_policy(b"name: p\nversion: 1\nlimits: {pids: 127}\n", source="b").sha256


def test_every_fault_is_told_at_once_with_its_place_and_what_to_write() -> None:
    faults = faults_of(
        "versoin: 1\n"
        "limits:\n"
        "  memmory: 2GiB\n"
        "  tmp: 1g\n"
        "commands:\n"
        "  - alow: ls\n"
        "  - {allow: ls, deny: cat}\n"
        "  - allow: /bin/ls\n"
    )
    told = {fault["path"]: (fault["line"], fault["column"], fault["suggestion"]) for fault in faults}
    assert told["$.versoin"] == (1, 1, "did you mean `version`?")
    assert told["$.limits.memmory"] == (3, 3, "did you mean `memory`?")
    assert told["$.limits.tmp"][:2] == (4, 8)
    assert told["$.commands[0].alow"] == (6, 5, "did you mean `allow`?")
    assert told["$.commands[1]"][:2] == (7, 5)
    assert told["$.commands[2]"][:2] == (8, 5)
    assert "$" in told  # version is missing


@pytest.mark.parametrize("key", ["packages", "egress", "network"])
def test_keys_of_later_versions_are_refused_with_that_word(key: str) -> None:
    (fault,) = faults_of(f"version: 1\n{key}: []\n")
    assert "later version" in fault["message"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        (" \n# words\n", "a list of keys"),
        ("\ufeffversion: 1\n", "byte-order mark"),
        ("version: 1\n---\nversion: 1\n", "second document"),
        ("version: 1\nversion: 1\n", "written twice"),
        ("version: 1\nlimits: {pids: 64, pids: 32}\n", "written twice"),
        ("version: 1\nname: &a x\n", "anchors and aliases"),
        ("version: 1\ncommands: *a\n", "anchors and aliases"),
        ("version: 1\nlimits:\n  <<: {pids: 64}\n", "not a key"),
        ("version: !!int 1\n", "tag"),
        ("version: ! 1\n", "tag"),
        ("version: !!python/object/apply:os.system [id]\n", "tag"),
        ("%YAML 1.1\n---\nversion: 1\n", "directives"),
        ("? [a]\n: 1\n", "not a key"),
        ("version: 1\nlimits: {pids: .nan}\n", "whole number"),
        ("version: 1\nlimits: {pids: .inf}\n", "whole number"),
        ("version: 1\nlimits: {pids: 1e400}\n", "whole number"),
        ("version: 1\nlimits: {pids: " + "9" * 5000 + "}\n", ""),
        ("version: 1\nlimits: {pids: 0x7f}\n", "whole number"),
        ("version: 1\nlimits: {memory: 999999GiB}\n", "out of range"),
        ("version: 1\nlimits: {command_timeout: 0s}\n", "out of range"),
        ("version: 1\nlimits: {memory: [1GiB]}\n", "a number and a unit"),
        ("version: 1\nlimits:\n", "list of keys and values"),
        ("version: 1\nlimits: []\n", "list of keys and values"),
        ("version: 1\ncommands: {allow: ls}\n", "must be a list"),
        ("version: 1\ncommands: [ls]\n", "list of keys and values"),
        ("version: 1\ncommands: [{allow: []}]\n", "no pattern"),
        ("version: 1\ncommands: [{allow: [[ls]]}]\n", "write a text"),
        ("version: 1\ncommands: [{allow: '*'}]\n", "must begin with the name"),
        ("version: 1\ncommands: [{allow: ls, match: cat}]\n", "not covered"),
        ("version: 1\ncommands: [{allow: ls, not_match: ls -l}]\n", "is covered"),
        ("version: 1\nworkspace: {exclude: ['!a']}\n", "without !"),
        ("version: 2\n", "version 1 only"),
        ("version: 1\nruntime: gvisor\n", "runsc"),
        ("version: 1\nautonomous: yes\n", "never"),
        ("[" * 100, "levels"),
        ("a: b: c\n", "not readable as YAML"),
        ("version: 1\nname: 'a\x07'\n", "unprintable"),
        ("version: 1\nname: ../x\n", "must match"),
        ("- version: 1\n", "a list of keys"),
        ("version: 1\nlimits: {memory: 512MiB}\n", "more than half of memory"),
        ("version: 1\nlimits: {workspace_inodes: 5000000}\n", "more than half of memory"),
    ],
)
def test_a_policy_that_is_not_understood_whole_is_refused(text: str, message: str) -> None:
    assert any(message in fault["message"] and fault["line"] for fault in faults_of(text))


def test_bytes_that_are_not_text_are_refused() -> None:
    assert "not UTF-8" in faults_of(b"version: 1\nname: \xff\n")[0]["message"]
    assert "byte-order mark" in faults_of("version: 1".encode("utf-16"))[0]["message"]


def test_a_file_of_any_size_is_read_in_part_only(tmp_path: Path) -> None:
    big = tmp_path / "big.yaml"
    with big.open("wb") as stream:
        stream.truncate(100 * 1024 * 1024)
    with pytest.raises(InputError) as caught:
        load_policy(big)
    assert "more than 1048576 bytes" in caught.value.message


def write(path: Path, mode: int = 0o600) -> Path:
    path.write_text("version: 1\n")
    path.chmod(mode)
    return path


def test_a_file_is_named_by_its_stem(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.yaml")
    loaded = load_policy(str(path))
    assert (loaded.name, loaded.source) == ("mine", str(path))


def test_a_file_that_others_can_write_is_refused(tmp_path: Path) -> None:
    for mode in (0o602, 0o666):
        with pytest.raises(InputError) as caught:
            load_policy(write(tmp_path / "open.yaml", mode))
        assert caught.value.code == "policy_unsafe_file"
        assert "chmod go-w" in caught.value.message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another group")
def test_a_group_of_others_counts_as_others_and_a_private_group_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "group.yaml", 0o660)
    monkeypatch.setenv("SUDO_UID", "4711")
    os.chown(path, 4711, 4711)
    assert load_policy(path).name == "group"
    os.chown(path, 4711, 4712)
    with pytest.raises(InputError) as caught:
        load_policy(path)
    assert caught.value.code == "policy_unsafe_file"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_another_users_file_is_no_policy_for_root_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("version: 1\n")
    monkeypatch.delenv("SUDO_UID", raising=False)
    os.chown(path, 4711, 4711)
    for caller in (None, "", "x", "4712"):
        if caller is not None:
            monkeypatch.setenv("SUDO_UID", caller)
        with pytest.raises(InputError, match="belongs to another user") as caught:
            load_policy(path)
        assert caught.value.code == "policy_unsafe_file"
    monkeypatch.setenv("SUDO_UID", "4711")
    assert load_policy(path).policy.version == 1


def test_links_folders_and_pipes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link.yaml").symlink_to(write(tmp_path / "real.yaml"))
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml", 0o600)
    for name, word in (("link", "is a link"), ("folder", "not a regular file"), ("pipe", "not a regular file")):
        with pytest.raises(InputError) as caught:
            load_policy(tmp_path / f"{name}.yaml")
        assert caught.value.code == "policy_unsafe_file"
        assert word in caught.value.message


def test_what_is_not_there_is_named_with_what_is_near(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean `default`"):
        load_policy("defualt")
    with pytest.raises(InputError, match="No such file"):
        load_policy(tmp_path / "none.yaml")


def test_a_policy_that_says_nothing_of_secrets_keeps_them_out_and_an_empty_list_lets_them_in():
    silent = parse_policy(b"version: 1\ncommands: [{allow: ls}]\n", source="x").policy.workspace
    assert {".env", "id_rsa", ".aws/"} <= set(silent.secrets)
    assert silent.patterns[-len(silent.secrets) :] == silent.secrets
    said = parse_policy(b"version: 1\nworkspace: {secrets: []}\n", source="x").policy.workspace
    assert said.secrets == ()
