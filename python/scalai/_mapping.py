"""A model and its optimizer in memory of the worker: tensors are mapped, and trained in place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from ._errors import InvalidError
from ._worker import PAGE, mapped_bytes
from .torch import DTYPES, LocalTensor, dtype_of, raise_problems, state_of


class Mapping:
    """The state of this rank, tensor by tensor in the worker's memory.

    What a framework insists to keep elsewhere (FSDP2 pads shards that are not equal) is copied out after every step.
    """

    def __init__(self, order: dict[str, Any]):
        self._memory = order["memory"]  # the descriptor of a host's memory, or a GPU's (_core.GpuMemory)
        self._device = device_of(self._memory)
        self._places: dict[str, list[dict[str, Any]]] = {}  # a flat range of a tensor is several boxes, in its order
        for place in order["tensors"]:
            self._places.setdefault(place["name"], []).append(place)
        if isinstance(self._memory, int) and order["tensors"]:  # in one mapping: each has a descriptor of its own
            self._begin = min(place["offset"] for place in order["tensors"]) // PAGE * PAGE
            end = max(place["offset"] + _bytes_of(place) for place in order["tensors"])
            self._bytes = mapped_bytes(self._memory, self._begin, end - self._begin)
        self._copied: list[tuple[torch.Tensor, torch.Tensor]] = []  # the framework's, the worker's

    def take(self, parts: Sequence[torch.nn.Module], optimizer: torch.optim.Optimizer | None, others: list[LocalTensor],
             fresh: bool) -> None:
        """The model, the optimizer's state and the others get the content of the worker's memory; with `fresh` they give it
        theirs. The others stay where they are, and are copied out after every step."""
        state = state_of(parts, optimizer) + others
        mapped = {one.name: pieces[0] for one, pieces in self._mapped(state, in_place=True)}
        slots = _slots_of(optimizer)
        with torch.no_grad():
            if fresh:
                for one in state:
                    if one.name in mapped:
                        mapped[one.name].copy_(one.local)
            for one in state:
                if one.name in mapped and (one.local.is_meta or one.local.device == mapped[one.name].device):
                    _replace(one, mapped[one.name], parts, slots)
                elif one.local.is_meta:  # an empty shard
                    _replace(one, torch.empty(one.local.shape, dtype=one.local.dtype, device=self._device), parts, slots)
            for part in parts:
                part._apply(lambda tensor: tensor)  # FSDP2 looks at its shards again
            for one in state_of(parts, optimizer) + others:
                memory = mapped.get(one.name)
                if memory is not None and one.local.data_ptr() != memory.data_ptr():
                    one.local.copy_(memory)
                    self._copied.append((one.local, memory))
        self._finish()

    def copy_out(self) -> None:
        """After a step, whose work on the GPU is done when this returns."""
        with torch.no_grad():
            for tensor, memory in self._copied:
                memory.copy_(tensor)
        self._finish()

    def _finish(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()  # the worker reads what is there

    def copy(self, state: list[LocalTensor], fresh: bool) -> None:
        """As take, where tensors cannot be replaced: all are copied in now, and out by copy_out."""
        for one, pieces in self._mapped(state, in_place=False):
            if len(pieces) == 1:
                self._copied.append((one.local, pieces[0].view(one.local.shape)))
                continue
            sizes = [piece.numel() for piece in pieces]
            self._copied += zip(one.local.view(-1).split(sizes), (piece.view(-1) for piece in pieces))
        if fresh:
            self.copy_out()
            return
        with torch.no_grad():
            for tensor, memory in self._copied:
                tensor.copy_(memory)

    def _mapped(self, state: list[LocalTensor], in_place: bool) -> list[tuple[LocalTensor, list[torch.Tensor]]]:
        """The worker's memory of each tensor: one piece; several, unless `in_place`, where it is flat. Refuses a model that
        has another state than the collection says of this rank."""
        problems = []
        mapped = []
        for one in state:
            places = self._places.get(one.name, [])
            shape = list(one.local.shape)
            if not places:
                if one.local.numel() > 0:
                    problems.append(f'tensor "{one.name}" {shape} is on no device of this rank in the collection')
                continue
            wanted = [[hi - lo for lo, hi in place["box"]] for place in places]
            dtype = dtype_of(one.tensor)
            fits = wanted == [shape]
            if not in_place and len(shape) <= 1:
                fits = sum(map(math.prod, wanted)) == one.local.numel()
            if not fits or dtype != places[0]["dtype"]:
                problems.append(f'tensor "{one.name}" is {dtype} {shape} here, {places[0]["dtype"]} '
                                f'{" and ".join(map(str, wanted))} in the collection')
            elif one.local.numel() > 0:
                mapped.append((one, [self._memory_of(place, extents, one.local.dtype)
                                     for place, extents in zip(places, wanted)]))
        known = {one.name for one in state}
        problems += [f'tensor "{name}" of the collection is not in the model' for name in self._places if name not in known]
        raise_problems(problems)
        return mapped

    def _memory_of(self, place: dict[str, Any], extents: list[int], dtype: torch.dtype) -> torch.Tensor:
        count = math.prod(extents) * dtype.itemsize
        if isinstance(self._memory, int):
            return torch.frombuffer(self._bytes, dtype=dtype, count=math.prod(extents),
                                    offset=place["offset"] - self._begin).view(extents)
        return self._memory.tensor(place["offset"], count).view(dtype).view(extents)


def _bytes_of(place: dict[str, Any]) -> int:
    size = next(dtype.itemsize for dtype, name in DTYPES.items() if name == place["dtype"])
    return size * math.prod(hi - lo for lo, hi in place["box"])


def device_of(memory: Any) -> torch.device:
    """Of an order's memory."""
    on_gpu = memory is not None and not isinstance(memory, int) and memory.on_gpu  # None: this rank has no tensors
    return torch.device("cuda", memory.gpu) if on_gpu else torch.device("cpu")


