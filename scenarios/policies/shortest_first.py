#!/usr/bin/env python3
"""The jobs with the least work left run, whoever ran before (SRTF).

scalai sim with `policy { exec: "python3 policies/shortest_first.py" }` starts it. Jobs that wait are kept in order, since
what is left of them stays; all jobs are put in order only where one that waits is shorter than one that runs. So a
question about a thousand jobs takes well below a millisecond.
"""
import bisect

from scalai_policy import grant, serve

waiting = []  # (seconds left, order of submission, job)
place = {}  # of a job in it: its key


def seconds_left(job, now_s):
    """On the GPUs it asks for, of the type it has, else of the one that suits it best."""
    per_s = job.per_s[job.has["type"]] if job.has else max(job.per_s.values())
    return (job.work - job.done(now_s)) / per_s if per_s > 0 else float("inf")


def note_changes(state):
    for job in state.changed + state.gone:
        if job.index in place:
            del waiting[bisect.bisect_left(waiting, place.pop(job.index))]
    for job in state.changed:
        if not job.has:
            place[job.index] = (seconds_left(job, state.now_s), job.index)
            bisect.insort(waiting, place[job.index] + (job,))


def choose(job, free):
    """Its own type first, then the others by speed: whoever stays pays no restart."""
    own = job.gpu_type()
    types = sorted(free, key=lambda t: (t != own, -job.per_s[t], t))
    return next((t for t in types if job.per_s[t] > 0 and free[t] >= job.gpus), None)


def start(jobs, free):
    grants = []
    for job in jobs:
        if not any(free.values()):
            break
        chosen = choose(job, free)
        if chosen is not None:
            free[chosen] -= job.gpus
            grants.append(grant(job, job.gpus, chosen))
    return grants


def fill_anew(state):
    free = dict(state.capacity)
    grants = []
    for job in sorted(state.jobs.values(), key=lambda j: (seconds_left(j, state.now_s), j.index)):
        chosen = choose(job, free)
        if chosen is not None:
            free[chosen] -= job.gpus
            if job.gpu_type() != chosen:
                grants.append(grant(job, job.gpus, chosen))
        elif job.has:
            grants.append(grant(job, 0))
    return grants


def longest_running_s(state):
    return max((seconds_left(job, state.now_s) for job in state.jobs.values() if job.has), default=0)


def decide(state):
    note_changes(state)
    if not waiting:
        return []
    free = dict(state.free)
    room_for_all = len(free) == 1 and sum(job.gpus for _, _, job in waiting) <= sum(free.values())
    if not room_for_all and waiting[0][0] < longest_running_s(state):
        return fill_anew(state)
    return start([job for _, _, job in waiting], free)


serve(decide, "shortest-first")
