"""A small GPT on the characters of some text, in plain PyTorch: tensor parallel, pipeline, FSDP2. Lines that are there for
Scalai end with "# Scalai".

    python gpt.py collections FOLDER pp1,dp2,tp1 pp2,dp1,tp1 …     the state of each layout, for scenarios
    scalai exec SCENARIO --out=out --train="python gpt.py train"   trains while GPUs come and go
    python gpt.py static --layout=pp1,dp1,tp1                      the same without Scalai, by torchrun or alone
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional

from corpus import TEXT, Log, batch_of, samples_of, text_of
import scalai.torch  # Scalai

AXES = ("pp", "dp", "tp")  # slowest first
TOKENS = 128  # the characters of corpus.py


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.head = width // heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (part(x).view(batch, length, -1, self.head).transpose(1, 2) for part in (self.q, self.k, self.v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, -1))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Stage(nn.Module):
    """The blocks of one pipeline stage. Names count over the whole model, so that every tensor has one name."""

    def __init__(self, options, stage, stages):
        super().__init__()
        self.first, self.last = stage == 0, stage == stages - 1
        own = range(options.layers * stage // stages, options.layers * (stage + 1) // stages)
        if self.first:
            self.tokens, self.places = nn.Embedding(TOKENS, options.width), nn.Embedding(options.length, options.width)
        self.blocks = nn.ModuleDict({str(i): Block(options.width, options.heads) for i in own})
        if self.last:
            self.norm, self.logits = nn.LayerNorm(options.width), nn.Linear(options.width, TOKENS)

    def forward(self, x):
        if self.first:
            x = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks.values():
            x = block(x)
        return self.logits(self.norm(x)) if self.last else x


def builder(options):
    def build(world):
        pp, dp, tp = (world.axes[axis] for axis in AXES)
        stage = Stage(options, world.coordinate("pp"), pp)
        begin_alike(stage)
        for block in stage.blocks.values():
            if tp > 1:
                parallelize_module(block, world.mesh["tp"], {
                    "attention.q": ColwiseParallel(), "attention.k": ColwiseParallel(), "attention.v": ColwiseParallel(),
                    "attention.out": RowwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()})
            if dp > 1:
                fully_shard(block, mesh=world.mesh["dp"])
        if dp > 1:
            fully_shard(stage, mesh=world.mesh["dp"])
        # Not all tensors at once (foreach, on GPUs the default): some are sharded over tp, others not.
        optimizer = torch.optim.AdamW(stage.parameters(), lr=options.lr, foreach=False)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / options.warmup))
        return stage, optimizer, scheduler

    return build


def begin_alike(stage):
    """Every layout begins with the same weights: a tensor's random numbers depend on its name."""
    with torch.no_grad():
        for name, parameter in stage.named_parameters():
            if parameter.dim() > 1 and not parameter.is_meta:
                generator = torch.Generator().manual_seed(sum(ord(letter) << (8 * (i % 7)) for i, letter in enumerate(name)))
                parameter.copy_(torch.empty(parameter.shape, device="cpu").normal_(0, 0.02, generator=generator))
            elif name.endswith("bias"):
                parameter.zero_()


def loss_of(logits, wanted):
    return functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())


def train_step(world, model, optimizer, scheduler, batch):
    """One step on this rank's share of the batch; returns the loss of the whole batch, on the last stage."""
    x, wanted = batch[:, :-1], batch[:, 1:]
    stages = world.axes["pp"]
    if stages == 1:
        loss = loss_of(model(x), wanted)
        loss.backward()
    else:
        if not hasattr(model, "schedule"):
            stage = PipelineStage(model, world.coordinate("pp"), stages, x.device, group=world.mesh.get_group("pp"))
            model.schedule = ScheduleGPipe(stage, min(stages, len(x)), loss_fn=loss_of)
        losses = []
        if model.first:
            model.schedule.step(x)
        elif model.last:
            model.schedule.step(target=wanted, losses=losses)
        else:
            model.schedule.step()
        loss = torch.stack(losses).mean() if losses else torch.zeros(())
    optimizer.step()
    optimizer.zero_grad()
    scheduler.step()
    loss = loss.detach().clone()
    dist.all_reduce(loss, group=world.mesh.get_group("dp"))
    return float(loss) / world.axes["dp"]


def train(options):
    text, log = text_of(options), Log(options)
    job = scalai.attach()  # Scalai
    job.start(builder(options), scalai.Sampler(samples_of(text, options), options.batch, drop_last=True),
              restart=options.restart, backend=options.collectives)  # Scalai
    while job.step < options.steps:
        with job:  # Scalai
            began = time.monotonic()
            batch = batch_of(text, next(job.data), options).to(job.world.device)
            loss = train_step(job.world, job.model, job.optimizer, job.scheduler, batch)
            log.write(job.world, job.step, loss, time.monotonic() - began)
        job.advance()  # Scalai


def static(options):
    """The same training without Scalai, in one layout."""
    os.environ.setdefault("RANK", "0"), os.environ.setdefault("WORLD_SIZE", "1")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1"), os.environ.setdefault("MASTER_PORT", "0")
    dist.init_process_group("gloo")
    sizes, device = sizes_of(options.layout), torch.device("cuda" if torch.cuda.is_available() else "cpu")
    world = scalai.World(sizes, dist.get_rank(), init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=AXES))
    with device:
        model, optimizer, scheduler = builder(options)(world)
    text, log = text_of(options), Log(options)
    data = scalai.Sampler(samples_of(text, options), options.batch, rank=world.coordinate("dp"), ranks=sizes["dp"],
                          drop_last=True)
    for step in range(options.steps):
        began = time.monotonic()
        loss = train_step(world, model, optimizer, scheduler, batch_of(text, next(data), options).to(device))
        log.write(world, step, loss, time.monotonic() - began)
    dist.destroy_process_group()


def sizes_of(layout):
    given = {word.rstrip("0123456789"): int(word.lstrip("abcdefghijklmnopqrstuvwxyz")) for word in layout.split(",")}
    return {axis: given.get(axis, 1) for axis in AXES}


def collections(options):
    print(f"a dataset of {samples_of(text_of(options), options)} samples")
    for layout in options.layouts:
        collection = scalai.torch.collection_for(builder(options), sizes_of(layout))  # Scalai
        collection.save(f"{options.folder}/{layout}.textproto")  # Scalai


def add_sizes(parser):
    for name, value in {"width": 64, "heads": 4, "layers": 4, "length": 64, "batch": 8, "steps": 600, "warmup": 20}.items():
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--text", default=TEXT, help="folder of *.md")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("train", "static", "collections"))
    parser.add_argument("folder", nargs="?", default=".", help="collections: where they are written")
    parser.add_argument("layouts", nargs="*", help="collections: such as pp2,dp2")
    add_sizes(parser)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--layout", default="pp1,dp1,tp1", help="static: the layout")
    parser.add_argument("--restart", action="store_true", help="train: begin the program anew for each layout")
    parser.add_argument("--collectives", help="train: torch.distributed's backend; gloo where processes share a GPU")
    parser.add_argument("--log", default="", help="file for step,loss,seconds,ranks")
    options = parser.parse_args()
    torch.set_num_threads(1)
    {"train": train, "static": static, "collections": collections}[options.command](options)


if __name__ == "__main__":
    main()
