#!/usr/bin/env python3
"""A policy to begin with: first come, first served; whoever fits starts; nothing is taken away.

    cp template.py scalai_policy.py FOLDER/        and in the scenario: policy { exec: "python3 template.py" }

Write your own decide(). scalai_policy.py says what a state has; docs/policy-protocol.md documents every field.
"""
from scalai_policy import grant, serve


def decide(state):
    free = dict(state.free)
    grants = []
    for job in state.jobs.values():
        if job.has:
            continue
        for gpu_type in free:
            if free[gpu_type] >= job.gpus and job.per_s[gpu_type] > 0:
                free[gpu_type] -= job.gpus
                grants.append(grant(job, job.gpus, gpu_type))
                break
    return grants


serve(decide, "template")
