#!/usr/bin/env python3
"""Two jobs on the same GPUs: first come, first served; who finds no free GPUs shares those of the running job with which
it keeps most, if both together keep 1.5 times one job alone (Gavel's packing, OSDI'20). Another bound: packed.py 1.2

Equal to the built-in `fifo-backfill` with `packing`. It shows state.rates(): the rates of pairs, which Scalai is asked
for. They are kept by kind of job, since those of a table depend on nothing else.
"""
import sys

from scalai_policy import grant, serve

pack_at = float(sys.argv[1]) if len(sys.argv) > 1 else 1.5
known = {}


def kept_together(state, job, others):
    """What the job and each of the others keep of their rates alone, in sum: {name: sum}; 0 if they cannot share."""
    kind = {other.job: (job.type, other.type, gpu_type, job.gpus) for other, gpu_type in others}
    ask = {kind[other.job]: (other, gpu_type) for other, gpu_type in others if kind[other.job] not in known}
    questions = []
    for other, gpu_type in ask.values():
        size = {"type": gpu_type, "gpus": job.gpus}
        questions += [{"job": job.job, "beside": other.job, **size}, {"job": job.job, **size}, {"job": other.job, **size}]
    rates = iter(state.rates(*questions)) if questions else iter(())
    for key in ask:
        (mine, its), my_own, its_own = next(rates), next(rates), next(rates)
        known[key] = mine / my_own + its / its_own if min(mine, its, my_own, its_own) > 0 else 0
    return {name: known[key] for name, key in kind.items()}


def decide(state):
    free, grants = dict(state.free), []
    alone = {job.job: (job, job.gpu_type()) for job in state.jobs.values() if job.has and not job.beside}
    left = []
    for job in state.jobs.values():
        if job.has:
            continue
        chosen = next((t for t in free if free[t] >= job.gpus and job.per_s[t] > 0), None)
        if chosen is None:
            left.append(job)
            continue
        free[chosen] -= job.gpus
        grants.append(grant(job, job.gpus, chosen))
        alone[job.job] = (job, chosen)
    for job in left:
        others = sorted((o for o in alone.values() if o[0].gpus == job.gpus), key=lambda o: o[0].index)
        kept = kept_together(state, job, others)
        best = max(others, key=lambda o: kept[o[0].job], default=None)  # of equal ones the first
        if best is None or kept[best[0].job] < pack_at:
            continue
        grants.append(grant(job, job.gpus, best[1], beside=best[0]))
        del alone[best[0].job]
    return grants


serve(decide, "packed")
