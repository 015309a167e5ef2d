#!/usr/bin/env python3
"""Times row -> column resharding of one fp32 matrix with torch.distributed's gloo back end; rank 0 prints JSON.

usage: gloo_reshard.py [--ranks=N] [--rows=R] [--columns=C] [--repetitions=K]     needs torch; starts the ranks itself

Each rank holds R/N rows and wants C/N columns. It sends every other rank the slice that this one wants, made contiguous
(gloo sends nothing else), receives each slice into a buffer and copies it to its place: isend, irecv, wait, copy, as
frameworks do it. Buffers are there and touched before the clock starts; one exchange is done before the first that
counts. A repetition takes as long as its slowest rank; every element is checked at the end.
"""
import argparse
import json
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes


def matrix(row, rows, column, columns, width):
    """Element (i, j) of the whole matrix is its row-major index modulo 2^23, which fp32 holds exactly."""
    index = torch.arange(row, row + rows).unsqueeze(1) * width + torch.arange(column, column + columns).unsqueeze(0)
    return (index % 2**23).to(torch.float32)


def exchange(rank, ranks, source, target, inboxes):
    rows, columns = source.shape[0], target.shape[1]
    peers = [peer for peer in range(ranks) if peer != rank]
    receives = [dist.irecv(inboxes[peer], src=peer) for peer in peers]
    slices = [source[:, peer * columns:(peer + 1) * columns].contiguous() for peer in peers]
    sends = [dist.isend(slices[i], dst=peer) for i, peer in enumerate(peers)]
    target[rank * rows:(rank + 1) * rows] = source[:, rank * columns:(rank + 1) * columns]
    for peer, receive in zip(peers, receives):
        receive.wait()
        target[peer * rows:(peer + 1) * rows] = inboxes[peer]
    for send in sends:
        send.wait()


def run(rank, arguments, port):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    ranks = arguments.ranks
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // ranks))
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    rows, columns = arguments.rows // ranks, arguments.columns // ranks
    source = matrix(rank * rows, rows, 0, arguments.columns, arguments.columns)
    target = torch.zeros(arguments.rows, columns)
    inboxes = [torch.zeros(rows, columns) for _ in range(ranks)]
    times = []
    for _ in range(arguments.repetitions + 1):
        dist.barrier()
        began = time.perf_counter()
        exchange(rank, ranks, source, target, inboxes)
        slowest = torch.tensor([time.perf_counter() - began], dtype=torch.float64)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        times.append(slowest.item())
    right = torch.equal(target, matrix(0, arguments.rows, rank * columns, columns, arguments.columns))
    wrong = torch.tensor([0 if right else 1])
    dist.all_reduce(wrong)
    if rank == 0:
        print(json.dumps({"ranks": ranks, "bytes": arguments.rows * arguments.columns * 4,
                          "seconds": statistics.median(times[1:]), "seconds_each": times[1:],
                          "wrong_ranks": int(wrong.item()), "torch": torch.__version__}), flush=True)
    dist.destroy_process_group()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rows", type=int, default=16384)
    parser.add_argument("--columns", type=int, default=16384)
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    if min(arguments.ranks, arguments.repetitions) < 1 or arguments.rows % arguments.ranks \
            or arguments.columns % arguments.ranks:
        parser.error("rows and columns are multiples of ranks; ranks and repetitions are at least 1")
    processes.spawn(run, args=(arguments, free_port()), nprocs=arguments.ranks)


if __name__ == "__main__":
    main()
