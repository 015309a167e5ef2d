"""Collections of Megatron-core jobs, read off the sharded state dict of model and optimizer.

    state = model.sharded_state_dict()
    collection = scalai.megatron.collection_from_sharded(state, optimizer)      # called by all ranks at once

Boxes become cuts over the axes of Megatron's parallel groups, pipeline stages become pins, replicas stay replicas. Each
local tensor is one tensor of the collection, with a name that counts layers and experts over the whole model. What cannot
be told apart from a mistake is refused, with tensor and rank.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch.distributed as dist
from megatron.core import parallel_state, tensor_parallel

from ._cuts import Box, Mesh, bucket_part, layout_of
from ._errors import InvalidError
from ._mapping import Mapping as Memory
from ._megatron_parts import box_text, parts_of
from ._objects import Objects
from ._planning import Collection
from ._world import World
from .torch import LocalTensor, _gathered, _in_child, initial_state, raise_problems, whole_result


def state_of_sharded(sharded_state_dict: Mapping[Any, Any], optimizer: Any = None, *,
                     ignore: Iterable[str] = ()) -> list[LocalTensor]:
    """Every tensor of the state on this rank, with the memory behind it; arguments as for collection_from_sharded.

    Tensors are views of Megatron's own memory in the shape of the rank's box ([2, F, H] for SwiGLU), or flat where the
    distributed optimizer has them in a bucket. Rows of a padded vocabulary are among them.
    """
    problems: list[str] = []
    parts = parts_of(sharded_state_dict, optimizer, tuple(ignore), problems)
    raise_problems(problems)
    return [part.local for part in parts]


def collection_from_sharded(sharded_state_dict: Mapping[Any, Any], optimizer: Any = None, *,
                            sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None = None,
                            vocabulary: int | None = None, ignore: Iterable[str] = (),
                            devices: Sequence[int] | None = None, name: str = "") -> Collection:
    """The collection of a job, from the sharded state dicts of its ranks. Called by all ranks at once; all get the same.

    sharded_state_dict  of the model; or a dict of several, such as {"model": …, "optimizer": …}. Names of tensors are
                        Megatron's keys; its one plain tensor has its place in the dict, "optimizer.common_step"
    optimizer           Megatron's optimizer, unless its sharded state dict is in the first argument. Needed for the
                        distributed optimizer, whose own state dict does not say where its buckets are
    sizes               axes and sizes of the mesh, fastest first, such as {"tp": 2, "cp": 1, "dp": 2, "pp": 2}; a list of
                        two if experts have a mesh of their own. Without it: Megatron's parallel groups
    vocabulary          tokens without padding: rows of embeddings beyond them are padding, which depends on tp
    ignore              patterns of keys and names that are left out, such as "*rng_state*"
    devices             the device of each rank of the job (rank r has device r)
    """
    view = _view(sharded_state_dict, optimizer, ignore, sizes is None)
    views = _gathered(view, dist.get_world_size() if dist.is_initialized() else 1)
    return _merged(views, sizes, vocabulary, devices, name)


def collection_for(build: Callable[[World], tuple[Any, ...]], sizes: Mapping[str, int], *, name: str = "") -> Collection:
    """The collection that a job would have on a mesh of these sizes, such as {"pp": 2, "dp": 2, "tp": 2} (slowest axis
    first), without its processes.

    Calls ``build(world)``, which initializes Megatron's parallel groups and returns model and optimizer as for Job.start,
    as each rank in turn: in a child process, in a process group that sends nothing. One rank's memory is needed at a time.
    """
    world = math.prod(sizes.values())

    def as_rank(rank: int) -> dict[str, Any]:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
        model, optimizer, _, objects = whole_result(build(World(dict(sizes), rank, None)))
        _begin_state(optimizer)
        return _view({**_sharded(model), **_named(Objects(objects_of(optimizer, objects)).tensors)}, optimizer, (), True)

    return _merged([_in_child(lambda: as_rank(rank)) for rank in range(world)], None, None, None, name)  # noqa: B023


class Copies:
    """The state of this rank under Job.start(framework=scalai.megatron): copied from the worker's memory, and to it by
    copy_out, since Megatron's buffers cannot be put elsewhere."""

    def __init__(self, order: dict[str, Any], model: Any, optimizer: Any, others: list[LocalTensor], fresh: bool):
        self._memory = Memory(order)
        _begin_state(optimizer)
        self._memory.copy(state_of_sharded(_sharded(model), optimizer) + others, fresh)
        _spread_steps(optimizer)

    def copy_out(self) -> None:
        self._memory.copy_out()


