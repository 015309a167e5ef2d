"""Checkpoints on disk as whole tensors, whatever layout their files have."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from . import _core
from ._errors import MissingError
from ._transforms import Transform


class Checkpoint:
    """A checkpoint of a job, a result of ``scalai checkpoint reshard``, a Hugging Face folder, rank files of Megatron, or one
    safetensors file. Only headers are read; any thread may call. Immutable.

    names   naming of rank files: "hf", "megatron", "logical"
    layout  of rank files: "tp8,pp4"
    config  path of a config.json, where there is none beside the files
    model   name of a model of the catalogue, in place of a config.json
    drop    names or patterns of tensors that the model has no place for and that may be left out, "optimizer" for an
            optimizer's state, "masters" for masters alone; what is trained is refused otherwise
    transforms  steps that tensors go through in order while they are read: texts as of ``scalai checkpoint reshard --transform``
                ("cast(bf16)"), or functions declared with ``scalai.transform``; a single one may stand alone
    """

    def __init__(self, path: str | os.PathLike[str], *, names: str = "", layout: str = "",
                 config: str | os.PathLike[str] = "", model: str = "", transforms: str | Transform | Sequence[str | Transform] = (),
                 drop: str | Sequence[str] = ()):
        self.path = os.fspath(path)
        # The core holds them weakly.
        self._transforms = [transforms] if isinstance(transforms, (str, Transform)) else list(transforms)
        for step in self._transforms:
            if not isinstance(step, (str, Transform)):
                raise TypeError(f"transforms: {step!r} is neither a text nor a function declared with scalai.transform")
        self._core = _core.Checkpoint.open(self.path, names, layout, os.fspath(config), model, self._transforms,
                                           [drop] if isinstance(drop, str) else list(drop))
        self._tensors = {one["name"]: one for one in self._core.tensors}

    @property
    def info(self) -> dict[str, Any]:
        """kind ("job", "arranged", "hf", "ranks", "plain"), layout, job, step (-1: it has none), left_out (as `drop` says)."""
        return self._core.info

    @property
    def tensors(self) -> dict[str, dict[str, Any]]:
        """By name, one dict a tensor: name, dtype (as safetensors spells it), shape, kind, bytes."""
        return self._tensors

    def read(self, tensor: str, box: Sequence[tuple[int, int]] | None = None, into: Any = None) -> Any:
        """The bytes of a tensor, or of a box of it (``(begin, end)`` for each dimension), row-major.

        into  writable flat memory of bytes of that size, which is filled and returned; without it a new bytearray

        The first read of any part of a stored tensor compares the checksum of all of it, where a manifest or an archive has one.
        Raises InvalidError for damaged files, and for files that were changed since they were opened.
        """
        if tensor not in self._tensors:
            raise MissingError(f'the checkpoint "{self.path}" has no tensor "{tensor}"')
        about = self._tensors[tensor]
        ranges = [(0, extent) for extent in about["shape"]] if box is None else list(box)
        if into is None:
            elements = about["bytes"]
            for extent, (begin, end) in zip(about["shape"], ranges):
                elements = elements // extent * max(end - begin, 0) if extent else 0
            into = bytearray(elements)
        self._core.read(tensor, ranges, into)
        return into

    def verify(self) -> None:
        """Reads all files: compares checksums where there are some, and replicas with each other.

        Raises InvalidError that names all damage, with file, tensor and box; also damage that was accepted when it was written.
        """
        self._core.verify()

    def confirm(self) -> None:
        """Raises InvalidError if a file that was read is not what it was when it was opened, or another has its name now.

        To be called after the last read, before what was made of it is used.
        """
        self._core.confirm()

    def reshard(self, target: str | os.PathLike[str], to: str, *, process_memory: int = 1 << 30, threads: int = 0,
                verify: bool = False, force: bool = False, restart: bool = False) -> dict[str, int]:
        """Writes the checkpoint in another layout, after its transforms, as ``scalai checkpoint reshard``: in bounded memory; `target` is
        whole or not there, and a killed run is gone on with by the same call. Damaged state is an error, and nothing is written.

        to              "tp4,pp2", "hf", "logical", …
        process_memory  most bytes that the core uses; functions of Python take theirs beside it
        threads         0: one a core

        Returns files, bytes, and bytes_written by this call. Raises InvalidError where the layout does not fit.
        """
        return self._core.reshard(os.fspath(target), to, process_memory, threads, verify, force, restart)

    def __repr__(self) -> str:
        return f"<Checkpoint {self.path!r}: {len(self._tensors)} tensors>"
