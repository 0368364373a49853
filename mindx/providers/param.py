"""The settings of an OpenAI-compatible endpoint, from the environment and a `.env` file."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from dotenv import dotenv_values
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from typing_extensions import Self

from mindx.core.endpoint import endpoint_url
from mindx.core.quote import quoted
from mindx.providers.base import ProviderCapabilities
from mindx.providers.failures import provider_error

PREFIXES = ("MINDX_", "MINDAGENT_")  # the first wins
MAX_ENV_FILE_BYTES = 64 * 1024
_NAMES = ("API_KEY", "BASE_URL", "MODELS", "PLATFORM")

Api = Literal["auto", "chat_completions", "responses"]


class OpenAIProviderParam(BaseModel):
    """Settings of one endpoint; `models[0]` is the default, `platform` a name for messages and records.

    `timeout_s` bounds one attempt (of a stream: each wait for its next piece), `deadline_s` all attempts and the waits
    between them, `max_attempts` their number. `origin` says where key and base URL came from. Raises
    ProviderError (provider_key_missing, provider_settings_invalid) from `from_env`, and pydantic's ValidationError,
    which shows no key, from its own constructor.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    api_key: SecretStr
    base_url: str
    models: tuple[str, ...]
    platform: str = "openai-compatible"
    api: Api = "auto"
    timeout_s: float = Field(default=60.0, gt=0)
    deadline_s: float = Field(default=300.0, gt=0)
    max_attempts: int = Field(default=4, ge=1, le=20)
    capabilities: ProviderCapabilities = ProviderCapabilities()
    origin: str = ""

    @property
    def model(self) -> str:
        """The model that is used when a request names none."""
        return self.models[0]

    @field_validator("api_key")
    @classmethod
    def _check_key(cls, key: SecretStr) -> SecretStr:
        text = key.get_secret_value()
        if not text.strip():
            raise ValueError("the API key is empty")
        if not text.isascii() or not text.isprintable() or " " in text:
            raise ValueError("the API key has characters that no HTTP header carries")
        return key

    @field_validator("base_url")
    @classmethod
    def _check_base_url(cls, url: str) -> str:
        return endpoint_url(url, "the base URL")

    @field_validator("models", mode="before")
    @classmethod
    def _check_models(cls, models: object) -> object:
        if isinstance(models, str):
            models = [name.strip() for name in models.split(",") if name.strip()]
        if not models:
            raise ValueError("no model is named")
        return tuple(models) if isinstance(models, (list, tuple)) else models

    @classmethod
    def from_env(cls, env_file: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None) -> Self:
        """Return the settings of the environment, completed by a `.env` file (None: the one in the current folder).

        The names are MINDX_API_KEY, MINDX_BASE_URL, MINDX_MODELS (a list with commas) and MINDX_PLATFORM, or the same
        with MINDAGENT_. Key and base URL are taken from one place: a folder's `.env` cannot send the environment's key
        elsewhere. Raises ProviderError.
        """
        outside = _named(os.environ if environ is None else environ)
        inside = _named(_env_file(env_file))
        if "API_KEY" in outside:
            inside.pop("BASE_URL", None)
        elif "API_KEY" in inside and "BASE_URL" in inside:
            outside.pop("BASE_URL", None)
        found = {**inside, **outside}
        if not found.get("API_KEY", "").strip():
            raise provider_error("provider_key_missing")
        for name in ("BASE_URL", "MODELS"):
            if not found.get(name, "").strip():
                where = " (in the environment, where the key is)" if name == "BASE_URL" and "API_KEY" in outside else ""
                raise provider_error("provider_settings_invalid", f"set MINDX_{name}{where}")
        given = {"api_key": found["API_KEY"], "base_url": found["BASE_URL"], "models": found["MODELS"]}
        given["origin"] = "environment" if "API_KEY" in outside else str(env_file or ".env")
        if found.get("PLATFORM", "").strip():
            given["platform"] = found["PLATFORM"].strip()
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            problem = f"MINDX_{str(first['loc'][0]).upper()}: {first['msg'].removeprefix('Value error, ')}"
        raise provider_error("provider_settings_invalid", problem)


def _named(source: Mapping[str, str | None]) -> dict[str, str]:
    """Return the settings by their bare names; of one name, the first prefix that is there counts."""
    found: dict[str, str] = {}
    for name in _NAMES:
        for prefix in PREFIXES:
            value = source.get(prefix + name)
            if value:
                found[name] = value
                break
    return found


def _env_file(path: str | os.PathLike[str] | None) -> Mapping[str, str | None]:
    file = Path(".env") if path is None else Path(path)
    try:
        if not file.is_file():  # a pipe would block
            if path is None:
                return {}
            raise FileNotFoundError
        with file.open("rb") as stream:
            data = stream.read(MAX_ENV_FILE_BYTES + 1)
        if len(data) > MAX_ENV_FILE_BYTES:
            raise ValueError("too large")
        text = data.decode("utf-8")
    except (OSError, ValueError) as error:
        problem = f"{quoted(str(file))} cannot be read ({type(error).__name__})"
    else:
        # Values are taken as they stand: `${NAME}` would put other secrets of the environment into them.
        return dotenv_values(stream=io.StringIO(text), interpolate=False)
    raise provider_error("provider_settings_invalid", problem)
