#!/usr/bin/env python3
"""`reshard --to=tpN,vllm` against vLLM itself: its ranks load the folder as sharded state, and have then, tensor by tensor, what they have
when they load the model as it was.

    SCALAI_BIN=build/bin vllm_test.py [-v] [Vllm.test_qwen3 …]

Needs vLLM 0.33, torch and transformers 5 (python/environment FOLDER --vllm); no GPU: ranks are processes with gloo. Of vLLM only
what it does after loading is replaced where CPUs differ from GPUs: there it keeps weights as they are, here it would pack them anew.
"""

import multiprocessing
import os
import socket
import subprocess
import sys
import unittest

os.environ.update(VLLM_LOGGING_LEVEL="ERROR", VLLM_PLUGINS="", VLLM_NO_USAGE_STATS="1", VLLM_HOST_IP="127.0.0.1",
                  HF_HUB_OFFLINE="1", GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
sys.dont_write_bytecode = True
import families_test  # noqa: E402
import torch  # noqa: E402

TOKENIZER_FREE = dict(skip_tokenizer_init=True, enforce_eager=True, max_model_len=64, disable_log_stats=True)


def prepare():
    """vLLM as on a machine of GPUs, as far as its weights go."""
    import vllm.platforms
    from vllm.platforms.cpu import CpuPlatform
    vllm.platforms.current_platform = CpuPlatform()
    import vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method as experts
    import vllm.model_executor.models.registry as registry
    from vllm.model_executor.layers.fused_moe.oracle import unquantized
    from vllm.model_executor.layers.linear import UnquantizedLinearMethod
    from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod
    registry._run_in_subprocess = lambda inspect: inspect()
    experts.select_unquantized_moe_backend = lambda moe_config: (unquantized.UnquantizedMoeBackend.TRITON, None)
    for method in (UnquantizedLinearMethod, UnquantizedEmbeddingMethod, experts.UnquantizedFusedMoEMethod):
        method.process_weights_after_loading = lambda self, layer: None
    import vllm.engine.arg_utils  # noqa: F401
    import vllm.model_executor.model_loader  # noqa: F401
    torch.accelerator.empty_cache = lambda: None
    # What no loader writes is NaN, and seen.
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True


def state_of(folder, load_format, tp, rank, port):
    from vllm.config import set_current_vllm_config
    from vllm.distributed import ensure_model_parallel_initialized, init_distributed_environment
    from vllm.engine.arg_utils import EngineArgs
    from vllm.model_executor.model_loader import get_model_loader
    config = EngineArgs(model=folder, load_format=load_format, tensor_parallel_size=tp, dtype="bfloat16",
                        distributed_executor_backend="mp", **TOKENIZER_FREE).create_engine_config()
    config.parallel_config.rank = rank
    with set_current_vllm_config(config), torch.no_grad():
        init_distributed_environment(world_size=tp, rank=rank, local_rank=rank, backend="gloo",
                                     distributed_init_method=f"tcp://127.0.0.1:{port}")
        ensure_model_parallel_initialized(tp, 1)
        model = get_model_loader(config.load_config).load_model(vllm_config=config, model_config=config.model_config)
    return model.state_dict()


def compare(source, sharded, tp, rank, port):
    """What is wrong, a line each."""
    wanted = state_of(source, "auto", tp, rank, port)
    found = state_of(sharded, "sharded_state", tp, rank, port)
    problems = [f"{name}: in one of them only" for name in sorted(set(wanted) ^ set(found))]
    for name in sorted(set(wanted) & set(found)):
        a, b = wanted[name], found[name]
        if a.dtype != b.dtype or a.shape != b.shape or not torch.equal(a, b):
            problems.append(f"{name}: {tuple(b.shape)} {b.dtype} differs from {tuple(a.shape)} {a.dtype}")
    return problems


def rank_main(source, sharded, tp, rank, port, results):
    try:
        results.put((rank, compare(source, sharded, tp, rank, port)))
    except BaseException as error:
        results.put((rank, [f"{type(error).__name__}: {error}"]))
    sys.stdout.flush()
    os._exit(0)  # vLLM leaves threads and groups behind


def problems_of(source, sharded, tp):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("fork")  # importing vLLM takes longer than the rest
    results = context.SimpleQueue()
    ranks = [context.Process(target=rank_main, args=(source, sharded, tp, rank, port, results)) for rank in range(tp)]
    for process in ranks:
        process.start()
    found = [results.get() for _ in ranks]
    for process in ranks:
        process.join()
    return [f"rank {rank}: {problem}" for rank, problems in sorted(found) for problem in problems]


class Vllm(families_test.Folders):
    @classmethod
    def setUpClass(cls):
        prepare()

    def check(self, name, tp=2, damage=None):
        source, sharded = self.path("hf"), self.path("vllm")
        families_test.build(name, torch.bfloat16).save_pretrained(source)
        families_test.reshard(source, sharded, f"tp{tp},vllm")
        if damage:
            damage(sharded)
        return problems_of(source, sharded, tp)

    def test_heads_of_keys_are_replicated(self):
        self.assertEqual(self.check("llama", tp=4), [])

    def test_one_rank(self):
        self.assertEqual(self.check("llama", tp=1), [])

    def test_damage_is_found(self):
        """That the comparison can fail: a byte of a weight; and a scale that vLLM insists on."""
        def flip(folder):
            path = os.path.join(folder, "model-rank-1-part-0.safetensors")
            with open(path, "r+b") as file:
                file.seek(-1, os.SEEK_END)
                last = file.read(1)[0]
                file.seek(-1, os.SEEK_END)
                file.write(bytes([last ^ 64]))
        self.assertIn("rank 1: ", "".join(self.check("llama", damage=flip)))

        def rename(folder):
            path = os.path.join(folder, "model-rank-0-part-0.safetensors")
            with open(path, "r+b") as file:
                text = file.read()
                file.seek(0)
                file.write(text.replace(b"attn._k_scale", b"attn._k_scalf", 1))
        for folder in ("hf", "vllm"):
            subprocess.run(["rm", "-r", self.path(folder)], check=True)
        self.assertIn("_k_scal", "".join(self.check("llama", damage=rename)))


CLASSES = ("gemma", "gemma2", "gemma3", "granite", "llama", "llama_biases", "mistral", "mixtral", "phi3", "qwen2",
           "qwen2_moe", "qwen2_tied", "qwen3", "qwen3_moe", "qwen3_moe_mixed")
for model in CLASSES:
    setattr(Vllm, "test_" + model, lambda self, name=model: self.assertEqual(self.check(name), []))

if __name__ == "__main__":
    try:
        import vllm  # noqa: F401
    except ImportError as error:
        print(f"skipped: vLLM is not installed ({error})", file=sys.stderr)
        sys.exit(77)
    unittest.main()
