"""Steps of GPT, Llama and mixtures of experts on the one GPU here, as Megatron-Core trains: 16-bit parameters, gradients summed in
32 bits by the products themselves (with experts by a pass of its own), Adam on 32-bit copies, fused attention, memory-bound parts
compiled into a kernel each. Experts get equally many tokens; their numbers go to the host, as every dispatcher needs them there.

    steps.py FILE [--only=LABEL]     appends rows to FILE: step time, and the three sizes of memory at its peak

A model may have fewer layers than its name says, so that its state fits. Times are medians over steps.
"""

import argparse
import csv
import dataclasses
import math
import pathlib
import statistics
import subprocess
import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


@dataclasses.dataclass
class Model:
    name: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv: int
    vocabulary: int
    llama: bool
    head_size: int = 0
    experts: int = 0
    top_k: int = 0

    def size(self):
        return self.head_size or self.hidden // self.heads


@dataclasses.dataclass
class Run:
    model: Model
    length: int
    micro_batch: int
    micro_batches: int
    recompute: str = "none"
    kernels: str = "fused"

    def label(self):
        return f"{self.model.name} {self.model.layers} layers {self.micro_batches}x{self.micro_batch}x{self.length} {self.recompute} {self.kernels}"


GPT13 = Model("gpt3-xl", 24, 2048, 8192, 16, 16, 51200, False)
GPT67 = Model("gpt3-6.7b", 8, 4096, 16384, 32, 32, 51200, False)
GPT175 = Model("gpt3-175b", 2, 12288, 49152, 96, 96, 51200, False)
LLAMA8 = Model("llama3-8b", 8, 4096, 14336, 32, 8, 128256, True)
LLAMA70 = Model("llama3-70b", 2, 8192, 28672, 64, 8, 128256, True)
MIXTRAL = Model("mixtral-8x7b", 2, 4096, 14336, 32, 8, 32000, True, experts=8, top_k=2)
QWEN3 = Model("qwen3-30b-a3b", 3, 2048, 768, 32, 4, 151936, True, head_size=128, experts=128, top_k=8)
OLMOE = Model("olmoe-7b", 5, 2048, 1024, 16, 16, 50304, True, experts=64, top_k=8)
RUNS = [Run(MIXTRAL, 4096, 2, 4), Run(QWEN3, 4096, 2, 4), Run(OLMOE, 4096, 2, 4), Run(QWEN3, 4096, 1, 4), Run(GPT13, 2048, 4, 4), Run(GPT13, 2048, 4, 4, kernels="eager"), Run(LLAMA8, 8192, 1, 4), Run(GPT67, 2048, 2, 4),
        Run(LLAMA70, 8192, 1, 4), Run(LLAMA8, 8192, 1, 4, kernels="eager"), Run(GPT13, 2048, 4, 4, "full"),
        Run(GPT175, 2048, 1, 4), Run(GPT13, 2048, 1, 4), Run(LLAMA8, 4096, 1, 4), Run(LLAMA70, 4096, 1, 4, "full")]


class Product(torch.autograd.Function):
    """x·Wᵀ whose gradient of W is added to 32-bit sums by the product."""

    @staticmethod
    def forward(context, x, weight):
        context.save_for_backward(x, weight)
        context.sums = weight.sums
        return x @ weight.t()

    @staticmethod
    def backward(context, dy):
        x, weight = context.saved_tensors
        dy2, x2 = dy.flatten(0, -2), x.flatten(0, -2)
        torch.addmm(context.sums, dy2.t(), x2, out_dtype=torch.float32, out=context.sums)
        return dy @ weight, None


class Linear(nn.Module):
    fused = True  # gradients are summed by the product

    def __init__(self, inner, out, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out, inner, dtype=torch.bfloat16, device="cuda") * 0.02)
        self.bias = nn.Parameter(torch.zeros(out, dtype=torch.bfloat16, device="cuda")) if bias else None

    def forward(self, x):
        return Product.apply(x, self.weight) if self.fused else functional.linear(x, self.weight)


def gelu(x, bias):
    return functional.gelu(x + bias, approximate="tanh")


def swiglu(x):
    gate, up = x.chunk(2, -1)
    return functional.silu(gate) * up


def weighted_swiglu(x, weights):
    gate, up = x.chunk(2, -1)
    return (functional.silu(gate).float() * up * weights[:, None]).to(x.dtype)


