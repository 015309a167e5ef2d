"""Checkpoints of any layout for torch.distributed.checkpoint (DCP): loaded into a job of any other.

    import scalai.dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    model_state, optimizer_state = get_state_dict(model, optimizer)
    scalai.dcp.load({"model": model_state, "optimizer": optimizer_state}, "out/checkpoints/gpt/step_00000300")
    set_state_dict(model, optimizer, model_state_dict=model_state, optim_state_dict=optimizer_state)

Each rank reads the parts that it needs, whoever wrote them: DTensors, FSDP2's shards and plain tensors.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.metadata import (ChunkStorageMetadata, Metadata, TensorProperties,
                                                   TensorStorageMetadata)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner
from torch.distributed.checkpoint.storage import StorageReader

from ._checkpoint import Checkpoint
from ._errors import Error, InvalidError
from .torch import DTYPES, raise_problems

_DTYPE_OF = {name: dtype for dtype, name in DTYPES.items()}
# How keys of a state dict begin, and what stands there in names of tensors.
PREFIXES = {"model.": "", "optimizer.state.": "", "optim.state.": ""}
# Kinds of state that an optimizer keeps.
_MOMENTS, _MASTERS = {"exp_avg", "exp_avg_sq", "momentum"}, {"master", "previous"}


class CheckpointReader(StorageReader):
    """Gives DCP the tensors of a checkpoint under their own names; `load` finds them under those of a state dict."""

    def __init__(self, checkpoint: Checkpoint | str | os.PathLike[str]):
        self.checkpoint = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return os.path.exists(checkpoint_id)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id is not None and os.fspath(checkpoint_id) != self.checkpoint.path:
            self.checkpoint = Checkpoint(checkpoint_id)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        return Metadata({name: self._metadata_of(one) for name, one in self.checkpoint.tensors.items()})

    def _metadata_of(self, about: dict[str, Any]) -> TensorStorageMetadata:
        size = torch.Size(about["shape"])
        whole = ChunkStorageMetadata(offsets=torch.Size([0] * len(size)), sizes=size)
        return TensorStorageMetadata(TensorProperties(dtype=_DTYPE_OF[about["dtype"]]), size, [whole])

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        pass

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> torch.futures.Future[None]:
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                raise InvalidError(f'"{item.storage_index.fqn}" is no tensor; a checkpoint has tensors only')
            target = planner.resolve_tensor(item).detach()
            self._read(item.storage_index.fqn, item.storage_offsets, item.lengths, target)
            planner.commit_tensor(item, target)
        done: torch.futures.Future[None] = torch.futures.Future()
        done.set_result(None)
        return done

    def _read(self, name: str, offsets: torch.Size, lengths: torch.Size, target: torch.Tensor) -> None:
        box = [(begin, begin + extent) for begin, extent in zip(offsets, lengths)]
        dtype = _DTYPE_OF[self.checkpoint.tensors[name]["dtype"]]
        direct = target.dtype == dtype and target.device.type == "cpu" and target.is_contiguous()
        memory = target if direct else torch.empty(tuple(lengths), dtype=dtype)
        if memory.numel() > 0:
            self.checkpoint.read(name, box, into=memory.view(-1).view(torch.uint8))
        if not direct:
            target.copy_(memory)


class _Planner(DefaultLoadPlanner):
    """Looks the tensors of a state dict up in the checkpoint; what is no tensor stays as it is."""

    def __init__(self, prefixes: Mapping[str, str], cast: bool, checkpoint: Checkpoint, drop: Sequence[str]):
        super().__init__(allow_partial_load=True)
        self._prefixes = prefixes
        self._cast = cast
        self._checkpoint = checkpoint
        self._drop = drop

    def set_up_planner(self, state_dict: dict[str, Any], metadata: Metadata | None = None,
                       is_coordinator: bool = False) -> None:
        super().set_up_planner(state_dict, metadata, is_coordinator)
        stored = metadata.state_dict_metadata if metadata is not None else {}
        found, problems = {}, []
        self._names = {}
        for key, value in self.state_dict.items():
            if not isinstance(value, torch.Tensor):
                continue
            name = name_of(key, self._prefixes)
            about = stored.get(name)
            if about is None:
                problems.append(f'"{key}": the checkpoint has no tensor "{name}"')
            elif about.size != value.shape:
                problems.append(f'"{key}" has the shape {list(value.shape)}, "{name}" {list(about.size)} in the checkpoint')
            elif about.properties.dtype != value.dtype and not self._cast:
                problems.append(f'"{key}" is {value.dtype}, "{name}" {about.properties.dtype} in the checkpoint; cast=True '
                                "converts it")
            else:
                found[key] = about
                self._names[key] = name
        raise_problems(problems)
        self.metadata = Metadata(found)

    def create_local_plan(self) -> LoadPlan:
        """Of the items the storage index has the checkpoint's names."""
        plan = super().create_local_plan()
        items = [dataclasses.replace(item, storage_index=dataclasses.replace(item.storage_index,
                                                                             fqn=self._names[item.storage_index.fqn]))
                 for item in plan.items]
        return dataclasses.replace(plan, items=items)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """What is trained and no rank asks for would be lost unseen."""
        asked = {item.storage_index.fqn for plan in global_plan for item in plan.items}
        tensors = self._checkpoint.tensors
        kinds = {"param", "buffer"}
        if any(tensors[name]["kind"] in _MOMENTS for name in asked) and "optimizer" not in self._drop:
            kinds |= _MOMENTS if "masters" in self._drop else _MOMENTS | _MASTERS
        raise_problems([f'"{name}": no rank asks for it; drop= leaves out what it names'
                        for name, about in tensors.items()
                        if about["kind"] in kinds and about["bytes"] > 0 and name not in asked
                        and not any(fnmatch.fnmatchcase(name, pattern) for pattern in self._drop)])
        return super().create_global_plan(global_plan)


