"""examples/training/gpt.py that writes down when its steps ended, and its change of layout by PyTorch's own checkpoints.

    python timed.py WORDS-OF-GPT.PY                                          as gpt.py; the log has step, end, seconds, ranks
    python timed.py checkpoints FOLDER FROM TO static --layout=pp2 --log=…   loads step FROM (not 0), trains until TO, saves
"""

import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "training"))
import gpt  # noqa: E402
import scalai  # noqa: E402


FLAT = StateDictOptions(flatten_optimizer_state_dict=True)  # else groups of parameters do not outlive another pipeline


class Log(gpt.Log):
    def write(self, world, step, loss, seconds):
        super().write(world, step, time.monotonic(), seconds)


def checkpoints(folder, begin, end):
    """Takes the place of gpt.static."""

    def train(options):
        dist.init_process_group("gloo")
        sizes = gpt.sizes_of(options.layout)
        world = scalai.World(sizes, dist.get_rank(), init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=gpt.AXES))
        model, optimizer, scheduler = gpt.builder(options)(world)
        if begin > 0:
            weights, moments = get_state_dict(model, optimizer, options=FLAT)
            state = {"model": weights, "optimizer": moments}
            dcp.load(state, checkpoint_id=f"{folder}/{begin}")
            set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"], options=FLAT)
        text, log = gpt.text_of(options), Log(options)
        data = scalai.Sampler(gpt.samples_of(text, options), options.batch, rank=world.coordinate("dp"), ranks=sizes["dp"],
                              drop_last=True)
        data.step = begin
        for step in range(begin, end):
            began = time.monotonic()
            loss = gpt.train_step(world, model, optimizer, scheduler, gpt.batch_of(text, next(data), options))
            log.write(world, step, loss, time.monotonic() - began)
        weights, moments = get_state_dict(model, optimizer, options=FLAT)
        dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=f"{folder}/{end}")
        os._exit(0)  # the state is on the disk: nothing is worth waiting for

    return train


if __name__ == "__main__":
    gpt.Log = Log
    if sys.argv[1] == "checkpoints":
        gpt.static = checkpoints(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        del sys.argv[1:5]
    gpt.main()
