"""A function on several processes of one job, over gloo."""

import functools
import io
import multiprocessing
import os
import socket
import traceback

import pytest

torch = pytest.importorskip("torch", reason="no PyTorch in this environment: python/environment FOLDER --torch")
import torch.distributed as dist  # noqa: E402

SECONDS = 120


def _run(function, rank, world, port, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", rank=rank, world_size=world)
        result = io.BytesIO()  # by value: tensors in queues are shared memory of a process that ends
        torch.save(function(), result)
        results.put((rank, result.getvalue(), None))
        dist.barrier()
        dist.destroy_process_group()
    except BaseException as error:  # the parent raises it
        results.put((rank, None, (type(error), str(error), traceback.format_exc())))


def on_ranks(world, function, *arguments):
    """What `function` returned on each rank, in order. The first error of a rank is raised here."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    work = functools.partial(function, *arguments)
    processes = [context.Process(target=_run, args=(work, rank, world, port, results)) for rank in range(world)]
    for process in processes:
        process.start()
    try:
        found = {}
        for _ in range(world):
            rank, result, error = results.get(timeout=SECONDS)
            if error is not None:
                kind, text, trace = error
                print(trace)
                raise kind(text)
            found[rank] = torch.load(io.BytesIO(result), weights_only=False)
        return [found[rank] for rank in range(world)]
    finally:
        for process in processes:
            process.join(timeout=5)
            process.kill()
