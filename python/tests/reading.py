"""Training whose batches are read ahead by processes of a DataLoader:

    python reading.py STEP:GPUS|STEP:kill,… STEPS FOLDER      writes FOLDER/RANK.csv: step,id,id,…

kill: from this step on, once: the process of rank 1 dies when its optimizer has returned, before it advances. It has trained a
step before, so it is known how the program treats its state.
"""

import os
import pathlib
import signal
import sys

import torch
from torch.distributed.fsdp import fully_shard

import scalai
import scalai.torch

SAMPLES, BATCH = 96, 12


class Numbers(torch.utils.data.Dataset):
    def __getitem__(self, index):
        return index, torch.sin(index * torch.arange(1.0, 9.0))


def build(world):
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(8, 24), torch.nn.Tanh(), torch.nn.Linear(24, 1))
    if world.axes["dp"] > 1:
        fully_shard(model, mesh=world.mesh["dp"])
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


def train(changes, steps, folder):
    job = scalai.attach()
    data = scalai.Sampler(SAMPLES, BATCH, seed=3)
    batches = iter(scalai.torch.DataLoader(Numbers(), batch_sampler=data, num_workers=2, persistent_workers=True))
    job.start(build, data)
    kill = min((step for step, what in changes.items() if what == "kill"), default=steps)
    done = 0
    while job.step < steps:
        with job:
            ids, inputs = next(batches)
            with open(folder / f"{job.world.rank}.csv", "a", encoding="utf-8") as file:
                file.write(",".join(map(str, (job.step, *ids.tolist()))) + "\n")
            job.model(inputs).square().mean().backward()
            job.optimizer.step()
            job.optimizer.zero_grad()
        died = folder / "died"
        if job.step >= kill and done > 0 and job.world is not None and job.world.rank == 1 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if changes.get(job.step, "").isdigit():
            job.request(int(changes[job.step]))
        done += 1
        job.advance()


if __name__ == "__main__":
    torch.set_num_threads(1)
    train({int(step): what for step, what in (word.split(":") for word in sys.argv[1].split(","))}, int(sys.argv[2]),
          pathlib.Path(sys.argv[3]))
