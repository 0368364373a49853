import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mindx.policy.paths import PathRefused, inside, resolve


@pytest.mark.parametrize(
    ("path", "cwd", "expected"),
    [
        ("a.txt", "/workspace", "/workspace/a.txt"),
        (".", "/workspace/src", "/workspace/src"),
        ("..", "/workspace/src", "/workspace"),
        ("../b", "/workspace/src", "/workspace/b"),
        ("./a//b/./c/", "/workspace", "/workspace/a/b/c"),
        ("/workspace", "/workspace/x", "/workspace"),
        ("/workspace/a/../b", "/workspace/x", "/workspace/b"),
        ("//workspace//a", "/workspace", "/workspace/a"),
        ("a\nb", "/workspace", "/workspace/a\nb"),
        ("\udcff", "/workspace", "/workspace/\udcff"),
        ("...", "/workspace", "/workspace/..."),
        ("~/x", "/workspace", "/workspace/~/x"),
        ("x" * 255, "/workspace", "/workspace/" + "x" * 255),
    ],
)
def test_a_path_under_the_workspace_is_normalised(path: str, cwd: str, expected: str) -> None:
    assert resolve(path, cwd) == expected
    assert inside(expected)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("", "path_empty"),
        ("a\0b", "path_invalid"),
        ("\ud800", "path_invalid"),
        ("x" * 256, "path_too_long"),
        ("é" * 128, "path_too_long"),
        ("a/" * 2048 + "b", "path_too_long"),
        ("..", "path_outside"),
        ("../../etc/passwd", "path_outside"),
        ("a/../../etc", "path_outside"),
        ("../workspace/a", "path_outside"),
        ("/", "path_outside"),
        ("/etc/passwd", "path_outside"),
        ("/workspace-evil/a", "path_outside"),
        ("/workspace/../etc", "path_outside"),
        ("/workspace/../workspace/a", "path_outside"),
        ("/proc/self/root/workspace", "path_outside"),
        ("/proc/1/cwd", "path_outside"),
        ("/Workspace/a", "path_outside"),
    ],
)
def test_a_path_that_leaves_the_workspace_is_refused(path: str, code: str) -> None:
    with pytest.raises(PathRefused) as caught:
        resolve(path)
    assert caught.value.code == code
    assert not inside(path)


def test_a_relative_path_may_not_grow_too_long_with_its_directory() -> None:
    cwd = "/workspace" + "/d" * 2000
    with pytest.raises(PathRefused) as caught:
        resolve("x/" * 100 + "y", cwd)
    assert caught.value.code == "path_too_long"


@pytest.mark.parametrize("cwd", ["/etc", "", "src", "/workspace/../etc", "/workspace-evil"])
def test_a_directory_outside_is_refused_even_for_a_good_path(cwd: str) -> None:
    with pytest.raises(PathRefused):
        resolve("a", cwd)


@pytest.mark.parametrize(
    "path", ["a", "/workspace/", "/workspace/a/", "/workspace/./a", "/workspace//a", "//workspace"]
)
def test_inside_accepts_normalised_paths_only(path: str) -> None:
    assert not inside(path)


pieces = st.sampled_from(["..", ".", "", "a", "workspace", "etc", "...", "\udc80", "x" * 255])


@given(st.lists(pieces, max_size=12), st.booleans(), st.lists(st.sampled_from(["a", "b"]), max_size=3))
@example(["..", "workspace"], False, [])
def test_what_resolves_is_below_the_workspace_and_stable(parts: list[str], absolute: bool, folder: list[str]) -> None:
    path = ("/" if absolute else "") + "/".join(parts)
    cwd = "/".join(["/workspace", *folder])
    try:
        found = resolve(path, cwd)
    except PathRefused:
        return
    assert found == "/workspace" or found.startswith("/workspace/")
    assert not {"..", ".", ""} & set(found.split("/")[1:])
    assert resolve(found) == found
    assert inside(found)
