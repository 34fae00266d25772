"""`noria sandbox serve`: the house's sandboxes over the protocol of E2B."""

from __future__ import annotations

import json
import os
import secrets
from importlib import import_module
from types import ModuleType
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from noria.core.errors import UserError
from noria.core.recipe_tables import SandboxTable

app = typer.Typer(no_args_is_help=True, help="Sandboxes for others.")


@app.callback()
def options() -> None:
    """Sandboxes for others."""


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 49982,
    api_key_env: Annotated[
        str | None,
        typer.Option(help="Environment variable with the key that clients must send; without it one is made up."),
    ] = None,
    most: Annotated[int, typer.Option("--max", min=1, max=10_000, help="Sandboxes at the same time.")] = 32,
    memory_mb: Annotated[int, typer.Option(min=64, help="Of each sandbox, files included.")] = 512,
    disk_mb: Annotated[int, typer.Option(min=1, help="Of its home, and of /tmp.")] = 64,
    pids: Annotated[int, typer.Option(min=4, help="Processes of each sandbox.")] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="Print address and key as one JSON line.")] = False,
) -> None:
    """Serve sandboxes to the `e2b` SDK. Every sandbox ends at its time, and with the server; Ctrl-C stops.

    Example: noria sandbox serve --port 49982
    """
    key = os.environ.get(api_key_env, "") if api_key_env else secrets.token_hex(20)
    if not key or not key.isascii():
        raise UserError(
            f"--api-key-env must name a variable with a key of ASCII: got {api_key_env!r}, which holds none - set it"
        )
    run, address, session = map(_import, ("noria.server.e2b.run", "noria.server.run", "noria.sandboxes.session"))
    fault = import_module("noria.sandboxes.bwrap").probe(SandboxTable(type="bwrap").config())
    if fault:
        raise UserError(f"sandbox serve must have bubblewrap: {fault}")
    server = run.make_server(session.Limits(memory_mb, pids, disk_mb), most, key)
    listener = address.Address(host, port).bind()
    url = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
    if as_json:
        print(json.dumps({"url": url, "api_key": key}), flush=True)
    else:
        lines = [f"E2B_API_URL={url}", f"E2B_SANDBOX_URL={url}", "E2B_HTTP_VERSION=1.1"]
        lines += [f"E2B_API_KEY={key}"] if api_key_env is None else []
        Console().print(Text("\n".join(["serving; clients need", *lines])), soft_wrap=True)
    run.serve(server, listener)


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as fault:
        if (fault.name or "").partition(".")[0] == "noria":
            raise
        raise UserError(
            f"noria sandbox serve needs the package {fault.name!r}, which is missing - pip install 'noria[serve]'"
        ) from fault
