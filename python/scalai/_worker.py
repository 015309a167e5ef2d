"""The connection to the worker of this host: orders, as lines of JSON, and their answers (executor/trainers)."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import queue
import socket
import sys
import threading
from typing import Any, NoReturn

from . import _core
from ._errors import FailedError, MissingError


_INHERITED = "SCALAI_INHERITED"  # what a program that begins anew has from itself
_MOST_DESCRIPTORS = 253  # that Linux sends in one message


class Worker:
    """Orders come from a thread of their own: when the worker is gone this process ends, whatever it does."""

    def __init__(self) -> None:
        name = os.environ.get("SCALAI_WORKER")
        if not name:
            raise MissingError("no worker started this process: SCALAI_WORKER is not set\n"
                                "hint: start it with scalai exec SCENARIO --train='python train.py'")
        self.device = int(os.environ["SCALAI_DEVICE"])
        self._orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        inherited = json.loads(os.environ.pop(_INHERITED, "null"))
        if inherited is not None:
            self._socket = socket.socket(fileno=inherited["socket"])
            self._socket.set_inheritable(False)
            if inherited["order"] is not None:
                self._orders.put(inherited["order"])
            else:
                self._attach()
        else:
            self._connect(name)
        threading.Thread(target=self._listen, daemon=True, name="scalai").start()

    def _connect(self, name: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect("\0" + name)
        except OSError as error:
            raise FailedError(f"the worker that started this process does not answer: {error}") from None
        self._attach()

    def _attach(self) -> None:
        self.answer(device=self.device, pid=os.getpid())

    def _listen(self) -> None:
        """Lines, and the descriptors that came with them: as many as an order has parts."""
        received, looked = bytearray(), 0
        descriptors: list[int] = []
        while True:
            data, more, _, _ = socket.recv_fds(self._socket, 1 << 18, _MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
            if not data:
                os._exit(75)  # nothing here is of use without the worker, which had the state
            received += data
            descriptors += more
            while (end := received.find(b"\n", looked)) >= 0:
                order = json.loads(received[:end])
                del received[:end + 1]
                looked = 0
                count = len(order.get("parts", ()))
                order["descriptors"], descriptors = descriptors[:count], descriptors[count:]
                self._orders.put(order)
            looked = len(received)

    def next_order(self) -> dict[str, Any]:
        return self._orders.get()

    def answer(self, **fields: Any) -> None:
        self._socket.sendall(json.dumps(fields).encode() + b"\n")

    def begin_anew(self, order: dict[str, Any] | None) -> NoReturn:
        """Runs this program again, in this process, from its beginning; it finds the connection, and `order`, if there is
        one, is its first."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        kept = {self._socket.fileno(), *(order["descriptors"] if order is not None else ())}
        for name in os.listdir("/proc/self/fd"):  # libraries' sockets and devices, too
            if int(name) > 2 and os.path.exists(f"/proc/self/fd/{name}"):
                os.set_inheritable(int(name), int(name) in kept)
        os.environ[_INHERITED] = json.dumps({"socket": self._socket.fileno(), "order": order})
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def open_sockets() -> set[str]:
    """Of this process, by names that are not used again."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the folder's own descriptor
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


class Word:
    """The word by which a worker knows of which step this process's memory is, and whether it is whole."""

    def __init__(self, path: str, offset: int):
        page = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        fd = os.open(path, os.O_RDWR)
        try:
            self._page = mmap.mmap(fd, mmap.ALLOCATIONGRANULARITY, offset=page)
        finally:
            os.close(fd)
        self._address = ctypes.addressof(ctypes.c_uint64.from_buffer(self._page, offset - page))

    def whole(self, step: int) -> None:
        _core.store_word(self._address, 2 * step)

    def rewriting(self, step: int) -> None:
        """From `step` on the way to the next."""
        _core.store_word(self._address, 2 * step + 1)


def mapped_bytes(path: str, offset: int, count: int) -> mmap.mmap:
    """Memory of the worker, to read and to write, as long as the result lives."""
    fd = os.open(path, os.O_RDWR)
    try:
        return mmap.mmap(fd, count, offset=offset)
    finally:
        os.close(fd)
