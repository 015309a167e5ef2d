#!/usr/bin/env python3
"""What Megatron's ranks hold of a Hugging Face checkpoint: an oracle of the conversion, written from the formats alone.

    reference.py megatron HF_DIR --tp=4 --pp=2 --out=DIR [--dp=1] [--ep=1] [--etp=TP]
    reference.py compare DIR DIR      same rank files, same tensors, same bytes (metadata may differ)

Rules: rank = tp + TP·(dp + DP·pp). Layers to stages evenly, the first ones take one more; their numbers begin at 0 on
each stage. q, k, v become one matrix ordered by query group (the group's queries, its key, its value), whose rows are
cut evenly over tp, inside a group when there are fewer groups than tp. gate and up are cut each, then stacked. The
vocabulary is padded with zero rows to a multiple of 128·tp. Weights that end a block are cut by columns. Experts: rank
in the stage = etp + ETP·(ep + EP·…), numbered from 0 on each rank. A tied head is the last stage's copy of the
embedding when pp > 1.
"""

import argparse
import array
import glob
import json
import os
import sys

from plain_safetensors import ITEM_BYTES, Tensor, elements, read, write

VOCABULARY_MULTIPLE = 128


# --- dense row-major tensors as bytes ---------------------------------------------------------------------------------

def row_bytes(tensor):
    return elements(tensor.shape[1:]) * ITEM_BYTES[tensor.dtype]


def rows(tensor, begin, end):
    size = row_bytes(tensor)
    assert 0 <= begin <= end <= tensor.shape[0], (tensor.shape, begin, end)
    return Tensor(tensor.dtype, (end - begin,) + tuple(tensor.shape[1:]), tensor.data[begin * size:end * size])


def stack(parts):
    assert len({(part.dtype, part.shape[1:]) for part in parts}) == 1, [part.shape for part in parts]
    shape = (sum(part.shape[0] for part in parts),) + tuple(parts[0].shape[1:])
    return Tensor(parts[0].dtype, shape, b"".join(part.data for part in parts))


def transposed(tensor):
    items = array.array({1: "B", 2: "H", 4: "I"}[ITEM_BYTES[tensor.dtype]], tensor.data)
    count, width = tensor.shape
    return Tensor(tensor.dtype, (width, count), b"".join(items[j::width].tobytes() for j in range(width)))


def row_share(tensor, part, parts):
    assert tensor.shape[0] % parts == 0, f"{parts} do not divide {tensor.shape}"
    count = tensor.shape[0] // parts
    return rows(tensor, part * count, (part + 1) * count)


def column_share(tensor, part, parts):
    return transposed(row_share(transposed(tensor), part, parts))


def padded_share(tensor, part, parts):
    multiple = VOCABULARY_MULTIPLE * parts
    missing = -tensor.shape[0] % multiple
    padding = Tensor(tensor.dtype, (missing,) + tuple(tensor.shape[1:]), bytes(missing * row_bytes(tensor)))
    return row_share(stack([tensor, padding]), part, parts)


def by_group(query, key, value, heads, groups):
    size = query.shape[0] // heads
    width = heads // groups * size
    parts = []
    for group in range(groups):
        parts += [rows(query, group * width, (group + 1) * width), rows(key, group * size, (group + 1) * size),
                  rows(value, group * size, (group + 1) * size)]
    return stack(parts)


# --- one rank ---------------------------------------------------------------------------------------------------------

