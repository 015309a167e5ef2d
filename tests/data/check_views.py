#!/usr/bin/env python3
"""Checks that the dataset views of a job, whatever its dp was when, give the reference sequence.

    check_views.py PLAN.json

The plan says where the data files are, in which order a pass reads its samples, and what the job did:

    {"kind": "megatron" | "tfrecord" | "tar" | "fixed",
     "sources": ["a.bin", ...],      data files in the order of the index
     "sequence": 0,                  megatron: tokens of a window, 0 for whole documents
     "record_bytes": 64,             fixed
     "shard_samples": 8192,
     "order": [3, 0, ...],           samples of the pass, in its order
     "drop_last": false,
     "segments": [{"folder": "/mnt/dataset/dp4/step-0",   with rank_00, rank_01, ...
                   "dp": 4, "batch": 32, "consumed": 0, "steps": 5}, ...]}

Of every segment all ranks' files are read by the readers of readers.py. Interleaved by the batch rule (a batch is the
next `batch` samples of the order; of b samples the first b mod dp ranks read one more than the others, each a contiguous
run) they must be what is left of the pass; the first `steps` steps of all segments together must be its beginning.
"""
import json
import os
import sys

import readers


def source_samples(plan):
    """All samples of the data files by their number."""
    kind, sources = plan["kind"], plan["sources"]
    if kind == "tfrecord":
        return [record for path in sources for record in readers.read_tfrecords(path)]
    if kind == "tar":
        return [sample for path in sources for sample in readers.read_tar(path)]
    if kind == "fixed":
        return [record for path in sources for record in readers.read_fixed(path, plan["record_bytes"])]
    datasets = [readers.IndexedDataset(path) for path in sources]
    documents = [document for dataset in datasets for document in dataset.documents]
    if not plan["sequence"]:
        return documents
    width = readers.TOKEN_BYTES[datasets[0].dtype]
    data = b"".join(b"".join(document) for document in documents)
    step, window = plan["sequence"] * width, (plan["sequence"] + 1) * width
    return [[data[at:at + window]] for at in range(0, len(data) - window + 1, step)]


def rank_samples(plan, folder):
    """What a sequential reader gets from one rank's folder, shard by shard."""
    suffix, read = {
        "megatron": (".bin", lambda path: readers.IndexedDataset(path).documents),
        "tfrecord": (".tfrecord", readers.read_tfrecords),
        "tar": (".tar", readers.read_tar),
        "fixed": (".bin", lambda path: readers.read_fixed(path, plan["record_bytes"])),
    }[plan["kind"]]
    names = sorted(name for name in os.listdir(folder) if name.endswith(suffix))
    assert names == ["shard_%05d%s" % (i, suffix) for i in range(len(names))], "%s: %s" % (folder, names)
    shards = [read(os.path.join(folder, name)) for name in names]
    for name, shard in zip(names[:-1], shards):
        assert len(shard) == plan["shard_samples"], "%s/%s: %d samples" % (folder, name, len(shard))
    assert not shards or 0 < len(shards[-1]) <= plan["shard_samples"], "%s/%s: samples" % (folder, names[-1])
    return [sample for shard in shards for sample in shard]


def interleaved(plan, segment):
    """The steps of a segment until the end of the pass, each a list of samples."""
    ranks = [rank_samples(plan, os.path.join(segment["folder"], "rank_%02d" % rank)) for rank in range(segment["dp"])]
    taken = [0] * segment["dp"]
    left = len(plan["order"]) - segment["consumed"]
    steps = []
    while left >= segment["batch"] or (left > 0 and not plan["drop_last"]):
        size = min(segment["batch"], left)
        step = []
        for rank, samples in enumerate(ranks):
            share = size // segment["dp"] + (rank < size % segment["dp"])
            step += samples[taken[rank]:taken[rank] + share]
            taken[rank] += share
        steps.append(step)
        left -= size
    for rank, samples in enumerate(ranks):
        assert taken[rank] == len(samples), "%s: rank %d has %d samples, not %d" % (
            segment["folder"], rank, len(samples), taken[rank])
    return steps


def main(plan):
    samples = source_samples(plan)
    order = plan["order"]
    assert len(order) == len(samples), "%d samples in the files, %d in the order" % (len(samples), len(order))
    assert sorted(order) == list(range(len(order))), "the order is no permutation"
    reference = [samples[number] for number in order]
    read = []
    for segment in plan["segments"]:
        steps = interleaved(plan, segment)
        rest = [sample for step in steps for sample in step]
        wanted = reference[segment["consumed"]:]
        assert rest == wanted[:len(rest)], "%s: not what is left of the pass" % segment["folder"]
        assert len(wanted) - len(rest) < (segment["batch"] if plan["drop_last"] else 1), segment["folder"]
        assert segment["consumed"] == len(read), "%s: consumed" % segment["folder"]
        read += [sample for step in steps[:segment["steps"]] for sample in step]
    assert read == reference[:len(read)], "the job did not read the beginning of the order"
    print("read %d of %d samples, each once and in order" % (len(read), len(order)))


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        main(json.load(file))
