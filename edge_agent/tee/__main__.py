"""The process of the emulated trusted environment: `python -m edge_agent.tee FD FOLDER CLASS...`.

It inherits one end of a socket pair and answers until the other end closes. Nobody may attach to it or dump it, where
the system lets a process ask for that. It prints nothing.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from edge_agent.tee.core import Tee
from edge_agent.tee.errors import TeeRefused, Why
from edge_agent.tee.wire import DONE, ProtocolError, Word, receive, send

_PR_SET_DUMPABLE = 4
_SEALS = ("F_SEAL_SEAL", "F_SEAL_SHRINK", "F_SEAL_GROW", "F_SEAL_WRITE")


def main(arguments: Sequence[str]) -> int:
    """Serve until the agent goes."""
    _harden()
    number, folder, *classes = arguments
    with socket.socket(fileno=int(number)) as agent:
        try:
            tee = Tee(Path(folder), classes)
        except TeeRefused as error:
            send(agent, error.why, [str(error).encode()])
            return 1
        except OSError as error:
            send(agent, Why.BROKEN, [str(error).encode()])
            return 1
        send(agent, DONE, [])
        while True:
            try:
                word, parts, descriptor = receive(agent)
            except (ProtocolError, OSError):
                return 0
            if descriptor >= 0:
                os.close(descriptor)
            _answer(agent, tee, word, parts)


def _answer(agent: socket.socket, tee: Tee, word: int, parts: list[bytes]) -> None:
    try:
        if word == Word.OPEN and len(parts) == 1:
            _send_pages(agent, tee.open(parts[0]))
            return
        found = _asked(tee, word, parts)
    except TeeRefused as error:
        send(agent, error.why, [str(error).encode()[:400]])
    except Exception as error:  # whatever a caller sends, the environment goes on
        send(agent, Why.BROKEN, [type(error).__name__.encode()])
    else:
        send(agent, DONE, found)


def _asked(tee: Tee, word: int, parts: list[bytes]) -> list[bytes]:
    match word, parts:
        case Word.PUBLIC, []:
            public = tee.public()
            return [public.sealing, public.signing]
        case Word.ADMIT, [sealed, envelope, device_class, base]:
            return [tee.admit(sealed, envelope, device_class.decode(), base)]
        case Word.FLOOR, [epoch]:
            return [tee.raise_floor(int.from_bytes(epoch, "little")).to_bytes(8, "little")]
        case Word.SIGN, [message]:
            return [tee.sign(message)]
    raise TeeRefused(Why.MALFORMED, f"question {word} with {len(parts)} parts")


def _send_pages(agent: socket.socket, plain: memoryview) -> None:
    if not hasattr(os, "memfd_create"):
        send(agent, DONE, [bytes(plain)])
        return
    descriptor = os.memfd_create("bundle", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        rest = plain
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, sum(getattr(fcntl, name) for name in _SEALS))
        send(agent, DONE, [], descriptor)
    finally:
        os.close(descriptor)


def _harden() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the agent, and that ends this
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    call = getattr(ctypes.CDLL(None), "prctl", None)
    if call is not None:
        call(_PR_SET_DUMPABLE, 0, 0, 0, 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