def sum_choices(x, k):
    return x.view(-1, k, x.shape[-1]).sum(1)


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return (x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin).to(x.dtype)


def add_bias(x, bias, rest):
    return x + bias + rest


def add(x, rest):
    return x + rest


def layernorm(x, weight, bias):
    return functional.layer_norm(x, weight.shape, weight, bias)


def rmsnorm(x, weight):
    y = x.float()
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * weight


def loss_of(logits, wanted):
    return functional.cross_entropy(logits.float(), wanted)


torch._dynamo.config.recompile_limit = 64
EAGER = {f.__name__: f for f in (gelu, swiglu, weighted_swiglu, sum_choices, rotate, add_bias, add, layernorm, rmsnorm, loss_of)}
COMPILED = {name: torch.compile(f, dynamic=False) for name, f in EAGER.items()}


class Norm(nn.Module):
    def __init__(self, model, do):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(model.hidden, dtype=torch.bfloat16, device="cuda"))
        self.bias = None if model.llama else nn.Parameter(torch.zeros_like(self.weight))
        self.do = do

    def forward(self, x):
        return self.do["rmsnorm"](x, self.weight) if self.bias is None else self.do["layernorm"](x, self.weight, self.bias)


class Grouped(torch.autograd.Function):
    """Rows of x times the matrix of their expert, transposed; expert e has the rows before ends[e]."""

    @staticmethod
    def forward(context, x, weights, ends):
        context.save_for_backward(x, weights, ends)
        return torch._grouped_mm(x, weights.transpose(1, 2), offs=ends)

    @staticmethod
    def backward(context, dy):
        x, weights, ends = context.saved_tensors
        dy = dy.contiguous()
        return torch._grouped_mm(dy, weights, offs=ends), torch._grouped_mm(dy.t(), x, offs=ends), None


class Experts(nn.Module):
    def __init__(self, model, do):
        super().__init__()
        self.model, self.do = model, do
        self.router = Linear(model.hidden, model.experts, False)
        self.up, self.down = (nn.Parameter(torch.randn(model.experts, out, inner, dtype=torch.bfloat16, device="cuda") * 0.02)
                              for out, inner in ((2 * model.ffn, model.hidden), (model.hidden, model.ffn)))

    def forward(self, x):
        experts, k = self.model.experts, self.model.top_k
        rows = x.flatten(0, 1)
        weights, _ = self.router(rows).float().softmax(-1).topk(k)
        # Chosen so that all experts get equally many, whatever the router says, which has had its work.
        turn = torch.randperm(rows.shape[0], device="cuda")
        chosen = (turn[:, None] * k + torch.arange(k, device="cuda")) % experts
        counts = functional.one_hot(chosen, experts).sum((0, 1))
        order = chosen.flatten().argsort(stable=True)
        counts.tolist()
        ends = counts.cumsum(0).int()
        wide = Grouped.apply(rows[order // k], self.up, ends)
        wide = self.do["weighted_swiglu"](wide, weights.flatten()[order])
        back = Grouped.apply(wide, self.down, ends)
        place = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device="cuda"))
        return self.do["sum_choices"](back[place], k).view_as(x)


class Block(nn.Module):
    def __init__(self, model, do, places):
        super().__init__()
        self.model, self.do, self.places = model, do, places
        size = model.size()
        self.norm1, self.norm2 = Norm(model, do), Norm(model, do)
        self.qkv = Linear(model.hidden, (model.heads + 2 * model.kv) * size, not model.llama)
        self.out = Linear(model.heads * size, model.hidden, not model.llama)
        if model.experts:
            self.experts = Experts(model, do)
            return
        self.up = Linear(model.hidden, model.ffn * (2 if model.llama else 1), not model.llama)
        self.down = Linear(model.ffn, model.hidden, not model.llama)

    def forward(self, x):
        model, do = self.model, self.do
        batch, length, _ = x.shape
        size = model.size()
        mixed = self.qkv(self.norm1(x))
        if self.qkv.bias is not None:
            mixed = mixed + self.qkv.bias
        q, k, v = mixed.split((model.heads * size, model.kv * size, model.kv * size), -1)
        q, k, v = (part.view(batch, length, -1, size).transpose(1, 2) for part in (q, k, v))
        if model.llama:
            q, k = do["rotate"](q, *self.places), do["rotate"](k, *self.places)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=model.kv < model.heads)
        mixed = self.out(mixed.transpose(1, 2).reshape(batch, length, -1))
        x = do["add"](mixed, x) if model.llama else do["add_bias"](mixed, self.out.bias, x)
        if model.experts:
            return do["add"](self.experts(self.norm2(x)), x)
        wide = self.up(self.norm2(x))
        wide = do["swiglu"](wide) if model.llama else do["gelu"](wide, self.up.bias)
        wide = self.down(wide)
        return do["add"](wide, x) if model.llama else do["add_bias"](wide, self.down.bias, x)


