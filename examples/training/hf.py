"""A Hugging Face language model with FSDP2, on as many GPUs as there are. Lines that are there for Scalai end with
"# Scalai".

    pip install transformers
    scalai launch --layout=dp4 --layout=dp2 --layout=dp1 --steps=200 --out=out/hf -- python hf.py --steps=200

Any model of AutoModelForCausalLM will do; without --model it is a small Llama that begins at random.
"""

import argparse

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig

from corpus import TEXT, Log, batch_of, samples_of, text_of
import scalai  # Scalai


def builder(options):
    small = LlamaConfig(vocab_size=128, hidden_size=options.width, intermediate_size=4 * options.width,
                        num_hidden_layers=options.layers, num_attention_heads=4, max_position_embeddings=options.length)

    def build(world):
        torch.manual_seed(0)  # all ranks begin with the same weights
        if not options.model:
            model = AutoModelForCausalLM.from_config(small)
        elif torch.get_default_device().type == "meta":  # a layout after the first
            model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(options.model))
        else:
            model = AutoModelForCausalLM.from_pretrained(options.model)
        if world.size > 1:
            for layer in model.model.layers:
                fully_shard(layer, mesh=world.mesh["dp"])
            fully_shard(model, mesh=world.mesh["dp"])
        return model, torch.optim.AdamW(model.parameters(), lr=options.lr)

    return build


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="", help="a model of the hub, or a folder; its text must be of characters")
    for name, value in {"width": 64, "layers": 4, "length": 64, "batch": 8, "steps": 200}.items():
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--text", default=TEXT, help="folder of *.md")
    parser.add_argument("--log", default="", help="file for step,loss,seconds,ranks")
    options = parser.parse_args()
    text, log = text_of(options), Log(options)
    job = scalai.attach()  # Scalai
    job.start(builder(options), scalai.Sampler(samples_of(text, options), options.batch, drop_last=True))  # Scalai
    while job.step < options.steps:
        with job:  # Scalai
            batch = batch_of(text, next(job.data), options).to(job.world.device)
            loss = job.model(input_ids=batch, labels=batch).loss
            loss.backward()
            job.optimizer.step()
            job.optimizer.zero_grad()
            loss = loss.detach().clone()
            dist.all_reduce(loss, group=job.world.mesh.get_group("dp"))
            log.write(job.world, job.step, float(loss) / job.world.size, 0)
        job.advance()  # Scalai


if __name__ == "__main__":
    main()
