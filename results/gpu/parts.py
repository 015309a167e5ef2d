"""What kernels of training take on the GPU here, by PyTorch: matrix products in the three forms of a layer, products in
groups (experts), fused attention, memory-bound kernels, launches, copies to and from the host.

    parts.py FOLDER [--quick] [--only=NAME,…]    writes FOLDER/machine.txt and FOLDER/NAME.csv: products, grouped, routing,
                                                 attention, memory, host

A row is the median over repetitions of a CUDA graph of several calls, so that nothing waits for the host; operands rotate
among sets that together exceed the L2 cache. Data are random: products of zeros are faster. Seconds, bytes, elements.
"""

import argparse
import csv
import pathlib
import statistics
import time

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

L2 = 128 << 20  # bytes that no cache holds
REPETITIONS = 7


def timed(calls, wanted_s=4e-3):
    """Seconds of one call: of `calls`, which do the same with other operands, one after the other in a graph."""
    side = torch.cuda.Stream()
    torch.cuda.synchronize()  # operands are made in another stream
    with torch.cuda.stream(side):
        for call in calls[:2]:
            call()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record(side)
        calls[0]()
        end.record(side)
        side.synchronize()
        rounds = max(1, min(50, round(wanted_s / (begin.elapsed_time(end) / 1e3 + 1e-6) / len(calls))))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            for _ in range(rounds):
                for call in calls:
                    call()
        graph.replay()
        seconds = []
        for _ in range(REPETITIONS):
            begin.record(side)
            graph.replay()
            end.record(side)
            side.synchronize()
            seconds.append(begin.elapsed_time(end) / 1e3 / rounds / len(calls))
    return statistics.median(seconds)