def name_of(key: str, prefixes: Mapping[str, str] = PREFIXES) -> str:
    """The tensor that a key of a state dict means: "optimizer.state.head.weight.exp_avg" is "head.weight.exp_avg"."""
    prefix = max((one for one in prefixes if key.startswith(one)), key=len, default=None)
    return key if prefix is None else prefixes[prefix] + key[len(prefix):]


def load(state_dict: dict[str, Any], checkpoint: Checkpoint | str | os.PathLike[str], *,
         prefixes: Mapping[str, str] = PREFIXES, cast: bool = False, drop: str | Sequence[str] = (),
         process_group: Any = None) -> None:
    """Fills the tensors of a state dict, in place, from any checkpoint that :class:`scalai.Checkpoint` opens.

    prefixes  how the names of a key begin there and here; keys are otherwise the names of tensors
    cast      tensors may have another type than the checkpoint's
    drop      names or patterns of tensors of the checkpoint that may be left out; "optimizer" is its optimizer's state,
              "masters" its masters

    Called by all ranks of a process group, or by one process without one. What is no tensor (learning rates in
    "param_groups") stays as it is. Raises InvalidError that names all tensors which the checkpoint lacks, or has with another
    shape or type, or which no rank asks for; then nothing has been written. A state dict without any state of an optimizer
    asks for none. Checksums are compared, where a manifest or an archive has some: damage, and files that change meanwhile, are
    InvalidError, and the tensors may then have been written in part.
    """
    words = [drop] if isinstance(drop, str) else list(drop)
    reader = CheckpointReader(checkpoint)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        try:
            dcp.load(state_dict, storage_reader=reader, planner=_Planner(prefixes, cast, reader.checkpoint, words), process_group=process_group)
            reader.checkpoint.confirm()
        except CheckpointException as failed:
            for error, _ in failed.failures.values():
                if isinstance(error, Error):
                    raise error from None
            raise