def left_on_meta(parts: Sequence[torch.nn.Module], optimizer: torch.optim.Optimizer | None) -> bool:
    """Whether something that is no state would stay without content: buffers that are not persistent."""
    known = {one.name for one in state_of(parts, optimizer)}
    return any(buffer.is_meta and name not in known for part in parts for name, buffer in part.named_buffers())


def _slots_of(optimizer: torch.optim.Optimizer | None) -> dict[int, tuple[dict[str, Any], str]]:
    """Where the optimizer keeps a tensor of its state, by the tensor's id."""
    if optimizer is None:
        return {}
    return {id(value): (values, key) for values in optimizer.state.values() for key, value in values.items()}


def _replace(one: LocalTensor, memory: torch.Tensor, parts: Sequence[torch.nn.Module],
             slots: dict[int, tuple[dict[str, Any], str]]) -> None:
    old = one.tensor
    new: torch.Tensor = memory
    if isinstance(old, DTensor):
        new = DTensor.from_local(memory, old.device_mesh, old.placements, run_check=False, shape=old.shape,
                                 stride=old.stride())
    if isinstance(old, torch.nn.Parameter):
        # The object stays: optimizer, hooks and tied modules refer to it.
        replacement = torch.nn.Parameter(new, requires_grad=old.requires_grad)
        replacement.__dict__.update(old.__dict__)
        torch.utils.swap_tensors(old, replacement)
    elif one.kind == "BUFFER" and _replace_buffer(old, new, parts):
        return
    elif id(old) in slots:
        values, key = slots[id(old)]
        values[key] = new


def _replace_buffer(old: torch.Tensor, new: torch.Tensor, parts: Sequence[torch.nn.Module]) -> bool:
    found = False
    for part in parts:
        for module in part.modules():
            for key, buffer in module._buffers.items():
                if buffer is old:
                    module._buffers[key] = new
                    found = True
    return found


def parts_of(model: Any) -> list[torch.nn.Module]:
    parts = list(model) if isinstance(model, (list, tuple)) else [model]
    if not all(isinstance(part, torch.nn.Module) for part in parts):
        raise InvalidError(f"build returned {type(model).__name__} as the model: a module, or a list of modules")
    return parts
