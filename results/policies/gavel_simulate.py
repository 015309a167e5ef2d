#!/usr/bin/env python3
"""Runs the simulator of a checkout of github.com/stanford-futuredata/gavel on one trace and prints one line of JSON.

usage: gavel_simulate.py CHECKOUT POLICY TRACE [--times=1] [--solver=ECOS] [--seed=0]

--times=N  the trace N times, each 20,000 s after the one before

The checkout is used as it is. Modules that only its real cluster needs (RPC, process control, matrix completion) are replaced
by empty ones, and its log is switched off, which makes it faster. Only simulate() is timed: not the start of Python, not
the reading of the trace and of the table of throughputs.
"""
import argparse
import contextlib
import io
import json
import logging
import pathlib
import sys
import time
import types
import warnings

NOT_NEEDED = ("matrix_completion", "psutil", "numa", "dill", "runtime", "runtime.rpc", "runtime.rpc.scheduler_server",
              "runtime.rpc.scheduler_client")


def import_gavel(checkout):
    for name in NOT_NEEDED:
        sys.modules[name] = types.ModuleType(name)
    rpc = sys.modules["runtime.rpc"]
    rpc.scheduler_server = sys.modules["runtime.rpc.scheduler_server"]
    rpc.scheduler_client = sys.modules["runtime.rpc.scheduler_client"]
    sys.path[:0] = [str(checkout / "scheduler"), str(checkout / "scheduler" / "policies")]
    warnings.filterwarnings("ignore")
    import scheduler
    import utils
    logging.disable(logging.CRITICAL)
    return scheduler, utils


APART_S = 20000


def repeated(utils, path, times):
    """Jobs and arrivals of a trace that comes several times, by arrival. Every job is an object of its own."""
    all_jobs = []
    for k in range(times):
        jobs, arrivals = utils.parse_trace(path)
        all_jobs += [(arrival + k * APART_S, job) for job, arrival in zip(jobs, arrivals)]
    all_jobs.sort(key=lambda one: one[0])
    return [job for _, job in all_jobs], [arrival for arrival, _ in all_jobs]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("policy")
    parser.add_argument("trace")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--solver", default="ECOS")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    scheduler, utils = import_gavel(options.checkout)
    folder = options.checkout / "scheduler"
    jobs, arrivals = repeated(utils, str(folder / "traces" / "physical_cluster" / f"{options.trace}.trace"), options.times)
    policy = utils.get_policy(options.policy, solver=options.solver, seed=options.seed)
    simulator = scheduler.Scheduler(policy, throughputs_file=str(folder / "simulation_throughputs.json"), simulate=True,
                                    seed=options.seed, time_per_iteration=360)
    with contextlib.redirect_stdout(io.StringIO()):
        begin = time.perf_counter()
        simulator.simulate({"v100": 8, "p100": 16, "k80": 24}, arrivals, jobs,
                           num_gpus_per_server={"v100": 1, "p100": 1, "k80": 1})
        seconds = time.perf_counter() - begin
        jct = simulator.get_average_jct(verbose=False)
    print(json.dumps({"seconds": seconds, "jct_h": jct / 3600,
                      "makespan_h": simulator.get_current_timestamp() / 3600}))


main()
