#!/usr/bin/env python3
"""Makes a tiny model in Hugging Face's form: config.json and safetensors, values from a seed. Standard library only.

    make_tiny.py llama OUT [--dtype=bf16] [--seed=1] [--shard-bytes=N] [--tied] [--prefix=transformer.]

Every value is finite. The same seed gives the same bytes of each tensor, however they are shared out to files.
"""

import argparse
import json
import os
import random

from plain_safetensors import ITEM_BYTES, Tensor, elements, write

DTYPES = {"bf16": "BF16", "f16": "F16", "f32": "F32"}
TORCH_DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}


def llama_config(**sizes):
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 64,
              "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2,
              "vocab_size": 1000, "max_position_embeddings": 128, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
              "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False}
    config.update(sizes)
    return config


def gpt2_config():
    return {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new", "n_embd": 16,
            "n_head": 4, "n_layer": 4, "n_positions": 32, "n_ctx": 32, "vocab_size": 50257,
            "layer_norm_epsilon": 1e-05}


def mixtral_config():
    config = llama_config(num_key_value_heads=4)
    del config["attention_bias"], config["mlp_bias"]
    config.update({"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": 4,
                   "num_experts_per_tok": 2, "sliding_window": None})
    return config


CONFIGS = {
    "llama": llama_config,                                  # 8 heads in 2 groups
    "mqa": lambda: llama_config(num_key_value_heads=1),     # one group
    "mha": lambda: llama_config(num_key_value_heads=8),     # a group a head
    "gpt2": gpt2_config,                                    # Conv1D weights, tied, 50257 words
    "mixtral": mixtral_config,
}


def llama_shapes(config):
    """Names and shapes in the order of the module's state_dict."""
    hidden, ffn, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    size = hidden // heads
    yield "model.embed_tokens.weight", (vocab, hidden)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        yield at + "self_attn.q_proj.weight", (heads * size, hidden)
        yield at + "self_attn.k_proj.weight", (groups * size, hidden)
        yield at + "self_attn.v_proj.weight", (groups * size, hidden)
        yield at + "self_attn.o_proj.weight", (hidden, heads * size)
        if config["model_type"] == "mixtral":
            yield at + "block_sparse_moe.gate.weight", (config["num_local_experts"], hidden)
            for expert in range(config["num_local_experts"]):
                yield at + f"block_sparse_moe.experts.{expert}.w1.weight", (ffn, hidden)
                yield at + f"block_sparse_moe.experts.{expert}.w2.weight", (hidden, ffn)
                yield at + f"block_sparse_moe.experts.{expert}.w3.weight", (ffn, hidden)
        else:
            yield at + "mlp.gate_proj.weight", (ffn, hidden)
            yield at + "mlp.up_proj.weight", (ffn, hidden)
            yield at + "mlp.down_proj.weight", (hidden, ffn)
        yield at + "input_layernorm.weight", (hidden,)
        yield at + "post_attention_layernorm.weight", (hidden,)
    yield "model.norm.weight", (hidden,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (vocab, hidden)


def gpt2_shapes(config):
    hidden = config["n_embd"]
    yield "wte.weight", (config["vocab_size"], hidden)
    yield "wpe.weight", (config["n_positions"], hidden)
    for layer in range(config["n_layer"]):
        at = f"h.{layer}."
        for norm, then in (("ln_1", (("attn.c_attn", 1, 3), ("attn.c_proj", 1, 1))),
                           ("ln_2", (("mlp.c_fc", 1, 4), ("mlp.c_proj", 4, 1)))):
            yield at + norm + ".weight", (hidden,)
            yield at + norm + ".bias", (hidden,)
            for name, rows, columns in then:  # Conv1D: [in, out]
                yield at + name + ".weight", (rows * hidden, columns * hidden)
                yield at + name + ".bias", (columns * hidden,)
    yield "ln_f.weight", (hidden,)
    yield "ln_f.bias", (hidden,)


def values(name, shape, dtype, seed):
    """Random bits without the exponent's highest: any sign, below 2, finite."""
    size = ITEM_BYTES[dtype]
    data = bytearray(random.Random(f"{seed}:{name}").randbytes(elements(shape) * size))
    data[size - 1::size] = data[size - 1::size].translate(bytes(i & 0xBF for i in range(256)))
    return Tensor(dtype, shape, bytes(data))


def make(kind, dtype="bf16", seed=1, tied=None, prefix=None):
    """config.json's content and {name: Tensor} in the order of the state_dict."""
    config = CONFIGS[kind]()
    if tied is not None:
        config["tie_word_embeddings"] = tied
    config["torch_dtype"] = TORCH_DTYPES[dtype]
    shapes = gpt2_shapes(config) if kind == "gpt2" else llama_shapes(config)
    if prefix is None:
        prefix = "transformer." if kind == "gpt2" else ""
    return config, {prefix + name: values(name, shape, DTYPES[dtype], seed) for name, shape in shapes}


def shards(tensors, most_bytes):
    """Shared out as save_pretrained does: in order, a new file when the next tensor does not fit any more; one that is
    too large by itself has a file of its own."""
    done, current, size = [], {}, 0
    for name, tensor in tensors.items():
        if len(tensor.data) > most_bytes:
            done.append({name: tensor})
            continue
        if size + len(tensor.data) > most_bytes:
            done.append(current)
            current, size = {}, 0
        current[name] = tensor
        size += len(tensor.data)
    return done + [current] if current else done


def write_folder(folder, config, tensors, shard_bytes):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        file.write(json.dumps(config, indent=2, sort_keys=True) + "\n")
    files = shards(tensors, shard_bytes)
    if len(files) == 1:
        write(os.path.join(folder, "model.safetensors"), tensors, {"format": "pt"})
        return
    where = {}
    for i, part in enumerate(files):
        name = f"model-{i + 1:05d}-of-{len(files):05d}.safetensors"
        where.update({tensor: name for tensor in part})
        write(os.path.join(folder, name), part, {"format": "pt"})
    index = {"metadata": {"total_size": sum(len(tensor.data) for tensor in tensors.values())}, "weight_map": where}
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        file.write(json.dumps(index, indent=2, sort_keys=True) + "\n")


def main():
    parser = argparse.ArgumentParser(description="Makes a tiny model in Hugging Face's form.")
    parser.add_argument("kind", choices=sorted(CONFIGS))
    parser.add_argument("out", help="folder, made when it is not there")
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="bf16")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shard-bytes", type=int, default=5 * 10**9, help="tensor bytes a file at most (5 GB)")
    parser.add_argument("--tied", action="store_true", default=None, help="Llama with the embedding as its head")
    parser.add_argument("--prefix", help="in front of every name; transformer. for gpt2, else none")
    args = parser.parse_args()
    config, tensors = make(args.kind, args.dtype, args.seed, args.tied, args.prefix)
    write_folder(args.out, config, tensors, args.shard_bytes)
    print(f"{args.out}: {len(tensors)} tensors, seed {args.seed}")


if __name__ == "__main__":
    main()
