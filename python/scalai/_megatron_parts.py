"""What one rank of a Megatron-core job has: the tensors of its sharded state dicts, with names of the whole model."""

from __future__ import annotations

import dataclasses
import fnmatch
import io
import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from megatron.core.dist_checkpointing.mapping import (LocalNonpersistentObject, ShardedObject, ShardedTensor,
                                                      ShardedTensorFactory, is_main_replica)
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer

from ._cuts import Box
from .torch import LocalTensor, dtype_of

_KINDS = {"fp32_param": "MASTER", "master_param": "MASTER", "exp_avg": "EXP_AVG", "exp_avg_sq": "EXP_AVG_SQ",
          "momentum_buffer": "MOMENTUM"}
_OPTIMIZER_KEY = re.compile(r"(?:chained_\d+\.)?optimizer\.state\.([^.]+)\.(.+)")
_FLAT = "param_state_sharding_type"  # an entry that only the distributed optimizer writes


@dataclasses.dataclass
class Part:
    """One local tensor, and what it is of the whole."""

    local: LocalTensor
    shape: list[int]  # of the whole
    box: Box
    main: bool = True  # Megatron saves this replica
    padded: bool = False  # the first dimension may be padded: the vocabulary
    common: bool = False  # the same on all ranks, without metadata
    # Optimizer state in a bucket: parameter, its place in the bucket, the range of its elements here, ranks of the bucket.
    bucket: dict[str, Any] | None = None

    def told(self) -> dict[str, Any]:
        """What other ranks have to know of it."""
        tensor = self.local.tensor
        return {"name": self.local.name, "kind": self.local.kind, "dtype": dtype_of(tensor), "shape": self.shape,
                "box": self.box, "main": self.main, "padded": self.padded, "common": self.common, "bucket": self.bucket,
                "value": float(tensor) if self.common and tensor.numel() == 1 else None}


def parts_of(sharded: Mapping[Any, Any], optimizer: Any, ignore: tuple[str, ...], problems: list[str]) -> list[Part]:
    """The tensors on this rank. Appends what is wrong to `problems`, for all ranks to hear of together."""
    rank = dist.get_rank() if dist.is_initialized() else 0
    reader = _Reader(rank, ignore, problems)
    reader.read(sharded, skip_flat=optimizer is not None)
    if optimizer is not None:
        chained = getattr(optimizer, "chained_optimizers", [optimizer])
        for index, one in enumerate(chained):
            prefix = f"optimizer.{index}" if len(chained) > 1 else "optimizer"
            if isinstance(one, DistributedOptimizer):
                reader.read_buckets(one, prefix)
            elif getattr(one, "optimizer", None) is not None:  # else it has no parameters
                if not one.optimizer.state:
                    problems.append(f"rank {rank}: {prefix} has no state yet; take a step first")
                reader.read({prefix: one.sharded_state_dict(sharded)}, skip_flat=False)
                for state in one.optimizer.state.values():
                    reader.add_step(prefix, state.get("step"))
    return list(reader.parts.values())


def _leaves(value: Any, path: tuple[Any, ...], skip_flat: bool = False) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, Mapping):
        if _FLAT in value and skip_flat:
            return
        for key, one in value.items():
            if _FLAT not in value or key == _FLAT:  # the rest would be copies, or buckets without names
                yield from _leaves(one, (*path, key), skip_flat)
    elif isinstance(value, (list, tuple)):
        for index, one in enumerate(value):
            yield from _leaves(one, (*path, index), skip_flat)
    else:
        yield path, value


