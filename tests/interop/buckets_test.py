#!/usr/bin/env python3
"""Megatron-Core's distributed optimizer in its buckets, of several processes: saved in one layout, resharded by scalai, and
loaded by Megatron-Core itself in another. Needs torch, megatron-core and pytest's importorskip (python/environment --megatron).

    SCALAI_BIN=build/bin buckets_test.py [-v] [Buckets.test_tp2_pp2 …]
"""

import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python" / "tests"), str(ROOT / "examples" / "training")]
warnings.simplefilter("ignore")
logging.getLogger("megatron").setLevel(logging.ERROR)
from ranks import dist, on_ranks, torch  # noqa: E402
import megatron_on_cpu  # noqa: E402

megatron_on_cpu.install()
from unittest import mock  # noqa: E402

from megatron.core import dist_checkpointing, parallel_state, tensor_parallel  # noqa: E402
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig  # noqa: E402
from megatron.core.models.gpt import GPTModel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer  # noqa: E402
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer  # noqa: E402
from megatron.core.transformer import TransformerConfig  # noqa: E402

PROGRAM = os.path.join(os.environ.get("SCALAI_BIN", "build/bin"), "scalai")
LAYERS, WORDS, LENGTH = 4, 64, 16
ITERATION = "iter_0000007"


def build(tp=1, pp=1, ep=1, etp=None, experts=None, tied=False, bf16=True, distributed=True, seed=3, words=WORDS):
    """A Llama, or a Mixtral, of several buckets a rank where the optimizer is distributed. Of its WORDS rows of the
    vocabulary those behind `words` are padding."""
    parallel_state.initialize_model_parallel(tp, pp, expert_model_parallel_size=ep, expert_tensor_parallel_size=etp)
    tensor_parallel.model_parallel_cuda_manual_seed(seed)
    torch.manual_seed(seed)
    dtype = torch.bfloat16 if bf16 else torch.float32
    config = TransformerConfig(
        num_layers=LAYERS, hidden_size=16, num_attention_heads=4, num_query_groups=2, ffn_hidden_size=24,
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, expert_model_parallel_size=ep,
        expert_tensor_parallel_size=etp, num_moe_experts=experts, pipeline_dtype=dtype, params_dtype=dtype, bf16=bf16,
        use_cpu_initialization=True, gated_linear_unit=True, activation_func=torch.nn.functional.silu,
        add_bias_linear=False, hidden_dropout=0.0, attention_dropout=0.0, bias_activation_fusion=False,
        gradient_accumulation_fusion=False, normalization="RMSNorm")
    model = GPTModel(
        config, get_gpt_layer_local_spec(num_experts=experts, moe_grouped_gemm=False, normalization="RMSNorm"), WORDS,
        LENGTH, pre_process=parallel_state.is_pipeline_first_stage(), post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=tied, position_embedding_type="rope")
    model = DistributedDataParallel(config, DistributedDataParallelConfig(use_distributed_optimizer=distributed, bucket_size=4000),
                                    model.bfloat16() if bf16 else model)
    optimizer = get_megatron_optimizer(OptimizerConfig(optimizer="adam", lr=1e-2, bf16=bf16, params_dtype=dtype,
                                                       use_distributed_optimizer=distributed), [model])
    # Adam's step hardly depends on the size of gradients: norms stay alike, and only their moments tell which is which.
    for _ in range(2):
        for name, parameter in model.named_parameters():
            scale = 1 if "embedding" in name or "output_layer" in name else 1 + sum(map(ord, name)) % 31
            parameter.main_grad.copy_(scale * (parameter.detach().float().sin() + 0.5))
        optimizer.step()
    return model.module, optimizer


def state_of(model, optimizer, kind, loading=False):
    sharded = model.sharded_state_dict()
    metadata = {"chained_optim_avoid_prefix": True, **({"distrib_optim_sharding_type": kind} if kind else {})}
    return {"model": sharded, "iteration": 7, "content_metadata": metadata,
            "optimizer": optimizer.sharded_state_dict(sharded, is_loading=loading, metadata=metadata)}


def save(model, optimizer, kind, folder):
    if dist.get_rank() == 0:
        os.makedirs(f"{folder}/{ITERATION}")
        pathlib.Path(f"{folder}/latest_checkpointed_iteration.txt").write_text("7")
    dist.barrier()
    dist_checkpointing.save(state_of(model, optimizer, kind), f"{folder}/{ITERATION}")


def save_ranks(model, optimizer, options, folder):
    """As Megatron-LM does with --ckpt-format torch."""
    rank = f"mp_rank_{parallel_state.get_tensor_model_parallel_rank():02d}"
    if options.get("pp", 1) > 1:
        rank += f"_{parallel_state.get_pipeline_model_parallel_rank():03d}"
    if options.get("ep", 1) > 1:
        rank += f"_{parallel_state.get_expert_model_parallel_rank():03d}"
    path = f"{folder}/{ITERATION}/{rank}"
    os.makedirs(path, exist_ok=True)
    if parallel_state.get_expert_data_parallel_rank() == 0:
        torch.save({"checkpoint_version": 3.0, "iteration": 7, "model": model.state_dict_for_save_checkpoint(),
                    "optimizer": optimizer.state_dict(), "opt_param_scheduler": {"max_lr": 0.01, "num_steps": 14}},
                   path + "/model_optim_rng.pt")
    if options.get("distributed", True):
        optimizer.save_parameter_state(path + "/distrib_optim.pt")
    pathlib.Path(f"{folder}/latest_checkpointed_iteration.txt").write_text("7")


