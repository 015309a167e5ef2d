"""A program of examples/training that asks for GPUs and a checkpoint at some steps:

    python asking.py gpt STEP:GPUS,… WORDS-OF-THE-PROGRAM
"""

import importlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "training"))
name, words = sys.argv[1:3]
del sys.argv[1:3]
program = importlib.import_module(name)
import scalai  # noqa: E402

wanted = {int(step): int(gpus) for step, gpus in (word.split(":") for word in words.split(","))}
attach = scalai.attach


def asking():
    job = attach()
    advance = job.advance

    def advance_and_ask():
        if job.step in wanted:
            job.snapshot()
            job.request(wanted.pop(job.step))
        advance()

    job.advance = advance_and_ask
    return job


scalai.attach = asking
program.main()
