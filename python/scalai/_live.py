"""The state of a running job, step by step: what `scalai fs mount --run` shows, as checkpoints."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ._checkpoint import Checkpoint
from ._errors import FailedError, InvalidError, MissingError
from ._programs import program

_RAISED = {2: InvalidError, 3: InvalidError, 4: MissingError}


class LiveStep:
    """One step of a job. It stays as it was as long as this object is open; `close`, or `with`, lets go of it."""

    def __init__(self, folder: Path, view: str):
        self.folder = folder / "views" / view
        self.number = int(folder.name.split("-")[1].split(".")[0])
        self._open: list[int] = []
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".safetensors"):
                self._open.append(os.open(self.folder / name, os.O_RDONLY | os.O_CLOEXEC))  # keeps the step
                break
        self._checkpoint: Checkpoint | None = None

    @property
    def checkpoint(self) -> Checkpoint:
        """The tensors of a view of whole ones ("logical", "hf"); nothing is read before :meth:`Checkpoint.read`. Files of ranks lie in
        `folder`."""
        if self._checkpoint is None:
            files = [one for one in self.folder.iterdir() if one.suffix == ".safetensors"]
            self._checkpoint = Checkpoint(files[0] if len(files) == 1 else self.folder)
        return self._checkpoint

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())
        self._checkpoint = None

    def __enter__(self) -> LiveStep:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<LiveStep {self.number}: {self.folder}>"


class Live:
    """A run that goes on, mounted in a temporary folder as long as this lives. See :func:`live`."""

    def __init__(self, run: str | os.PathLike[str], *, optimizer: bool = False, keep_s: float = 30,
                 consistency: str = "snapshot", keep_size: int | None = None):
        self._folder = tempfile.TemporaryDirectory(prefix="scalai-live-")
        self.folder = Path(self._folder.name) / "run"
        self.folder.mkdir()
        words = [program("scalai"), "fs", "mount", str(self.folder), f"--run={os.fspath(run)}", "--until-input-ends",
                 f"--log={self._folder.name}/log", f"--keep={int(keep_s * 1000)}ms", "--refresh=0s",
                 f"--consistency={consistency}"]
        if keep_size is not None:
            words.append(f"--keep-size={keep_size}B")
        # It ends with us, whatever ends us: the pipe is closed then. A Ctrl-C is ours alone.
        self._server: subprocess.Popen[str] | None = subprocess.Popen(
            words + ["--optimizer"] * optimizer, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            start_new_session=True)
        while not os.path.ismount(self.folder):
            if self._server.poll() is not None:
                said = self._server.communicate()[1].strip()
                raise _RAISED.get(self._server.returncode, FailedError)(said or "the mount ended before it answered")
            time.sleep(0.01)

    @property
    def jobs(self) -> list[str]:
        """Their names."""
        return sorted(os.listdir(self.folder / "jobs"))

    def newest(self, job: str | None = None, *, view: str = "logical") -> LiveStep:
        """The last step of a job (None: the only one), in a layout: "logical" has whole tensors by their names in the job,
        "hf", "tp4-pp2" and the like want a model that is known. Raises MissingError where no step can be read."""
        return LiveStep(self._current(self._job(job)), view)

    def steps(self, job: str | None = None, *, view: str = "logical", poll_s: float = 0.2) -> Iterator[LiveStep]:
        """The last step, then each time the last one when it is another; ends with the run."""
        name, seen, ended_s = self._job(job), -1, 0.0
        while ended_s < 2:
            try:
                folder = self._current(name)
                number = int(folder.name.split("-")[1].split(".")[0])
                if number != seen:
                    seen, ended_s = number, 0.0
                    with LiveStep(folder, view) as step:
                        yield step
                    continue
            except (MissingError, OSError):  # between two layouts, or over
                ended_s += poll_s
            time.sleep(poll_s)

    def _job(self, job: str | None) -> str:
        jobs = self.jobs
        if job is None and len(jobs) == 1:
            return jobs[0]
        if job not in jobs:
            raise MissingError(f'there is no job "{job}": {", ".join(jobs)}' if job else f"which of {', '.join(jobs)}?")
        return job

    def _current(self, job: str) -> Path:
        folder = self.folder / "jobs" / job
        path = folder / os.readlink(folder / "step-current")
        if not path.exists():
            raise MissingError(f"job {job} has no step to be read now: {self._last_word()}")
        return path

    def _last_word(self) -> str:
        lines = Path(self._folder.name, "log").read_text(encoding="utf-8").splitlines()
        return lines[-1] if lines else "nothing was said"

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            subprocess.run([program("scalai"), "fs", "unmount", "--force", str(self.folder)], capture_output=True, check=False)
            server.communicate()
        self._folder.cleanup()

    def __enter__(self) -> Live:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FailedError):
            error.add_note(f"the mount said last: {self._last_word()}")
        self.close()

    def __repr__(self) -> str:
        return f"<Live {self.folder}>"


def live(run: str | os.PathLike[str], *, optimizer: bool = False, keep_s: float = 30,
         consistency: str = "snapshot", keep_size: int | None = None) -> Live:
    """The state of the jobs of a run that goes on, out of the memories of its workers.

        with scalai.live("out/gpt") as run:
            for step in run.steps():
                weights = step.checkpoint.read("blocks.0.up.weight")

    run          its --out folder
    optimizer    masters and moments, too, not parameters only
    keep_s       how long a step stays after its last use, if nothing of it is open
    consistency  "snapshot": a step that is read is copied before training rewrites it; "fail": it is not, and reading
                 it is then an OSError (ESTALE), never bytes of another step
    keep_size    bytes of each step, at most, that are kept of what came from other machines, for further reads and for other
                 readers (None: 256 MiB)

    Raises MissingError where no run goes on, or FUSE is missing.
    """
    return Live(run, optimizer=optimizer, keep_s=keep_s, consistency=consistency, keep_size=keep_size)
