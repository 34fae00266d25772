"""`noria tasks make WORLD`: worlds whose module has `make` generate, build and prove their domains."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol, cast

from pydantic import ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from noria.cli_bar import bars
from noria.cli_worlds import LazySandbox
from noria.core import registry
from noria.core.disk import roomy
from noria.core.errors import UserError
from noria.core.protocols import Sandbox
from noria.core.recipe_tables import SandboxTable
from noria.core.remote import ServerConfig
from noria.core.types import Message


class Maker(Protocol):
    """What a world's module binds to `make`: fills a folder, goes on with what is there, returns a report."""

    def __call__(
        self, out: Path, count: int, seed: int, sandbox: Sandbox, advance: Callable[[int], None],
        server: ServerConfig | None,
    ) -> dict[str, Any]: ...  # fmt: skip


def server_of(propose: str | None, model: str | None, key_env: str | None) -> ServerConfig | None:
    """The server that proposes domains, if one is named. Raises UserError where something is missing or wrong."""
    if propose is None:
        if model is not None or key_env is not None:
            raise UserError("--model and --api-key-env must go with --propose: got no address - add --propose URL")
        return None
    if model is None:
        raise UserError("--model must name the model of --propose: got none - add --model NAME")
    key = {} if key_env is None else {"api_key_env": key_env}
    try:
        return ServerConfig.model_validate({"base_url": propose, "model": model, **key})
    except ValidationError as fault:
        raise UserError(f"--propose {fault.errors()[0]['msg'].removeprefix('Value error, ')}") from fault


def asking(stack: ExitStack, server: ServerConfig, **more: Any) -> tuple[Callable[[Sequence[Message]], str], int]:
    """What asks the model of a server, as long as `stack` is open, and how many questions at once.

    `more`: options of the engine `openai`.
    """
    module: Any = registry.resolve("engines", "openai")
    config = module.Config(**{**server.model_dump(), **more})
    client = module.build(config)
    stack.callback(client.close)

    def ask(messages: Sequence[Message]) -> str:
        return str(client.complete(messages, config.max_output_tokens, config.temperature))

    return ask, int(config.concurrency)


def make_domains(
    world: str, out: Path, count: int, seed: int, sandbox: str, as_json: bool, server: ServerConfig | None = None
) -> None:
    """Run a world's factory with a progress bar and print its report. A server's model proposes the domains.

    Raises:
        UserError: the world has no factory.
        EngineError: the server did not answer.
    """
    module = registry.resolve("envs", world)
    maker = cast(Maker | None, vars(module).get("make"))
    if maker is None:
        raise UserError(
            f"WORLD must be one that makes domains, as tooluse: got {world!r}, whose module has no `make` - "
            f"for tasks of a world use `noria tasks make --env {world} --n N --out FILE`"
        )
    lazy = LazySandbox(SandboxTable(type=sandbox))
    try:
        with roomy(out.parent, "call the command again: it goes on"), bars(as_json) as shown:
            report = maker(out, count, seed, lazy, shown.row(world, count), server)
    finally:
        lazy.close()
    if as_json:
        print(json.dumps(report, indent=1))
    else:
        _print(report, out, Console())


def _print(report: Mapping[str, Any], out: Path, console: Console) -> None:
    """Figures one to a line; a table of counts below its name."""
    table = Table("figure", "value")
    for name, value in report.items():
        if isinstance(value, Mapping):
            table.add_row(Text(name.replace("_", " "), "bold"), "")
            for key, count in value.items():
                table.add_row(Text(f"  {key}"), str(count))
        else:
            table.add_row(
                name.replace("_", " "), " to ".join(map(str, value)) if isinstance(value, list) else str(value)
            )
    console.print(table)
    console.print(Text(str(out)))
