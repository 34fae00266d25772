"""The harness that plays a seat of an environment in this process: a chat with the environment's tools.

The package's own harnesses are programs that are installed and started in a runtime for each rollout; this one is the
same loop as a coroutine. Every model call goes through the environment's interception, which writes its trace.
"""

from __future__ import annotations

import contextlib
import json
import sys
from types import ModuleType, new_class
from typing import Any

from noria.bases.package import Package
from noria.core.errors import boundary

#: The name under which the environment finds the harness; a plug-in is a module with one class in `__all__`.
HARNESS = "noria_chat_harness"


def register(package: Package) -> None:
    """Let environments find the harness, once."""
    if HARNESS in sys.modules:
        return
    base: Any = package.module("v1.harness").Harness
    config: Any = package.module("v1.configs.harness").HarnessConfig
    result: Any = package.module("v1.runtimes").ProgramResult
    tools: Any = package.module("v1.harnesses.utils.mcp")
    wire: Any = package.module("v1.dialects.chat").message_to_wire
    httpx: Any = package.sibling("httpx")

    async def launch(
        self: Any, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, mcp_urls: dict[str, str], data: Any
    ) -> Any:
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [wire(message) for message in prompt or ()]
        servers = {name: {"url": url, "timeout": self.config.tool_timeout} for name, url in mcp_urls.items()}
        async with contextlib.AsyncExitStack() as stack:
            schemas, dispatch, connected = await tools.connect_mcp({"mcpServers": servers}, stack)
            client = await stack.enter_async_context(httpx.AsyncClient(timeout=None, trust_env=False))
            while True:
                asked = {"model": ctx.model, "messages": messages} | ({"tools": schemas} if schemas else {})
                answer = await client.post(
                    f"{endpoint}/chat/completions", json=asked, headers={"Authorization": f"Bearer {secret}"}
                )
                if answer.status_code != 200:
                    return result(1, "", answer.text[-2000:])
                said = answer.json()["choices"][0]["message"]
                messages.append(said)
                if not said.get("tool_calls"):
                    return result(0, "", "")
                for call in said["tool_calls"]:
                    text = await _called(tools, connected, dispatch, call["function"])
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})

    flags = {
        "APPENDS_SYSTEM_PROMPT": True, "SUPPORTS_MCP": True, "SUPPORTS_RESUME": True, "EXECUTES_CODE": False,
        "NEEDS_CONTAINER": False, "launch": launch, "__module__": HARNESS,
    }  # fmt: skip
    made = ModuleType(HARNESS)
    vars(made)["ChatHarness"] = new_class("ChatHarness", (base[config],), {}, lambda space: space.update(flags))
    vars(made)["__all__"] = ["ChatHarness"]
    sys.modules[HARNESS] = made


async def _called(tools: Any, connected: Any, dispatch: Any, function: dict[str, str]) -> Any:
    """What a tool says; a name that there is not and arguments that are no object are errors for the model."""
    arguments = boundary(lambda: json.loads(function["arguments"] or "{}"), lambda fault: None)
    if function["name"] not in dispatch or not isinstance(arguments, dict):
        return f"error: no tool {function['name']!r} with such arguments"
    return await tools.call_mcp(connected, dispatch, function["name"], arguments)
