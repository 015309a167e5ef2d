#!/usr/bin/env python3
"""Every built-in family of models against the frameworks themselves: tiny seeded models of transformers, through layouts of
Megatron and back; and the same weights in megatron-core, by strict load.

    SCALAI_BIN=build/bin families_test.py [-v] [Transformers.test_qwen3 WithMegatron.test_qwen3 …]

Needs torch and transformers 5; the tests in WithMegatron are skipped without megatron-core.
"""

import argparse
import datetime
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
import warnings
from collections import OrderedDict
from unittest import mock

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # what megatron-core compiles, examples/training/megatron_on_cpu.py replaces
import torch  # noqa: E402
import transformers  # noqa: E402

sys.dont_write_bytecode = True
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
warnings.filterwarnings("ignore")

PROGRAM = os.path.join(os.environ.get("SCALAI_BIN", "build/bin"), "scalai")
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/training")
VOCABULARY, HIDDEN, FFN, LAYERS, HEADS, GROUPS, HEAD, LENGTH = 128, 32, 48, 4, 4, 2, 16, 64
EXPERTS, EXPERT_FFN = 4, 24

DECODER = dict(vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS,
               num_attention_heads=HEADS, num_key_value_heads=GROUPS, max_position_embeddings=LENGTH, bos_token_id=1,
               eos_token_id=2, pad_token_id=0)
LATENT = dict(num_key_value_heads=HEADS, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8,
              n_routed_experts=EXPERTS, num_experts_per_tok=2, moe_intermediate_size=EXPERT_FFN, topk_group=1, n_group=1)
SPARSE = dict(num_experts=EXPERTS, num_experts_per_tok=2, moe_intermediate_size=EXPERT_FFN)
ENCODER = dict(vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS,
               num_attention_heads=HEADS, max_position_embeddings=LENGTH)


def decoder(**sizes):
    return {**DECODER, **sizes}


