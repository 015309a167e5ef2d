"""examples/training/gpt.py that asks for something at a step:

    python asking.py STEP:GPUS WORDS-OF-GPT.PY

for so many GPUs, and a checkpoint.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "training"))
import gpt  # noqa: E402
import scalai  # noqa: E402

step, gpus = map(int, sys.argv.pop(1).split(":"))
attach = scalai.attach


def asking():
    job = attach()
    advance = job.advance

    def advance_and_ask():
        if job.step == step:
            job.snapshot()
            job.request(gpus)
        advance()

    job.advance = advance_and_ask
    return job


scalai.attach = asking
gpt.main()
