"""Training with a gradient scaler, and a schedule that looks at the loss:

    python watching.py train|copied|static STEP:GPUS,… STEPS LOG      writes step,loss,rate,scale

copied: with a model that does not lie in the worker's memory.
"""

import os
import pathlib
import signal
import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

import scalai

SAMPLES, BATCH = 10_000, 24


def build(world):
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(8, 30), torch.nn.Tanh(), torch.nn.Linear(30, 1))
    if world is not None and world.axes["dp"] > 1:
        fully_shard(model, mesh=world.mesh["dp"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.7, patience=1, cooldown=1)
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=5)
    return model, optimizer, None, {"plateau": plateau, "scaler": scaler}


def train_step(model, optimizer, objects, ids, ranks):
    places = torch.tensor(ids, dtype=torch.float32)[:, None] * torch.arange(1, 9)
    x = torch.sin(places)
    loss = (model(x) - torch.cos(places.sum(1, keepdim=True))).square().mean()
    scaler = objects["scaler"]
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    loss = loss.detach().clone()
    if ranks > 1:
        dist.all_reduce(loss)
    loss = float(loss) / ranks
    objects["plateau"].step(round(loss, 4))
    return loss, optimizer.param_groups[0]["lr"], scaler.get_scale()


def write(log, step, values):
    with open(log, "a", encoding="utf-8") as file:
        file.write(",".join(map(repr, (step, *values))) + "\n")


def static(steps, log):
    model, optimizer, _, objects = build(None)
    data = scalai.Sampler(SAMPLES, BATCH, drop_last=True)
    for step in range(steps):
        write(log, step, train_step(model, optimizer, objects, next(data), 1))


def train(wanted, steps, log, in_place):
    job = scalai.attach()
    job.start(build, scalai.Sampler(SAMPLES, BATCH, drop_last=True), in_place=in_place)
    while job.step < steps:
        with job:
            ranks = job.world.axes["dp"]
            assert job.world.local_rank == int(os.environ["SCALAI_DEVICE"]), "there is one host"
            dying = pathlib.Path(log).with_suffix(f".{job.step}")
            if wanted.get(job.step) == 0 and job.world.rank == 0 and not dying.exists():
                dying.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            values = train_step(job.model, job.optimizer, job.objects, next(job.data), ranks)
            if job.world.rank == 0:
                write(log, job.step, values)
        if wanted.get(job.step):
            job.request(wanted.pop(job.step))
        job.advance()


if __name__ == "__main__":
    torch.set_num_threads(1)
    command, words, count, path = sys.argv[1:]
    if command == "static":
        static(int(count), path)
    else:
        changes = {int(step): int(gpus) for step, gpus in (word.split(":") for word in words.split(","))}
        train(changes, int(count), path, command == "train")
