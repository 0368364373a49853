from __future__ import annotations

import logging
import os
import traceback

import pytest
from pydantic import ValidationError

from mindx.errors import ProviderError
from mindx.providers.param import MAX_ENV_FILE_BYTES, OpenAIProviderParam

KEY = "secret-key-0123456789"
BASE = {"MINDX_API_KEY": KEY, "MINDX_BASE_URL": "http://127.0.0.1:1/v1", "MINDX_MODELS": "one, two,,three "}


def from_env(tmp_path, environ, text=""):
    file = tmp_path / ".env"
    file.write_text(text)
    return OpenAIProviderParam.from_env(file, environ)


def test_settings_come_from_the_environment(tmp_path):
    param = from_env(tmp_path, {**BASE, "MINDX_PLATFORM": "mine"})
    assert param.api_key.get_secret_value() == KEY
    assert param.models == ("one", "two", "three")
    assert param.origin == "environment"
    assert (param.model, param.platform, param.base_url) == ("one", "mine", "http://127.0.0.1:1/v1")


def test_the_seeds_names_work_and_ours_win(tmp_path):
    seed = {name.replace("MINDX_", "MINDAGENT_"): value for name, value in BASE.items()}
    assert from_env(tmp_path, seed).models == ("one", "two", "three")
    assert from_env(tmp_path, {**seed, "MINDX_MODELS": "ours"}).models == ("ours",)


def test_a_file_in_the_current_folder_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("MINDX_", "MINDAGENT_")):
            monkeypatch.delenv(name)
    lines = [
        'MINDAGENT_API_KEY="file key"',
        "MINDAGENT_BASE_URL='http://127.0.0.1:1/v1/'",
        "export MINDAGENT_MODELS=m # note",
    ]
    (tmp_path / ".env").write_text("\n".join(lines).replace("file key", "file-key"))
    param = OpenAIProviderParam.from_env()
    assert (param.api_key.get_secret_value(), param.base_url, param.model) == ("file-key", "http://127.0.0.1:1/v1", "m")
    assert param.origin == ".env"
    assert "MINDAGENT_API_KEY" not in os.environ


def test_the_environment_wins_over_the_file(tmp_path):
    assert from_env(tmp_path, BASE, "MINDX_MODELS=file\nMINDX_PLATFORM=file").models == ("one", "two", "three")


def test_a_folders_file_cannot_send_the_environments_key_elsewhere(tmp_path):
    environ = {"MINDX_API_KEY": KEY, "MINDX_MODELS": "m"}
    with pytest.raises(ProviderError) as caught:
        from_env(tmp_path, environ, "MINDX_BASE_URL=https://192.0.2.7/v1")
    assert caught.value.code == "provider_settings_invalid"
    assert "MINDX_BASE_URL" in caught.value.message


def test_key_and_address_of_the_file_stay_together(tmp_path):
    environ = {"MINDX_BASE_URL": "https://192.0.2.7/v1", "MINDX_MODELS": "m"}
    text = "MINDX_API_KEY=file-key\nMINDX_BASE_URL=http://127.0.0.1:1/v1"
    assert from_env(tmp_path, environ, text).base_url == "http://127.0.0.1:1/v1"


def test_a_value_is_taken_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.setenv("OTHER_SECRET", "leaked")
    text = "MINDX_API_KEY=${OTHER_SECRET}\nMINDX_BASE_URL=http://127.0.0.1:1\nMINDX_MODELS=m"
    assert from_env(tmp_path, {}, text).api_key.get_secret_value() == "${OTHER_SECRET}"


@pytest.mark.parametrize("name", ["MINDX_API_KEY", "MINDX_BASE_URL", "MINDX_MODELS"])
@pytest.mark.parametrize("value", ["", "  "])
def test_what_is_missing_is_named(tmp_path, name, value):
    with pytest.raises(ProviderError) as caught:
        from_env(tmp_path, {**BASE, name: value})
    assert name in caught.value.message
    assert caught.value.code == ("provider_key_missing" if name == "MINDX_API_KEY" else "provider_settings_invalid")
    assert caught.value.exit_code == 6


@pytest.mark.parametrize(
    "url",
    ["nonsense", "ftp://127.0.0.1/v1", "http://", "https://user:pass@192.0.2.1/v1", "https://192.0.2.1/v1?key=1",
     "https://192.0.2.1/v1#x", "http://[::1/v1", "http://127.0.0.1:99999/v1", "https://192.0.2.1/a b",
     "http://models.example.org/v1", "http://8.8.8.8/v1"],
)  # fmt: skip
def test_a_wrong_base_url_is_refused(tmp_path, url):
    with pytest.raises(ProviderError) as caught:
        from_env(tmp_path, {**BASE, "MINDX_BASE_URL": url})
    assert "MINDX_BASE_URL" in caught.value.message
    assert "pass" not in caught.value.message.replace("user name or password", "")


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8000/v1",
        "http://10.1.2.3/v1",
        "http://models:80/v1",
        "http://[::1]:1/v1",
        "https://models.example.org/v1",
    ],
)
def test_near_endpoints_need_no_tls(tmp_path, url):
    assert from_env(tmp_path, {**BASE, "MINDX_BASE_URL": url}).base_url == url


@pytest.mark.parametrize("make", ["missing", "folder", "fifo", "large", "binary"])
def test_a_file_that_was_named_and_cannot_be_read_is_an_error(tmp_path, make):
    file = tmp_path / "env"
    if make == "folder":
        file.mkdir()
    elif make == "fifo":
        os.mkfifo(file)
    elif make == "large":
        file.write_bytes(b"A=1\n" * MAX_ENV_FILE_BYTES)
    elif make == "binary":
        file.write_bytes(b"MINDX_API_KEY=\xff\xfe")
    with pytest.raises(ProviderError) as caught:
        OpenAIProviderParam.from_env(file, BASE)
    assert caught.value.code == "provider_settings_invalid"


def test_the_key_is_never_shown(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    param = from_env(tmp_path, BASE)
    shown = [repr(param), str(param), repr(param.model_dump()), param.model_dump_json(), f"{param.api_key}"]
    for key in (f"{KEY} with blanks", f"{KEY}\x00", f"\u00e9{KEY}"):
        with pytest.raises(ValidationError) as direct:
            OpenAIProviderParam(api_key=key, base_url="http://127.0.0.1:1", models=("m",))
        with pytest.raises(ProviderError) as wrapped:
            from_env(tmp_path, {**BASE, "MINDX_API_KEY": key})
        assert wrapped.value.__context__ is None
        shown += [str(direct.value), repr(direct.value), wrapped.value.message]
        shown += traceback.format_exception(wrapped.value)
    assert KEY not in "".join([*shown, caplog.text])


def test_a_param_cannot_be_changed_and_knows_its_fields():
    param = OpenAIProviderParam(api_key=KEY, base_url="http://127.0.0.1:1", models=["m"])
    with pytest.raises(ValidationError):
        param.base_url = "http://127.0.0.1:2"
    with pytest.raises(ValidationError):
        OpenAIProviderParam(api_key=KEY, base_url="http://127.0.0.1:1", models=["m"], unknown=1)