def release() -> None:
    """Megatron's parallel groups, before a layout ends."""
    parallel_state.destroy_model_parallel()


def _sharded(model: Any) -> dict[str, Any]:
    """Of a model, or of the chunks of virtual stages, each perhaps in DistributedDataParallel."""
    chunks = list(model) if isinstance(model, (list, tuple)) else [model]
    return {f"model{i}" if len(chunks) > 1 else "model": getattr(chunk, "module", chunk).sharded_state_dict()
            for i, chunk in enumerate(chunks)}


def objects_of(optimizer: Any, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Objects of a `build`, and those that the optimizer has: its gradient scaler, whose count of good steps is no tensor."""
    scalers = {id(scaler): scaler for one in _chained(optimizer) if (scaler := getattr(one, "grad_scaler", None)) is not None}
    return {**{f"grad_scaler.{i}": scaler for i, scaler in enumerate(scalers.values())}, **(given or {})}


def seed(number: int) -> None:
    """Sets the random states that Megatron keeps for its groups, if the program has ever set them."""
    if tensor_parallel.get_cuda_rng_tracker().is_initialized():
        tensor_parallel.model_parallel_cuda_manual_seed(number % (1 << 31))


def _named(tensors: list[LocalTensor]) -> dict[str, Any]:
    return {one.name: one.tensor for one in tensors}


def _chained(optimizer: Any) -> list[Any]:
    return list(getattr(optimizer, "chained_optimizers", [optimizer]))


def _optimizers(optimizer: Any) -> list[Any]:
    """PyTorch's, inside of Megatron's."""
    return [one.optimizer for one in _chained(optimizer) if getattr(one, "optimizer", None) is not None]


def _begin_state(optimizer: Any) -> None:
    """What the first step would make, so that it can be copied."""
    problems: list[str] = []
    for one in _optimizers(optimizer):
        for group in one.param_groups:
            for parameter in group["params"]:
                if not one.state.get(parameter):
                    one.state[parameter] = initial_state(parameter, group, one, "of a parameter", problems)
    raise_problems(problems)


def _spread_steps(optimizer: Any) -> None:
    """All parameters are of one step, which the collection has once."""
    for one in _optimizers(optimizer):
        steps = [state["step"] for state in one.state.values() if "step" in state]
        for step in steps:
            step.fill_(max(map(float, steps)))


def _view(sharded_state_dict: Mapping[Any, Any], optimizer: Any, ignore: Iterable[str], places: bool) -> dict[str, Any]:
    """What other ranks have to know of this one."""
    problems: list[str] = []
    parts = parts_of(sharded_state_dict, optimizer, tuple(ignore), problems)
    return {"parts": [part.told() for part in parts], "problems": problems, "places": _own_places() if places else None}


def _merged(views: list[dict[str, Any]], sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None,
            vocabulary: int | None, devices: Sequence[int] | None, name: str) -> Collection:
    raise_problems([problem for view in views for problem in view["problems"]])
    meshes = _known_meshes(sizes, len(views)) if sizes is not None else _group_meshes([view["places"] for view in views])
    merged = _Merged([view["parts"] for view in views], meshes, vocabulary)
    tensors = merged.tensors()
    raise_problems(merged.problems)
    used = [mesh for mesh in meshes if any(tensor["mesh"] == mesh.name for tensor in tensors)] or meshes[:1]
    name = name or _layout_name(meshes)
    return Collection.from_dict(
        {"name": name, "meshes": [mesh.fields() for mesh in used], "tensors": tensors,
         "devices": ",".join(map(str, devices if devices is not None else range(len(views))))}, name)


def _layout_name(meshes: list[Mesh]) -> str:
    sizes = {axis: size for mesh in meshes for axis, size in mesh.axes}
    named = [axis for axis in ("tp", "pp", "dp", "cp", "ep") if sizes.get(axis, 1) > 1]
    return ",".join(f"{axis}{sizes[axis]}" for axis in named) or "tp1"


def _in_order(name: str) -> list[tuple[int, str]]:
    """Sorts names alike in all layouts, layer 10 after layer 9: a plan wants its two collections in one order."""
    return [(int(word), "") if word.isdigit() else (-1, word) for word in name.split(".")]


def _own_places() -> list[dict[str, tuple[int, int]]]:
    """Coordinate and size of this rank on the axes of Megatron's two meshes."""
    if not parallel_state.model_parallel_is_initialized():
        raise InvalidError("Megatron's parallel groups are not initialized; initialize_model_parallel does, or give sizes=")

    def place(kind: str) -> tuple[int, int]:
        return tuple(getattr(parallel_state, f"get_{kind}_{what}")() for what in ("rank", "world_size"))

    pp = place("pipeline_model_parallel")
    return [{"tp": place("tensor_model_parallel"), "cp": place("context_parallel"), "dp": place("data_parallel"), "pp": pp},
            {"etp": place("expert_tensor_parallel"), "ep": place("expert_model_parallel"),
             "edp": place("expert_data_parallel"), "pp": pp}]


def _group_meshes(places: list[list[dict[str, tuple[int, int]]]]) -> list[Mesh]:
    """The meshes of all ranks' coordinates, with the axes in the order in which ranks count ("tp-cp-ep-dp-pp")."""
    meshes = []
    for i, name in enumerate(("dense", "expert")):
        sizes = {axis: size for axis, (_, size) in places[0][i].items()}
        for order in itertools.permutations(sizes):
            mesh = Mesh(name, {axis: sizes[axis] for axis in order})
            if mesh.size == len(places) and all(mesh.place_of(rank) == tuple(place[i][axis][0] for axis in order)
                                                for rank, place in enumerate(places)):
                meshes.append(mesh)
                break
        else:
            raise InvalidError(f"Megatron's parallel groups {sizes} do not make the {len(places)} ranks in any order; "
                               "give sizes=")
    return meshes


def _known_meshes(sizes: Mapping[str, int] | Sequence[Mapping[str, int]], ranks: int) -> list[Mesh]:
    given = [sizes] if isinstance(sizes, Mapping) else list(sizes)
    meshes = [Mesh(name, one) for name, one in zip(("dense", "expert"), given)]
    for mesh in meshes:
        if mesh.size != ranks:
            raise InvalidError(f"sizes {dict(mesh.axes)} are those of {mesh.size} ranks; the job has {ranks}")
    return meshes


class _Merged:
    """The parts of all ranks as one list of tensors."""

    def __init__(self, views: list[list[dict[str, Any]]], meshes: list[Mesh], vocabulary: int | None):
        self.problems: list[str] = []
        self._meshes = meshes
        self._vocabulary = vocabulary
        self._held: dict[str, dict[int, dict[str, Any]]] = {}  # by name and rank
        for rank, view in enumerate(views):
            for told in view:
                self._held.setdefault(told["name"], {})[rank] = told

    def tensors(self) -> list[dict[str, Any]]:
        found = []
        for name in sorted(self._held, key=_in_order):
            held = self._held[name]
            if self._agree(name, held):
                try:
                    found.append(self._tensor(name, held))
                except ValueError as problem:
                    self.problems.append(f'tensor "{name}" {problem}')
        return found

    def _agree(self, name: str, held: Mapping[int, dict[str, Any]]) -> bool:
        before = len(self.problems)
        first_rank, first = next(iter(held.items()))
        for rank, told in held.items():
            for field in ("dtype", "kind", "shape", "value"):
                if told[field] != first[field]:
                    self.problems.append(f'tensor "{name}" has {field} {first[field]} on rank {first_rank}, '
                                         f"{told[field]} on rank {rank}")
        if not first["common"] and first["bucket"] is None:
            mains: dict[Box, list[int]] = {told["box"]: [] for told in held.values()}
            for rank, told in held.items():
                if told["main"]:
                    mains[told["box"]].append(rank)
            for box, ranks in mains.items():
                if len(ranks) != 1:
                    holders = sorted(rank for rank, told in held.items() if told["box"] == box)
                    self.problems.append(
                        f'tensor "{name}" {box_text(box)} is the main replica of {len(ranks)} of the ranks {holders}: '
                        + ("two tensors of one name? Give each its own global key" if ranks else "nobody would save it"))
        return len(self.problems) == before

    def _tensor(self, name: str, held: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
        """The first mesh that expresses it; the reason of the first if none does."""
        first = next(iter(held.values()))
        reasons = []
        for mesh in self._meshes:
            try:
                of = self._held[first["bucket"]["of"]] if first["bucket"] else held
                cuts, pins = layout_of(first["shape"], {rank: told["box"] for rank, told in of.items()}, mesh)
                shape = self._without_padding(first, cuts, mesh)
                if first["bucket"]:
                    cuts = cuts + self._bucket_cut(held, of, mesh)
                return {"name": name, "kind": first["kind"], "dtype": first["dtype"], "shape": shape, "mesh": mesh.name,
                        "cuts": cuts, "pins": pins}
            except ValueError as problem:
                reasons.append(problem)
        raise reasons[0]

    def _without_padding(self, told: Mapping[str, Any], cuts: list[dict[str, Any]], mesh: Mesh) -> list[int]:
        """The shape with the vocabulary in front; the cut of it leaves the padding at its end."""
        shape = list(told["shape"])
        if self._vocabulary is None or not told["padded"] or shape[0] <= self._vocabulary:
            return shape
        rows = told["box"][0][1] - told["box"][0][0]
        over = [cut for cut in cuts if cut["dim"] == 0]
        if not over:  # padded all the same: a cut over an axis of one
            over = [{"axis": axis, "dim": 0, "rule": "EVEN"} for axis, size in mesh.axes if size == 1][:1]
            cuts += over
        if len(over) != 1 or over[0]["rule"] != "EVEN":
            raise ValueError("has a padded vocabulary, which takes one even cut of dimension 0, be it over an axis of size 1")
        over[0].update(rule="PADDED", multiple=rows)
        return [self._vocabulary, *shape[1:]]

    def _bucket_cut(self, held: Mapping[int, dict[str, Any]], of: Mapping[int, dict[str, Any]],
                    mesh: Mesh) -> list[dict[str, Any]]:
        """The flat cut of optimizer state in a bucket, if it gives each rank the range that it has."""
        first = next(iter(held.values()))["bucket"]
        start, elements = first["start"], first["elements"]
        groups = {tuple(told["bucket"]["group"]) for told in held.values()}
        axes = {mesh.axes_of(group) for group in groups}
        if len(axes) != 1 or None in axes:
            raise ValueError(f"is in buckets of the ranks {sorted(groups)}, which are no axes of the mesh {dict(mesh.axes)}")
        for rank, told in of.items():
            mine = next((group for group in groups if rank in group), None)
            if mine is None:
                raise ValueError(f"is on rank {rank}, which has no share of its bucket")
            part = bucket_part(start, elements, math.prod(end - begin for begin, end in told["box"]), len(mine),
                               mine.index(rank))
            bucket = held[rank]["bucket"] if rank in held else {"range": (0, 0), "start": start, "elements": elements}
            if (bucket["start"], bucket["elements"]) != (start, elements) or tuple(bucket["range"]) != part:
                raise ValueError(f"has the elements {bucket['range']} on rank {rank}, at {bucket['start']} of a bucket of "
                                 f"{bucket['elements']}; on others it is at {start} of {elements}")
        axis = axes.pop()
        return [{"axis": axis, "flat": True, "rule": "BUCKET", "start": start, "bucket": elements}] if axis else []
