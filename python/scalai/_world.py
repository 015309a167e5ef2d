"""The processes of a job in one layout."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterator
from typing import Any


@dataclasses.dataclass
class World:
    """What a job's `build` gets: who this process is, in which layout.

    axes    name and size of each axis of the mesh, slowest first: {"pp": 2, "dp": 2, "tp": 2}
    rank    of this process, 0 to size - 1; the fastest axis first
    mesh    the DeviceMesh over all ranks, with the names of the axes
    local_rank  number of this process on its host
    device  where this process trains, a torch.device: its GPU where there is CUDA, which is the current one already
    """

    axes: dict[str, int]
    rank: int
    mesh: Any
    local_rank: int = 0
    device: Any = None

    @property
    def size(self) -> int:
        size = 1
        for extent in self.axes.values():
            size *= extent
        return size

    def coordinate(self, axis: str) -> int:
        """Of this process along an axis; 0 along one that the mesh does not have."""
        rank = self.rank
        for name, extent in reversed(self.axes.items()):
            if name == axis:
                return rank % extent
            rank //= extent
        return 0


def forget_meshes() -> None:
    """PyTorch takes two meshes for one when they have the same ranks, whichever of them this process is. What it keeps by
    mesh would then lead to process groups of a layout before, so it is forgotten with each layout. It would also keep the
    groups, and their connections with them."""
    import torch

    for name, module in list(sys.modules.items()):
        if name.startswith("torch.distributed."):
            for cache in _caches_of(module):
                cache.cache_clear()
    planners = sys.modules.get("torch.distributed.tensor._redistribute")
    if hasattr(planners, "clear_redistribute_planner_cache"):
        planners.clear_redistribute_planner_cache()
    tensors = sys.modules.get("torch.distributed.tensor")
    dispatcher = getattr(getattr(tensors, "DTensor", None), "_op_dispatcher", None)
    propagator = getattr(dispatcher, "sharding_propagator", None)
    for attribute, value in list(getattr(propagator, "__dict__", {}).items()):
        original = getattr(propagator, f"{attribute}_non_cached", None)
        if original is not None and hasattr(value, "cache_clear"):
            setattr(propagator, attribute, type(value)(original))  # that of every thread
    clear = getattr(torch._C, "_clear_DTensor_sharding_propagator_cache", None)
    if clear is not None:
        clear()


def _caches_of(module: Any) -> Iterator[Any]:
    """Of its functions, and of its classes' functions. Asks types only: deprecated objects warn when they are looked at."""
    for value in list(vars(module).values()):
        members = vars(value).values() if issubclass(type(value), type) and value.__module__ == module.__name__ else [value]
        for member in members:
            function = member.__func__ if type(member) in (staticmethod, classmethod) else member
            if type(function) is functools._lru_cache_wrapper:
                yield function


def number_groups_from(first: int) -> None:
    """Of the process groups that are made from now on. No two layouts have one of the same name: what leads to a group of a
    layout before is an error then, and never a sum over the wrong processes. On all ranks alike."""
    from torch.distributed import distributed_c10d

    distributed_c10d._world.group_count = first
