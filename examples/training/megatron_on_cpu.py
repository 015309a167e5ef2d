"""Megatron-core on the CPU: answers its device calls with the CPU, for trials of layouts without a GPU.

    import megatron_on_cpu
    megatron_on_cpu.install()
    parallel_state.initialize_model_parallel(2, 2)         # in a process group over gloo

Good for tensor-parallel layers, the pipeline schedules, data parallelism and the distributed optimizer. Not for Transformer
Engine, CUDA graphs or anything timed. The process has no other use of torch.cuda after this.
"""

import contextlib
import os

import torch

_FACTORIES = ("arange", "empty", "full", "ones", "rand", "randint", "randn", "randperm", "tensor", "zeros", "empty_like",
              "full_like", "ones_like", "zeros_like")


class _Stream:
    """Also an event: work on the CPU is done when the call returns."""

    def __init__(self, *_, **__):
        pass

    def _nothing(self, *_, **__):
        pass

    record = synchronize = wait = wait_event = wait_stream = _nothing

    def query(self):
        return True

    def record_event(self, *_):
        return self

    def elapsed_time(self, _):
        return 0.0


def _on_cpu(factory):
    def made(*arguments, **options):
        if torch.device(options.get("device") or "cpu").type == "cuda":
            options["device"] = "cpu"
        return factory(*arguments, **options)

    return made


def _answer(module, **answers):
    for name, answer in answers.items():
        setattr(module, name, answer)


def install():
    """Replaces the functions of torch.cuda that Megatron-core calls, and the device of new tensors."""
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # Megatron-core compiles its fused functions, which is slow here
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    from megatron.core.tensor_parallel import random

    nothing = lambda *_, **__: None  # noqa: E731
    stream = _Stream()
    _answer(torch.cuda, current_device=lambda: "cpu", device_count=lambda: 1, set_device=nothing, synchronize=nothing,
            empty_cache=nothing, set_stream=nothing, Stream=_Stream, Event=_Stream, current_stream=lambda *_: stream,
            default_stream=lambda *_: stream, stream=lambda *_: contextlib.nullcontext(),
            manual_seed=torch.manual_seed, get_rng_state=lambda *_: torch.get_rng_state(),
            set_rng_state=lambda state, *_: torch.set_rng_state(state), memory_allocated=lambda *_: 0,
            max_memory_allocated=lambda *_: 0, get_device_capability=lambda *_: (8, 0))
    for name in _FACTORIES:
        setattr(torch, name, _on_cpu(getattr(torch, name)))
    kind = torch.Tensor.type
    _answer(torch.Tensor, cuda=lambda tensor, *_, **__: tensor,
            type=lambda tensor, *to: kind(tensor, *to) if to else kind(tensor).replace("torch.", "torch.cuda."))
    _answer(random, _get_cuda_rng_state=lambda *_, **__: torch.get_rng_state(),
            _set_cuda_rng_state=lambda state, *_, **__: torch.set_rng_state(state))