def sets_for(size):
    return max(1, min(8, -(-L2 // max(size, 1))))


def random(*shape, dtype=torch.bfloat16, grad=False):
    return (torch.randn(*shape, device="cuda") / 8).to(dtype).requires_grad_(grad)


def layers():
    """tokens × out × in of the products of a layer, on each rank of tp."""
    for name, hidden, ffn, kv, gated in (("gpt3-1.3b", 2048, 8192, 2048, 0), ("llama2-7b", 4096, 11008, 4096, 1),
                                         ("llama3-8b", 4096, 14336, 1024, 1), ("llama3-70b", 8192, 28672, 1024, 1),
                                         ("gpt3-175b", 12288, 49152, 12288, 0), ("llama3-405b", 16384, 53248, 1024, 1)):
        for tp in (1, 2, 4, 8):
            if hidden <= 4096 and tp > 4 or hidden >= 12288 and tp < 4:
                continue
            for tokens in (2048, 4096, 8192):
                yield name, tp, tokens, "qkv", (hidden + 2 * kv) // tp, hidden
                yield name, tp, tokens, "out", hidden, hidden // tp
                yield name, tp, tokens, "fc1", (1 + gated) * ffn // tp, hidden
                yield name, tp, tokens, "fc2", hidden, ffn // tp


def product_rows(quick):
    """y = x·Wᵀ, dx = dy·W, dW = dyᵀ·x, as PyTorch's Linear."""
    seen = set()
    for name, tp, tokens, part, out, inner in layers():
        if (tokens, out, inner) in seen or quick and tokens != 4096:
            continue
        seen.add((tokens, out, inner))
        count = sets_for(2 * (tokens * inner + out * inner + tokens * out))
        xs = [random(tokens, inner) for _ in range(count)]
        ws = [random(out, inner) for _ in range(count)]
        ys = [random(tokens, out) for _ in range(count)]
        forms = {"forward": [lambda x=x, w=w, y=y: torch.mm(x, w.t(), out=y) for x, w, y in zip(xs, ws, ys)],
                 "input": [lambda x=x, w=w, y=y: torch.mm(y, w, out=x) for x, w, y in zip(xs, ws, ys)],
                 "weight": [lambda x=x, w=w, y=y: torch.mm(y.t(), x, out=w) for x, w, y in zip(xs, ws, ys)]}
        sizes = {"forward": (tokens, out, inner), "input": (tokens, inner, out), "weight": (out, inner, tokens)}
        for form, calls in forms.items():
            seconds = timed(calls)
            yield {"model": name, "tp": tp, "part": part, "form": form, "m": sizes[form][0], "n": sizes[form][1],
                   "k": sizes[form][2], "count": 1, "dtype": "bf16", "seconds": seconds}
        if part == "fc1" and tokens == 4096:
            yield from fp8_rows(name, tp, part, tokens, out, inner)


def fp8_rows(name, tp, part, tokens, out, inner):
    count = sets_for(tokens * inner + out * inner + 2 * tokens * out)
    one = torch.ones((), device="cuda")
    xs = [random(tokens, inner, dtype=torch.float8_e4m3fn) for _ in range(count)]
    ws = [random(out, inner, dtype=torch.float8_e4m3fn) for _ in range(count)]
    for fast in (True, False):
        calls = [lambda x=x, w=w: torch._scaled_mm(x, w.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=fast)
                 for x, w in zip(xs, ws)]
        yield {"model": name, "tp": tp, "part": part, "form": "forward" if fast else "forward, exact", "m": tokens, "n": out,
               "k": inner, "count": 1, "dtype": "fp8", "seconds": timed(calls)}


def grouped_rows(quick):
    """Experts: as many products as a rank has experts, in one kernel, of equal and of unequal numbers of tokens."""
    for name, hidden, ffn, experts in (("mixtral-8x7b", 4096, 14336, 8), ("qwen3-30b-a3b", 2048, 768, 128),
                                       ("deepseek-v3", 7168, 2048, 256)):
        for ep in (1, 8) if experts < 256 else (32, 64):
            own = experts // ep
            for tokens in (256, 1024, 4096) if not quick else (1024,):
                for part, out, inner in (("fc1", 2 * ffn, hidden), ("fc2", hidden, ffn)):
                    total = own * tokens
                    size = 2 * (total * inner + own * out * inner + total * out)
                    if size > 12 << 30:
                        continue
                    count = sets_for(size)
                    xs, ws = [random(total, inner) for _ in range(count)], [random(own, out, inner) for _ in range(count)]
                    ends = torch.arange(1, own + 1, device="cuda", dtype=torch.int32) * tokens
                    calls = [lambda x=x, w=w: torch._grouped_mm(x, w.transpose(1, 2), offs=ends) for x, w in zip(xs, ws)]
                    yield {"model": name, "tp": 1, "part": part, "form": "grouped", "m": tokens, "n": out, "k": inner,
                           "count": own, "dtype": "bf16", "seconds": timed(calls)}
                    if own == 1 or tokens != 1024:
                        continue
                    apart = [lambda x=x, w=w: [torch.mm(x[i * tokens:(i + 1) * tokens], w[i].t()) for i in range(own)]
                             for x, w in zip(xs, ws)]
                    yield {"model": name, "tp": 1, "part": part, "form": "one by one", "m": tokens, "n": out, "k": inner,
                           "count": own, "dtype": "bf16", "seconds": timed(apart)}


def routing_rows(quick):
    """What lies between the layer's norm and the products of its experts, and back: tokens sorted by expert."""
    for name, hidden, experts, k in (("mixtral-8x7b", 4096, 8, 2), ("olmoe-7b", 2048, 64, 8), ("qwen3-30b-a3b", 2048, 128, 8),
                                     ("deepseek-v3", 7168, 256, 8)):
        for tokens in (4096, 8192) if not quick else (4096,):
            x, back = random(tokens, hidden), random(tokens * k, hidden)
            weight, logits = random(experts, hidden), random(tokens, experts, dtype=torch.float32)
            chosen = torch.randn(tokens, experts, device="cuda").topk(k).indices
            order = chosen.flatten().argsort(stable=True)
            place, token = order.argsort(), order // k
            flat, ones = chosen.flatten(), torch.ones(tokens * k, device="cuda")
            many, out = torch.empty_like(back), torch.empty_like(x)
            works = {"router": (0, lambda: x @ weight.t()), "softmax": (0, lambda: logits.softmax(-1)),
                     "top k": (0, lambda: logits.topk(k)), "counts": (0, lambda: torch.zeros(experts, device="cuda").scatter_add_(0, flat, ones)),
                     "sort": (0, lambda: chosen.flatten().argsort(stable=True)),
                     "permute": (2 * 2 * tokens * k * hidden, lambda: torch.index_select(x, 0, token, out=many)),
                     "unpermute": (2 * 2 * tokens * k * hidden, lambda: torch.index_select(back, 0, place, out=many)),
                     "add choices": (2 * tokens * (k + 1) * hidden, lambda: torch.sum(back.view(tokens, k, hidden), 1, out=out))}
            for part, (size, call) in works.items():
                yield {"model": name, "part": part, "tokens": tokens, "hidden": hidden, "experts": experts, "top_k": k, "bytes": size,
                       "seconds": timed([call] * 4)}


def attention_rows(quick):
    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    for batch, length, heads, size in ((8, 2048, 16, 64), (4, 2048, 16, 128), (2, 4096, 32, 128), (1, 8192, 32, 128),
                                       (1, 8192, 8, 128), (1, 4096, 4, 128), (1, 16384, 8, 128), (4, 4096, 16, 64),
                                       (1, 32768, 4, 128), (1, 2048, 12, 128), (1, 4096, 16, 192)):
        for kernel, backend in backends.items():
            if quick and length > 4096:
                continue
            q = random(batch, heads, length, size, grad=True)
            k, v = (random(batch, heads, length, size, grad=True) for _ in range(2))
            d = random(batch, heads, length, size)
            row = {"batch": batch, "length": length, "heads": heads, "head_size": size, "kernel": kernel,
                   "causal": 1}
            try:
                with sdpa_kernel(backend):
                    forward = timed([lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True)])
                    both = timed([lambda: torch.autograd.grad(
                        functional.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v), d)])
            except RuntimeError as error:
                print(kernel, row, str(error)[:200])
                continue
            yield {**row, "forward": forward, "backward": both - forward}


def memory_rows(quick):
    """Kernels that memory bounds, by the bytes that they read and write."""
    for megabytes in (0.25, 1, 4, 16, 64, 256, 1024):
        count = int(megabytes * (1 << 20)) // 2
        width = 4096
        tensors = [random(max(1, count // width), width) for _ in range(sets_for(count * 4))]
        others = [torch.empty_like(one) for one in tensors]
        weight = random(width)
        size = tensors[0].numel() * 2
        works = {"copy": (2, lambda a, b: b.copy_(a)), "add": (3, lambda a, b: torch.add(a, b, out=b)),
                 "gelu": (2, lambda a, b: functional.gelu(a)), "sum": (1, lambda a, b: a.sum()),
                 "layernorm": (2, lambda a, b: functional.layer_norm(a, (width,), weight, weight)),
                 "rmsnorm": (2, lambda a, b: functional.rms_norm(a, (width,), weight)),
                 "softmax": (2, lambda a, b: functional.softmax(a, -1)), "fill": (1, lambda a, b: b.zero_()),
                 "to fp32": (3, lambda a, b: a.float())}
        for name, (times, call) in works.items():
            calls = [lambda a=a, b=b: call(a, b) for a, b in zip(tensors, others)]
            yield {"kernel": name, "tensors": 1, "bytes": times * size, "seconds": timed(calls)}
        del tensors, others
    for parameters in (10_000_000, 100_000_000, 1_000_000_000):
        if quick and parameters > 100_000_000:
            continue
        for pieces in (1, 100):
            made = [torch.nn.Parameter(torch.randn(parameters // pieces, device="cuda")) for _ in range(pieces)]
            for one in made:
                one.grad = torch.randn_like(one)
            for name, options in {"adamw fused": {"fused": True}, "adamw foreach": {"foreach": True}}.items():
                optimizer = torch.optim.AdamW(made, lr=1e-3, capturable=True, **options)
                optimizer.step()
                yield {"kernel": name, "tensors": pieces, "bytes": 28 * parameters, "seconds": timed([optimizer.step], 1e-3)}
                del optimizer
            del made
            torch.cuda.empty_cache()


def host_rows():
    """Launches one at a time, copies over PCIe, and what a process needs before it trains."""
    small = torch.zeros(16, device="cuda")
    for name, call in {"launch of an addition": lambda: small.add_(1), "launch of a product": lambda a=random(64, 64): a @ a}.items():
        call()
        torch.cuda.synchronize()
        seconds = []
        for _ in range(REPETITIONS):
            began = time.perf_counter()
            for _ in range(1000):
                call()
            torch.cuda.synchronize()
            seconds.append((time.perf_counter() - began) / 1000)
        yield {"what": name, "bytes": 0, "seconds": statistics.median(seconds)}
    for size in (1 << 20, 64 << 20, 1 << 30):
        there = torch.empty(size, dtype=torch.uint8, device="cuda")
        for name, here in {"pinned": torch.empty(size, dtype=torch.uint8, pin_memory=True),
                           "pageable": torch.ones(size, dtype=torch.uint8)}.items():
            for way, (to, source) in {"to the GPU": (there, here), "to the host": (here, there)}.items():
                seconds = []
                for _ in range(5):
                    torch.cuda.synchronize()
                    began = time.perf_counter()
                    to.copy_(source, non_blocking=True)
                    torch.cuda.synchronize()
                    seconds.append(time.perf_counter() - began)
                yield {"what": f"{name}, {way}", "bytes": size, "seconds": statistics.median(seconds)}


def write(path, rows):
    rows = list(rows)
    with open(path, "w", newline="", encoding="utf-8") as file:
        if rows:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows({key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()}
                             for row in rows)
    print(f"{path}: {len(rows)} rows", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="fewer sizes")
    parser.add_argument("--only", default="", help="names of tables, with commas between")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    torch.manual_seed(1)
    properties = torch.cuda.get_device_properties(0)
    free, total = torch.cuda.mem_get_info()
    (options.folder / "machine.txt").write_text(
        f"{properties.name}, {properties.multi_processor_count} multiprocessors, {total} bytes, {total - free} of them used\n"
        f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}\n", encoding="utf-8")
    for name, rows in {"host": host_rows(), "memory": memory_rows(options.quick), "attention": attention_rows(options.quick),
                       "routing": routing_rows(options.quick), "products": product_rows(options.quick), "grouped": grouped_rows(options.quick)}.items():
        if options.only and name not in options.only.split(","):
            continue
        try:
            write(options.folder / f"{name}.csv", rows)
        except Exception as error:  # the others are worth having
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
        torch.cuda.empty_cache()
        print(f"  after {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
