"""What a server must show before anything is trained with its tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noria.core.errors import UserError
from noria.engines import _asking as asking
from noria.engines._asking import Fault, Line
from noria.engines._dialects import Dialect

if TYPE_CHECKING:
    from noria.engines.served import Config

#: How long the first contact waits for a server that is on its way up, in s.
START_S = 30.0
#: Alternatives that tell whether log-probabilities are tempered, and by how much they may be off, in nats.
TOP, TEMPERED = 5, 0.05


async def check(line: Line, config: Config, dialect: Dialect, probe: Sequence[int], folder: Path) -> None:
    """Refuse a server that cannot serve the policy of a checkpoint `folder`; `probe` holds ids to go on with.

    Raises:
        UserError: nobody is there, the model is not, takes shorter sequences only, or is answered for without ids and
            log-probabilities at the sampling temperature.
    """
    try:
        cards = await asking.patiently(partial(line.get, "models"), START_S, config.max_retries)
    except Fault as fault:
        raise UserError(
            f"student.engine.base_url must be a server that answers: {fault} - start it, as `noria serve {folder} "
            f"--updates {config.weights}`"
        ) from fault
    _check_card(config, cards)
    try:
        tempered = partial(_check_tempered, line, config.model, dialect, probe)
        await asking.patiently(tempered, START_S, config.max_retries)
    except Fault as fault:
        raise UserError(
            f"student.engine.base_url must be a server that returns ids and log-probabilities: {fault} - serve the "
            "model with `noria serve` or vLLM"
        ) from fault


def _check_card(config: Config, answer: Mapping[str, Any]) -> None:
    cards = answer.get("data")
    listed = {str(card["id"]): card for card in cards or [] if isinstance(card, dict) and "id" in card}
    if config.model not in listed:
        raise UserError(
            f"student.engine.model must be one that {config.base_url} serves: got {config.model!r}, expected one of "
            f"{', '.join(sorted(listed))} - set model"
        )
    most = listed[config.model].get("max_model_len")
    if isinstance(most, int) and most < config.max_tokens:
        raise UserError(
            f"student.engine.max_tokens must not exceed what {config.base_url} takes: got {config.max_tokens} and "
            f"{most} - lower it, or serve the model with --max-model-len {config.max_tokens}"
        )


async def _check_tempered(line: Line, model: str, dialect: Dialect, probe: Sequence[int]) -> None:
    """Log-probabilities must be those at the sampling temperature: at 2, their differences are half those at 1."""
    found = []
    for heat in (1.0, 2.0):
        body = {
            "model": model, "prompt": list(probe), "max_tokens": 1, "temperature": heat, "top_p": 1.0, "logprobs": TOP,
            "return_token_ids": True, **dialect.options(1, len(probe)),
        }  # fmt: skip
        choice = asking.choice_of(await line.post("completions", body))
        asking.read_sampled(choice, 1)
        found.append(asking.read_likeliest(choice))
    plain, hot = found
    names = sorted(plain.keys() & hot.keys(), key=lambda name: -plain[name])
    if len(names) < 2:
        raise Fault(f"of the {TOP} likeliest tokens at two temperatures {len(names)} are the same")
    first = names[0]
    gap = max(abs((plain[name] - plain[first]) - 2 * (hot[name] - hot[first])) for name in names)
    if gap > TEMPERED:
        raise UserError(
            "student.engine.base_url must be a server whose log-probabilities are those at the sampling temperature: "
            f"at 2 they are not those at 1 halved (off by {gap:.3g} nats) - start vLLM with --logprobs-mode "
            "processed_logprobs; `noria serve` gives such"
        )
