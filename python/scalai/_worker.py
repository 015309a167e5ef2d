"""The connection to the worker of this host: orders, as lines of JSON, and their answers (executor/trainers)."""

from __future__ import annotations

import ctypes
import json
import mmap
import multiprocessing
import os
import queue
import socket
import stat
import sys
import threading
from typing import Any, NoReturn

from . import _core
from ._errors import FailedError, InvalidError, MissingError


_INHERITED = "SCALAI_INHERITED"  # what a program that begins anew has from itself
_MOST_DESCRIPTORS = 253  # that Linux sends in one message
PAGE = mmap.ALLOCATIONGRANULARITY


class Worker:
    """Orders come from a thread of their own: when the worker is gone this process ends, whatever it does."""

    def __init__(self) -> None:
        place = os.environ.get("SCALAI_WORKER")
        if not place:
            raise MissingError("no worker started this process: SCALAI_WORKER is not set\n"
                                "hint: start it with scalai exec SCENARIO --train='python train.py'")
        self.device = int(os.environ["SCALAI_DEVICE"])
        self._orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        inherited = json.loads(os.environ.pop(_INHERITED, "null"))
        self._socket = _inherited_socket(*map(int, place.split(":")))
        if inherited is not None:
            self._orders.put(inherited)
        else:
            self.answer(device=self.device, pid=os.getpid())
        threading.Thread(target=self._listen, daemon=True, name="scalai").start()

    def _listen(self) -> None:
        """Lines, and the descriptors that came with them: as many as an order says."""
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
                count = order.get("descriptors", 0)
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
        for child in multiprocessing.active_children():  # a DataLoader's, which would wait for this process for good
            child.kill()
        os.environ[_INHERITED] = json.dumps(order)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _inherited_socket(descriptor: int, inode: int) -> socket.socket:
    """The connection to the worker that this process has had from its start."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        found = None
    if found is None or not stat.S_ISSOCK(found.st_mode) or found.st_ino != inode:
        raise FailedError(f"descriptor {descriptor}, the connection to the worker, was not passed on to this process\n"
                          "hint: a program between the worker and this one closes descriptors that it does not know")
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)
    return connection


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

    def __init__(self, fd: int, offset: int):
        page = offset // PAGE * PAGE
        self._page = mapped_bytes(fd, page, PAGE)
        self._address = ctypes.addressof(ctypes.c_uint64.from_buffer(self._page, offset - page))

    def whole(self, step: int) -> None:
        _core.store_word(self._address, 2 * step)

    def rewriting(self, step: int) -> None:
        """From `step` on the way to the next."""
        _core.store_word(self._address, 2 * step + 1)


def mapped_bytes(fd: int, offset: int, count: int) -> mmap.mmap:
    """Memory of the worker, to read and to write, as long as the result lives."""
    if offset < 0 or count <= 0 or offset + count > os.fstat(fd).st_size:
        raise InvalidError(f"the worker names {count} bytes at {offset} of a memory of {os.fstat(fd).st_size}")
    return mmap.mmap(fd, count, offset=offset)
