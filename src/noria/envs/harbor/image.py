"""What a Dockerfile puts where, as far as that takes no image: FROM, WORKDIR, COPY and ENV.

The base is the sandbox's own system, with a shell, the usual tools and Python; so a Dockerfile may start from an image
that has no more than these, and may not run anything.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from noria.core.errors import PolicyError
from noria.envs.harbor.folder import File, Files
from noria.envs.harbor.places import inside

DOCKERFILE = "Dockerfile"
#: Images whose own contents are not missed: what they have, the sandbox has.
PLAIN_BASES = ("python", "ubuntu", "debian", "buildpack-deps", "alpine", "busybox", "bash", "scratch")
#: Say nothing about files.
_PASSED = frozenset(("LABEL", "MAINTAINER", "EXPOSE", "STOPSIGNAL", "CMD", "SHELL"))
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")


@dataclass(slots=True)
class Image:
    """Working folder, files at absolute paths, and variables; `notes` is what was passed over."""

    workdir: str = "/"
    files: dict[str, File] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def is_plain(reference: str) -> bool:
    """Whether an image brings no more than the sandbox has, by its name."""
    name = reference.partition("@")[0].removeprefix("docker.io/").removeprefix("library/").partition(":")[0]
    return name in PLAIN_BASES


def read_image(context: Files) -> Image:
    """The image of an `environment/` folder. Raises PolicyError, with the reason, where it must be built."""
    for name in context:
        if posixpath.basename(name).startswith(("docker-compose", "compose.")):
            raise PolicyError(f"{name} starts further containers")
    if DOCKERFILE not in context:
        raise PolicyError(f"environment/ has no {DOCKERFILE}")
    image, began = Image(), False
    for word, rest in _instructions(context[DOCKERFILE].data.decode("utf-8", "replace")):
        if word == "FROM":
            if began:
                raise PolicyError("its Dockerfile has several stages")
            began = True
            base = [part for part in rest.split() if not part.startswith("--")]
            if not base or not is_plain(base[0]):
                raise PolicyError(f"FROM {rest} brings what the sandbox may lack")
        elif word == "WORKDIR":
            image.workdir = posixpath.normpath(posixpath.join(image.workdir, _filled(rest, image).strip("\"'")))
            if image.workdir != "/":
                inside(image.workdir)
        elif word == "ENV":
            image.env.update(_variables(rest, image))
        elif word in ("COPY", "ADD"):
            _copy(word, rest, image, context)
        elif word == "USER":
            image.notes.append(f"USER {rest}: the sandbox has one user")
        elif word in _PASSED:
            image.notes.append(f"{word}: has no meaning here")
        else:
            raise PolicyError(f"its Dockerfile has {word} {rest}"[:100].rstrip())
    if not began:
        raise PolicyError("its Dockerfile has no FROM")
    return image


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    """(instruction in capitals, the rest) without comments, continued lines joined."""
    joined = ""
    for line in text.splitlines():
        if line.lstrip().startswith("#") or (joined and not line.strip()):
            continue
        if line.rstrip().endswith("\\"):
            joined += line.rstrip()[:-1] + " "
            continue
        word, _, rest = (joined + line).strip().partition(" ")
        joined = ""
        if word:
            yield word.upper(), rest.strip()
    if joined.strip():
        word, _, rest = joined.strip().partition(" ")
        yield word.upper(), rest.strip()


def _filled(text: str, image: Image) -> str:
    return _VARIABLE.sub(lambda found: image.env.get(found[1] or found[2], ""), text)


def _words(rest: str) -> list[str]:
    try:
        return shlex.split(rest)
    except ValueError as fault:
        raise PolicyError(f"its Dockerfile has a line that can't be read: {rest[:60]!r} ({fault})") from fault


def _variables(rest: str, image: Image) -> dict[str, str]:
    head = rest.split(None, 1)
    if head and "=" not in head[0]:
        return {head[0]: _filled(head[1] if len(head) > 1 else "", image)}
    pairs = [word.partition("=") for word in _words(rest)]
    return {name: _filled(value, image) for name, _, value in pairs}


def _copy(word: str, rest: str, image: Image, context: Files) -> None:
    executable: bool | None = None
    flags = re.match(r"(?:--\S+\s+)*", rest)
    assert flags is not None
    for flag in flags[0].split():
        name, _, value = flag.partition("=")
        if name == "--chmod" and re.fullmatch(r"[0-7]{3,4}", value):
            executable = bool(int(value, 8) & 0o111)
        elif name not in ("--chown", "--link", "--chmod"):
            raise PolicyError(f"its Dockerfile has {word} {flag}")
    rest = rest[flags.end() :]
    if rest.startswith("<<"):
        raise PolicyError(f"its Dockerfile has {word} with text of its own")
    try:
        words = json.loads(rest) if rest.startswith("[") else _words(rest)
    except ValueError as fault:
        raise PolicyError(f"its Dockerfile has a {word} that can't be read: {rest[:60]!r}") from fault
    if not isinstance(words, list) or len(words) < 2 or not all(isinstance(each, str) for each in words):
        raise PolicyError(f"its Dockerfile has a {word} without source or target")
    *sources, target = (_filled(each, image) for each in words)
    for source in sources:
        if word == "ADD" and ("://" in source or source.endswith((".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2"))):
            raise PolicyError(f"its Dockerfile has ADD {source}, which is fetched or unpacked")
    _place(sources, target, executable, image, context)


def _place(sources: list[str], target: str, executable: bool | None, image: Image, context: Files) -> None:
    """Docker's rules: of a folder the contents are copied; a file goes into a target that ends in /."""
    place = posixpath.normpath(posixpath.join(image.workdir, target))
    into = target.endswith(("/", "/.")) or target in (".", "./") or len(sources) > 1
    for source in sources:
        plain = posixpath.normpath(source.lstrip("/") or ".")
        found: dict[str, File] = {}
        for path, file in context.items():
            if plain == "." or path.startswith(plain + "/"):
                tail = path if plain == "." else path[len(plain) + 1 :]
                found[posixpath.join(place, tail)] = file
            elif path == plain or (_has_wildcard(plain) and _matches(path, plain)):
                folder = into or _has_wildcard(plain) or _is_folder(image, place)
                found[posixpath.join(place, posixpath.basename(path)) if folder else place] = file
        if not found:
            raise PolicyError(f"its Dockerfile copies {source}, which environment/ lacks")
        for path, file in found.items():
            inside(path)
            image.files[path] = file if executable is None else File(file.data, executable)


def _matches(path: str, pattern: str) -> bool:
    """A `*` stands for no slash."""
    return path.count("/") == pattern.count("/") and fnmatchcase(path, pattern)


def _has_wildcard(text: str) -> bool:
    return any(sign in text for sign in "*?[")


def _is_folder(image: Image, place: str) -> bool:
    return place == image.workdir or any(path.startswith(place.rstrip("/") + "/") for path in image.files)
