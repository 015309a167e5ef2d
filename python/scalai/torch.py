"""Collections of PyTorch jobs, read off the framework's own metadata.

    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
    model, optimizer = build(mesh)                        # DTensor, FSDP2, pipeline stages
    collection = scalai.torch.collection_of(model, optimizer, mesh)

Placements over the mesh become cuts, pipeline stages become pins, replicas stay replicas. What cannot be told apart from
a mistake is refused, with tensor and rank: a tensor that two stages have under one name, a plain tensor whose shape or
content differs between ranks, optimizer state that nobody knows.
"""

from __future__ import annotations

import dataclasses
import itertools
import multiprocessing
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.placement_types import Replicate, Shard

from ._errors import Error, FailedError, InvalidError
from ._loading import DataLoader as DataLoader
from ._planning import Collection
from ._world import World

DTYPES = {torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8", torch.float8_e4m3fn: "F8_E4M3",
          torch.float8_e5m2: "F8_E5M2", torch.int16: "I16", torch.float16: "F16", torch.bfloat16: "BF16",
          torch.int32: "I32", torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}
# State of the optimizers of torch.optim, by its key.
_KINDS = {"exp_avg": "EXP_AVG", "exp_avg_sq": "EXP_AVG_SQ", "max_exp_avg_sq": "EXP_AVG_SQ", "momentum_buffer": "MOMENTUM",
          "step": "SCALAR"}
_MOST_NAMED = 20


@dataclasses.dataclass
class LocalTensor:
    """One tensor of the state as this rank has it."""

    name: str
    kind: str
    tensor: torch.Tensor

    @property
    def local(self) -> torch.Tensor:
        """The rank's own part, not a copy."""
        tensor = self.tensor.detach()
        return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def state_of(model: torch.nn.Module | Sequence[torch.nn.Module],
             optimizer: torch.optim.Optimizer | None = None) -> list[LocalTensor]:
    """Every tensor of the state on this rank: parameters, persistent buffers, the optimizer's state.

    An optimizer that has not stepped yet gets the state it would begin with (Adam, AdamW, SGD with momentum).
    Raises InvalidError for optimizer state that has no known meaning, or parameters of the optimizer that the model lacks.
    """
    parts = list(model) if isinstance(model, (list, tuple)) else [model]
    state: list[LocalTensor] = []
    names: dict[torch.Tensor, str] = {}
    problems: list[str] = []
    for part in parts:
        for name, parameter in part.named_parameters():
            if parameter not in names:
                names[parameter] = name
                state.append(LocalTensor(name, "PARAM", parameter))
        persistent = part.state_dict(keep_vars=True)
        state += [LocalTensor(name, "BUFFER", buffer) for name, buffer in part.named_buffers() if name in persistent]
    if optimizer is not None:
        for group, parameter in _optimized(optimizer):
            if parameter not in names:
                problems.append(f"the optimizer has a parameter of shape {list(parameter.shape)} that the model lacks")
                continue
            state += _optimizer_state(names[parameter], parameter, group, optimizer, problems)
    raise_problems(problems)
    return state


def dtype_of(tensor: torch.Tensor) -> str | None:
    """The type's name in collections; None for one that they do not know."""
    return DTYPES.get(tensor.dtype)


def _optimized(optimizer: torch.optim.Optimizer) -> Iterable[tuple[dict[str, Any], torch.Tensor]]:
    return ((group, parameter) for group in optimizer.param_groups for parameter in group["params"]
            if parameter.requires_grad)


def _optimizer_state(name: str, parameter: torch.Tensor, group: dict[str, Any], optimizer: torch.optim.Optimizer,
                     problems: list[str]) -> list[LocalTensor]:
    state = optimizer.state[parameter]
    if not state:
        state.update(initial_state(parameter, group, optimizer, name, problems))
    found = []
    for key, value in state.items():
        if value is None:
            continue
        if not isinstance(value, torch.Tensor):
            problems.append(f'optimizer state "{key}" of "{name}" is a {type(value).__name__}, no tensor')
        elif value.dim() > 0 and value.shape != parameter.shape:
            problems.append(f'optimizer state "{key}" of "{name}" has the shape {list(value.shape)}, '
                            f"the parameter {list(parameter.shape)}")
        else:
            found.append(LocalTensor(f"{name}.{key}", _KINDS.get(key, "BUFFER"), value))
    return found


