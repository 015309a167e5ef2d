"""examples/training/gpt.py with a dataset that is read wrongly after a change: from its beginning again, and without its
ranks' shares, as a loop does that keeps its position in the process."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "training"))

import gpt  # noqa: E402
import scalai  # noqa: E402


class Forgetful(scalai.Sampler):
    _since = 0

    def reshape(self, rank, ranks):
        super().reshape(rank, ranks)
        self._since = self.step

    def at(self, step):
        return self._steps.samples(step - self._since, 0, self.ranks)


scalai.Sampler = Forgetful
gpt.main()