# Architecture and sizes; the configuration's class is the architecture's.
MODELS = {
    "bert": ("BertForMaskedLM", ENCODER),
    "bert_pooler": ("BertModel", ENCODER),
    "bert_pretraining": ("BertForPreTraining", ENCODER),
    "deepseek_v2": ("DeepseekV2ForCausalLM", decoder(**LATENT, q_lora_rank=16, n_shared_experts=1,
                                                     first_k_dense_replace=1)),
    "deepseek_v2_lite": ("DeepseekV2ForCausalLM", decoder(**LATENT, q_lora_rank=None, n_shared_experts=2,
                                                          first_k_dense_replace=1)),
    "deepseek_v3": ("DeepseekV3ForCausalLM", decoder(**LATENT, q_lora_rank=16, n_shared_experts=1,
                                                     first_k_dense_replace=2)),
    "gemma": ("GemmaForCausalLM", decoder(head_dim=HEAD)),
    "gemma2": ("Gemma2ForCausalLM", decoder(head_dim=HEAD)),
    "gemma3": ("Gemma3ForCausalLM", decoder(head_dim=HEAD)),
    "gpt2": ("GPT2LMHeadModel", dict(vocab_size=VOCABULARY, n_embd=HIDDEN, n_layer=LAYERS, n_head=HEADS,
                                     n_positions=LENGTH)),
    "gpt_neox": ("GPTNeoXForCausalLM", ENCODER),
    "granite": ("GraniteForCausalLM", decoder(attention_multiplier=(HIDDEN / HEADS) ** -0.5)),
    "llama": ("LlamaForCausalLM", decoder()),
    "llama_biases": ("LlamaForCausalLM", decoder(attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    "llama4": ("Llama4ForCausalLM", decoder(head_dim=8, intermediate_size_mlp=40, num_local_experts=EXPERTS,
                                            num_experts_per_tok=1, interleave_moe_layer_step=2)),
    "ministral": ("MinistralForCausalLM", decoder(head_dim=HEAD)),
    "mistral": ("MistralForCausalLM", decoder(head_dim=HEAD)),
    "mixtral": ("MixtralForCausalLM", decoder(num_local_experts=EXPERTS)),
    "olmo2": ("Olmo2ForCausalLM", decoder()),
    "olmo3": ("Olmo3ForCausalLM", decoder()),
    "opt": ("OPTForCausalLM", dict(vocab_size=VOCABULARY, hidden_size=HIDDEN, ffn_dim=FFN, num_hidden_layers=LAYERS,
                                   num_attention_heads=HEADS, max_position_embeddings=LENGTH,
                                   word_embed_proj_dim=HIDDEN)),
    "phi3": ("Phi3ForCausalLM", decoder()),
    "qwen2": ("Qwen2ForCausalLM", decoder()),
    "qwen2_moe": ("Qwen2MoeForCausalLM", decoder(**SPARSE, shared_expert_intermediate_size=40)),
    "qwen2_tied": ("Qwen2ForCausalLM", decoder(tie_word_embeddings=True)),
    "qwen3": ("Qwen3ForCausalLM", decoder(head_dim=HEAD)),
    "qwen3_moe": ("Qwen3MoeForCausalLM", decoder(head_dim=HEAD, **SPARSE, norm_topk_prob=True)),
    "qwen3_moe_mixed": ("Qwen3MoeForCausalLM", decoder(head_dim=HEAD, **SPARSE, mlp_only_layers=[1])),
    "smollm3": ("SmolLM3ForCausalLM", decoder()),
    "starcoder2": ("Starcoder2ForCausalLM", decoder()),
    "starcoder2_plain": ("Starcoder2ForCausalLM", decoder(use_bias=False, tie_word_embeddings=False)),
}
STACKED = ("deepseek_v3", "mixtral", "qwen2_moe", "qwen3_moe", "qwen3_moe_mixed")


def build(name, dtype):
    architecture, sizes = MODELS[name]
    cls = getattr(transformers, architecture)
    config = cls.config_class(**{key: value for key, value in sizes.items() if value is not None})
    for key, value in sizes.items():
        if value is None:
            setattr(config, key, None)
    torch.manual_seed(sum(map(ord, name)))
    model = cls(config).to(dtype).eval()
    with torch.no_grad():
        for tensor in list(model.parameters()) + [b for n, b in model.named_buffers() if n.endswith("correction_bias")]:
            tensor.normal_(0, 0.2)
    return model


def tokens():
    return (torch.arange(2 * 12).reshape(2, 12) * 37 + 5) % (VOCABULARY - 3) + 3


def logits(model):
    with torch.no_grad():
        return model(tokens())[0].float()


def reshard(source, target, layout, *options):
    done = subprocess.run([PROGRAM, "checkpoint", "reshard", source, target, "--to=" + layout, "-q", *options],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{source} → {target} as {layout}: {done.stderr}")


def content(folder, name="model.safetensors"):
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


class Folders(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def path(self, name):
        return os.path.join(self.folder, name)


class Transformers(Folders):
    """hf → tp2,pp2 → tp4 → pp4 → hf: the same bytes, which transformers loads to the same logits."""

    def there_and_back(self, name):
        model = build(name, torch.bfloat16)
        model.save_pretrained(self.path("hf"))
        places = [("hf", ""), ("a", "tp2,pp2"), ("b", "tp4"), ("c", "pp4"), ("back", "hf")]
        for (source, _), (target, layout) in zip(places, places[1:]):
            reshard(self.path(source), self.path(target), layout)
        self.assertEqual(content(self.path("hf")), content(self.path("back")))
        first, again = (type(model).from_pretrained(self.path(place), dtype=torch.bfloat16).eval()
                        for place in ("hf", "back"))
        self.assertTrue(torch.equal(logits(first), logits(again)))


class Stacked(Folders):
    """The experts of a layer as one tensor, as transformers 5 has them in memory: read, and written one by one."""

    def read(self, name):
        model = build(name, torch.bfloat16)
        model.save_pretrained(self.path("one"))
        model.save_pretrained(self.path("stacked"), save_original_format=False)
        self.assertNotEqual(content(self.path("one")), content(self.path("stacked")))
        reshard(self.path("stacked"), self.path("ranks"), "tp2,pp2,etp1")
        reshard(self.path("ranks"), self.path("back"), "hf")
        self.assertEqual(content(self.path("one")), content(self.path("back")))


def leave():
    """Ends a process of several: torch's threads sometimes abort one that ends by itself."""
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    os._exit(0)


PATIENCE = datetime.timedelta(seconds=120)  # of processes with each other; torch's own is half an hour


def save_sharded(rank, ranks, name, folder):
    """One process of `ranks`: FSDP2's shards of a model and of its AdamW, after a step."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor

    torch.distributed.init_process_group("gloo", rank=rank, world_size=ranks, timeout=PATIENCE,
                                         init_method="file://" + os.path.join(folder, "store"))
    model = build(name, torch.float32)
    model.save_pretrained(os.path.join(folder, "hf")) if rank == 0 else None
    torch.distributed.barrier()
    mesh = init_device_mesh("cpu", (ranks,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
    for parameter in model.parameters():
        local = parameter.to_local()
        parameter.grad = DTensor.from_local(torch.randn(local.shape), parameter.device_mesh, parameter.placements,
                                            shape=parameter.shape, stride=parameter.stride())
    optimizer.step()
    state, moments = get_state_dict(model, optimizer)
    dcp.save({"model": state, "optim": moments}, checkpoint_id=os.path.join(folder, "dcp"))
    dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(os.path.join(folder, "shards"), save_distributed=True))
    whole = get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True))[1]["state"]
    if rank == 0:
        torch.save({f"{name}.{kind}": each[kind] for name, each in whole.items() for kind in ("exp_avg", "exp_avg_sq")},
                   os.path.join(folder, "moments"))
    leave()


def load_sharded(rank, ranks, name, folder):
    """Another number of processes: torch's own load of dcp-written into FSDP2's shards, which were something else."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.distributed.init_process_group("gloo", rank=rank, world_size=ranks, timeout=PATIENCE,
                                         init_method="file://" + os.path.join(folder, "store-again"))
    model = build(name, torch.float32)
    mesh = init_device_mesh("cpu", (ranks,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
    state, moments = get_state_dict(model, optimizer)
    dcp.load({"model": state, "optim": moments}, checkpoint_id=os.path.join(folder, "dcp-written"),
             planner=DefaultLoadPlanner(allow_partial_load=True))  # learning rates and the like are not in it
    set_state_dict(model, optimizer, model_state_dict=state, optim_state_dict=moments)
    state, moments = get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True))
    if rank == 0:
        torch.save({**state, **{f"{name}.{kind}": value for name, each in moments["state"].items()
                                for kind, value in each.items()}}, os.path.join(folder, "loaded"))
    leave()


class Torch(Folders):
    """Files of torch.save, read and written without torch."""

    def run_form(self, name):
        form, _, model = name.partition("_")
        getattr(self, form)(model)

    def bin(self, name):
        """pytorch_model.bin, as transformers 4 wrote it: in two files with an index."""
        model = build(name, torch.bfloat16)
        model.save_pretrained(self.path("hf"))
        os.mkdir(self.path("bin"))
        model.config.architectures = [MODELS[name][0]]
        model.config.save_pretrained(self.path("bin"))
        state = list(model.state_dict().items())
        parts = {"pytorch_model-00001-of-00002.bin": dict(state[::2]), "pytorch_model-00002-of-00002.bin": dict(state[1::2])}
        for file, part in parts.items():
            torch.save(part, os.path.join(self.path("bin"), file))
        with open(os.path.join(self.path("bin"), "pytorch_model.bin.index.json"), "w") as index:
            json.dump({"metadata": {}, "weight_map": {key: file for file, part in parts.items() for key in part}}, index)
        reshard(self.path("bin"), self.path("ranks"), "tp2,pp2,logical")
        reshard(self.path("ranks"), self.path("back"), "hf")
        self.assertEqual(content(self.path("hf")), content(self.path("back")))

    def dcp(self, name):
        """A folder of torch.distributed.checkpoint: FSDP2 on three processes, which divide no dimension; with moments."""
        from safetensors.torch import load_file

        torch.multiprocessing.spawn(save_sharded, (3, name, self.folder), nprocs=3)
        config = "--config=" + self.path("hf/config.json")
        with self.assertRaisesRegex(AssertionError, "tensors of an optimizer, such as .*--drop=optimizer leaves them out"):
            reshard(self.path("dcp"), self.path("back"), "hf", config)
        reshard(self.path("dcp"), self.path("back"), "hf", config, "--verify", "--drop=optimizer")
        self.assertEqual(content(self.path("hf")), content(self.path("back")))
        reshard(self.path("shards"), self.path("from-shards"), "hf", config, "--verify")
        self.assertEqual(content(self.path("hf")), content(self.path("from-shards")))
        reshard(self.path("dcp"), self.path("ranks"), "tp2,pp2", config, "--verify")
        reshard(self.path("ranks"), self.path("one"), "tp1,hf", "--verify")
        found = load_file(self.path("one/rank_000.safetensors"))
        expected = torch.load(self.path("moments"))
        self.assertEqual({name for name in found if ".exp_avg" in name}, set(expected))
        for key, moment in expected.items():
            self.assertTrue(torch.equal(found[key], moment), key)
        # And back into torch, over ranks under Megatron's names, which fuse and cut otherwise.
        reshard(self.path("ranks"), self.path("dcp-written"), "dcp", "--verify")
        torch.multiprocessing.spawn(load_sharded, (2, name, self.folder), nprocs=2)
        loaded = torch.load(self.path("loaded"))
        expected.update(load_file(self.path("hf/model.safetensors")))
        steps = {key: loaded.pop(key) for key in list(loaded) if key.endswith(".step")}
        self.assertEqual({step.item() for step in steps.values()}, {1.0})
        self.assertEqual(set(loaded), set(expected))
        for key, value in expected.items():
            self.assertTrue(torch.equal(loaded[key], value), key)

    def megatron(self, name):
        """mp_rank_TT_PPP/model_optim_rng.pt, as Megatron-LM writes it beside its tracker."""
        from safetensors.torch import load_file

        build(name, torch.bfloat16).save_pretrained(self.path("hf"))
        reshard(self.path("hf"), self.path("ranks"), "tp2,pp2,megatron")
        for rank in range(4):
            state = load_file(self.path(f"ranks/rank_{rank:03}.safetensors"))
            folder = self.path(f"mg/iter_0000300/mp_rank_{rank % 2:02}_{rank // 2:03}")
            os.makedirs(folder)
            torch.save({"args": argparse.Namespace(tensor_model_parallel_size=2, lr=1e-4, params_dtype=torch.bfloat16),
                        "checkpoint_version": 3.0, "iteration": 300, "model": OrderedDict(state),
                        "optimizer": {"optimizer": {"state": {0: {"exp_avg": torch.ones(3)}}, "param_groups": [{"lr": 1}]}},
                        "opt_param_scheduler": {"num_steps": 300},
                        "rng_state": [{"cuda_rng_state": torch.get_rng_state(), "rng_tracker_states": {}}]},
                       os.path.join(folder, "model_optim_rng.pt"))
        with open(self.path("mg/latest_checkpointed_iteration.txt"), "w") as newest:
            newest.write("300")
        options = ["--config=" + self.path("hf/config.json"), "--verify"]
        with self.assertRaisesRegex(AssertionError, "--drop=optimizer"):
            reshard(self.path("mg"), self.path("back"), "hf", *options)
        options.append("--drop=optimizer")
        reshard(self.path("mg"), self.path("back"), "hf", *options)
        self.assertEqual(content(self.path("hf")), content(self.path("back")))
        # And written: the same tensors in the same places.
        reshard(self.path("mg"), self.path("written"), "tp2,pp2,torch", *options)
        for rank in range(4):
            file = f"iter_0000300/mp_rank_{rank % 2:02}_{rank // 2:03}/model_optim_rng.pt"
            ours = torch.load(os.path.join(self.path("written"), file), weights_only=True, mmap=True)
            theirs = torch.load(os.path.join(self.path("mg"), file), weights_only=False)
            self.assertEqual((ours["iteration"], ours["checkpoint_version"]), (300, 3.0))
            self.assertEqual(set(ours["model"]), set(theirs["model"]))
            for key, value in theirs["model"].items():
                self.assertTrue(torch.equal(ours["model"][key], value), key)

    def engine(self, name):
        """Rank files under the names of Transformer Engine's modules, which say no more than their names."""
        from safetensors.torch import load_file

        build(name, torch.bfloat16).save_pretrained(self.path("hf"))
        reshard(self.path("hf"), self.path("ranks"), "tp2,pp2,megatron", "--transformer-impl=transformer_engine")
        keys = set(load_file(self.path("ranks/rank_000.safetensors")))
        norm = "decoder.layers.0." + ("input_layernorm" if name == "deepseek_v3" else "self_attention.linear_qkv.layer_norm")
        self.assertTrue(any(key.startswith(norm) for key in keys))
        self.assertFalse(any("local_experts" in key for key in keys))
        os.remove(self.path("ranks/manifest.json"))
        reshard(self.path("ranks"), self.path("back"), "hf", "--from=tp2,pp2", "--verify")
        self.assertEqual(content(self.path("hf")), content(self.path("back")))


class Types(Folders):
    """--dtype rounds as torch does, and 8 bits times their scales are torch's products."""

    def test_rounding(self):
        from safetensors.torch import load_file

        model = build("llama", torch.float32)
        with torch.no_grad():
            weight = model.model.embed_tokens.weight.flatten()
            weight[:12] = torch.tensor([float("inf"), float("-inf"), float("nan"), 0.0, -0.0, 1e-40, 65504.0, 65520.0, 1e39,
                                        1 + 2.0 ** -8, 1 + 3 * 2.0 ** -8, 2.0 ** -25])
            weight[12:1024] = torch.randn(1012) * torch.exp2(torch.randint(-30, 18, (1012,)))
            model.model.embed_tokens.weight.copy_(weight.view_as(model.model.embed_tokens.weight))
        model.save_pretrained(self.path("hf"))
        for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp64", torch.float64)):
            reshard(self.path("hf"), self.path(name), "hf", "--dtype=" + name, "--verify")
            found = load_file(self.path(name + "/model.safetensors"))
            bits = {2: torch.int16, 8: torch.int64}[dtype.itemsize]
            for key, value in load_file(self.path("hf/model.safetensors")).items():
                self.assertEqual(found[key].dtype, dtype)
                ours, theirs = found[key], value.to(dtype)
                self.assertTrue(torch.equal(ours.isnan(), theirs.isnan()), key)
                same = (ours.view(bits) == theirs.view(bits)) | ours.isnan()  # of NaN torch has several codes
                self.assertTrue(same.all(), key)
            loaded = transformers.AutoModelForCausalLM.from_pretrained(self.path(name), dtype="auto")
            self.assertEqual(loaded.dtype, dtype)

    def test_replicated_heads(self):
        """A model whose heads of keys and values are replicated for tp4 computes the same."""
        from safetensors.torch import load_file

        model = build("qwen2", torch.float32)
        model.save_pretrained(self.path("hf"))
        whole = load_file(self.path("hf/model.safetensors"))
        reshard(self.path("hf"), self.path("ranks"), "tp4,hf", "--kv=replicate", "--verify")
        for rank in range(4):
            found = load_file(self.path(f"ranks/rank_{rank:03}.safetensors"))
            for name in ("k_proj.weight", "v_proj.weight", "k_proj.bias", "v_proj.bias"):
                key = "model.layers.1.self_attn." + name
                self.assertTrue(torch.equal(found[key], whole[key].chunk(GROUPS)[rank * GROUPS // 4]), (rank, name))
        reshard(self.path("hf"), self.path("megatron"), "tp4,megatron", "--kv=replicate", "--verify")
        reshard(self.path("megatron"), self.path("back"), "hf", "--verify")
        loaded = transformers.AutoModelForCausalLM.from_pretrained(self.path("back")).eval()
        self.assertEqual(loaded.config.num_key_value_heads, 4)
        self.assertTrue(torch.equal(logits(loaded), logits(model)))

    def test_eight_bits(self):
        from safetensors.torch import load_file, save_file

        build("deepseek_v3", torch.bfloat16).save_pretrained(self.path("hf"))
        stored, expected = {}, {}
        for key, value in load_file(self.path("hf/model.safetensors")).items():
            stored[key] = expected[key] = value
            if value.dim() != 2 or "proj" not in key:
                continue
            rows, columns = (-(-size // block) for size, block in zip(value.shape, (12, 20)))
            scales = torch.rand(rows, columns) + 0.01
            factor = scales.repeat_interleave(12, 0)[: len(value)].repeat_interleave(20, 1)[:, : value.shape[1]]
            stored[key] = (value.float() / factor).clamp(-448, 448).to(torch.float8_e4m3fn)
            stored[key + "_scale_inv"] = scales
            expected[key] = (stored[key].float() * factor).to(torch.bfloat16)
        os.mkdir(self.path("eight"))
        save_file(stored, self.path("eight/model.safetensors"), {"format": "pt"})
        with open(self.path("hf/config.json")) as config:
            config = json.load(config)
        config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [12, 20], "fmt": "e4m3"}
        with open(self.path("eight/config.json"), "w") as file:
            json.dump(config, file)
        reshard(self.path("eight"), self.path("ranks"), "tp2,pp2", "--verify")
        reshard(self.path("ranks"), self.path("back"), "hf", "--verify")
        found = load_file(self.path("back/model.safetensors"))
        self.assertEqual(set(found), set(expected))
        for key, value in expected.items():
            self.assertTrue(torch.equal(found[key], value), key)
        transformers.AutoModelForCausalLM.from_pretrained(self.path("back"))


# What megatron-core calls the same model. Not DeepSeek V2 Lite: there the norm of latent keys comes with one of queries.
GATED = dict(gated_linear_unit=True, activation_func=torch.nn.functional.silu, add_bias_linear=False,
             normalization="RMSNorm", layernorm_epsilon=1e-6)
EARLY = dict(gated_linear_unit=False, add_bias_linear=True, normalization="LayerNorm", num_query_groups=HEADS,
             layernorm_epsilon=1e-5)
ROUTED = dict(num_moe_experts=EXPERTS, moe_router_topk=2, moe_router_load_balancing_type="none",
              moe_ffn_hidden_size=EXPERT_FFN, moe_grouped_gemm=False, moe_token_dispatcher_type="allgather")
MLA = dict(GATED, **ROUTED, multi_latent_attention=True, kv_lora_rank=16, qk_head_dim=8, qk_pos_emb_head_dim=8,
           v_head_dim=8, num_query_groups=HEADS, rope_type="rope", qk_layernorm=True)


def gelu(tensor):
    return torch.nn.functional.gelu(tensor, approximate="tanh")


IN_MEGATRON = {
    "deepseek_v2": dict(MLA, q_lora_rank=16, moe_layer_freq=[0, 1, 1, 1], moe_router_pre_softmax=True,
                        moe_shared_expert_intermediate_size=EXPERT_FFN),
    "deepseek_v3": dict(MLA, q_lora_rank=16, moe_layer_freq=[0, 0, 1, 1], moe_router_score_function="sigmoid",
                        moe_router_enable_expert_bias=True, moe_router_topk_scaling_factor=2.5,
                        moe_router_pre_softmax=True, moe_shared_expert_intermediate_size=EXPERT_FFN),
    "gemma": dict(GATED, kv_channels=HEAD, activation_func=gelu),
    "gpt2": dict(EARLY, activation_func=gelu, ffn_hidden_size=4 * HIDDEN),
    "granite": dict(GATED),
    "llama": dict(GATED),
    "llama4": dict(GATED, **{**ROUTED, "moe_router_topk": 1, "moe_ffn_hidden_size": FFN}, ffn_hidden_size=40,
                   moe_layer_freq=[0, 1, 0, 1], moe_router_score_function="sigmoid",
                   moe_shared_expert_intermediate_size=FFN, moe_apply_probs_on_input=True),
    "ministral": dict(GATED, kv_channels=HEAD),
    "mistral": dict(GATED, kv_channels=HEAD),
    "mixtral": dict(GATED, **{**ROUTED, "moe_ffn_hidden_size": FFN}, layernorm_epsilon=1e-5),
    "opt": dict(EARLY, activation_func=torch.nn.functional.relu),
    "phi3": dict(GATED, layernorm_epsilon=1e-5),
    "qwen2": dict(GATED, add_qkv_bias=True),
    "qwen2_moe": dict(GATED, **ROUTED, add_qkv_bias=True, moe_router_pre_softmax=True,
                      moe_shared_expert_intermediate_size=40, moe_shared_expert_gate=True),
    "qwen2_tied": dict(GATED, add_qkv_bias=True),
    "qwen3": dict(GATED, kv_channels=HEAD, qk_layernorm=True),
    "qwen3_moe": dict(GATED, **ROUTED, kv_channels=HEAD, qk_layernorm=True),
    "qwen3_moe_mixed": dict(GATED, **ROUTED, kv_channels=HEAD, qk_layernorm=True, moe_layer_freq=[1, 0, 1, 1],
                            moe_router_pre_softmax=True),
    "starcoder2": dict(EARLY, num_query_groups=GROUPS, activation_func=gelu),
    "starcoder2_plain": dict(EARLY, num_query_groups=GROUPS, activation_func=gelu, add_bias_linear=False),
}
# Loaded strictly, but computed otherwise than megatron-core's local layers do: Gemma scales its embedding and adds 1 to
# the weights of norms, Llama 4 leaves out positions in every fourth layer.
ONLY_LOADED = ("gemma", "llama4")


class Core(torch.nn.Module):
    """Attention behind its matrices. Megatron-core's own for the CPU takes no values narrower than keys."""

    def __init__(self, *, softmax_scale, **_):
        super().__init__()
        self.scale = softmax_scale

    def forward(self, query, key, value, mask, **_):
        query, key, value = (each.permute(1, 2, 0, 3) for each in (query, key, value))  # from [tokens, samples, heads, size]
        scores = (query @ key.transpose(2, 3) * self.scale).masked_fill(mask, float("-inf"))
        return (scores.softmax(-1) @ value).permute(2, 0, 1, 3).flatten(2)


class WithMegatron(Folders):  # the last by name: the process has no other use of torch.cuda afterwards
    """hf → tp1 under Megatron's names: megatron-core's strict load takes it, and its logits are those of transformers."""

    @classmethod
    def setUpClass(cls):
        try:
            import megatron.core  # noqa: F401
        except ImportError:
            raise unittest.SkipTest("megatron-core is not installed")
        sys.path.insert(0, EXAMPLES)
        import megatron_on_cpu
        megatron_on_cpu.install()
        from megatron.core import parallel_state, tensor_parallel
        cls.holder = tempfile.TemporaryDirectory()
        torch.distributed.init_process_group("gloo", rank=0, world_size=1,
                                             init_method="file://" + os.path.join(cls.holder.name, "store"))
        parallel_state.initialize_model_parallel(1, 1)
        tensor_parallel.model_parallel_cuda_manual_seed(1)

    @classmethod
    def tearDownClass(cls):
        torch.distributed.destroy_process_group()
        cls.holder.cleanup()

    @staticmethod
    def model(name, source):
        from megatron.core.models.gpt import GPTModel
        from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_layer_local_spec
        from megatron.core.transformer import MLATransformerConfig, TransformerConfig

        options = IN_MEGATRON[name]
        cls = MLATransformerConfig if "multi_latent_attention" in options else TransformerConfig
        config = cls(**{**dict(num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS,
                               num_query_groups=GROUPS, ffn_hidden_size=FFN, hidden_dropout=0, attention_dropout=0,
                               apply_rope_fusion=False, use_cpu_initialization=True, bias_dropout_fusion=False,
                               masked_softmax_fusion=False, gradient_accumulation_fusion=False,
                               bias_activation_fusion=False), **options})
        spec = (get_gpt_decoder_block_spec(config, use_transformer_engine=False, normalization=config.normalization)
                if config.num_moe_experts else
                get_gpt_layer_local_spec(normalization=config.normalization, qk_layernorm=config.qk_layernorm))
        if "multi_latent_attention" in options:
            for layer in spec.layer_specs:
                layer.submodules.self_attention.submodules.core_attention = Core
        rotary = getattr(source.config, "rope_parameters", None) or {}
        positions = {"gpt2": LENGTH, "opt": LENGTH + 2}
        return GPTModel(config, spec, VOCABULARY, positions.get(name, LENGTH), parallel_output=False,
                        share_embeddings_and_output_weights=source.config.tie_word_embeddings,
                        position_embedding_type="learned_absolute" if name in positions else "rope",
                        rotary_base=rotary.get("rope_theta", 10000)).eval()

    @staticmethod
    def load(model, file):
        from safetensors.torch import load_file

        own = {key: value for key, value in model.state_dict().items() if value is not None}
        extra = {key for key in own if "_extra_state" in key or key.endswith("local_tokens_per_expert")}
        model.load_state_dict({**{key: own[key] for key in extra}, **load_file(file)}, strict=True)

    def strict_load(self, name):
        source = build(name, torch.float32)
        source.save_pretrained(self.path("hf"))
        reshard(self.path("hf"), self.path("ranks"), "tp1,megatron")
        model = self.model(name, source)
        self.load(model, self.path("ranks/rank_000.safetensors"))
        self.compare(model, name, source)

    def compare(self, model, name, source):
        if name in ONLY_LOADED:
            return
        ids = tokens()
        positions = torch.arange(ids.shape[1]).expand_as(ids) + (2 if name == "opt" else 0)
        mask = torch.ones(1, 1, ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)  # true: not seen
        with torch.no_grad():
            theirs = model(ids, positions, mask).float()
        expected = logits(source)
        error = (theirs - expected).abs().max().item()
        self.assertLess(error, 1e-4 * max(1, expected.abs().max().item()), math.nan if error != error else error)

    def torch_dist(self, name):
        """megatron-core's own folder, with stacked layers and experts → hf."""
        from megatron.core import dist_checkpointing

        source = build(name, torch.float32)
        source.save_pretrained(self.path("hf"))
        reshard(self.path("hf"), self.path("ranks"), "tp1,megatron")
        model = self.model(name, source)
        self.load(model, self.path("ranks/rank_000.safetensors"))
        os.makedirs(self.path("dist/iter_0000300"))
        dist_checkpointing.save(model.sharded_state_dict(), self.path("dist/iter_0000300"))
        with open(self.path("dist/latest_checkpointed_iteration.txt"), "w") as newest:
            newest.write("300")
        reshard(self.path("dist"), self.path("back"), "hf", "--config=" + self.path("hf/config.json"), "--verify")
        self.assertEqual(content(self.path("hf")), content(self.path("back")))

    def written(self, name):
        """hf → Megatron's own folders: megatron-core's load of a distributed checkpoint, and torch's of a rank's file."""
        from megatron.core import dist_checkpointing

        source = build(name, torch.float32)
        source.save_pretrained(self.path("hf"))
        reshard(self.path("hf"), self.path("dist"), "torch_dist", "--verify")
        model = self.model(name, source)
        state = dist_checkpointing.load({"model": model.sharded_state_dict()}, self.path("dist/release"))
        self.assertEqual(state["iteration"], 0)
        model.load_state_dict(state["model"], strict=True)
        self.compare(model, name, source)
        reshard(self.path("hf"), self.path("ranks"), "tp1,torch", "--verify")
        file = torch.load(self.path("ranks/release/mp_rank_00/model_optim_rng.pt"), weights_only=True)
        for key, value in model.state_dict().items():
            if value is None or "_extra_state" in key or key.endswith("local_tokens_per_expert"):
                continue
            value = value[: len(file["model"][key])]
            self.assertTrue(torch.equal(file["model"][key][: len(value)], value), key)

    def trained(self, name, sharded, scale):
        """A model in bf16 with a real optimizer of Megatron, after a step with gradients of this scale."""
        from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
        from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

        model = self.model(name, build(name, torch.bfloat16)).bfloat16()
        model = DistributedDataParallel(model.config, DistributedDataParallelConfig(use_distributed_optimizer=sharded),
                                        model)
        optimizer = get_megatron_optimizer(OptimizerConfig(optimizer="adam", lr=1e-2, bf16=True, clip_grad=0.0,
                                                           params_dtype=torch.bfloat16,
                                                           use_distributed_optimizer=sharded), [model])
        for key, parameter in model.named_parameters():
            mine = scale * (1 + sum(map(ord, key)) % 31)  # parameters that are alike differ in their moments
            parameter.main_grad.copy_(mine * (parameter.detach().float().sin() + 0.5))
        optimizer.step()
        return model.module, optimizer

    @staticmethod
    def states(model, optimizer, kind):
        """Parameters, masters and moments by name and kind."""
        found = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        for one in getattr(optimizer, "chained_optimizers", [optimizer]):
            if kind:
                for parameter in one.model_param_group_index_map:
                    for key, tensor in one._get_main_param_and_optimizer_states(parameter).items():
                        if key != "step":
                            found[f"{names[id(parameter)]} {key}"] = tensor.clone()
                continue
            for low, high in zip(sum(one.float16_groups, []), sum(one.fp32_from_float16_groups, [])):
                found[names[id(low)] + " param"] = high.detach().clone()
                for key in ("exp_avg", "exp_avg_sq"):
                    found[f"{names[id(low)]} {key}"] = one.optimizer.state[high][key].clone()
        return found

    def optimizer(self, kind):
        """Megatron's optimizers → ranks tp2, pp2 → torch_dist → another model and optimizer, by Megatron-Core's own load."""
        from megatron.core import dist_checkpointing
        from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer

        kind = kind if kind != "float16" else ""
        metadata = {"distrib_optim_sharding_type": kind} if kind else {}
        config = "--config=" + self.path("hf/config.json")
        build("llama", torch.bfloat16).save_pretrained(self.path("hf"))

        def state_of(model, optimizer, loading):
            sharded = model.sharded_state_dict()
            return {"model": sharded, "iteration": 7,
                    "optimizer": optimizer.sharded_state_dict(sharded, is_loading=loading, metadata=metadata)}

        model, optimizer = self.trained("llama", bool(kind), 1.0)
        expected = self.states(model, optimizer, kind)
        self.assertEqual(len(expected), 4 * len(list(model.parameters())))
        os.makedirs(self.path("dist/iter_0000007"))
        dist_checkpointing.save(state_of(model, optimizer, False), self.path("dist/iter_0000007"))
        with open(self.path("dist/latest_checkpointed_iteration.txt"), "w") as newest:
            newest.write("7")
        reshard(self.path("dist"), self.path("ranks"), "tp2,pp2", config, "--verify")
        reshard(self.path("ranks"), self.path("written"), "torch_dist", "--verify")
        model, optimizer = self.trained("llama", bool(kind), 3.0)
        loaded = dist_checkpointing.load(state_of(model, optimizer, True), self.path("written/iter_0000007"))
        self.assertEqual(loaded["iteration"], 7)
        model.load_state_dict(loaded["model"], strict=True)
        keep = DistributedOptimizer._set_main_param_and_optimizer_states
        # It expects Apex's Adam, which has no step of its own; with torch's it fails on its own folders, too.
        with mock.patch.object(DistributedOptimizer, "_set_main_param_and_optimizer_states", lambda self, parameter, found:
                               keep(self, parameter, {"step": torch.tensor(1.0), **found})):
            optimizer.load_state_dict(loaded["optimizer"])
        found = self.states(model, optimizer, kind)
        self.assertEqual(set(found), set(expected))
        for key, tensor in expected.items():
            self.assertTrue(torch.equal(found[key], tensor), key)


    def buckets(self, name):
        """The distributed optimizer's buckets, and the same state by parameter, as Megatron-Core maps it itself."""
        from megatron.core import dist_checkpointing

        build(name, torch.bfloat16).save_pretrained(self.path("hf"))
        model, optimizer = self.trained(name, True, 1.0)
        for kind in ("dp_reshardable", "fully_reshardable"):
            os.makedirs(self.path(kind + "/iter_0000007"))
            sharded = model.sharded_state_dict()
            dist_checkpointing.save(
                {"model": sharded, "optimizer": optimizer.sharded_state_dict(
                    sharded, metadata={"distrib_optim_sharding_type": kind})}, self.path(kind + "/iter_0000007"))
            with open(self.path(kind + "/latest_checkpointed_iteration.txt"), "w") as newest:
                newest.write("7")
            reshard(self.path(kind), self.path(kind + "-ranks"), "tp1", "--config=" + self.path("hf/config.json"), "--verify")
        found = content(self.path("dp_reshardable-ranks"), "rank_000.safetensors")
        self.assertIn(b".exp_avg_sq", found)
        self.assertEqual(found, content(self.path("fully_reshardable-ranks"), "rank_000.safetensors"))


def add_tests(cls, names, check, prefix=""):
    for name in names:
        def test(self, name=name):
            getattr(self, check)(name)
        setattr(cls, "test_" + prefix + name, test)


add_tests(Transformers, MODELS, "there_and_back")
add_tests(Stacked, STACKED, "read")
add_tests(Torch, ["bin_" + name for name in ("bert", "gpt2", "llama", "opt", "qwen3_moe")], "run_form")
add_tests(Torch, ["dcp_" + name for name in ("llama", "phi3", "qwen3")], "run_form")
add_tests(Torch, ["engine_" + name for name in ("deepseek_v3", "gpt2", "llama4", "qwen2_moe")], "run_form")
add_tests(Torch, ["megatron_" + name for name in ("deepseek_v3", "gpt2", "llama", "qwen3")], "run_form")
add_tests(WithMegatron, IN_MEGATRON, "strict_load")
add_tests(WithMegatron, IN_MEGATRON, "torch_dist", "torch_dist_")
add_tests(WithMegatron, IN_MEGATRON, "written", "written_")
add_tests(WithMegatron, ["float16", "fully_reshardable"], "optimizer", "optimizer_")
add_tests(WithMegatron, IN_MEGATRON, "buckets", "buckets_")

if __name__ == "__main__":
    unittest.main()
