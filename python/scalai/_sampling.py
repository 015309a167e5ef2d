"""The samples that a data-parallel rank reads in each step, the same for every number of ranks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from . import _core
from ._errors import InvalidError


class Sampler:
    """Ids of this rank's samples, step by step.

    The batch of a step does not depend on the number of ranks: after :meth:`reshape` the ranks together read on where
    the others stopped, nothing lost, nothing twice. An endless iterator of lists of ids. In a job each step takes its batch
    while it is trained. For reading ahead there is :class:`scalai.torch.DataLoader`; a DataLoader of PyTorch with
    ``num_workers=0`` may have it as ``batch_sampler``, too.

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
        self._training: int | None = None  # the step of a job that may take its batch
        self._read: tuple[int, list[int]] = (-1, [])

    def reshape(self, rank: int, ranks: int) -> None:
        """From the next step on this is rank `rank` of `ranks`."""
        self._steps.samples(self.step, rank, ranks)
        self.rank, self.ranks = rank, ranks

    def begin(self) -> None:
        """A job is about to follow. Refuses a sampler some of whose batches have been taken: nobody knows when they are trained."""
        if self._read[0] >= 0:
            raise InvalidError("batches of the sampler were taken before Job.start, so a step would train on those of another\n"
                               "hint: scalai.torch.DataLoader reads ahead, and follows a job's layout; Sampler.at(step) only looks")

    def go_to(self, step: int) -> None:
        """A job trains this step: it may take this batch, once."""
        self.step = self._training = step
        self._read = (-1, [])

    def at(self, step: int) -> list[int]:
        """The ids of one step, without moving on."""
        return self.ids_of(step, self.rank, self.ranks)

    def ids_of(self, step: int, rank: int, ranks: int) -> list[int]:
        """The ids of one step, of any rank of any number of ranks."""
        return self._steps.samples(step, rank, ranks)

    def __iter__(self) -> Iterator[list[int]]:
        return self

    def __next__(self) -> list[int]:
        ids = self.at(self.step)
        self.take(ids)
        return ids

    def take(self, ids: list[int]) -> None:
        """The program gets these ids, which are those of the present step, and trains on them."""
        if self._training is not None and self.step != self._training:
            raise InvalidError(f"the batch of step {self.step} is asked for while step {self._training} is trained\n"
                               "hint: a step takes its batch once; scalai.torch.DataLoader reads ahead, and follows a job's layout")
        self._read = (self.step, ids)
        self.step += 1

    def account(self, step: int) -> tuple[int, int, int] | None:
        """Of the ids that the program got for this step: their number, and two sums over them by which the run's ledger proves
        that every sample was trained on once. None: it has not asked for them."""
        read_step, ids = self._read
        return self._steps.account(ids, step, self.rank, self.ranks) if read_step == step else None

    def state_dict(self) -> dict[str, Any]:
        """The position as `ptc/store/datasets` writes it (docs/reports.md, the dataset state); ranks are no part of it."""
        return json.loads(self._steps.state_at(self.step))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._open(state)
