"""A small OpenEnv server on loopback: a number is to be guessed; what it does wrong is chosen by its fields."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

SIZE = 16
MOST_GUESSES = 6
ACTION = {
    "type": "object",
    "description": "One guess.\nThe second line is not shown.",
    "properties": {
        "number": {"type": "integer", "description": "the guess", "minimum": 0},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "metadata": {"type": "object"},
    },
    "required": ["number"],
}


def secret_of(seed: int) -> tuple[int, int]:
    """Where the range begins, and the number."""
    rng = random.Random(seed)
    low = rng.randrange(1000)
    return low, low + rng.randrange(SIZE)


class Guess:
    """One environment."""

    def __init__(self) -> None:
        self.low, self.secret, self.guesses = 0, 0, 0

    def reset(self, seed: int) -> dict[str, Any]:
        self.low, self.secret = secret_of(seed)
        self.guesses = 0
        text = f"A number from {self.low} to {self.low + SIZE - 1}."
        return {"observation": {"message": text}, "reward": None, "done": False}

    def step(self, number: int) -> dict[str, Any]:
        self.guesses += 1
        right = number == self.secret
        text = "right" if right else "higher" if number < self.secret else "lower"
        done = right or self.guesses == MOST_GUESSES
        return {"observation": {"message": text, "metadata": {"x": 1}}, "reward": float(right), "done": done}


class GuessServer:
    """The server, while the context is open.

    room       sessions at once at most
    tools      whether actions are calls of tools that it lists
    fault      what a step with the number -1 does: "raise", "drop", "sleep", "nan"
    unseeded   whether resets heed no seed
    """

    def __init__(self, room: int = 64, tools: bool = False, fault: str = "", unseeded: bool = False) -> None:
        self.room, self.tools, self.fault, self.unseeded = room, tools, fault, unseeded
        self.sessions = self.most_sessions = self.resets = self.refused = 0
        self.shared = Guess()
        routes = [
            Route("/schema", self.schema),
            Route("/metadata", lambda r: JSONResponse({"name": "guess", "description": "Guess the number."})),
            Route("/reset", self.reset, methods=["POST"]),
            Route("/step", self.step, methods=["POST"]),
            WebSocketRoute("/ws", self.talk),
        ]
        listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        config = uvicorn.Config(Starlette(routes=routes), log_level="critical", lifespan="off", ws="websockets-sansio")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([listening],), daemon=True)

    def schema(self, request: Request) -> JSONResponse:
        tools = {"properties": {"tool_name": {"type": "string"}, "arguments": {"type": "object"}}}
        return JSONResponse({"action": tools if self.tools else ACTION, "observation": {}, "state": {}})

    async def reset(self, request: Request) -> JSONResponse:
        return JSONResponse(self._reset(self.shared, (await request.json()).get("seed", 0)))

    async def step(self, request: Request) -> JSONResponse:
        action = (await request.json())["action"]
        if action.get("number", 0) > 9999:
            return JSONResponse({"detail": "too large"}, 422)
        return JSONResponse(self.shared.step(action["number"]))

    def _reset(self, guess: Guess, seed: int) -> dict[str, Any]:
        self.resets += 1
        return guess.reset(self.resets if self.unseeded else seed)

    async def talk(self, ws: WebSocket) -> None:
        await ws.accept()
        if self.sessions >= self.room:
            self.refused += 1
            await ws.send_json({"type": "error", "data": {"code": "CAPACITY_REACHED", "message": "full"}})
            await ws.close()
            return
        self.sessions += 1
        self.most_sessions = max(self.sessions, self.most_sessions)
        guess = Guess()
        try:
            while (message := await ws.receive_json())["type"] != "close":
                await ws.send_json(await self._answer(guess, message))
            await ws.close()
        except (WebSocketDisconnect, ConnectionError):
            pass
        finally:
            self.sessions -= 1

    async def _answer(self, guess: Guess, message: dict[str, Any]) -> dict[str, Any]:
        if message["type"] == "reset":
            return {"type": "observation", "data": self._reset(guess, message["data"]["seed"])}
        data = message["data"]
        if data.get("type") == "list_tools":
            listed = [{"name": "guess", "description": "Guess.", "input_schema": ACTION}]
            return {"type": "observation", "data": {"observation": {"tools": listed}, "reward": None, "done": False}}
        if data.get("type") == "call_tool":
            data = data["arguments"]
        if data["number"] == -1 and self.fault:
            return await self._fail()
        if data["number"] > 9999:
            return {"type": "error", "data": {"code": "VALIDATION_ERROR", "message": "too large", "errors": []}}
        return {"type": "observation", "data": guess.step(data["number"])}

    async def _fail(self) -> dict[str, Any]:
        if self.fault == "drop":
            raise ConnectionError
        if self.fault == "sleep":
            await asyncio.sleep(0.8)
        if self.fault == "nan":
            return {"type": "observation", "data": {"observation": {}, "reward": "much", "done": False}}
        return {"type": "error", "data": {"code": "EXECUTION_ERROR", "message": "it broke"}}

    def __enter__(self) -> GuessServer:
        self.thread.start()
        for _ in range(500):
            if self.server.started:
                return self
            time.sleep(0.01)
        raise RuntimeError("the server did not start")

    def __exit__(self, *fault: object) -> None:
        self.server.should_exit = True
        self.thread.join(10)
