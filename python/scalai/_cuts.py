"""From the boxes that ranks hold back to cuts and pins over the axes of a mesh."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Range = tuple[int, int]
Box = tuple[Range, ...]
Place = tuple[int, ...]  # a coordinate on each axis


class Mesh:
    """Named axes over all ranks, fastest first: rank = Σ coordinate · stride."""

    def __init__(self, name: str, sizes: Mapping[str, int]):
        self.name = name
        self.axes = list(sizes.items())
        self.size = math.prod(sizes.values())

    def place_of(self, rank: int) -> Place:
        place = []
        for _, size in self.axes:
            rank, coordinate = divmod(rank, size)
            place.append(coordinate)
        return tuple(place)

    def axes_of(self, group: Sequence[int]) -> str | None:
        """The axis, or several as one ("cp+dp"), along which the ranks of a group differ, in this order; None if none."""
        places = [self.place_of(rank) for rank in group]
        differ = [i for i in range(len(self.axes)) if len({place[i] for place in places}) > 1]
        wanted = [range(self.axes[i][1]) if i in differ else [places[0][i]] for i in range(len(self.axes))]
        along = [place[::-1] for place in itertools.product(*reversed(wanted))]  # the first axis is the fastest
        return "+".join(self.axes[i][0] for i in differ) if along == places else None

    def fields(self) -> dict[str, Any]:
        return {"name": self.name, "axes": [{"name": name, "size": size} for name, size in self.axes]}


def layout_of(shape: Sequence[int], boxes: Mapping[int, Box],
              mesh: Mesh) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The cuts and the pins that give each of these ranks its box, and other ranks none.

    Cuts are even if they can be, else explicit. Raises ValueError, with what is wrong, if no cuts do.
    """
    parts_of = {mesh.place_of(rank): box for rank, box in boxes.items()}
    at = [sorted({place[i] for place in parts_of}) for i in range(len(mesh.axes))]
    if len(parts_of) != math.prod(map(len, at)):
        raise ValueError(f"is held by the ranks {sorted(boxes)}, which are no block of the mesh {dict(mesh.axes)}")
    pins = [{"axis": axis, "at": held} for (axis, size), held in zip(mesh.axes, at) if len(held) < size]
    pinned = {pin["axis"] for pin in pins}
    cuts: list[dict[str, Any]] = []
    used: set[int] = set()
    for dim, extent in enumerate(shape):
        parts = {place: box[dim] for place, box in parts_of.items()}
        along = [i for i in range(len(mesh.axes)) if _changes(parts, i)]
        for i in along:
            if i in used or mesh.axes[i][0] in pinned:
                why = "two dimensions" if i in used else f"dimension {dim}, and held by some coordinates of it only"
                raise ValueError(f"is cut over {mesh.axes[i][0]} along {why}")
        used.update(along)
        cuts += _cuts_of(dim, extent, parts, along, mesh)
    return cuts, pins


def bucket_part(start: int, bucket: int, elements: int, parts: int, index: int) -> Range:
    """What share `index` of a bucket has of a tensor that lies at `start`; empty as (0, 0)."""
    share = bucket // parts
    begin, end = max(start, index * share), min(start + elements, (index + 1) * share)
    return (begin - start, end - start) if begin < end else (0, 0)


def _changes(parts: Mapping[Place, Range], axis: int) -> bool:
    """Whether places that differ on this axis only have different parts."""
    first: dict[Place, Range] = {}
    return any(first.setdefault(place[:axis] + place[axis + 1:], part) != part for place, part in parts.items())


def _cuts_of(dim: int, extent: int, parts: Mapping[Place, Range], along: list[int], mesh: Mesh) -> list[dict[str, Any]]:
    for order in itertools.permutations(reversed(along)):  # first as the mesh has them, its slowest axis first
        sizes = [mesh.axes[i][1] for i in order]
        if extent % math.prod(sizes) == 0 and all(
                part == _even(extent, sizes, [place[i] for i in order]) for place, part in parts.items()):
            return [{"axis": mesh.axes[i][0], "dim": dim, "rule": "EVEN"} for i in order]
    runs = {tuple(place[i] for i in reversed(along)): part for place, part in parts.items()}
    bounds = [0]
    for begin, end in (runs[place] for place in sorted(runs)):
        if begin != bounds[-1]:
            raise ValueError(f"has a gap or an overlap at {min(begin, bounds[-1])} of dimension {dim}, "
                             f"cut over {_names(along, mesh) or 'nothing'}")
        bounds.append(end)
    if bounds[-1] != extent:
        raise ValueError(f"ends at {bounds[-1]} of {extent} in dimension {dim}, cut over {_names(along, mesh) or 'nothing'}")
    return [{"axis": _names(along, mesh), "dim": dim, "rule": "EXPLICIT", "bounds": bounds}]


def _names(along: Iterable[int], mesh: Mesh) -> str:
    return "+".join(mesh.axes[i][0] for i in along)


def _even(extent: int, sizes: Sequence[int], coordinates: Sequence[int]) -> Range:
    """One even cut after the other: [0, extent) over the first axis, each part over the next."""
    begin = 0
    for size, coordinate in zip(sizes, coordinates):
        extent //= size
        begin += coordinate * extent
    return begin, begin + extent
