"""A way out of a sandbox without network, to one address alone. Standard library: runs outside and inside.

Outside, a `Relay` listens on a socket in the file system and hands each connection on to the address. Inside, this
program listens on the same port of the sandbox's own loopback, hands connections on to that socket, and becomes the
command:

    _endpoint.py SOCKET PORT FOLDER... -- COMMAND...

It makes the folders and starts the command in the first of them, both output streams as one.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable

#: Connections at the same time, bytes that are handed on at once, and how often a closed relay is noticed, in s.
MOST, CHUNK, TICK_S = 32, 65536, 0.2


class Relay:
    """Hands connections on; `run` returns when it is closed. One beyond `MOST` is hung up at once."""

    def __init__(self, listener: socket.socket, connect: Callable[[], socket.socket]) -> None:
        self._listener, self._connect = listener, connect
        self._room = threading.BoundedSemaphore(MOST)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closed = False

    def run(self) -> None:
        """Serve until closed."""
        self._listener.settimeout(TICK_S)
        while not self._closed:
            try:
                client = self._listener.accept()[0]
            except TimeoutError:
                continue
            except OSError:
                break
            client.settimeout(None)
            if self._room.acquire(blocking=False):
                threading.Thread(target=self._join, args=(client,), daemon=True).start()
            else:
                client.close()
        self._listener.close()

    def close(self) -> None:
        """End every connection."""
        with self._lock:
            self._closed = True
            for each in self._open:
                _hang_up(each, socket.SHUT_RDWR)

    def _join(self, client: socket.socket) -> None:
        try:
            with client, self._connect() as server:
                with self._lock:
                    if self._closed:
                        return
                    self._open |= {client, server}
                back = threading.Thread(target=_copy, args=(server, client), daemon=True)
                back.start()
                _copy(client, server)
                back.join()
                with self._lock:
                    self._open -= {client, server}
        except OSError:
            pass  # nobody is there: the client is hung up
        finally:
            self._room.release()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(CHUNK):
            target.sendall(data)
    except OSError:
        _hang_up(source, socket.SHUT_RD)
    _hang_up(target, socket.SHUT_WR)


def _hang_up(each: socket.socket, how: int) -> None:
    try:
        each.shutdown(how)
    except OSError:
        return


def to_path(path: str) -> socket.socket:
    """A connection to a socket in the file system."""
    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect(path)
    except OSError:
        client.close()
        raise
    return client


def main() -> None:
    os.dup2(1, 2)
    path, port, *rest = sys.argv[1:]
    at = rest.index("--")
    folders, command = rest[:at], rest[at + 1 :]
    for folder in folders:
        os.makedirs(folder, exist_ok=True)
    listener = socket.create_server(("127.0.0.1", int(port)))
    first = os.fork()
    if first == 0:
        if os.fork() == 0:  # no child of the command, which may count its children
            nothing = os.open(os.devnull, os.O_RDWR)
            for standard in (0, 1, 2):
                os.dup2(nothing, standard)
            Relay(listener, lambda: to_path(path)).run()
        os._exit(0)
    os.waitpid(first, 0)
    listener.close()
    os.chdir(folders[0])
    try:
        os.execvp(command[0], command)
    except OSError as fault:
        os.write(2, f"{command[0]}: {fault}\n".encode())
        os._exit(127)


if __name__ == "__main__":
    main()
