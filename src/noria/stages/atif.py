"""Trajectories as ATIF documents (Agent Trajectory Interchange Format, v1.8 of Harbor), out and in.

The steps say what other tools read: words, reasoning, tool calls, observations, token ids and log-probabilities. What
ATIF has no field for (masks, versions, sources, the task's own data) stands in `extra.noria`, so a document of ours
comes back as it was. A document whose steps somebody changed, or wrote, comes back as a conversation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noria import __version__
from noria.core.codec import from_json, to_json
from noria.core.errors import PolicyError
from noria.core.types import Trajectory, Turn
from noria.tokens.calls import parse
from noria.tokens.renderer import tool_schema

VERSION = "ATIF-v1.8"
MAJOR = "ATIF-v1."
#: Where an ATIF document keeps what is ours alone.
OURS = "noria"
_ROLES = {"system": "system", "user": "user", "agent": "assistant"}


def document(trajectory: Trajectory) -> dict[str, Any]:
    """A trajectory as an ATIF document: plain JSON."""
    record, outcome = trajectory.record, trajectory.outcome
    sampled = sum(turn.token_end - turn.token_start for turn in trajectory.turns)
    return {
        "schema_version": VERSION,
        "session_id": trajectory.id,
        "trajectory_id": trajectory.id,
        "agent": {
            "name": "noria",
            "version": __version__,
            "model_name": trajectory.source,
            "tool_definitions": [tool_schema(tool) for tool in trajectory.task.tools],
            **({"extra": {"scaffold": trajectory.scaffold}} if trajectory.scaffold else {}),
        },
        "steps": steps(trajectory),
        "final_metrics": {
            "total_prompt_tokens": len(record) - sampled,
            "total_completion_tokens": sampled,
            "total_steps": len(trajectory.turns),
            "extra": {"reward": outcome.reward, "reason": outcome.reason, "stop": trajectory.stop},
        },
        "extra": {OURS: to_json(trajectory)},
    }


def steps(trajectory: Trajectory) -> list[dict[str, Any]]:
    """The steps of a trajectory: the prompt's messages, and one for each turn with its observation."""
    task = trajectory.task
    asked = f"{task.prompt}\nHint: {trajectory.hint}" if trajectory.hint else task.prompt
    out: list[dict[str, Any]] = []
    for source, text in (("system", task.system), ("user", asked)):
        if text:
            out.append({"step_id": len(out) + 1, "source": source, "message": text})
    for turn in trajectory.turns:
        out.append({"step_id": len(out) + 1, **_said(trajectory, turn, len(out) + 1)})
    return out


def of_noria(found: Mapping[str, Any]) -> Trajectory | None:
    """The trajectory that `document` made this of; None where it is not ours, or its steps were changed."""
    extra = found.get("extra")
    ours = extra.get(OURS) if isinstance(extra, Mapping) else None
    if ours is None:
        return None
    try:
        trajectory = from_json(Trajectory, ours)
    except (ValueError, TypeError, KeyError):
        return None
    return trajectory if steps(trajectory) == found.get("steps") else None


def conversation(found: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[Any] | None, list[bool]]:
    """Messages in the form of the OpenAI API, tools, and which messages carry loss: what the agent said anew.

    Raises:
        ValueError: the document is of another version, or holds something that is no text.
    """
    version, listed = found.get("schema_version"), found.get("steps")
    if not isinstance(version, str) or not version.startswith(MAJOR):
        raise ValueError(f"schema_version must be {MAJOR}x: got {version!r}")
    if not isinstance(listed, list) or not listed:
        raise ValueError("steps must be a list with something in it")
    messages: list[dict[str, Any]] = []
    trained: list[bool] = []
    for number, step in enumerate(listed, 1):
        if not isinstance(step, Mapping) or step.get("source") not in _ROLES:
            raise ValueError(f"step {number} must have a source of {', '.join(_ROLES)}")
        messages.append(_message(step, number))
        told = step["source"] == "agent" and not step.get("is_copied_context") and step.get("llm_call_count") != 0
        trained.append(told)
        seen = _seen(step.get("observation"), number)
        if seen is not None:
            messages.append({"role": "tool", "content": seen})
            trained.append(False)
    agent = found.get("agent")
    return messages, agent.get("tool_definitions") if isinstance(agent, Mapping) else None, trained


def _said(trajectory: Trajectory, turn: Turn, number: int) -> dict[str, Any]:
    """One turn without its number. A message that cannot be parsed stands as it is."""
    step: dict[str, Any] = {"source": "agent", "model_name": trajectory.source}
    try:
        parsed = parse(turn.message)
        step["message"] = parsed.answer
        if parsed.think:
            step["reasoning_content"] = parsed.think
        calls = parsed.calls
    except PolicyError:
        step["message"], calls = turn.message, ()
    names = [f"call_{number}_{k}" for k in range(1, len(calls) + 1)]
    if calls:
        step["tool_calls"] = [
            {"tool_call_id": name, "function_name": call.name, "arguments": call.args}
            for name, call in zip(names, calls, strict=True)
        ]
    if turn.observation:
        # One observation answers all calls of a turn, so it is of a call only where there is one.
        whose = {"source_call_id": names[0]} if len(names) == 1 else {}
        step["observation"] = {"results": [{**whose, "content": turn.observation}]}
    record, span = trajectory.record, slice(turn.token_start, turn.token_end)
    if record.ids[span]:
        metrics: dict[str, Any] = {
            "prompt_tokens": turn.token_start,
            "completion_tokens": turn.token_end - turn.token_start,
            "completion_token_ids": list(record.ids[span]),
        }
        if all(version >= 0 for version in record.versions[span]):
            metrics["logprobs"] = list(record.logp_mu[span])
        step["metrics"] = metrics
    return step


def _message(step: Mapping[str, Any], number: int) -> dict[str, Any]:
    text = _text(step.get("message"), number)
    thought = _text(step.get("reasoning_content"), number)
    message: dict[str, Any] = {"role": _ROLES[step["source"]], "content": text}
    if step["source"] != "agent":
        return message
    if thought:
        message["content"] = f"<think>\n{thought}\n</think>\n\n{text}"
    calls = step.get("tool_calls") or []
    if not isinstance(calls, list) or not all(isinstance(call, Mapping) for call in calls):
        raise ValueError(f"step {number} must have tool_calls that are a list of objects")
    message["tool_calls"] = [{"name": call.get("function_name"), "arguments": call.get("arguments")} for call in calls]
    return message


def _seen(observation: Any, number: int) -> str | None:
    """What the agent was shown after a step, None for nothing."""
    if observation is None:
        return None
    results = observation.get("results") if isinstance(observation, Mapping) else None
    if not isinstance(results, list) or not all(isinstance(result, Mapping) for result in results):
        raise ValueError(f"step {number} must have an observation with a list of results")
    return "\n".join(_text(result.get("content"), number) for result in results)


def _text(value: Any, number: int) -> str:
    """A text, or the texts of content parts."""
    if value is None or isinstance(value, str):
        return value or ""
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, Mapping) and isinstance(part.get("text"), str) for part in parts):
        raise ValueError(f"step {number} must hold text alone: images are not read")
    return "".join(part["text"] for part in parts)
