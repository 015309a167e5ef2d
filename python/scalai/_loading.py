"""A DataLoader that reads ahead, and yet hands out the batches of the steps that are trained."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader as _DataLoader
from torch.utils.data import Dataset

from ._errors import InvalidError
from ._sampling import Sampler


class DataLoader(_DataLoader):
    """PyTorch's, over the samples of a job.

        loader = scalai.torch.DataLoader(dataset, batch_sampler=job.data, num_workers=4)
        batches = iter(loader)
        while job.step < total:
            with job:
                train_step(job.model, job.optimizer, next(batches))
            job.advance()

    A batch comes with the step and the share that it was read for. When the job is at another one, after a change of layout
    or a step that was given up, what was read ahead is dropped and the workers read for the present share. So the iterator
    is endless, and stays good for the life of the job.

    All options of PyTorch's DataLoader that go with a batch_sampler hold, `in_order=False` aside. Without `generator` the
    loader has one of its own, so that a new iterator draws nothing from the random numbers of the training.
    """

    def __init__(self, dataset: Dataset[Any], batch_sampler: Sampler, *, generator: torch.Generator | None = None,
                 **options: Any):
        if not isinstance(batch_sampler, Sampler):
            raise InvalidError(f"scalai.torch.DataLoader: batch_sampler is a {type(batch_sampler).__name__}, not a scalai.Sampler")
        if not options.get("in_order", True):
            raise InvalidError("scalai.torch.DataLoader: in_order=False hands out batches in an order that no step has")
        self._ahead = _Ahead(batch_sampler)
        super().__init__(dataset, batch_sampler=self._ahead, generator=generator or torch.Generator(), **options)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        return _Batches(self, self._ahead)


class _Batches:
    def __init__(self, loader: DataLoader, ahead: _Ahead):
        self._loader, self._ahead = loader, ahead
        self._found: Iterator[Any] | None = None
        self._comes: tuple[int, int, int] | None = None  # step, rank and ranks of the next batch of `_found`

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        sampler = self._ahead.sampler
        due = (sampler.step, sampler.rank, sampler.ranks)
        if self._comes != due or self._found is None:
            self._found = None  # its processes end before others start
            self._found, self._ids = _DataLoader.__iter__(self._loader), self._ahead.ids
        self._comes = None  # an error leaves it open which batch comes
        batch = next(self._found)
        sampler.take(self._ids.popleft())
        self._comes = (due[0] + 1, *due[1:])
        return batch


class _Ahead:
    """The batch_sampler of the DataLoader beneath, from the sampler's present step and share on. `ids`: of the batches that the
    last iterator has handed out and the DataLoader has not; it keeps their order."""

    def __init__(self, sampler: Sampler):
        self.sampler = sampler
        self.ids: collections.deque[list[int]] = collections.deque()

    def __iter__(self) -> Iterator[list[int]]:
        # A generator would look at the sampler at its first id, not now.
        self.ids = collections.deque()
        return self._from(self.sampler.step, self.sampler.rank, self.sampler.ranks, self.ids)

    def _from(self, step: int, rank: int, ranks: int, handed_out: collections.deque[list[int]]) -> Iterator[list[int]]:
        while True:
            handed_out.append(self.sampler.ids_of(step, rank, ranks))
            yield handed_out[-1]
            step += 1