def train_and_save(options, folder):
    """The same state several times: in buckets of both formats, and by parameter as Megatron-Core itself maps it."""
    model, optimizer = build(**options)
    for kind in ("dp_reshardable", "fully_reshardable"):
        save(model, optimizer, kind, f"{folder}/{kind}")
    if options.get("etp") is None:
        save_ranks(model, optimizer, options, f"{folder}/torch")


def train_and_save_plain(options, folder):
    """A plain optimizer's state: in Megatron-LM's own files, where parameters have numbers, and by parameter."""
    model, optimizer = build(**options, distributed=False)
    save(model, optimizer, "", f"{folder}/by_parameter")
    save_ranks(model, optimizer, {**options, "distributed": False}, f"{folder}/torch")


def load_and_save(options, source, target):
    """What Megatron-Core loads of `source`, saved by parameter."""
    model, optimizer = build(**options, seed=5)
    loaded = dist_checkpointing.load(state_of(model, optimizer, "fully_reshardable", True), f"{source}/{ITERATION}")
    model.load_state_dict(loaded["model"], strict=True)
    keep = DistributedOptimizer._set_main_param_and_optimizer_states
    # It expects Apex's Adam, which has no step of its own; with torch's it fails on its own folders, too.
    with mock.patch.object(DistributedOptimizer, "_set_main_param_and_optimizer_states", lambda self, parameter, found:
                           keep(self, parameter, {"step": torch.tensor(1.0), **found})):
        optimizer.load_state_dict(loaded["optimizer"])
    save(model, optimizer, "fully_reshardable", target)
    return loaded["content_metadata"]["distrib_optim_sharding_type"]


class Buckets(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def reshard(self, source, target, layout):
        done = subprocess.run([PROGRAM, "checkpoint", "reshard", self.path(source), self.path(target), "--to=" + layout,
                               "--config=" + self.path("config.json"), "--transformer-impl=local", "--verify"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("left out:", done.stdout + done.stderr)

    def ranks(self, source):
        """The state in a file of one rank."""
        self.reshard(source, source + "-ranks", "tp1")
        with open(self.path(source + "-ranks/rank_000.safetensors"), "rb") as file:
            return file.read()

    def configure(self, options):
        experts = {"num_local_experts": options["experts"], "num_experts_per_tok": 2} if "experts" in options else {}
        name = "Mixtral" if experts else "Llama"
        with open(self.path("config.json"), "w") as file:
            json.dump({"architectures": [name + "ForCausalLM"], "model_type": name.lower(), "hidden_size": 16,
                       "intermediate_size": 24, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
                       "num_key_value_heads": 2, "vocab_size": options.get("words", WORDS), "max_position_embeddings": LENGTH,
                       "rms_norm_eps": 1e-5, "tie_word_embeddings": options.get("tied", False), **experts}, file)

    def plain(self, world, options):
        self.configure(options)
        on_ranks(world, train_and_save_plain, options, self.folder)
        expected = self.ranks("by_parameter")
        self.assertIn(b".exp_avg_sq", expected)
        self.assertEqual(self.ranks("torch"), expected)

    def there_and_on(self, world, options, next_world, next_options):
        self.configure(options)
        on_ranks(world, train_and_save, options, self.folder)
        expected = self.ranks("fully_reshardable")
        self.assertIn(b".exp_avg_sq", expected)
        self.assertEqual(self.ranks("dp_reshardable"), expected)
        sources = ["dp_reshardable"]
        if options.get("etp") is None:
            self.assertEqual(self.ranks("torch"), expected)
            sources.append("torch")
        for source in sources:
            self.reshard(source, source + "-written", "torch_dist")
            kinds = on_ranks(next_world, load_and_save, {**options, **next_options}, self.path(source + "-written"),
                             self.path(source + "-loaded"))
            self.assertEqual(set(kinds), {"fully_reshardable"})
            self.assertEqual(self.ranks(source + "-loaded"), expected)

    def test_dp2(self):
        self.there_and_on(2, {}, 2, {"tp": 2})

    def test_tp2_pp2(self):
        self.there_and_on(8, {"tp": 2, "pp": 2}, 4, {"tp": 1, "pp": 4})

    def test_tied(self):
        self.there_and_on(4, {"pp": 2, "tied": True}, 2, {"pp": 1})

    def test_padded_vocabulary(self):
        self.there_and_on(4, {"tp": 2, "words": 60}, 2, {"tp": 1})

    def test_full_precision(self):
        self.there_and_on(4, {"tp": 2, "bf16": False}, 2, {"tp": 1})

    def test_experts(self):
        self.there_and_on(2, {"experts": 4}, 4, {"tp": 2})

    def test_expert_parallel(self):
        self.there_and_on(8, {"tp": 2, "experts": 4, "ep": 2, "etp": 1}, 4, {"tp": 1, "ep": 4})

    def test_expert_parallel_stages(self):
        self.there_and_on(8, {"pp": 2, "experts": 4, "ep": 2}, 4, {"pp": 1})

    def test_plain_tp2_pp2(self):
        self.plain(4, {"tp": 2, "pp": 2})

    def test_plain_experts(self):
        self.plain(4, {"pp": 2, "ep": 2, "experts": 4})


if __name__ == "__main__":
    unittest.main()
