"""A process takes up layouts one after another."""

import argparse
import datetime
import gc
import pathlib
import sys
import time

import pytest

torch = pytest.importorskip("torch", reason="no PyTorch in this environment: python/environment FOLDER --torch")
import torch.distributed as dist  # noqa: E402
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module  # noqa: E402

from ranks import on_ranks  # noqa: E402
from scalai._job import Job  # noqa: E402
from scalai._sampling import Sampler  # noqa: E402
from scalai._worker import open_sockets  # noqa: E402


def sums_in(job, order):
    """The output of a tensor-parallel block, and the same by hand: each pair of ranks has weights of its own."""
    job._communicate(order)
    pair = job.world.coordinate("dp")
    block = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False))
    for number, part in enumerate(block):
        torch.nn.init.constant_(part.weight, pair + number + 1.0)
    parallelize_module(block, job.world.mesh["tp"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
    found = block(torch.ones(1, 4))
    assert job.world.mesh["tp"].get_group().group_name in dist.distributed_c10d._world.pg_names.values()
    return found.sum().item(), 4 * 4 * (pair + 1.0) * 4 * (pair + 2.0)


def in_two_places():
    """Rank r of a layout, and then rank 3 - r of the same."""
    before = dist.get_rank()
    address = "127.0.0.1:{}"
    ports = [dist.TCPStore("127.0.0.1", 0, 4, is_master=True, wait_for_workers=False) for _ in range(2)] if before == 0 else []
    told = [[store.port for store in ports]]
    dist.broadcast_object_list(told)
    dist.barrier()
    dist.destroy_process_group()
    results = []
    for version, rank in ((0, before), (1, 3 - before)):
        job = Job(None)
        job._data_axes, job._backend, job._timeout_s = ("dp",), "gloo", 60
        job.data = Sampler(8, global_batch=4)
        if rank == 0:
            job._meeting = dist.TCPStore("127.0.0.1", told[0][version])
        results.append(sums_in(job, {"axes": [("dp", 2), ("tp", 2)], "rank": rank, "local_rank": rank, "version": version,
                                     "memory": None, "address": address.format(told[0][version])}))
        dist.barrier()
        job._release()
    dist.init_process_group("gloo", rank=before, world_size=4)  # that of the test, at whose end it is
    return results


def test_a_process_that_has_another_rank_afterwards():
    for rank, layouts in enumerate(on_ranks(4, in_two_places)):
        for number, (found, expected) in enumerate(layouts):
            assert found == expected, f"rank {rank}, layout {number + 1}"


def meeting_after_a_failure():
    """Rank 1 has been in a rendezvous that nobody else came to; rank 0 is new."""
    rank = dist.get_rank()
    store = dist.TCPStore("127.0.0.1", 0, 2, is_master=True, wait_for_workers=False) if rank == 0 else None
    told = [store.port if rank == 0 else 0]
    dist.broadcast_object_list(told)
    dist.barrier()
    dist.destroy_process_group()
    job = Job(None)
    job._data_axes, job._backend, job._timeout_s = ("dp",), "gloo", 20
    if rank == 0:
        job._meeting = store
    else:
        alone = dist.TCPStore("127.0.0.1", 0, 2, is_master=True, wait_for_workers=False)
        with pytest.raises(RuntimeError):
            dist.init_process_group("gloo", store=alone, rank=1, world_size=2, timeout=datetime.timedelta(seconds=1))
    job._communicate({"axes": [("dp", 2)], "rank": rank, "local_rank": rank, "version": 0, "memory": None,
                      "address": f"127.0.0.1:{told[0]}"})
    sum_of_ranks = torch.tensor(float(rank))
    dist.all_reduce(sum_of_ranks)
    job._release()
    dist.init_process_group("gloo", rank=rank, world_size=2)  # that of the test, at whose end it is
    return sum_of_ranks.item()


def test_a_rendezvous_that_failed_is_in_nobodys_way():
    assert on_ranks(2, meeting_after_a_failure) == [1.0, 1.0]


def left_after(before, seconds):
    """What is still open after so long, with the groups that live: Gloo's threads may close a little later."""
    end = time.monotonic() + seconds
    while left := open_sockets() - before:
        gc.collect()
        if time.monotonic() > end:
            return sorted(left) + [str(type(one)) for one in gc.get_objects() if "ProcessGroup" in type(one).__name__]
        time.sleep(0.05)
    return []


def connections_after_a_step():
    """Of this rank, when examples/training/gpt.py has trained a step in tp2,dp2, and its layout has ended."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "training"))
    import gpt

    rank = dist.get_rank()
    job = Job(None)
    job._data_axes, job._backend, job._timeout_s = ("dp",), "gloo", 60
    told = [0, 0]
    if rank == 0:
        job._meeting, end = (dist.TCPStore("127.0.0.1", 0, 4, is_master=True, wait_for_workers=False) for _ in range(2))
        told = [job._meeting.port, end.port]
    dist.broadcast_object_list(told)
    dist.barrier()
    dist.destroy_process_group()
    before = open_sockets()
    job._communicate({"axes": [("pp", 1), ("dp", 2), ("tp", 2)], "rank": rank, "local_rank": rank, "version": 0, "memory": None,
                      "address": f"127.0.0.1:{told[0]}"})
    options = argparse.Namespace(width=32, heads=4, layers=2, length=16, lr=1e-3, warmup=5)
    parts = gpt.builder(options)(job.world)
    gpt.train_step(job.world, *parts, torch.zeros(2, 17, dtype=torch.long))
    during = len(open_sockets() - before)
    del parts
    dist.barrier()
    job._release()
    after = left_after(before, 20) if rank > 0 else []
    end = end if rank == 0 else dist.TCPStore("127.0.0.1", told[1])
    dist.init_process_group("gloo", store=end, rank=rank, world_size=4)  # that of the test, at whose end it is
    return during, after


def test_nothing_keeps_connections_open():
    """Others would wait for a process that has given its step up."""
    for during, after in on_ranks(4, connections_after_a_step)[1:]:  # rank 0 has the stores, to which others connect
        assert during > 0
        assert after == []
