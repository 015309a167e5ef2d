"""Collections and plans: who holds which part of the state, and how it gets from one layout onto another."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from . import _core
from ._errors import InvalidError

Box = tuple[tuple[int, int], ...]


class Collection:
    """The state of a job as sharded tensors: shapes, types, cuts over mesh axes, and the device of each rank.

    Made by :meth:`load`, :meth:`of_model`, :meth:`from_dict`, or by ``scalai.torch.collection_of``. Immutable.
    """

    def __init__(self, core: _core.Collection):
        self._core = core

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Collection:
        """Reads a collection file, as text or as JSON (docs/layouts.md)."""
        return cls(_core.Collection.load(os.fspath(path)))

    @classmethod
    def parse(cls, text: str, name: str = "collection") -> Collection:
        """The same from a text; `name` stands in messages. JSON begins with "{"."""
        return cls(_core.Collection.parse(text, name))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], name: str = "collection") -> Collection:
        """From the fields of a collection file."""
        return cls.parse(json.dumps({"schema_version": 1, **fields}), name)

    @classmethod
    def of_model(cls, model: str, layout: str, *, devices: Iterable[int] = (), precision: str = "bf16",
                 optimizer: str = "adam") -> Collection:
        """A model of the catalogue (``scalai models``) in a layout such as ``"tp8,pp4,dp2,zero1"``."""
        return cls(_core.Collection.of_model(model, layout, list(devices), precision, optimizer))

    @property
    def name(self) -> str:
        return self._core.name

    @property
    def ranks(self) -> int:
        return self._core.ranks

    @property
    def devices(self) -> list[int]:
        """The device of each rank."""
        return self._core.devices

    @property
    def tensors(self) -> list[dict[str, Any]]:
        """One dict a tensor: name, dtype (as safetensors spells it), shape, kind, bytes."""
        return self._core.tensors

    def boxes(self, tensor: str, rank: int) -> list[Box]:
        """The parts of a tensor on a rank, each as ``((begin, end), …)`` by dimension; none if the rank has no part."""
        return [tuple(box) for box in self._core.boxes(tensor, rank)]

    def text(self) -> str:
        """A collection file that says the same."""
        return self._core.text()

    def save(self, path: str | os.PathLike[str]) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text())

    def __repr__(self) -> str:
        return f"<Collection {self.name!r}: {len(self.tensors)} tensors on {self.ranks} ranks>"


class Plan:
    """What moves, from where to where, and in which order. Made by :func:`plan`. Immutable."""

    def __init__(self, core: _core.Plan):
        self._core = core
        self._facts = json.loads(core.json(""))

    @property
    def digest(self) -> str:
        """Identifies the plan; the simulator and the executor print the same one."""
        return self._core.digest

    @property
    def feasible(self) -> bool:
        """False where state has no holder that lives: see :attr:`missing`."""
        return self._core.feasible

    @property
    def missing(self) -> list[dict[str, Any]]:
        """Boxes without a holder: tensor, box, bytes (the first 1,000)."""
        return self._facts["infeasible"]

    @property
    def bytes(self) -> dict[str, int]:
        """By way: kept, same_device, derived, same_host, cross_host, from_storage."""
        return self._facts["bytes"]

    @property
    def lower_bound(self) -> dict[str, int]:
        """The least that any plan between these two collections must move, by the same ways."""
        return self._facts["lower_bound_bytes"]

    @property
    def seconds(self) -> float | None:
        """Predicted time of the transfers; None without a cluster file, which says the rates of links."""
        return self._facts.get("estimated_s")

    @property
    def rounds(self) -> int:
        return self._facts["rounds"]

    @property
    def devices(self) -> list[int]:
        """The device of each new rank, after placement."""
        return self._core.devices

    @property
    def summary(self) -> dict[str, Any]:
        """All of ``scalai plan --format=json``."""
        return self._facts

    def explain(self, tensor: str) -> list[dict[str, Any]]:
        """Where each new piece of a tensor comes from: one dict a box, ready for a DataFrame."""
        return json.loads(self._core.json(tensor))["explain"]

    def program(self, device: int) -> list[dict[str, Any]]:
        """What one device keeps, copies, sends and receives, in order."""
        return json.loads(self._core.program(device))["program"]

    def verify(self) -> None:
        """Runs the plan on symbolic elements, with code that the planner does not share.

        Raises InvalidError unless every element of the new state is there, right, exactly once.
        """
        self._core.verify()

    def save(self, path: str | os.PathLike[str]) -> None:
        """For ``scalai plan show`` and ``scalai plan diff``."""
        with open(path, "wb") as file:
            file.write(self._core.serialize())

    def __str__(self) -> str:
        return self._core.text()

    def __repr__(self) -> str:
        moved = self.bytes["same_host"] + self.bytes["cross_host"]
        return f"<Plan {self.digest}: {moved} B between devices, {self.rounds} round(s)>"


_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def _bytes(option: str, size: int | str | None) -> int | None:
    if size is None or isinstance(size, int):
        return size
    number = size.rstrip("BKMGi")
    try:
        return round(float(number) * _UNITS[size[len(number):].strip()])
    except (KeyError, ValueError):
        raise InvalidError(f'{option}: "{size}" is no size; write it like 2**30 or "1GiB"') from None


def plan(old: Collection, new: Collection, *, cluster: str | os.PathLike[str] | None = None, gpus_per_host: int = 8,
         memory_cap: int | str | None = None, round_bytes: int | str | None = None, strategy: str = "reshard",
         placement: str = "identity", lost: Iterable[int] = (), storage: bool = False,
         derive_params: bool = False) -> Plan:
    """Plans the change from `old` to `new`. Options are those of ``scalai plan``.

    cluster        a cluster file: which device is on which host, and the rates of links
    gpus_per_host  without a cluster file
    memory_cap     most memory that a device needs beyond the larger of its old and its new state
    lost           devices whose state is gone
    storage        what nobody holds is read from a checkpoint
    placement      "identity": rank r on new.devices[r]; "hosts", "free": those devices in the order that moves least

    Raises InvalidError, with all problems. State without a holder is no error: see Plan.missing.
    """
    core = _core.plan(old._core, new._core, os.fspath(cluster) if cluster is not None else "", gpus_per_host, strategy,
                      placement, _bytes("round_bytes", round_bytes), _bytes("memory_cap", memory_cap), derive_params,
                      storage, set(lost))
    return Plan(core)