class Place:
    """Where a rank is: its coordinates and the layers it has."""

    def __init__(self, rank, args, layers):
        self.tp, self.tp_size = rank % args.tp, args.tp
        self.pp, self.pp_size = rank // (args.tp * args.dp), args.pp
        in_stage = rank % (args.tp * args.dp)
        self.etp, self.etp_size = in_stage % args.etp, args.etp
        self.ep, self.ep_size = in_stage // args.etp % args.ep, args.ep
        counts = [layers // args.pp + (stage < layers % args.pp) for stage in range(args.pp)]
        if args.pp > 1 and layers % args.pp and (layers + 2) % args.pp == 0:  # both ends count as a layer
            counts = [(layers + 2) // args.pp - (stage in (0, args.pp - 1)) for stage in range(args.pp)]
        self.layers = range(sum(counts[:self.pp]), sum(counts[:self.pp + 1]))
        self.first, self.last = self.pp == 0, self.pp == args.pp - 1


def llama_rank(config, model, place):
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    tp = (place.tp, place.tp_size)
    held = {}
    if place.first:
        held["embedding.word_embeddings.weight"] = padded_share(model["model.embed_tokens.weight"], *tp)
    for local, layer in enumerate(place.layers):
        src, dst = f"model.layers.{layer}.", f"decoder.layers.{local}."
        query, key, value = (model[src + f"self_attn.{part}_proj.weight"] for part in "qkv")
        held[dst + "input_layernorm.weight"] = model[src + "input_layernorm.weight"]
        held[dst + "self_attention.linear_qkv.weight"] = row_share(by_group(query, key, value, heads, groups), *tp)
        held[dst + "self_attention.linear_proj.weight"] = column_share(model[src + "self_attn.o_proj.weight"], *tp)
        held[dst + "pre_mlp_layernorm.weight"] = model[src + "post_attention_layernorm.weight"]
        if config["model_type"] == "mixtral":
            held.update(experts(config, model, place, src + "block_sparse_moe.", dst + "mlp."))
        else:
            gate, up = model[src + "mlp.gate_proj.weight"], model[src + "mlp.up_proj.weight"]
            held[dst + "mlp.linear_fc1.weight"] = stack([row_share(gate, *tp), row_share(up, *tp)])
            held[dst + "mlp.linear_fc2.weight"] = column_share(model[src + "mlp.down_proj.weight"], *tp)
    if place.last:
        held["decoder.final_layernorm.weight"] = model["model.norm.weight"]
        if not config["tie_word_embeddings"]:
            held["output_layer.weight"] = padded_share(model["lm_head.weight"], *tp)
        elif place.pp_size > 1:
            held["output_layer.weight"] = padded_share(model["model.embed_tokens.weight"], *tp)
    return held


def experts(config, model, place, src, dst):
    etp = (place.etp, place.etp_size)
    count = config["num_local_experts"] // place.ep_size
    held = {dst + "router.weight": model[src + "gate.weight"]}
    for local in range(count):
        part = src + f"experts.{place.ep * count + local}."
        at = dst + f"experts.local_experts.{local}."
        held[at + "linear_fc1.weight"] = stack([row_share(model[part + "w1.weight"], *etp),
                                                row_share(model[part + "w3.weight"], *etp)])
        held[at + "linear_fc2.weight"] = column_share(model[part + "w2.weight"], *etp)
    return held


def gpt2_rank(config, model, place):
    heads, hidden = config["n_head"], config["n_embd"]
    tp = (place.tp, place.tp_size)

    def fused(tensor):  # q | k | v rows to head by head
        return by_group(rows(tensor, 0, hidden), rows(tensor, hidden, 2 * hidden), rows(tensor, 2 * hidden, 3 * hidden),
                        heads, heads)

    held = {}
    if place.first:
        held["embedding.word_embeddings.weight"] = padded_share(model["wte.weight"], *tp)
        held["embedding.position_embeddings.weight"] = model["wpe.weight"]
    for local, layer in enumerate(place.layers):
        src, dst = f"h.{layer}.", f"decoder.layers.{local}."
        for ours, theirs in (("ln_1", "input_layernorm"), ("ln_2", "pre_mlp_layernorm")):
            for part in (".weight", ".bias"):
                held[dst + theirs + part] = model[src + ours + part]
        qkv = dst + "self_attention.linear_qkv"
        held[qkv + ".weight"] = row_share(fused(transposed(model[src + "attn.c_attn.weight"])), *tp)
        held[qkv + ".bias"] = row_share(fused(model[src + "attn.c_attn.bias"]), *tp)
        held[dst + "mlp.linear_fc1.weight"] = row_share(transposed(model[src + "mlp.c_fc.weight"]), *tp)
        held[dst + "mlp.linear_fc1.bias"] = row_share(model[src + "mlp.c_fc.bias"], *tp)
        for ours, theirs in (("attn.c_proj", "self_attention.linear_proj"), ("mlp.c_proj", "mlp.linear_fc2")):
            held[dst + theirs + ".weight"] = column_share(transposed(model[src + ours + ".weight"]), *tp)
            held[dst + theirs + ".bias"] = model[src + ours + ".bias"]
    if place.last:
        held["decoder.final_layernorm.weight"] = model["ln_f.weight"]
        held["decoder.final_layernorm.bias"] = model["ln_f.bias"]
        if place.pp_size > 1:
            held["output_layer.weight"] = padded_share(model["wte.weight"], *tp)
    return held


# --- programs ---------------------------------------------------------------------------------------------------------

def read_model(folder):
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    tensors = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        tensors.update(read(path)[0])
    prefix = "transformer." if config["model_type"] == "gpt2" else ""
    return config, {name[len(prefix):] if name.startswith(prefix) else name: tensors[name] for name in tensors}


def megatron(args):
    assert args.tp * args.dp % (args.ep * args.etp) == 0, "etp·ep does not divide tp·dp"
    config, model = read_model(args.folder)
    is_gpt = config["model_type"] == "gpt2"
    layers = config["n_layer" if is_gpt else "num_hidden_layers"]
    os.makedirs(args.out, exist_ok=True)
    for rank in range(args.tp * args.dp * args.pp):
        place = Place(rank, args, layers)
        held = gpt2_rank(config, model, place) if is_gpt else llama_rank(config, model, place)
        write(os.path.join(args.out, f"rank_{rank:03d}.safetensors"), held)
    return 0


def differences(one, other):
    for name in sorted(one.keys() | other.keys()):
        if name not in one or name not in other:
            yield f"{name}: is only in the {'second' if name in other else 'first'}"
        elif one[name][:2] != other[name][:2]:
            yield f"{name}: {one[name].dtype} {list(one[name].shape)} and {other[name].dtype} {list(other[name].shape)}"
        elif one[name].data != other[name].data:
            size = ITEM_BYTES[one[name].dtype]
            count = elements(one[name].shape)
            bad = [i for i in range(count) if one[name].data[i * size:(i + 1) * size] !=
                   other[name].data[i * size:(i + 1) * size]]
            yield f"{name} {list(one[name].shape)}: {len(bad)} of {count} elements differ, the first at {bad[0]}"


def compare(args):
    found = [{os.path.basename(path): path for path in glob.glob(os.path.join(folder, "*.safetensors"))}
             for folder in (args.one, args.other)]
    problems, tensors = [], 0
    for name in sorted(found[0].keys() | found[1].keys()):
        if name not in found[0] or name not in found[1]:
            problems.append(f"{name}: is only in {args.one if name in found[0] else args.other}")
            continue
        one, other = read(found[0][name])[0], read(found[1][name])[0]
        tensors += len(one)
        problems += [f"{name}: {problem}" for problem in differences(one, other)]
    if not tensors:
        problems.append("nothing to compare")
    print("\n".join(problems) or f"{len(found[0])} files, {tensors} tensors: equal")
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description="The oracle of conversions to Megatron's ranks.")
    commands = parser.add_subparsers(dest="command", required=True)
    convert = commands.add_parser("megatron")
    convert.add_argument("folder")
    convert.add_argument("--out", required=True)
    for size in ("tp", "pp", "dp", "ep", "etp"):
        convert.add_argument("--" + size, type=int, default=1 if size != "etp" else None)
    check = commands.add_parser("compare")
    check.add_argument("one")
    check.add_argument("other")
    args = parser.parse_args()
    if args.command == "megatron" and args.etp is None:
        args.etp = args.tp  # as Megatron-Core's expert_tensor_parallel_size
    return megatron(args) if args.command == "megatron" else compare(args)


if __name__ == "__main__":
    sys.exit(main())
