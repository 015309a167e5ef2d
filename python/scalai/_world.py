"""The processes of a job in one layout."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass
class World:
    """What a job's `build` gets: who this process is, in which layout.

    axes    name and size of each axis of the mesh, slowest first: {"pp": 2, "dp": 2, "tp": 2}
    rank    of this process, 0 to size - 1; the fastest axis first
    mesh    the DeviceMesh over all ranks, with the names of the axes
    """

    axes: dict[str, int]
    rank: int
    mesh: Any

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