class _Reader:
    """The parts of this rank, by name."""

    def __init__(self, rank: int, ignore: tuple[str, ...], problems: list[str]):
        self.parts: dict[str, Part] = {}
        self._rank = rank
        self._ignore = ignore
        self._problems = problems
        self._names: dict[int, list[str]] = {}  # of each tensor of the model, by its identity

    def read(self, sharded: Any, skip_flat: bool) -> None:
        for path, leaf in _leaves(sharded, (), skip_flat):
            if isinstance(leaf, ShardedTensorFactory):
                self._add_pieces(leaf.key, [one for _, one in _leaves(leaf.build(), ())], leaf.data)
            elif isinstance(leaf, ShardedTensor):
                self._add_pieces(leaf.key, [leaf], leaf.data)
            elif isinstance(leaf, ShardedObject):
                if not self._ignored(leaf.key) and not _empty(leaf.data):
                    self._problem(leaf.key, f"is a {type(leaf.data).__name__}, no tensor; if others take care of it, say "
                                            f'ignore=["{leaf.key}"]')
            elif isinstance(leaf, torch.Tensor):
                self._add_common(path, leaf)
            elif path and path[-1] == _FLAT:
                self._problem(".".join(map(str, path[:-1])) or "optimizer",
                              f'is the distributed optimizer as "{leaf}", which does not say where its buckets are; give '
                              "optimizer= in place of its state dict")
            # All else is not of tensors: param_groups, LocalNonpersistentObject, numbers, which are the same on all ranks.

    def read_buckets(self, optimizer: DistributedOptimizer, prefix: str) -> None:
        """The flat state of the distributed optimizer: each rank has an equal share of every bucket."""
        if getattr(optimizer, "is_stub_optimizer", False):
            return
        group = dist.get_process_group_ranks(optimizer.data_parallel_group)
        for ranges, buffer in zip(optimizer.gbuf_ranges, optimizer.buffers):
            for share in itertools.chain.from_iterable(ranges.values()):
                for parameter, part in share["param_map"].items():
                    start, _, index = buffer.param_index_map[parameter]
                    bucket = buffer.buckets[index]
                    names = self._names.get(id(parameter), [])
                    if len(names) != 1:
                        self._problem(prefix, f"has a parameter of shape {list(parameter.shape)} that is {len(names)} "
                                              "tensors of the model's sharded state dict")
                    elif names[0] in self.parts:  # else it is ignored
                        self._add_bucket(optimizer, prefix, parameter, {
                            "of": names[0], "start": start - bucket.offset, "elements": bucket.grad_data.numel(),
                            "range": (part["param"].start, part["param"].end), "group": group})

    def add_step(self, prefix: str, step: Any) -> None:
        """One for all parameters. Megatron's own state dict leaves it out while it is 0."""
        if isinstance(step, torch.Tensor) and not self._ignored(f"{prefix}.common_step"):
            self._add(Part(LocalTensor(f"{prefix}.common_step", "SCALAR", step), [], (), common=True))

    def _add_bucket(self, optimizer: DistributedOptimizer, prefix: str, parameter: torch.Tensor,
                    bucket: dict[str, Any]) -> None:
        group, index = optimizer.model_param_group_index_map[parameter]
        main = optimizer.optimizer.param_groups[group]["params"][index]
        state = {"fp32_param": main, **optimizer.optimizer.state.get(main, {})}
        if main.untyped_storage().data_ptr() == parameter.untyped_storage().data_ptr():
            del state["fp32_param"]  # the parameter itself, in full precision
        if not optimizer.optimizer.state.get(main):
            self._problem(bucket["of"], "has no state in the optimizer yet; take a step first")
        of = self.parts[bucket["of"]]
        length = bucket["range"][1] - bucket["range"][0]
        for key, value in state.items():
            name = f"{bucket['of']}.{key}"
            if not isinstance(value, torch.Tensor) or value.dim() == 0:
                if key == "step":
                    self.add_step(prefix, value)
            elif list(value.shape) != [length]:
                self._problem(name, f"has the shape {list(value.shape)}, its range of the bucket has {length} elements")
            elif not self._ignored(name):
                self._add(Part(LocalTensor(name, _KINDS.get(key, "BUFFER"), value.detach()), of.shape, of.box,
                               padded=of.padded, bucket=bucket))

    def _add_pieces(self, key: str, pieces: list[ShardedTensor], whole: torch.Tensor | None) -> None:
        """The tensors of one local tensor: one, several of one key (SwiGLU), or several keys (Mamba)."""
        if whole is None:
            self._problem(key, "has no data")
            return
        groups: dict[str, list[ShardedTensor]] = {}
        for piece in pieces:
            groups.setdefault(_name_of(piece), []).append(piece)
        for name, group in groups.items():
            self._names.setdefault(id(whole), []).append(name)
            if self._ignored(group[0].key) or self._ignored(name):
                continue
            state = _OPTIMIZER_KEY.fullmatch(key)
            kind = "PARAM" if isinstance(whole, torch.nn.Parameter) else _KINDS.get(state[1] if state else "", "BUFFER")
            try:
                tensor, shape, box = _joined(group)
            except ValueError as problem:
                self._problem(name, str(problem))
                continue
            self._add(Part(LocalTensor(name, kind, tensor), shape, box, main=is_main_replica(group[0].replica_id),
                           padded=group[0].allow_shape_mismatch))

    def _add_common(self, path: tuple[Any, ...], tensor: torch.Tensor) -> None:
        words = [str(word) for word in path]  # … of each optimizer alike, whatever is around its steps
        name = ".".join(word for i, word in enumerate(words) if i == 0 or word not in ("optimizer", "state"))
        if not self._ignored(name):
            self._add(Part(LocalTensor(name, "BUFFER" if tensor.dim() else "SCALAR", tensor.detach()), list(tensor.shape),
                           tuple((0, extent) for extent in tensor.shape), common=True))

    def _add(self, part: Part) -> None:
        name, tensor = part.local.name, part.local.tensor
        if dtype_of(tensor) is None:
            self._problem(name, f"has the type {tensor.dtype}, which checkpoints do not know")
        before = self.parts.setdefault(name, part)
        if before.common and part.common and torch.equal(before.local.tensor, tensor):
            return
        if before is not part and (before.box != part.box or before.local.tensor.data_ptr() != tensor.data_ptr()):
            self._problem(name, f"is there twice, as {box_text(before.box)} and {box_text(part.box)} in different memory")

    def _ignored(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self._ignore)

    def _problem(self, name: str, text: str) -> None:
        self._problems.append(f'tensor "{name}" on rank {self._rank} {text}')


