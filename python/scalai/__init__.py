"""Scalai: training state that follows its GPUs.

    import scalai
    old = scalai.Collection.of_model("gpt3-xl", "tp4,pp2")
    new = scalai.Collection.of_model("gpt3-xl", "tp2,pp2")
    print(scalai.plan(old, new))

Collections and plans need no PyTorch; `scalai.torch` reads a collection off a model and its optimizer, `scalai.megatron` off
the sharded state dict of Megatron-core.
"""

from ._core import version as __version__
from ._checkpoint import Checkpoint
from ._errors import Error, FailedError, InvalidError, MissingError
from ._job import Job, attach
from ._live import Live, LiveStep, live
from ._planning import Collection, Plan, plan
from ._sampling import Sampler
from ._simulation import Report, simulate
from ._transforms import Transform, transform
from ._world import World

__all__ = ["Checkpoint", "Collection", "Error", "FailedError", "InvalidError", "Job", "Live", "LiveStep", "MissingError", "Plan",
           "Report", "Sampler", "Transform", "World", "attach", "live", "plan", "simulate", "transform"]