def initial_state(parameter: torch.Tensor, group: dict[str, Any], optimizer: torch.optim.Optimizer, name: str,
                   problems: list[str]) -> dict[str, torch.Tensor]:
    zeros = lambda: torch.zeros_like(parameter, memory_format=torch.preserve_format).detach()  # noqa: E731
    if isinstance(optimizer, (torch.optim.Adam, torch.optim.AdamW)):
        on_device = group.get("capturable") or group.get("fused")
        state = {"step": torch.zeros((), dtype=torch.float32, device=parameter.device if on_device else "cpu"),
                 "exp_avg": zeros(), "exp_avg_sq": zeros()}
        if group.get("amsgrad"):
            state["max_exp_avg_sq"] = zeros()
        return state
    # The first step of SGD makes the buffer from the gradient; from zeros it comes out the same without dampening.
    if isinstance(optimizer, torch.optim.SGD) and not group.get("dampening"):
        return {"momentum_buffer": zeros()} if group.get("momentum") else {}
    problems.append(f'the optimizer {type(optimizer).__name__} has no state for "{name}" yet; take a step first')
    return {}


def collection_of(model: torch.nn.Module | Sequence[torch.nn.Module], optimizer: torch.optim.Optimizer | None = None,
                  mesh: Any = None, *, stages: str = "pp", tied: Iterable[str] = (),
                  cuts: Mapping[str, tuple[str, int]] | None = None, devices: Sequence[int] | None = None,
                  objects: Mapping[str, Any] | None = None, name: str = "") -> Collection:
    """The collection of a job, from what its ranks have. Called by all ranks at once; all get the same.

    mesh     the DeviceMesh of all ranks, with names; without it one axis "dp" over all ranks
    stages   the axis of pipeline stages: what two stages have under one name has to be in `tied`
    tied     names (without an optimizer's suffix) of tensors that several stages share
    cuts     plain parameters that are shards: name → (axis, dimension); everything plain else is whole on each rank
    devices  the device of each rank of the job, by its rank in the default group (rank r has device r)
    objects  others with a small state, the same on all ranks: {"scaler": GradScaler()}, a tensor "objects.NAME" each
    """
    world, axes, ranks = _ranks(mesh)
    views = _gathered(_view((model, optimizer, None, objects), mesh, axes, cuts or {}), world)
    return _merged(views, axes, ranks, stages, tied, devices, name)


def collection_for(build: Callable[[World], tuple[Any, ...]], sizes: Mapping[str, int], *,
                   stages: str = "pp", tied: Iterable[str] = (), cuts: Mapping[str, tuple[str, int]] | None = None,
                   devices: Sequence[int] | None = None, name: str = "") -> Collection:
    """The collection that a job would have on a mesh of these sizes, such as ``{"pp": 2, "dp": 2, "tp": 4}`` (slowest
    axis first), without its processes or its memory.

    Calls ``build(world)``, which returns model and optimizer as for :meth:`Job.start`, as each rank in turn: in a child
    process, on the meta device, in a process group that sends nothing. Other arguments are those of
    :func:`collection_of`. For plans and scenarios of layouts that the job is not in. Not inside of a process group.
    """
    if dist.is_initialized():
        raise InvalidError("collection_for makes process groups of its own; call it outside of the job's")
    axes = list(sizes.items())
    world = _product(sizes.values())

    def as_rank(rank: int) -> list[dict[str, Any]]:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
        mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
        with torch.device("meta"):
            return _view(build(World(dict(sizes), rank, mesh)), mesh, axes, cuts or {})

    views = [_in_child(lambda: as_rank(rank)) for rank in range(world)]  # noqa: B023, called at once
    return _merged(views, axes, list(range(world)), stages, tied, devices, name)


