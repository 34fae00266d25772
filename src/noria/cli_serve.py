"""`noria serve`: an OpenAI-compatible server over a checkpoint."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from noria.core.codec import read_json
from noria.core.errors import UserError
from noria.core.lock import hold
from noria.core.remote import is_this_machine
from noria.core.store import Run
from noria.stages.models import resolve_model

#: Longest sequence where nobody says: what a cache of some slots can hold on a small machine.
USUAL_LEN = 4096
#: Prompts that are prefilled together.
PREFILL_ROWS = 8


def serve(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="builtin:tiny, a checkpoint's folder, or a run: what it promoted.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    name: Annotated[str | None, typer.Option(help="What clients call the model; MODEL as given if left out.")] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable with the key that clients must send.")
    ] = None,
    max_model_len: Annotated[
        int | None,
        typer.Option(min=16, help="Longest sequence in tokens, answer included; the model's own, up to 4096."),
    ] = None,
    slots: Annotated[int, typer.Option(min=1, help="Sequences decoded at once.")] = 16,
    queue: Annotated[int, typer.Option(min=0, help="Sequences that may wait besides; more get status 429.")] = 256,
    max_logprobs: Annotated[int, typer.Option(min=0, help="Alternatives per token at most.")] = 20,
    threads: Annotated[int, typer.Option(min=1, help="Torch threads.")] = 1,
    device: Annotated[str, typer.Option(help="Torch device: cpu, cuda or cuda:N.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="Of weights and activations: float32 or bfloat16.")] = "float32",
    drain_s: Annotated[float, typer.Option(min=0, help="How long Ctrl-C waits for what is at work.")] = 30.0,
    record: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Record calls of sessions (base_url .../sessions/NAME/v1) as trajectories."),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(min=0.01, help="With --record: sample all calls of sessions at it, whatever they ask for."),
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Sample nothing, say these messages in turn: one text as JSON on each line."),
    ] = None,
    updates: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Take new weights from checkpoints in DIR that clients name (/v1/weights)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as one JSON line.")] = False,
) -> None:
    """Serve a checkpoint to OpenAI clients: completions, chat, log-probabilities of prompts. Ctrl-C finishes and stops.

    Example: noria serve builtin:tiny --port 8000
    """
    key = _key(api_key_env, host)
    folder = find_model(model)
    length = _length(folder, max_model_len)
    if dtype not in ("float32", "bfloat16"):
        raise UserError(f"--dtype must be float32 or bfloat16: got {dtype!r} - choose one of them")
    builder, server, engine = map(_import, ("noria.server.build", "noria.server.run", "noria.engines.embedded"))
    listener = server.Address(host, port).bind()
    config = engine.Config(
        slots=slots, max_tokens=length, prefill_rows=PREFILL_ROWS, threads=threads, device=device, dtype=dtype
    )
    terms = _terms(record, temperature)
    said, taken = _script(script), _updates(updates, script)
    api = builder.build(name or model, folder, key, config, queue, max_logprobs, record, terms, said, taken)
    facts = _facts(host, listener.getsockname()[1], name or model, length, slots)
    with nullcontext() if record is None else hold(record / "lock", "--record"):
        server.serve(api, listener, drain_s, partial(_tell, facts, as_json))
    if not as_json:
        Console().print(Text("stopped"))


def _facts(host: str, port: int, model: str, length: int, slots: int) -> dict[str, Any]:
    """What is told of a server that is up."""
    shown = f"[{host}]" if ":" in host else host
    return {
        "event": "ready", "base_url": f"http://{shown}:{port}/v1", "port": port, "model": model,
        "max_model_len": length, "slots": slots,
    }  # fmt: skip


def _tell(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(facts), flush=True)
        return
    text = "serving {model} at {base_url}, {max_model_len} tokens, {slots} at once".format_map(facts)
    Console().print(Text(text), soft_wrap=True)


def _key(variable: str | None, host: str) -> str:
    """The key that clients must send. Raises UserError where there is none and others could reach the server."""
    key = read_key(variable)
    if not key and not is_this_machine(host):
        raise UserError(
            f"--host must be this machine's own loopback without a key: got {host!r}, where others could use the model "
            "- set --api-key-env, or --host 127.0.0.1"
        )
    return key


def _terms(record: Path | None, temperature: float | None) -> Any:
    """How sessions are sampled, None where nothing is recorded; the folder is made.

    Raises:
        UserError: the options do not fit together, or the folder cannot be made.
    """
    if record is None:
        if temperature is not None:
            raise UserError("--temperature must come with --record: got it alone - add --record DIR, or leave it out")
        return None
    try:
        record.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise UserError(
            f"--record must be a folder to write to: got {str(record)!r} ({fault.strerror}) - name another"
        ) from fault
    heat = 1.0 if temperature is None else temperature
    return _import("noria.server.record").Terms(temperature=heat, is_forced=temperature is not None)


def _updates(folder: Path | None, script: Path | None) -> Path | None:
    """The folder that new weights are taken from; it is made.

    Raises:
        UserError: it cannot be made, or nothing is sampled.
    """
    if folder is None:
        return None
    if script is not None:
        raise UserError("--updates must not go with --script, which samples nothing: got both - leave out one of them")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise UserError(f"--updates must be a folder: got {str(folder)!r} ({fault.strerror}) - name another") from fault
    return folder


def _script(path: Path | None) -> list[str]:
    """The messages of a script. Raises UserError where it cannot be read, or a line is no text."""
    if path is None:
        return []
    try:
        said = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as fault:
        raise UserError(f"--script must be a file of JSON lines: {str(path)!r} cannot be read ({fault})") from fault
    if not said or not all(isinstance(text, str) for text in said):
        raise UserError(f"--script must hold one text as JSON on each line: {str(path)!r} does not")
    return said


def read_key(variable: str | None) -> str:
    """The key that clients must send, "" for none.

    Raises:
        UserError: the variable is not set.
    """
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UserError(
            f"--api-key-env must name a variable that holds a key: {variable} is not set - run `export {variable}=…`"
        )
    return key


def find_model(name: str) -> Path:
    """The checkpoint that MODEL means: of a run, the last model that its gate promoted.

    Raises:
        UserError: there is no such checkpoint, or the run has promoted none.
    """
    for path in (Path(name), Path("runs") / name):
        if (path / "run.json").is_file():
            return promoted(Run.open(path))
    return resolve_model(name)


def promoted(run: Run) -> Path:
    """The last model of a run that the gate let through.

    Raises:
        UserError: there is none.
    """
    last = [key for key, phase in run.recipe().phase.items() if phase.steps > 0 and phase.split_by is None]
    folders = [path for path in run.path.glob("round-*") if path.name.removeprefix("round-").isdigit()]
    for folder in sorted(folders, key=lambda path: int(path.name.removeprefix("round-")), reverse=True):
        verdict = folder / "gate" / "verdict.json"
        if last and (read_json(verdict) or {}).get("promoted"):
            return folder / last[-1]
    raise UserError(
        f"MODEL must be a run that promoted a model: {run.path} has none yet - give a checkpoint's folder, as "
        f"{run.path}/round-1/PHASE, or wait for its gate"
    )


def _length(folder: Path, asked: int | None) -> int:
    """Tokens of the longest sequence. Raises UserError where the model's positions end before."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    most = {**config, **config.get("text_config", {})}.get("max_position_embeddings")
    if asked is not None and most is not None and asked > most:
        raise UserError(f"--max-model-len must not exceed the model's {most} positions: got {asked} - set it to {most}")
    return asked or min(USUAL_LEN, most or USUAL_LEN)


def _import(module: str) -> Any:
    """Import what needs torch or the extra `serve`."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        return import_module(module)
    except ModuleNotFoundError as fault:
        if (fault.name or "").partition(".")[0] == "noria":
            raise
        raise UserError(
            f'noria serve needs the package {fault.name!r}, which is missing - run `pip install "noria[serve]"`'
        ) from fault
