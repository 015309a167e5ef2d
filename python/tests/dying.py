"""examples/training/gpt.py whose processes kill themselves, each death once:

    python dying.py STEP:DEVICE:before|amid|host,… WORDS-OF-GPT.PY

before: at the beginning of the step; amid: when the optimizer has rewritten the state, and before Scalai hears of it; host:
at the beginning of the step, its worker. What has happened is a file of that name in the current folder.
"""

import os
import pathlib
import signal
import sys

from torch.optim.optimizer import register_optimizer_step_post_hook

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "training"))
import gpt  # noqa: E402

deaths = sys.argv.pop(1).split(",")
done = -1  # the last step that this process did
folder = pathlib.Path.cwd()


def die_if_due(where):
    death = f"{done + 1}:{os.environ.get('SCALAI_DEVICE')}:{where}"
    if death in deaths and not (folder / death).exists():
        (folder / death).touch()
        os.kill(os.getppid() if where == "host" else os.getpid(), signal.SIGKILL)


class Log(gpt.Log):
    def write(self, world, step, loss, seconds):
        global done
        super().write(world, step, loss, seconds)
        done = step


def batch_of(text, ids, options, read=gpt.batch_of):
    die_if_due("before")
    die_if_due("host")
    return read(text, ids, options)


gpt.Log, gpt.batch_of = Log, batch_of
register_optimizer_step_post_hook(lambda *_: die_if_due("amid"))
gpt.main()
