"""The text that gpt.py learns, cut into samples, and the log of its losses."""

import pathlib

import torch

TEXT = str(pathlib.Path(__file__).resolve().parents[2] / "docs")  # the folder of the text


def text_of(options):
    letters = "".join(path.read_text(encoding="utf-8") for path in sorted(pathlib.Path(options.text).glob("*.md")))
    return torch.tensor([min(ord(letter), 127) for letter in letters])


def samples_of(text, options):
    return len(text) // options.length - 1


def batch_of(text, ids, options):
    return torch.stack([text[i * options.length:(i + 1) * options.length + 1] for i in ids])


class Log:
    """Step, loss and seconds of each step, by the process that knows the loss."""

    def __init__(self, options):
        self._file = options.log

    def write(self, world, step, loss, seconds):
        here = world.coordinate("pp") == world.axes.get("pp", 1) - 1 and world.coordinate("dp") == world.coordinate("tp") == 0
        if self._file and here:
            with open(self._file, "a", encoding="utf-8") as file:
                file.write(f"{step},{loss:.9g},{seconds:.6f},{world.size}\n")
