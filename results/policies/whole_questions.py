#!/usr/bin/env python3
"""SRTF with whole questions: all jobs come with each, and all are put in order. For the table of README.md; write yours like
scenarios/policies/template.py."""
import json
import sys


def seconds_left(job):
    """On the GPUs it asks for, of the type that suits it best."""
    fastest = max(job["per_s"].values())
    return (job["work"] - job["work_done"]) / fastest if fastest > 0 else float("inf")


def decide(question):
    free = dict(question["capacity"])
    grants = []
    for job in sorted(question["jobs"], key=lambda j: (seconds_left(j), j["submit_s"], j["job"])):
        has = job["has"]
        # Its own type first, then the others by speed: whoever stays pays no restart.
        types = sorted(free, key=lambda t: (has is None or has["type"] != t, -job["per_s"][t], t))
        chosen = next((t for t in types if job["per_s"][t] > 0 and free[t] >= job["gpus"]), None)
        if chosen is not None:
            free[chosen] -= job["gpus"]
            if has is None or has["type"] != chosen:
                grants.append({"job": job["job"], "type": chosen, "gpus": job["gpus"]})
        elif has is not None:
            grants.append({"job": job["job"], "gpus": 0})
    return {"grants": grants}


for line in sys.stdin:
    question = json.loads(line)
    if question["ask"] == "hello":
        answer = {"scalai_policy": 1, "name": "shortest-first"}
    else:
        answer = decide(question)
    print(json.dumps(answer), flush=True)
