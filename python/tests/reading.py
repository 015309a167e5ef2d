"""Training whose batches are read ahead by processes of a DataLoader:

    python reading.py GPUS|kill,… STEPS FOLDER      writes FOLDER/RANK.csv: step,id,id,…

Each of these happens once it has trained four steps with what the one before has asked for. kill: the process of rank 1 dies
when its optimizer has returned, before it advances. It has trained a step before, so it is known how the program treats its
state.
"""

import os
import pathlib
import signal
import sys
import time

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
    changes, ranks, done, died = list(changes), 0, 0, folder / "died"
    while job.step < steps:
        with job:
            if job.world.size != ranks:
                ranks, done = job.world.size, 0
            ids, inputs = next(batches)
            job.model(inputs).square().mean().backward()
            job.optimizer.step()
            # Not before: a step that somebody's death ends is begun again.
            with open(folder / f"{job.world.rank}.csv", "a", encoding="utf-8") as file:
                file.write(",".join(map(str, (job.step, *ids.tolist()))) + "\n")
            job.optimizer.zero_grad()
        done += 1
        while changes and (died.exists() if changes[0] == "kill" else int(changes[0]) == ranks):
            changes.pop(0)
        if changes and done > 3:
            if changes[0] != "kill":
                if job.world.rank == 0 and done == 4:
                    job.request(int(changes[0]))
                time.sleep(0.1)  # steps are few
            elif job.world.rank == 1:
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        job.advance()


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(sys.argv[1].split(","), int(sys.argv[2]), pathlib.Path(sys.argv[3]))
