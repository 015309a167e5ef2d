"""Evaluates a model while it trains: each step's weights come out of the memories of the training job's workers, whole,
whatever its layout; no checkpoint is written.

    scalai launch --layout=tp2,pp2,dp2 --layout=pp2 --steps=600 --out=out/gpt -- python gpt.py train --steps=600
    python rollout.py out/gpt           prints step,loss of a text that is not trained on; as many of these as you like
"""

import argparse

import torch
from torch.nn import functional

import scalai
from corpus import text_of
from gpt import Stage, add_sizes

DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


def load(model, checkpoint):
    """Reads every parameter into its place."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            about = checkpoint.tensors[name]
            parameter.copy_(torch.frombuffer(checkpoint.read(name), dtype=DTYPES[about["dtype"]]).reshape(about["shape"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="the --out folder of the training run")
    parser.add_argument("--most", type=int, default=0, help="steps, then it ends; 0: with the run")
    add_sizes(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = Stage(options, 0, 1).eval()
    text = text_of(options)[-options.batch * (options.length + 1):].reshape(options.batch, options.length + 1)
    with scalai.live(options.run) as run:
        for count, step in enumerate(run.steps(), 1):
            load(model, step.checkpoint)
            with torch.no_grad():
                logits = model(text[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
            print(f"{step.number},{float(loss):.4f}", flush=True)
            if count == options.most:
                break


if __name__ == "__main__":
    main()
