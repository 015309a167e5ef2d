"""The samples that a data-parallel rank reads in each step, the same for every number of ranks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from . import _core


class Sampler:
    """Ids of this rank's samples, step by step.

    The batch of a step does not depend on the number of ranks: after :meth:`reshape` the ranks together read on where
    the others stopped, nothing lost, nothing twice. An endless iterator of lists of ids; works in a DataLoader as
    ``batch_sampler``.

    samples       of a pass over the dataset
    global_batch  samples of a step, over all ranks
    shuffle       another pseudorandom order in every pass, from `seed`
    drop_last     no short batch at the end of a pass
    """

    def __init__(self, samples: int, global_batch: int, *, rank: int = 0, ranks: int = 1, seed: int = 0,
                 shuffle: bool = True, drop_last: bool = False):
        self._open({"schema_version": 1, "index": "", "samples": samples, "sequence": 0, "seed": seed,
                    "shuffle": shuffle, "drop_last": drop_last, "global_batch": global_batch, "step": 0, "pass": 0,
                    "consumed": 0})
        self.reshape(rank, ranks)

    def _open(self, state: dict[str, Any]) -> None:
        self._steps = _core.SampleSteps(json.dumps(state))
        self.step = state["step"]
        self._read: tuple[int, list[int]] = (-1, [])

    def reshape(self, rank: int, ranks: int) -> None:
        """From the next step on this is rank `rank` of `ranks`."""
        self._steps.samples(self.step, rank, ranks)
        self.rank, self.ranks = rank, ranks

    def at(self, step: int) -> list[int]:
        """The ids of one step, without moving on."""
        return self._steps.samples(step, self.rank, self.ranks)

    def __iter__(self) -> Iterator[list[int]]:
        return self

    def __next__(self) -> list[int]:
        ids = self.at(self.step)
        self._read = (self.step, ids)
        self.step += 1
        return ids

    def account(self, step: int) -> tuple[int, int, int] | None:
        """Of the ids that were handed out last, if that was for this step: their number, and two sums over them by which
        the run's ledger proves that every sample was read once."""
        read_step, ids = self._read
        return self._steps.account(ids, step, self.rank, self.ranks) if read_step == step else None

    def state_dict(self) -> dict[str, Any]:
        """The position as `ptc/data` writes it (docs/reports.md, the dataset state); ranks are no part of it."""
        return json.loads(self._steps.state_at(self.step))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._open(state)