def _in_child(work: Callable[[], Any]) -> Any:
    """What `work` returns in a fork of this process: PyTorch keeps meshes of the first rank that a process was."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def run() -> None:
        try:
            sender.send((work(), None))
        except Error as error:
            sender.send((None, error))
        except BaseException:  # of the caller's code
            sender.send((None, FailedError(traceback.format_exc())))

    child = context.Process(target=run)
    child.start()
    sender.close()
    try:
        result, error = receiver.recv()
    except EOFError:
        child.join()
        raise FailedError(f"a process that builds the model ended with {child.exitcode}") from None
    child.join()
    if error is not None:
        raise error
    return result


def _merged(views: list[list[dict[str, Any]]], axes: list[tuple[str, int]], ranks: list[int], stages: str,
            tied: Iterable[str], devices: Sequence[int] | None, name: str) -> Collection:
    problems: list[str] = []
    merged = _Merged(axes, ranks, stages, set(tied), problems)
    for rank in ranks:
        for one in views[rank]:
            merged.add(rank, one)
    tensors = merged.tensors()
    raise_problems(problems)
    placed = [devices[rank] if devices is not None else rank for rank in ranks]
    return Collection.from_dict(
        {"name": name or ",".join(f"{axis}{size}" for axis, size in reversed(axes)),
         "meshes": [{"axes": [{"name": axis, "size": size} for axis, size in reversed(axes)]}],  # fastest first
         "devices": ",".join(map(str, placed)), "tensors": tensors}, name or "collection")


def _view(built: tuple[Any, ...], mesh: Any, axes: list[tuple[str, int]],
          cuts: Mapping[str, tuple[str, int]]) -> list[dict[str, Any]]:
    from ._objects import Objects

    model, optimizer, _, objects = whole_result(built)
    return [_described(one, mesh, axes, cuts) for one in state_of(model, optimizer) + Objects(objects).tensors]


def whole_result(built: Any) -> tuple[Any, Any, Any, Any]:
    """Of a `build`: model, optimizer, schedule, objects, None for those that it does not return."""
    if not isinstance(built, tuple) or not 2 <= len(built) <= 4:
        raise InvalidError("build returns (model, optimizer), (…, scheduler) or (…, scheduler, objects)")
    return (*built, None, None)[:4]


def raise_problems(problems: list[str]) -> None:
    """One InvalidError with the first of them, and the number of the others."""
    if not problems:
        return
    more = len(problems) - _MOST_NAMED
    raise InvalidError("\n".join(problems[:_MOST_NAMED] + ([f"… and {more} more"] if more > 0 else [])))


def _ranks(mesh: Any) -> tuple[int, list[tuple[str, int]], list[int]]:
    """Number of ranks, axes of the mesh (slowest first), and the ranks in the order of the mesh."""
    world = dist.get_world_size() if dist.is_initialized() else 1
    if mesh is None:
        return world, [("dp", world)], list(range(world))
    if not mesh.mesh_dim_names:
        raise InvalidError('the mesh has no names; give mesh_dim_names=("pp", "dp", "tp") to init_device_mesh')
    ranks = mesh.mesh.flatten().tolist()
    if sorted(ranks) != list(range(world)):
        raise InvalidError(f"the mesh has the ranks {ranks}; it takes all {world} of the job, each once")
    return world, list(zip(mesh.mesh_dim_names, mesh.mesh.shape)), ranks


def _gathered(view: Any, world: int) -> list[Any]:
    if world == 1:
        return [view]
    views: list[Any] = [None] * world
    dist.all_gather_object(views, view)
    return views


def _described(one: LocalTensor, mesh: Any, axes: list[tuple[str, int]], cuts: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
    """What other ranks have to know of a tensor; "problem" where it cannot be described."""
    tensor = one.tensor
    told: dict[str, Any] = {"name": one.name, "kind": one.kind, "shape": list(tensor.shape), "cuts": [],
                            "dtype": dtype_of(tensor), "local": list(one.local.shape)}
    if told["dtype"] is None:
        told["problem"] = f"has the type {tensor.dtype}, which checkpoints do not know"
    elif isinstance(tensor, DTensor):
        try:
            told["cuts"] = _cuts_of(tensor, mesh, axes)
        except ValueError as problem:
            told["problem"] = str(problem)
    else:
        for name, cut in cuts.items():  # of a parameter: also for the optimizer's state of it
            if tensor.dim() > 0 and (one.name == name or one.name.startswith(name + ".")):
                told["declared"] = list(cut)
    return told


def _cuts_of(tensor: DTensor, mesh: Any, axes: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """Placements as cuts, in the order in which they were applied: plain shards as the mesh has them, then strided ones,
    which FSDP2 applies to what tensor parallelism has left."""
    plain, strided = [], []
    for dim, placement in enumerate(tensor.placements):
        if tensor.device_mesh.size(dim) == 1 or isinstance(placement, Replicate):
            continue
        axis = _axis_of(tensor.device_mesh, dim, mesh, axes)
        if type(placement).__name__ == "_StridedShard":
            strided.append({"axis": axis, "dim": placement.dim, "rule": "CEIL"})
        elif isinstance(placement, Shard):
            plain.append({"axis": axis, "dim": placement.dim, "rule": "CEIL"})
        else:
            raise ValueError(f"is {placement} over {axis}; only Shard and Replicate are state")
    if len(strided) > 1:
        raise ValueError("is cut by several strided shards, whose order is not known")
    return plain + strided


def _axis_of(submesh: Any, dim: int, mesh: Any, axes: list[tuple[str, int]]) -> str:
    """The axis of the whole mesh, or several as one ("dp+cp"), that a dimension of a tensor's mesh is: the one along
    which this rank has the same neighbours in the same order."""
    along = lambda grid, dims, here: grid[tuple(slice(None) if i in dims else here[i] for i in range(grid.dim()))]  # noqa: E731
    here = submesh.get_coordinate()
    neighbours = along(submesh.mesh, {dim}, here).flatten().tolist()
    if mesh is None:
        if neighbours == list(range(axes[0][1])):
            return axes[0][0]
        raise ValueError("lies on a mesh of some ranks; give collection_of the mesh of all")
    coordinates = mesh.get_coordinate()
    for count in range(1, len(axes) + 1):
        for dims in itertools.combinations(range(len(axes)), count):
            if along(mesh.mesh, set(dims), coordinates).flatten().tolist() == neighbours:
                return "+".join(axes[i][0] for i in reversed(dims))
    raise ValueError(f"is spread over the ranks {neighbours}, which are no axes of the mesh {dict(axes)}")


class _Merged:
    """The views of all ranks as one list of tensors."""

    def __init__(self, axes: list[tuple[str, int]], ranks: list[int], stages: str, tied: set[str], problems: list[str]):
        self._axes = axes
        self._stages = stages
        self._tied = tied
        self._problems = problems
        sizes = [range(size) for _, size in axes]
        self._coordinates = dict(zip(ranks, itertools.product(*sizes)))
        self._first: dict[str, tuple[int, dict[str, Any]]] = {}
        self._holders: dict[str, list[int]] = {}
        self._local: dict[str, dict[int, list[int]]] = {}

    def add(self, rank: int, told: dict[str, Any]) -> None:
        name = told["name"]
        if "problem" in told:
            self._problem(name, f"on rank {rank} {told['problem']}")
            return
        first_rank, first = self._first.setdefault(name, (rank, told))
        for field in ("dtype", "kind", "cuts"):
            if first[field] != told[field]:
                self._problem(name, f"has {field} {first[field]} on rank {first_rank}, {told[field]} on rank {rank}")
        plain = not first["cuts"] and "declared" not in first
        if first["shape"] != told["shape"] and "declared" not in first:
            remedy = "; if they are shards, say so with cuts={name: (axis, dimension)}" if plain else ""
            self._problem(name, f"has the shape {first['shape']} on rank {first_rank}, {told['shape']} on rank {rank}{remedy}")
        self._holders.setdefault(name, []).append(rank)
        self._local.setdefault(name, {})[rank] = told["local"]

    def _problem(self, name: str, text: str) -> None:
        self._problems.append(f'tensor "{name}" {text}')

    def tensors(self) -> list[dict[str, Any]]:
        merged = []
        for name, (_, told) in sorted(self._first.items()):  # in one order, whichever ranks have what
            tensor = {"name": name, "dtype": told["dtype"], "shape": told["shape"], "kind": told["kind"],
                      "cuts": told["cuts"], "pins": self._pins(name)}
            if "declared" in told:
                self._declare(name, told["declared"], tensor)
            merged.append(tensor)
        return merged

    def _pins(self, name: str) -> list[dict[str, Any]]:
        holders = {self._coordinates[rank] for rank in self._holders[name]}
        at = [sorted({place[i] for place in holders}) for i in range(len(self._axes))]
        if len(holders) != _product(len(values) for values in at):
            self._problem(name, f"is held by the ranks {self._holders[name]}, which are no block of the mesh")
        for (axis, _), values in zip(self._axes, at):
            if axis == self._stages and len(values) > 1 and not self._is_tied(name):
                self._problem(name, f"is on the stages {values}: two tensors of one name, or a tied one? "
                                    f'Give each its own global name, or say tied=["{name}"]')
        return [{"axis": axis, "at": values} for (axis, size), values in zip(self._axes, at) if len(values) < size]

    def _is_tied(self, name: str) -> bool:
        return any(name == one or name.startswith(one + ".") for one in self._tied)

    def _declare(self, name: str, declared: list[Any], tensor: dict[str, Any]) -> None:
        """A plain tensor that was said to be a shard: its bounds are the sums of what the ranks have."""
        axis, dim = declared
        index = [i for i, (known, _) in enumerate(self._axes) if known == axis]
        if not index or not -len(tensor["shape"]) <= dim < len(tensor["shape"]):
            self._problem(name, f"cannot be cut along dimension {dim} over {axis}: the axes are {dict(self._axes)}, "
                                f"the shape is {tensor['shape']}")
            return
        extents: dict[int, int] = {}
        for rank, local in self._local[name].items():
            at = self._coordinates[rank][index[0]]
            others = [extent for i, extent in enumerate(local) if i != dim % len(local)]
            if extents.setdefault(at, local[dim]) != local[dim] or others != [
                    extent for i, extent in enumerate(tensor["shape"]) if i != dim % len(local)]:
                self._problem(name, f"has the shape {local} on rank {rank}, which is no shard along dimension {dim} "
                                    f"beside {tensor['shape']}")
                return
        bounds = list(itertools.accumulate((extents[at] for at in sorted(extents)), initial=0))
        tensor["shape"] = [bounds[-1] if i == dim % len(tensor["shape"]) else extent for i, extent in enumerate(tensor["shape"])]
        tensor["cuts"] = [{"axis": axis, "dim": dim % len(tensor["shape"]), "rule": "EXPLICIT", "bounds": bounds}]


def _product(numbers: Iterable[int]) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result
