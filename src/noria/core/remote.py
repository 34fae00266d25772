"""Servers that speak the OpenAI API: their address, the key for them, and a client that no proxy leads astray."""

from __future__ import annotations

import importlib.util
import ipaddress
import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from noria.core.config import Checked
from noria.core.errors import UserError

if TYPE_CHECKING:
    import httpx2
    import openai

#: Status codes after which the same request may succeed, besides those of 500 and more.
PASSING = (408, 409, 425, 429)


class ServerConfig(Checked):
    """Where a server is and what it is asked for."""

    base_url: str = Field(description="address of the server up to and with /v1")
    model: str = Field(min_length=1, description="name of the model, as the server lists it")
    api_key_env: str = Field(
        "OPENAI_API_KEY",
        min_length=1,
        description="environment variable that holds the key; a server on this machine needs none",
    )
    timeout_s: float = Field(60.0, gt=0, description="longest silence of the server during one request")

    @field_validator("base_url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            sound = False
        if not sound:
            raise ValueError(f"must be an http address: got {url!r}, expected one as http://127.0.0.1:8000/v1")
        if parts.username or parts.password or parts.query:
            raise ValueError("must hold no user, password or query: recipes are saved - put the key into api_key_env")
        return url


def is_loopback(url: str) -> bool:
    """Whether the address is this machine."""
    return is_this_machine(urlsplit(url).hostname or "")


def is_this_machine(host: str) -> bool:
    """Whether the host can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_key(config: ServerConfig) -> str:
    """The key, "" where the server needs none; looks at the environment alone.

    Raises:
        UserError: the variable that should hold it is not set.
    """
    key = os.environ.get(config.api_key_env, "").strip()
    if not key and not is_loopback(config.base_url):
        raise UserError(
            f"api_key_env must name a variable that holds the key: {config.api_key_env} is not set - run "
            f"`export {config.api_key_env}=…`, or name another variable"
        )
    return key


def connect(config: ServerConfig, key: str, max_retries: int) -> openai.OpenAI:
    """A client; sends nothing yet. `max_retries` further requests are its own, after timeouts and busy servers.

    Raises:
        UserError: the package `openai` is missing.
    """
    try:
        import openai
    except ModuleNotFoundError as fault:
        raise UserError(
            f'base_url needs the package {fault.name!r}, which is missing - run `pip install "noria[openai]"`'
        ) from fault
    # A proxy of the environment must not stand between this process and a server beside it.
    http = openai.DefaultHttpxClient(trust_env=False) if is_loopback(config.base_url) else None
    return openai.OpenAI(
        api_key=key or "none", base_url=config.base_url, timeout=config.timeout_s, max_retries=max_retries,
        http_client=http,
    )  # fmt: skip


class Missing(UserError):
    """The server has no such path, or no such model."""


def passes(status: int) -> bool:
    """Whether the same request may succeed after an answer of this status."""
    return status in PASSING or status >= 500


def refusal(
    config: ServerConfig, key: str, where: str, status: int, text: str, must: str, fix: str, table: str = ""
) -> UserError:
    """What to do about an answer that no repetition changes.

    Args:
        where: the address that was asked.
        status: no passing one.
        text: what the server said; the key in it is not shown.
        must, fix: what the server must be and what to do where neither the key nor a name is at fault.
        table: the recipe's, with a dot at its end, for who says only the field otherwise.
    """
    told = (text.replace(key, "***") if key else text)[:300]
    if status in (401, 403):
        return UserError(
            f"{table}api_key_env must name a variable with a valid key: {where} refused that of {config.api_key_env} - "
            f"set {config.api_key_env}, or name another variable"
        )
    if status == 404:
        return Missing(
            f"{table}base_url and model must exist: {where} answers 404 to model {config.model!r} ({told}) - compare "
            f"with the list at {config.base_url.rstrip('/')}/models"
        )
    return UserError(f"{table}base_url must be {must}: {where} says {status}, {told!r} - {fix}")


def check_installed() -> None:
    """Raises UserError where the package `httpx2`, a part of `openai`, is missing."""
    if importlib.util.find_spec("httpx2") is None:
        raise UserError("base_url needs the package 'httpx2', which is missing - run `pip install \"noria[openai]\"`")


def connect_many(config: ServerConfig, key: str, at_once: int) -> httpx2.AsyncClient:
    """A client for many requests at the same time, which belongs to one event loop; sends nothing yet.

    Raises:
        UserError: the package `httpx2`, a part of `openai`, is missing.
    """
    check_installed()
    import httpx2

    return httpx2.AsyncClient(
        headers={"authorization": f"Bearer {key}"} if key else {},
        timeout=httpx2.Timeout(config.timeout_s, pool=None),
        limits=httpx2.Limits(max_connections=at_once, max_keepalive_connections=at_once),
        trust_env=not is_loopback(config.base_url),
    )


def after_s(headers: Mapping[str, str]) -> float | None:
    """How long the server wishes to be left alone; None where it says nothing that can be read as seconds."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            wait = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if 0 <= wait < math.inf:
            return wait
    return None
