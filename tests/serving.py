"""A real server in a process of its own, started by the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import openai


class Served:
    """`noria serve` with these arguments while the context is open."""

    def __init__(self, *arguments: str, key: str = "") -> None:
        self.key = key
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "NORIA_TEST_KEY": key}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "noria.cli", "serve", *arguments, "--port", "0", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.communicate()[1])
        self.facts: dict[str, Any] = json.loads(line)
        self.url = str(self.facts["base_url"])

    def client(self) -> openai.OpenAI:
        """The real client, without its own repetitions."""
        http = openai.DefaultHttpxClient(trust_env=False)
        return openai.OpenAI(
            base_url=self.url, api_key=self.key or "none", max_retries=0, timeout=300, http_client=http
        )

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *fault: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.communicate(timeout=120)
        finally:
            self.process.kill()
