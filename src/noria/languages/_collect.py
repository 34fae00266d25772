"""Runs tests as children inside the sandbox and writes down what they report, sealed. Standard library only.

    python -I -S -B -c TEXT_OF_THIS_FILE REPORT

REPORT is a folder with the files `given`, what is to be done as JSON, and `.key`, which is taken away before anything
else is started; the process cannot be read by others. What it writes goes into `report.sealed`: lines `<HMAC-SHA256 of
"number:text", in hex> text`, where a text is [name, text]: the texts of a name, one after another, are a report of that
name. The last line is ["end", ""].

What is run, in this order:

    build     words, or null; where it fails its errors go to the standard error, and nothing else is done
    objects   a folder: symbols of compiled files below it that a build newly asks of the system, by the expression
              `denied`, or defines in the system's place, are the report `reaches`
    guard     text of a library in C, compiled to `guard_at` where it is not there yet; programs are started with it
    program   {"argv", "to", "exit", "limit_s"}: what it prints becomes the report `to`, its exit code the report `exit`
    cargo     true: the build tells of programs as cargo does; each is started with `program`'s words after its own
    after     words, or null
    texts     name -> text that is a report as it stands
    files     name -> path of a file that is taken as a report; "*" in both stands for several
"""

from __future__ import annotations

import ctypes
import glob
import hashlib
import hmac
import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

GIVEN, KEY, SEALED, SAID = "given", ".key", "report.sealed", "/tmp/said"
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
#: Bytes of one line, and of all reports together, at most: what is more was printed by a source.
MOST_LINE, MOST_ALL = 4 << 20, 64 << 20
#: Signals by which a program ends that took too long, and what the report says of it.
SLOW = (signal.SIGXCPU, signal.SIGKILL)


class Report:
    """The sealed report."""

    def __init__(self, place: str, key: bytes) -> None:
        self._file = open(os.path.join(place, SEALED), "x", encoding="utf-8", buffering=1)  # noqa: SIM115
        self._key, self._count, self._size = key, 0, 0

    def put(self, name: str, text: str) -> None:
        self._size += len(text)
        if self._size > MOST_ALL:
            return
        line = json.dumps([name, text])
        told = f"{self._count}:{line}".encode()
        self._file.write(f"{hmac.new(self._key, told, hashlib.sha256).hexdigest()} {line}\n")
        self._count += 1


def taken(place: str) -> bytes:
    """The key, which is no longer there afterwards."""
    path = os.path.join(place, KEY)
    with open(path, "rb") as file:
        key = file.read()
    os.unlink(path)
    return key


def hide() -> None:
    """Let nobody read this process, and be the parent of all that it starts."""
    libc = ctypes.CDLL(None)
    for option, value in ((PR_SET_DUMPABLE, 0), (PR_SET_CHILD_SUBREAPER, 1)):
        libc.prctl(option, value, 0, 0, 0)


def slay() -> None:
    """Kill and reap what a program has left running."""
    for _ in range(200):
        for pid in descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def descendants() -> Iterator[int]:
    todo = [os.getpid()]
    while todo:
        parent = todo.pop()
        try:
            with open(f"/proc/{parent}/task/{parent}/children") as file:
                found = [int(word) for word in file.read().split()]
        except OSError:
            continue
        yield from found
        todo += found


def built(words: list[str]) -> str | None:
    """What a build printed, None where it failed."""
    with open(SAID, "wb") as said:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=said, stdin=subprocess.DEVNULL, check=False)
    if done.returncode == 0:
        return done.stdout.decode("utf-8", "replace")
    with open(SAID, encoding="utf-8", errors="replace") as said_again:
        lines = (said_again.read() + done.stdout.decode("utf-8", "replace")).splitlines()
    lines = [line for line in lines if not line.startswith("{")]
    shown = [line for line in lines if "error" in line.lower()][:5] or lines[-5:]
    sys.stderr.write("\n".join(shown)[:2000] + "\n")
    return None


def symbols(folder: str) -> dict[str, tuple[set[str], set[str]]]:
    """What each compiled file asks of others, and what it defines for them."""
    files = sorted(glob.glob(f"{folder}/**/*.o", recursive=True))
    found: dict[str, tuple[set[str], set[str]]] = {path: (set(), set()) for path in files}
    for path, name, kind in listed(["-g", "-A", *files]) if files else ():
        found.setdefault(path, (set(), set()))[kind not in "Uwv"].add(name)
    return found


def listed(words: list[str]) -> Iterator[tuple[str, str, str]]:
    """File, name and kind of each symbol."""
    done = subprocess.run(["nm", "-P", *words], capture_output=True, text=True, errors="replace", check=False)
    for line in done.stdout.splitlines():
        path, _, rest = line.rpartition(": ")
        name, _, kind = rest.partition(" ")
        if kind:
            yield path, name, kind[0]