def _empty(data: Any) -> bool:
    """Extra state of layers that have none: None, or what Transformer Engine writes for nothing."""
    if isinstance(data, LocalNonpersistentObject):
        data = data.unwrap()
    if isinstance(data, io.BytesIO):
        return not data.getbuffer().nbytes
    return data is None or (isinstance(data, torch.Tensor) and data.numel() == 0) or data in (b"", {}, [], ())


def _name_of(piece: ShardedTensor) -> str:
    """The key with the numbers of layer and expert in it. Megatron has them as leading dimensions of one tensor, or in the
    key (non_homogeneous_layers); both ways give one name: "decoder.layers.3.mlp.…". "optimizer.state.exp_avg.KEY" is
    NAME.exp_avg."""
    state = _OPTIMIZER_KEY.fullmatch(piece.key)
    name = state[2] if state else piece.key
    for number in piece.global_offset[:piece.prepend_axis_num]:
        for container in (r"(^|\.)layers\.(?!\d)", r"(^|\.)experts\.(?!\d|experts\.)"):
            name, found = re.subn(container, rf"\g<0>{number}.", name, count=1)
            if found:
                break
        else:
            name += f".{number}"
    return f"{name}.{state[1]}" if state else name


def _joined(pieces: list[ShardedTensor]) -> tuple[torch.Tensor, list[int], Box]:
    """Pieces of one key as one tensor with a dimension in front, which counts them: [2F, H] in halves is [2, F, H]. Its
    shape as a whole, and the box here. Raises ValueError if they are not that."""
    first = pieces[0]
    lead = first.prepend_axis_num
    shape = list(first.global_shape[lead:])
    at = [list(piece.global_offset[lead:]) for piece in pieces]
    tensor = first.data.detach()
    if first.flattened_range is not None or not tensor.is_contiguous():
        raise ValueError("is no contiguous tensor here")
    if len(pieces) == 1:
        return tensor, shape, tuple((low, low + extent) for low, extent in zip(at[0], first.local_shape))
    length = tensor.numel() * tensor.element_size()
    for i, piece in enumerate(pieces):
        if piece.local_shape != first.local_shape or piece.data.data_ptr() != tensor.data_ptr() + i * length:
            raise ValueError(f"is {len(pieces)} pieces here that do not lie one after the other in memory")
    moved = [dim for dim in range(len(shape)) if len({low[dim] for low in at}) > 1]
    if len(moved) != 1 or shape[moved[0]] % len(pieces):
        raise ValueError(f"is pieces at {at} here, which are no equal parts of one dimension of {shape}")
    dim, share = moved[0], shape[moved[0]] // len(pieces)
    inside = {low[dim] - i * share for i, low in enumerate(at)}
    if len(inside) > 1 or not 0 <= min(inside) <= share - first.local_shape[dim]:
        raise ValueError(f"is pieces at {at} here, which are not alike in each {share} of dimension {dim}")
    shape[dim], at[0][dim] = share, inside.pop()
    box = ((0, len(pieces)), *((low, low + extent) for low, extent in zip(at[0], first.local_shape)))
    return tensor.as_strided((len(pieces), *tensor.shape), (tensor.numel(), *tensor.stride())), [len(pieces), *shape], box


def box_text(box: Box) -> str:
    return "[" + ", ".join(f"{begin}:{end}" for begin, end in box) + "]"
