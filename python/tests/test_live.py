"""Readers of a job that trains: every step that they see is, bit for bit, what the job saves at that step."""

import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest

import scalai

pytest.importorskip("torch", reason="no PyTorch in this environment: python/environment FOLDER --torch")

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "training"
STEPS = 1_000_000  # more than are waited for


def command(*words):
    return [f"{os.environ['SCALAI_BIN']}/scalai", *map(str, words)]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A job that trains, with a checkpoint of every second step: one for all tests, whose processes take long to start."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse cannot be opened")
    tmp_path = tmp_path_factory.mktemp("live")
    program = [sys.executable, str(EXAMPLES / "gpt.py"), "train", f"--steps={STEPS}", f"--log={tmp_path}/loss.csv"]
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        job = subprocess.Popen(command("launch", "--layout=tp2,pp2", "--layout=dp2", f"--steps={STEPS}", "--checkpoint-every=2",
                                       f"--out={tmp_path}/out", "--", *program), stdout=log, stderr=log, cwd=tmp_path)
    until = time.monotonic() + 120
    while not (tmp_path / "out" / "address").exists():
        assert job.poll() is None and time.monotonic() < until, (tmp_path / "log").read_text(encoding="utf-8")
        time.sleep(0.1)
    yield tmp_path / "out"
    job.terminate()
    code = job.wait(120)
    print((tmp_path / "log").read_text(encoding="utf-8"))  # shown of a test that failed
    assert code == 0


def contents(checkpoint, names):
    return {name: bytes(checkpoint.read(name)) for name in names}


def saved_at(run, step, names):
    """The job's own checkpoint of this step, read before it goes; None if there is none."""
    for folder in run.glob(f"checkpoints/*/step_{step:08}"):
        try:
            saved = scalai.Checkpoint(folder)
            return {name: bytes(saved.read(name)) for name in names}
        except (scalai.Error, OSError):
            return None
    return None


def test_steps_are_what_is_saved_over_a_change_of_layout(run_folder):
    seen, compared, contents_of = [], 0, {}
    with scalai.live(run_folder) as live:
        assert live.jobs == ["job"]
        for step in live.steps():
            now = contents(step.checkpoint, step.checkpoint.tensors)
            saved = saved_at(run_folder, step.number, now)
            if saved is not None:
                assert saved == now, step.number
                compared += 1
            seen.append(step.number)
            contents_of[step.number] = now
            if compared == 2:
                subprocess.run(command("exec", "ctl", "resize", f"--run={run_folder}", "--gpus=2"), check=True)
                compared += 1
            if compared >= 7:
                break
        assert seen == sorted(set(seen))
        assert len({tuple(sorted(now.items())) for now in contents_of.values()}) == len(seen), "every step has other bytes"


def test_two_readers_and_a_step_that_stays(run_folder):
    with scalai.live(run_folder, keep_s=1, keep_size=1 << 20) as live:
        status = subprocess.run(command("fs", "status", live.folder), capture_output=True, text=True, check=True).stdout
        mount = pathlib.Path("/proc", status.split()[status.split().index("pid") + 1], "cmdline").read_text(encoding="utf-8")
        assert "--keep-size=1048576B" in mount.split("\0")
        first = live.newest()
        before = contents(first.checkpoint, first.checkpoint.tensors)
        others = []
        reader = threading.Thread(target=lambda: others.extend(
            step.number for step, _ in zip(live.steps(), range(3))))
        reader.start()
        reader.join(120)
        assert len(others) == 3 and others[-1] > first.number
        time.sleep(2)
        assert contents(first.checkpoint, first.checkpoint.tensors) == before, "training went on"
        first.close()


def last_begun(run):
    """The step that the trainer is in, or has been in last: whoever asks now gets it, or a later one."""
    log = run.parent / "loss.csv"
    rows = log.read_text(encoding="utf-8").split("\n")[:-1] if log.exists() else []
    return int(rows[-1].split(",")[0]) if len(rows) > 1 else -1


def test_no_reader_is_shown_an_older_step_than_the_last_one(run_folder):
    """A row of the log is written before its step is committed: all steps before it are. Two readers ask by turns."""
    with scalai.live(run_folder) as one, scalai.live(run_folder) as other:
        shown = []
        while len(shown) < 12:
            for live in (one, other):
                committed = last_begun(run_folder)
                with live.newest() as step:
                    assert step.number >= committed
                    shown.append(step.number)
        assert shown == sorted(shown) and shown[-1] > 0


def test_the_example_evaluates_while_it_trains(run_folder):
    done = subprocess.run([sys.executable, EXAMPLES / "rollout.py", run_folder, f"--steps={STEPS}", "--most=4"], timeout=300,
                          capture_output=True, text=True, check=True)
    rows = [line.split(",") for line in done.stdout.splitlines()]
    assert len(rows) == 4 and all(0 < float(loss) < 6 for _, loss in rows), done.stdout
    assert [int(step) for step, _ in rows] == sorted({int(step) for step, _ in rows})


def test_receivers_have_what_readers_of_the_run_see(run_folder):
    sync = subprocess.Popen(command("sync", run_folder, "--to=dp2@2", "--every=1", "--compare=4KiB", f"--out={run_folder}-pushed"),
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert sync.stdout.readline().startswith("step "), sync.communicate()
        same, until = 0, time.monotonic() + 120
        with scalai.live(run_folder, keep_s=60) as live, scalai.live(f"{run_folder}-pushed", keep_s=60) as pushed:
            while same < 3:
                assert time.monotonic() < until, same
                here, there = live.newest(), pushed.newest()
                if here.number == there.number:
                    names = here.checkpoint.tensors
                    assert sorted(there.checkpoint.tensors) == sorted(names)
                    assert contents(there.checkpoint, names) == contents(here.checkpoint, names), here.number
                    same += 1
                here.close()
                there.close()
    finally:
        sync.terminate()
        said = sync.communicate(timeout=60)[0]
    assert sync.returncode == 0, said


def test_a_mount_ends_with_the_process_that_is_killed(run_folder):
    program = f"import os, scalai; live = scalai.live({str(run_folder)!r}); print(live.folder, flush=True); os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -9
    folder, until = done.stdout.strip(), time.monotonic() + 60
    assert folder
    while folder in pathlib.Path("/proc/mounts").read_text(encoding="utf-8"):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_size_that_is_none():
    with pytest.raises(scalai.InvalidError, match="keep-size"):
        scalai.live("/nowhere", keep_size=-1)


def test_a_run_that_is_not_there():
    with pytest.raises(scalai.MissingError, match="no run is going on"):
        scalai.live("/nowhere")
