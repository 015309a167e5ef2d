"""examples/training/gpt.py whose processes kill themselves, each death once:

    python dying.py STEP:DEVICE:before|amid|host,PROCESSES:DEVICE:build|build-host,… WORDS-OF-GPT.PY

before: at the beginning of the step; amid: when the optimizer has rewritten the state, before Scalai hears of it; host:
at the beginning of the step, its worker; build: when it has built the model for so many processes, and not yet got its
state; build-host: then, its worker. What has happened is a file of that name in the current folder.
"""

import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "training"))
import gpt  # noqa: E402

deaths = sys.argv.pop(1).split(",")
done = -1  # the last step that this process did
folder = pathlib.Path.cwd()


def die_if_due(number, where):
    death = f"{number}:{os.environ.get('SCALAI_DEVICE')}:{where}"
    if death in deaths and not (folder / death).exists():
        (folder / death).touch()
        os.kill(os.getppid() if where.endswith("host") else os.getpid(), signal.SIGKILL)


class Log(gpt.Log):
    def write(self, world, step, loss, seconds):
        global done
        super().write(world, step, loss, seconds)
        done = step


def batch_of(text, ids, options, read=gpt.batch_of):
    die_if_due(done + 1, "before")
    die_if_due(done + 1, "host")
    return read(text, ids, options)


def builder(options, make=gpt.builder):
    def build(world):
        built = make(options)(world)
        built[1].register_step_post_hook(lambda *_: die_if_due(done + 1, "amid"))  # before Scalai's own
        die_if_due(world.size, "build")
        die_if_due(world.size, "build-host")
        return built

    return build


gpt.Log, gpt.batch_of, gpt.builder = Log, batch_of, builder
gpt.main()
