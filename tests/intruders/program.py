"""Training without an end, for intrude."""

import time

import torch
from torch.distributed.fsdp import fully_shard

import scalai


def build(world):
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(8, 24), torch.nn.Tanh(), torch.nn.Linear(24, 1))
    if world.axes["dp"] > 1:
        fully_shard(model, mesh=world.mesh["dp"])
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


torch.set_num_threads(1)
job = scalai.attach()
job.start(build, scalai.Sampler(96, 12))
while True:
    with job:
        ids = next(job.data)
        job.model(torch.ones(len(ids), 8)).square().mean().backward()
        job.optimizer.step()
        job.optimizer.zero_grad()
        time.sleep(0.1)
    job.advance()
