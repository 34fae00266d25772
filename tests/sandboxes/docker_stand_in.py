"""Stands in for the program `docker` where there is no daemon: the part of its command line that the sandbox speaks.

A container is a process and a file that describes it, in the folder DOCKER_STAND_IN, where every call is noted too. It
isolates nothing. Options are taken apart as Docker does, and one that is not known here is refused. With DOCKER_HOLDS
set a container does not hear that its client is gone, as where a daemon misses it.
"""

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

PLACE = Path(os.environ["DOCKER_STAND_IN"])
#: Options of `run`, without and with a value.
ALONE = {"--rm", "--interactive", "--read-only"}
VALUED = {
    "--name", "--label", "--pull", "--network", "--user", "--cap-drop", "--security-opt", "--hostname", "--memory",
    "--memory-swap", "--cpus", "--pids-limit", "--shm-size", "--runtime", "--tmpfs", "--workdir", "--env",
    "--entrypoint", "--volume",
}  # fmt: skip


def refuse(said: str, code: int = 1) -> None:
    sys.stderr.write(said + "\n")
    sys.exit(code)


def containers() -> list[Path]:
    return sorted(PLACE.glob("container-*.json"))


def run(words: list[str]) -> int:
    given: dict[str, list[str]] = {}
    while words and words[0].startswith("--"):
        name = words.pop(0)
        if name not in ALONE | VALUED:
            refuse(f"unknown flag: {name}", 125)
        given.setdefault(name, []).append("" if name in ALONE else words.pop(0))
    image, *rest, script, settings = words
    mounts = dict(reversed(each.removesuffix(":ro").split(":")) for each in given["--volume"])
    if any(not each.endswith(":ro") or not os.path.isfile(each.split(":")[0]) for each in given["--volume"]):
        refuse("docker: Error response from daemon: invalid mount config", 125)
    if given["--entrypoint"] != ["python3"] or given["--pull"] != ["never"]:
        refuse(f"docker: Error response from daemon: no entrypoint of {image}", 125)
    id_ = secrets.token_hex(32)
    root = tempfile.mkdtemp(dir=PLACE)
    settings = json.dumps(json.loads(settings) | {"root": root, "scratch": [root], "limit_address_space": True})
    argv = [sys.executable, *rest, mounts[script], settings]
    server = subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True)
    labels = dict(each.split("=", 1) for each in given.get("--label", []))
    about = PLACE / f"container-{id_}.json"
    about.write_text(json.dumps({"id": id_, "name": given["--name"][0], "labels": labels, "pid": server.pid}))
    assert server.stdin is not None
    to = server.stdin

    def feed() -> None:
        while data := os.read(0, 65536):
            to.write(data)
            to.flush()
        if "DOCKER_HOLDS" not in os.environ:
            to.close()

    threading.Thread(target=feed, daemon=True).start()
    code = server.wait()
    about.unlink(missing_ok=True)
    return code


def end(wanted: str) -> None:
    for path in containers():
        about = json.loads(path.read_text())
        if wanted in (about["id"], about["name"]):
            try:
                os.kill(about["pid"], signal.SIGKILL)
            except ProcessLookupError:
                pass
            path.unlink(missing_ok=True)
            print(wanted)
            return
    refuse(f"Error response from daemon: No such container: {wanted}")


def ps(words: list[str]) -> int:
    filters, form = {}, "{{.ID}}"
    while words:
        name = words.pop(0)
        if name == "--filter":
            key, _, value = words.pop(0).removeprefix("label=").partition("=")
            filters[key] = value
        elif name == "--format":
            form = words.pop(0)
        elif name not in ("--all", "--no-trunc"):
            refuse(f"unknown flag: {name}", 125)
    for path in containers():
        about = json.loads(path.read_text())
        if all(about["labels"].get(key) == value for key, value in filters.items()):
            line = form.replace("{{.ID}}", about["id"])
            print(re.sub(r'\{\{\.Label "([^"]+)"\}\}', lambda m, of=about: of["labels"].get(m[1], ""), line))
    return 0


def main() -> int:
    words = sys.argv[1:]
    with open(PLACE / "calls", "a") as log:
        log.write(json.dumps(words) + "\n")
    if words[0] == "run":
        return run(words[1:])
    if words[0] == "ps":
        return ps(words[1:])
    if words[0] == "kill" or words[:2] == ["rm", "--force"]:
        end(words[-1])
        return 0
    refuse(f"docker: {words[0]!r} is not a docker command.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