def reached(before: dict[str, Any], after: dict[str, Any], denied: str) -> set[str]:
    """Symbols by which files that were compiled anew reach for more than they did."""
    found: set[str] = set()
    defined: set[str] = set()
    for path, (asked, own) in after.items():
        old_asked, old_own = before.get(path, (set(), set()))
        found |= {name for name in asked - old_asked if re.fullmatch(denied, name)}
        defined |= own - old_own
    if defined:
        done = subprocess.run(["cc", "-print-file-name=libc.so.6"], capture_output=True, text=True, check=False)
        theirs = {name.partition("@")[0] for _, name, _ in listed(["-A", "-D", "--defined-only", done.stdout.strip()])}
        found |= defined & theirs
    return found


def library(text: str, at: str) -> bytes:
    """The compiled guard. Ends the process where it cannot be compiled."""
    if not os.path.exists(at):
        words = ["cc", "-shared", "-fPIC", "-O1", "-w", "-x", "c", "-o", at, "-", "-ldl"]
        done = subprocess.run(words, input=text.encode(), capture_output=True, check=False)
        if done.returncode != 0:
            sys.exit(f"error: no guard: {done.stderr.decode('utf-8', 'replace')[-500:]}")
    with open(at, "rb") as file:
        return file.read()


def guarded(guard: bytes) -> dict[str, str]:
    """The variables with which a program is started: each has a copy that no other could have changed."""
    if not guard:
        return {}
    place = f"/tmp/{os.urandom(8).hex()}.so"
    with open(place, "xb") as file:
        file.write(guard)
    return {"LD_PRELOAD": place}


def ran(report: Report, program: dict[str, Any], env: dict[str, str]) -> None:
    """Run one program to its end; its lines, its exit code, and what tells that it took too long."""
    limit_s = int(program.get("limit_s", 0))

    def limit() -> None:
        if limit_s:
            most = resource.getrlimit(resource.RLIMIT_CPU)[1]
            most = limit_s + 1 if most == resource.RLIM_INFINITY else min(most, limit_s + 1)
            resource.setrlimit(resource.RLIMIT_CPU, (min(limit_s, most), most))

    to = program["to"]
    child = subprocess.Popen(
        program["argv"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=limit,
        env={**os.environ, **program.get("env", {}), **env},
    )  # fmt: skip
    for line in lines(child):
        if to:
            report.put(to, line.decode("utf-8", "replace"))
    code = child.wait()
    if to and program.get("label") and code < 0 and -code in SLOW:
        report.put(to, "\n" + json.dumps({"slow": program["label"]}) + "\n")
    report.put(program["exit"], str(code))


def lines(child: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """What a child prints, until it ends: one that it leaves running does not hold us up."""
    assert child.stdout is not None
    pipe, ended = child.stdout.fileno(), os.pidfd_open(child.pid)
    os.set_blocking(pipe, False)
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    poll.register(ended, select.POLLIN)
    kept = b""
    going = True
    while going:
        ready = {descriptor for descriptor, _ in poll.poll()}
        going = ended not in ready
        if not going:
            child.wait()
            slay()
        while pipe in ready or not going:
            try:
                data = os.read(pipe, 1 << 16)
            except BlockingIOError:
                break
            if not data:
                if going:
                    poll.unregister(pipe)
                break
            *whole, kept = (kept + data).split(b"\n")
            yield from (line + b"\n" for line in whole if len(line) < MOST_LINE)
            kept = kept[:MOST_LINE]
            if going:
                break
    os.close(ended)
    if kept:
        yield kept


def cargo_programs(printed: str, like: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One program for each that cargo has built to be run as a test, with our words after its own."""
    found: list[tuple[bool, str]] = []
    for line in printed.splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if told.get("reason") == "compiler-artifact" and told.get("executable") and told["profile"]["test"]:
            found.append(("test" in told["target"]["kind"], told["executable"]))
    for at, (_, path) in enumerate(sorted(found)):
        name = os.path.basename(path).rpartition("-")[0]
        label = f"tests/{name}.rs" if os.path.isfile(f"tests/{name}.rs") else name
        argv = [path, *like["argv"]]
        yield {**like, "argv": argv, "to": f"{at}.json", "exit": f"{at}.exit", "label": label}


def main() -> None:
    place = sys.argv[1]
    with open(os.path.join(place, GIVEN), encoding="utf-8") as file:
        given = json.load(file)
    report = Report(place, taken(place))
    hide()
    printed: str | None = ""
    if given.get("build"):
        before = symbols(given["objects"]) if given.get("objects") else {}
        printed = built(given["build"])
        if before and printed is not None:
            found = reached(before, symbols(given["objects"]), given["denied"])
            if found:
                report.put("reaches", " ".join(sorted(found)))
    if printed is not None:
        guard = library(given["guard"], given["guard_at"]) if given.get("guard") else b""
        like = given["program"]
        for program in cargo_programs(printed, like) if given.get("cargo") else [like]:
            if program.get("label"):
                report.put(program["to"], json.dumps({"label": program["label"]}) + "\n")
            ran(report, program, guarded(guard))
        if given.get("after"):
            subprocess.run(given["after"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
        for name, text in given.get("texts", {}).items():
            report.put(name, text)
        for name, path in given.get("files", {}).items():
            for at, each in enumerate(sorted(glob.glob(path))):
                with open(each, encoding="utf-8", errors="replace") as left:
                    report.put(name.replace("*", str(at)), left.read())
    report.put("end", "")


if __name__ == "__main__":
    main()
