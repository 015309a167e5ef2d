"""When a step's state is whole: at the return of the optimizer, or later."""

from __future__ import annotations

from collections.abc import Sequence

import torch


class Rewriting:
    """Whether a program leaves its state alone between the return of its optimizer and Job.advance.

    Where it does, the state is whole when the optimizer has returned, and a process that dies while it logs or evaluates
    loses nothing. The first step of a program tells: how often it calls the optimizer, and whether the content of all
    tensors is the same at `advance` (an average of weights, a clamp, would show). Until then, and for good after a step
    that does otherwise (versions of tensors tell), the state is whole at `advance` only.
    """

    def __init__(self) -> None:
        self._usual: int | None = None  # calls of the optimizer in a step
        self._quiet = True
        self.take([], False)

    def take(self, tensors: Sequence[torch.Tensor], alone: bool) -> None:
        """The state of a new layout; `alone`: there is no other state, which changes in its own way."""
        self._tensors, self._alone = tensors, alone
        self._calls = 0
        self._versions: list[int] | None = None  # when the optimizer returned last
        self._sums: list[tuple[int, int]] = []

    def calls(self) -> None:
        """Before the optimizer rewrites its state."""
        self._calls += 1
        if self._usual is not None and self._calls > self._usual:
            self._quiet = False

    def returns(self) -> bool:
        """After that: whether the state is whole."""
        self._versions = [tensor._version for tensor in self._tensors]
        if self._usual is None:
            self._sums = [_sum(tensor) for tensor in self._tensors]
        return self._alone and self._quiet and self._calls == self._usual

    def advances(self) -> bool:
        """At the end of the step: whether its state has been whole since the optimizer returned."""
        calls, self._calls = self._calls, 0
        versions, self._versions = self._versions, None
        same = versions is not None and versions == [tensor._version for tensor in self._tensors]
        learns = self._usual is None
        if learns:
            same = same and self._sums == [_sum(tensor) for tensor in self._tensors]
            self._usual, self._sums = calls, []
        self._quiet = self._quiet and same and calls == self._usual
        return self._alone and self._quiet and not learns


def _sum(tensor: torch.Tensor) -> tuple[int, int]:
    """Of the bytes, as numbers of eight, modulo 2^64."""
    data = tensor.detach().contiguous().view(-1).view(torch.uint8)
    words = data.numel() // 8 * 8
    return int(data[:words].view(torch.int64).sum()), int(data[words:].sum())
