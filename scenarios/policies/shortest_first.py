#!/usr/bin/env python3
"""The jobs with the least work left run, whoever ran before (SRTF).

scalai sim with `policy { exec: "python3 policies/shortest_first.py" }` starts it. Both queues are kept in order: what is
left of a job that waits stays, and jobs that run keep the order of their ends. So a question costs the jobs that changed,
and one pass over those that run longer than the shortest that waits.
"""
import bisect

from scalai_policy import grant, serve

waiting = []  # (seconds left, order of submission, job)
running = []  # (time of its end if it goes on, order of submission, job)
place = {}  # of a job: its queue, and its key there
odd = {}  # jobs that run at another rate than on few hosts: their place is looked for at each question


def seconds_left(job, now_s):
    """On the GPUs it asks for, of the type it has, else of the one that suits it best."""
    per_s = job.per_s[job.has["type"]] if job.has else max(job.per_s.values())
    return (job.work - job.done(now_s)) / per_s if per_s > 0 else float("inf")


def note_changes(state):
    news = {**odd, **{job.index: job for job in state.changed}}
    for job in state.gone:
        news.pop(job.index, None)
    for job in [*state.gone, *news.values()]:
        odd.pop(job.index, None)
        if job.index in place:
            queue, key = place.pop(job.index)
            del queue[bisect.bisect_left(queue, key)]
    for job in news.values():
        if job.has and job.even_per_s != job.per_s[job.has["type"]]:
            odd[job.index] = job
        left_s = seconds_left(job, state.now_s)
        queue, key = (running, (state.now_s + left_s, job.index)) if job.has else (waiting, (left_s, job.index))
        place[job.index] = queue, key
        bisect.insort(queue, key + (job,))


def choose(job, free):
    """Its own type first, then the others by speed: whoever stays pays no restart."""
    own = job.gpu_type()
    if own and free[own] >= job.gpus:
        return own
    types = sorted(free, key=lambda t: (-job.per_s[t], t))
    return next((t for t in types if job.per_s[t] > 0 and free[t] >= job.gpus), None)


def fill(jobs, free):
    """GPUs for each that still fits, in order; jobs that run and do not fit make way."""
    grants = []
    for job in jobs:
        chosen = choose(job, free)
        if chosen is not None:
            free[chosen] -= job.gpus
            if job.gpu_type() != chosen:
                grants.append(grant(job, job.gpus, chosen))
        elif job.has:
            grants.append(grant(job, 0))
    return grants


def decide(state):
    note_changes(state)
    if not waiting:
        return []
    free = dict(state.free)
    for host in state.down:  # jobs that are still there go on elsewhere
        free[state.hosts[host]["type"]] -= state.held[host]
    one_type_has_room = len(free) == 1 and min(free.values()) >= 0
    if one_type_has_room and sum(job.gpus for _, _, job in waiting) <= min(free.values()):
        return fill([job for _, _, job in waiting], free)  # for all
    # Who ends before the shortest job that waits stays. Of several types any may be better for a shorter job.
    first = bisect.bisect_left(running, (state.now_s + waiting[0][0],)) if one_type_has_room else 0
    for _, _, job in running[first:]:
        free[job.has["type"]] += job.has["gpus"]
    longer = [(end_s - state.now_s, index, job) for end_s, index, job in running[first:]]
    return fill([job for _, _, job in sorted(longer + waiting)], free)


serve(decide, "shortest-first")
