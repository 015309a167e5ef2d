#!/usr/bin/env python3
"""Times the load planning of PyTorch DCP for one tensor whose boxes change; prints JSON.

usage: dcp_planner.py [--repeats=N]     needs torch; uses no process group, no GPU and no tensor data

The boxes are those of BM_Boxes in tests/bench/planner_bench.cpp: a 1,000,003 x 8 fp32 tensor saved as n balanced row
boxes (the first ones have one row more), loaded as the n row boxes of torch.chunk (the last one is short).
"""
import argparse
import json
import platform
import time

import torch
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, TensorProperties, TensorStorageMetadata
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list

ROWS, COLUMNS = 1_000_003, 8
BOXES = (64, 256, 1024)


def row_box(first, rows):
    return ChunkStorageMetadata(offsets=torch.Size([first, 0]), sizes=torch.Size([rows, COLUMNS]))


def balanced_boxes(n):
    short, longer = divmod(ROWS, n)
    return [row_box(i * short + min(i, longer), short + (i < longer)) for i in range(n)]


def ceil_boxes(n):
    block = -(-ROWS // n)
    return [row_box(first, min(block, ROWS - first)) for first in range(0, ROWS, block)]


def all_ranks(saved, wanted):
    """The plans of all ranks, one after the other, as each rank makes its own: one call per target box."""
    return sum(len(create_read_items_for_chunk_list("w", saved, [box])) for box in wanted)


def one_call(saved, wanted):
    """All target boxes given to one call, as if one rank held them all. No job loads like this."""
    return len(create_read_items_for_chunk_list("w", saved, wanted))


def timed(make, saved, wanted, repeats):
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        items = make(saved, wanted)
        seconds.append(time.perf_counter() - start)
    return seconds, items


def measured(n, repeats):
    properties = TensorProperties(dtype=torch.float32)
    saved = TensorStorageMetadata(properties=properties, size=torch.Size([ROWS, COLUMNS]), chunks=balanced_boxes(n))
    wanted = ceil_boxes(n)
    assert len(wanted) == n and sum(box.sizes[0] for box in wanted) == sum(box.sizes[0] for box in saved.chunks) == ROWS
    each, items = timed(all_ranks, saved, wanted, repeats)
    once, items_once = timed(one_call, saved, wanted, repeats)
    assert items == items_once
    return {"n": n, "all_ranks_s": each, "one_call_s": once, "read_items": items}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="timings of each case (default 5)")
    repeats = parser.parse_args().repeats
    if repeats < 1:
        parser.error("--repeats must be at least 1")
    print(json.dumps({"torch": torch.__version__, "python": platform.python_version(),
                      "cases": [measured(n, repeats) for n in BOXES]}, indent=1))


if __name__ == "__main__":
    main()