class Whole(nn.Module):
    def __init__(self, run):
        super().__init__()
        model, do = run.model, COMPILED if run.kernels == "fused" else EAGER
        size = model.size()
        angles = torch.outer(torch.arange(run.length, device="cuda"),
                             1e4 ** (-torch.arange(0, size, 2, device="cuda") / size)).repeat(1, 2)
        places = (angles.cos(), angles.sin())
        self.run, self.do = run, do
        self.tokens = nn.Parameter(torch.randn(model.vocabulary, model.hidden, dtype=torch.bfloat16, device="cuda") * 0.02)
        self.places = None if model.llama else nn.Parameter(torch.zeros(run.length, model.hidden, dtype=torch.bfloat16, device="cuda"))
        self.blocks = nn.ModuleList(Block(model, do, places) for _ in range(model.layers))
        self.norm = Norm(model, do)
        self.logits = Linear(model.hidden, model.vocabulary, False) if model.llama else None

    def forward(self, ids):
        x = functional.embedding(ids[:, :-1], self.tokens)
        if self.places is not None:
            x = x + self.places
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.run.recompute == "full" else block(x)
        x = self.norm(x)
        logits = self.logits(x) if self.logits is not None else Product.apply(x, self.tokens)
        return self.do["loss_of"](logits.flatten(0, 1), ids[:, 1:].flatten())


def sum_in_32_bits(parameter):
    if parameter.grad is not None:
        parameter.sums.add_(parameter.grad)
        parameter.grad = None


class Trainer:
    def __init__(self, run):
        Linear.fused = run.model.experts == 0
        self.run, self.model = run, Whole(run)
        self.own = list(self.model.parameters())
        self.masters = []
        for one in self.own:
            one.sums = torch.zeros_like(one, dtype=torch.float32)
            one.register_post_accumulate_grad_hook(sum_in_32_bits)
            self.masters.append(one.detach().float())
            self.masters[-1].grad = one.sums
        self.optimizer = torch.optim.AdamW(self.masters, lr=1e-4, fused=True)
        self.ids = torch.randint(run.model.vocabulary, (run.micro_batches, run.micro_batch, run.length + 1), device="cuda")

    def step(self):
        for ids in self.ids:
            (self.model(ids) / self.run.micro_batches).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.masters, 1.0)
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_copy_(self.own, self.masters)
        torch._foreach_zero_([one.sums for one in self.own])
        return norm


def used_by_all():
    said = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True)
    return float(said.stdout.split()[0]) * (1 << 20) if said.returncode == 0 else math.nan


def measure(run):
    torch.cuda.empty_cache()
    trainer = Trainer(run)
    for _ in range(3):
        trainer.step()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(6):
        began = time.perf_counter()
        norm = trainer.step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    assert bool(torch.isfinite(norm))
    return {"label": run.label(), "model": run.model.name, "layers": run.model.layers, "sequence": run.length,
            "micro_batch": run.micro_batch, "batch": run.micro_batch * run.micro_batches, "recompute": run.recompute,
            "kernels": run.kernels, "parameters": sum(one.numel() for one in trainer.own),
            "seconds": f"{statistics.median(seconds):.5f}", "allocated": torch.cuda.max_memory_allocated(),
            "reserved": torch.cuda.max_memory_reserved(), "peak": int(used_by_all())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--only", default="", help="rows whose label begins so")
    options = parser.parse_args()
    began = time.monotonic()
    for run in RUNS:
        if not run.label().startswith(options.only):
            continue
        try:
            row = measure(run)
        except Exception as error:  # the other rows are worth having
            print(f"{run.label()}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        with open(options.file, "a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(row), lineterminator="\n")
            if file.tell() == 0:
                writer.writeheader()
            writer.writerow(row)
        print(f"{time.monotonic() - began:6.1f} s  {row['label']}: {row['seconds']} s, {row['allocated'] / 2**30:.2f} GiB", flush=True)


if __name__ == "__main__":
    main()
