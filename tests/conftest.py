"""What all tests share: an engine that must be there, the base image, and a state folder that is not the user's."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from hypothesis import HealthCheck, settings

from mindx.core.folders import STATE_VARIABLE
from mindx.core.folders import state_dir as find_state_dir
from mindx.errors import MindxError
from mindx.sandbox.base_image import ensure_base
from mindx.sandbox.engine import connect
from mindx.sandbox.image import DerivedImage, ensure_derived
from mindx.sandbox.image_records import BaseImage

# A machine that is busy or slow is no fault of the code: hypothesis looks at no clock, and takes the same examples
# every time. HYPOTHESIS_SEARCH=1 looks for new ones.
settings.register_profile(
    "mindx",
    deadline=None,
    derandomize="HYPOTHESIS_SEARCH" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("mindx")

# A shell's background jobs have SIGINT ignored, nohup's SIGHUP, and would hand that on: the programs under test are
# started as at a terminal.
for ignorable, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(ignorable) is signal.SIG_IGN:
        signal.signal(ignorable, usual)

# Where the base image of this machine is recorded: read before any test can point elsewhere.
_USERS_STATE = find_state_dir()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def session_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """No test writes into the user's state, not even one that forgets about it."""
    folder = tmp_path_factory.mktemp("state")
    (_USERS_STATE / "images").mkdir(parents=True, exist_ok=True)
    # Records and locks of images are shared, among the workers too: an image is built once.
    (folder / "images").symlink_to(_USERS_STATE / "images")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(STATE_VARIABLE, str(folder))
        yield folder


@pytest.fixture
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of this test alone, with the records of the images that are there already."""
    folder = tmp_path / "state"
    _share_records(folder)
    monkeypatch.setenv(STATE_VARIABLE, str(folder))
    return folder


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.DockerClient]:
    """A client of the real engine. There is no skipping: without an engine nothing here is tested."""
    try:
        client = connect()
    except MindxError as error:
        pytest.fail(f"the tests need a container engine: {error}", pytrace=False)
    yield client
    client.close()


@pytest.fixture(scope="session")
def base_image(engine: docker.DockerClient, session_state: Path) -> BaseImage:
    """The base image `python`, built if need be, and recorded with the user's own."""
    return ensure_base(engine, "python")


@pytest.fixture(scope="session")
def derived_image(engine: docker.DockerClient, base_image: BaseImage) -> DerivedImage:
    """The image that sessions start from."""
    return ensure_derived(engine, base_image.image_id)


def _share_records(folder: Path) -> None:
    target = folder / "images"
    target.mkdir(parents=True, exist_ok=True)
    for record in (_USERS_STATE / "images").glob("*.json"):
        part = target / f"{record.name}.part-{os.getpid()}"
        shutil.copyfile(record, part)
        part.replace(target / record.name)
