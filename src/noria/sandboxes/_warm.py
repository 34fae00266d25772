"""Python programs as forks of the server, which has loaded what they need. Standard library only, loaded by path."""

from __future__ import annotations

import importlib
import os
import runpy
import sys
import time


def preload(folder: str, names: list[str]) -> None:
    """Import modules that lie in a folder of a layer, those that are there. What they do in the server is trusted."""
    sys.path.insert(0, folder)
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    sys.path.remove(folder)


def become(argv: list[str], env: dict[str, str]) -> None:
    """Be the Python program `argv[0]` with its arguments, in this process, which was forked for it."""
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.argv = argv
    sys.dont_write_bytecode = bool(env.get("PYTHONDONTWRITEBYTECODE"))
    sys.pycache_prefix = env.get("PYTHONPYCACHEPREFIX") or None
    sys.path[:0] = [os.path.dirname(argv[0]), *filter(None, env.get("PYTHONPATH", "").split(":"))]
    try:
        runpy.run_path(argv[0], run_name="__main__")
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - what a program ends with is told as the interpreter would
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
