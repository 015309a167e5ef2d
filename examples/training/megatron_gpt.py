"""The GPT of gpt.py with Megatron-core: tensor parallel, pipeline, data parallel, the distributed optimizer. Lines that are
there for Scalai end with "# Scalai". Without a GPU it trains on the CPU (megatron_on_cpu.py).

    python/environment build/megatron --megatron
    scalai launch --layout=tp2,pp2,dp2 --layout=tp2,dp2 --layout=pp2 --steps=200 --out=out/meg -- python megatron_gpt.py train
    python megatron_gpt.py static --steps=200                      the same without Scalai, in one process
    python megatron_gpt.py collections FOLDER tp2,pp2 dp2 …        the state of each layout, for scenarios
"""

import argparse
import logging
import os
import time
import warnings

import torch
import torch.distributed as dist

warnings.simplefilter("ignore")
logging.getLogger("megatron").setLevel(logging.ERROR)
if not torch.cuda.is_available():
    import megatron_on_cpu
    megatron_on_cpu.install()

from megatron.core import parallel_state, tensor_parallel  # noqa: E402
from megatron.core.distributed import (DistributedDataParallel, DistributedDataParallelConfig,  # noqa: E402
                                       finalize_model_grads)
from megatron.core.models.gpt import GPTModel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer  # noqa: E402
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler  # noqa: E402
from megatron.core.pipeline_parallel import get_forward_backward_func  # noqa: E402
from megatron.core.transformer import TransformerConfig  # noqa: E402

from corpus import TEXT, Log, batch_of, samples_of, text_of  # noqa: E402
import scalai.megatron  # noqa: E402  # Scalai

TOKENS = 128  # the characters of corpus.py
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # the current one


def builder(options):
    def build(world):
        tp, pp = world.axes.get("tp", 1), world.axes.get("pp", 1)
        parallel_state.initialize_model_parallel(tp, pp, create_gloo_process_groups=False)
        tensor_parallel.model_parallel_cuda_manual_seed(1)
        config = TransformerConfig(
            num_layers=options.layers, hidden_size=options.width, num_attention_heads=4, num_query_groups=2,
            ffn_hidden_size=2 * options.width, tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp,
            pipeline_dtype=torch.float32, use_cpu_initialization=True, gated_linear_unit=True,
            activation_func=torch.nn.functional.silu, add_bias_linear=False, hidden_dropout=0.0, attention_dropout=0.0,
            bias_activation_fusion=False, gradient_accumulation_fusion=False)
        torch.manual_seed(1)
        model = GPTModel(config, get_gpt_layer_local_spec(), TOKENS, options.length,
                         pre_process=parallel_state.is_pipeline_first_stage(),
                         post_process=parallel_state.is_pipeline_last_stage(), share_embeddings_and_output_weights=False)
        model.to(DEVICE)
        sharded = not options.plain
        model = DistributedDataParallel(config, DistributedDataParallelConfig(use_distributed_optimizer=sharded), model)
        optimizer = get_megatron_optimizer(OptimizerConfig(optimizer="adam", lr=options.lr, min_lr=0.0, clip_grad=0.0,
                                                           use_distributed_optimizer=sharded), [model], use_gloo_process_groups=False)
        config.finalize_model_grads_func, config.grad_scale_func = finalize_model_grads, optimizer.scale_loss
        schedule = OptimizerParamScheduler(optimizer, 0.0, options.lr, 0.0, options.steps // 10 if options.decay else 0,
                                           options.steps, "cosine" if options.decay else "constant", 0.0, 0.0, options.steps,
                                           "constant")
        return model, optimizer, None, {"schedule": schedule}

    return build


def train_step(model, optimizer, schedule, batch, options):
    """One step on this rank's share of the batch; returns the loss of the whole batch, on the last stage."""
    def forward(batches, part):
        tokens = next(batches).to(DEVICE)
        out = part(tokens[:, :-1].contiguous(), torch.arange(options.length, device=DEVICE).expand(len(tokens), -1), None,
                   labels=tokens[:, 1:].contiguous())
        return out, lambda loss: (loss.float().mean(), {"loss": loss.detach().float().mean()})

    micro_batches = min(len(batch), 2)
    model.zero_grad_buffer()
    optimizer.zero_grad()
    losses = get_forward_backward_func()(
        forward_step_func=forward, data_iterator=iter(batch.chunk(micro_batches)), model=model,
        num_microbatches=micro_batches, seq_length=options.length, micro_batch_size=len(batch) // micro_batches,
        forward_only=False)
    optimizer.step()
    schedule.step(increment=1)
    loss = torch.stack([one["loss"] for one in losses]).mean() if losses else torch.zeros(())
    group = parallel_state.get_data_parallel_group()
    dist.all_reduce(loss, group=group)
    return float(loss) / dist.get_world_size(group)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("train", "static", "collections"))
    parser.add_argument("folder", nargs="?", default=".", help="collections: where they are written")
    parser.add_argument("layouts", nargs="*", help="collections: such as tp2,dp2")
    for name, value in {"width": 64, "layers": 4, "length": 64, "batch": 8, "steps": 200}.items():
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--decay", action="store_true", help="the learning rate warms up and decays")
    parser.add_argument("--plain", action="store_true", help="without the distributed optimizer")
    parser.add_argument("--text", default=TEXT, help="folder of *.md")
    parser.add_argument("--log", default="", help="file for step,loss,seconds,ranks")
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)  # of Megatron-core, about the libraries that it would like
    text, log = text_of(options), Log(options)
    data = scalai.Sampler(samples_of(text, options), options.batch, drop_last=True)  # Scalai
    if options.command == "collections":
        print(f"a dataset of {samples_of(text, options)} samples")
        for layout in options.layouts:
            sizes = {word.rstrip("0123456789"): int(word.lstrip("abcdefghijklmnopqrstuvwxyz")) for word in layout.split(",")}
            collection = scalai.megatron.collection_for(  # Scalai
                builder(options), {axis: sizes.get(axis, 1) for axis in ("pp", "dp", "tp")})
            collection.save(f"{options.folder}/{layout}.textproto")  # Scalai
        return
    if options.command == "static":
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1"), os.environ.setdefault("MASTER_PORT", "29572")
        dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo", rank=0, world_size=1)
        world = scalai.World({}, 0, None)
        model, optimizer, _, objects = builder(options)(world)
        for step in range(options.steps):
            loss = train_step(model, optimizer, objects["schedule"], batch_of(text, next(data), options), options)
            log.write(world, step, loss, 0)
        return
    job = scalai.attach()  # Scalai
    job.start(builder(options), data, framework=scalai.megatron)  # Scalai
    while job.step < options.steps:
        with job:  # Scalai
            began = time.monotonic()
            loss = train_step(job.model, job.optimizer, job.objects["schedule"], batch_of(text, next(job.data), options), options)
            log.write(job.world, job.step, loss, time.monotonic() - began)
        job.advance()  # Scalai


if __name__ == "__main__":
    main()
