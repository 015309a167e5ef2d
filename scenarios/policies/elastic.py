#!/usr/bin/env python3
"""An elastic policy: each GPU goes to the job whose remaining time it shortens most (Optimus, EuroSys'18).

Equal to the policy `optimus` (labs/policies) on clusters of one GPU type, decision for decision. It shows scaling curves:
job.curves has iterations a second for each number of GPUs that the job can have.
"""
import heapq
import sys

from scalai_policy import grant, serve


class Claim:
    """The sizes a job can have, and how long it takes at each; `at` counts up from the smallest, -1 = none yet."""

    def __init__(self, job, gpu_type, state):
        rates = list(enumerate(job.curves[gpu_type], job.min_gpus))
        usable = [(gpus, per_s) for gpus, per_s in rates if per_s > 0 and gpus <= state.capacity[gpu_type]]
        left = job.work - job.done(state.now_s)
        self.job, self.at = job, -1
        self.sizes = [gpus for gpus, _ in usable]
        self.seconds = [left / per_s for _, per_s in usable]

    def gpus(self):
        return self.sizes[self.at] if self.at >= 0 else 0

    def step(self):
        return self.sizes[self.at + 1] - self.gpus()

    def gain(self):
        """Seconds that the next size saves, per GPU; 0 if there is none."""
        if self.at + 1 >= len(self.sizes):
            return 0
        return (self.seconds[self.at] - self.seconds[self.at + 1]) / self.step()


def decide(state):
    if len(state.types) != 1:
        sys.exit("elastic.py is for clusters of one GPU type")
    gpu_type = state.types[0]["type"]
    claims = [Claim(job, gpu_type, state) for job in state.jobs.values()]
    free = state.capacity[gpu_type]
    for claim in sorted((c for c in claims if c.sizes), key=lambda c: c.seconds[0]):  # the smallest size each
        if claim.step() <= free:
            free -= claim.step()
            claim.at = 0
    gains = [(-claim.gain(), k) for k, claim in enumerate(claims) if claim.at == 0 and claim.gain() > 0]
    heapq.heapify(gains)
    while gains and free > 0:
        _, k = heapq.heappop(gains)
        if claims[k].step() > free:
            continue
        free -= claims[k].step()
        claims[k].at += 1
        if claims[k].gain() > 0:
            heapq.heappush(gains, (-claims[k].gain(), k))
    return [grant(c.job, c.gpus()) for c in claims if c.gpus() > 0 or c.job.has]


serve(decide, "elastic", curves=True)
