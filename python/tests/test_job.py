"""Real training over changes of layout: examples/training/gpt.py under `scalai exec`, against the same training in one
process."""

import csv
import datetime
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import pytest

import scalai

pytest.importorskip("torch", reason="no PyTorch in this environment: python/environment FOLDER --torch")

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "examples" / "training" / "gpt.py"
ASKING = pathlib.Path(__file__).resolve().parent / "asking.py"
LAUNCHER = "sh -c '\"$@\" & \"$@\" & wait' launcher"  # two workers on this machine, as srun starts one a host
WATCHING = pathlib.Path(__file__).resolve().parent / "watching.py"
READING = pathlib.Path(__file__).resolve().parent / "reading.py"
DYING = pathlib.Path(__file__).resolve().parent / "dying.py"
MODEL = ["--batch=12", "--width=30", "--heads=6", "--length=32", "--layers=2"]  # three ranks: FSDP2's shards are not all equal
LAYOUTS = {1: "tp1", 2: "pp2", 3: "dp3", 4: "tp2,pp2", 6: "tp2,dp3", 8: "tp2,pp2,dp2"}
STEPS = 42
SECONDS = 900


def share(*kinds):
    """One of them by the seed $SCALAI_SEED, which changes from day to day; all with $SCALAI_SOAK."""
    if os.environ.get("SCALAI_SOAK"):
        return kinds
    return random.Random(os.environ.get("SCALAI_SEED", datetime.date.today().isoformat())).sample(kinds, 1)


def program(*words):
    return [sys.executable, *map(str, words), *MODEL]


def run(words, folder=None):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def command(*words):
    return [f"{os.environ['SCALAI_BIN']}/scalai", *map(str, words)]


def losses(path):
    with open(path, encoding="utf-8") as file:
        return [(int(row[0]), float(row[1])) for row in csv.reader(file)]


def numbers(path):
    """By step; of a step that was trained twice, the second time."""
    with open(path, encoding="utf-8") as file:
        return {int(row[0]): [float(word) for word in row[1:]] for row in csv.reader(file)}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Losses of the training that never changes, in one process."""
    log = tmp_path_factory.mktemp("alone") / "loss.csv"
    run(program(PROGRAM, "static", f"--steps={STEPS}", f"--log={log}"))
    return losses(log)


def write_scenario(folder, gpus, changes, layout_of=LAYOUTS):
    layouts = [layout_of[count] for count in {gpus, *(count for _, count in changes)}]
    said = run(program(PROGRAM, "collections", str(folder), *layouts)).stdout
    samples = int(re.search(r"dataset of (\d+) samples", said)[1])
    configs = "".join(f'  configs {{ layout: "{one}" step_time: "1s" collection: "{one}.textproto" }}\n' for one in layouts)
    events = "".join(f'events {{ at_step {{ job: "gpt" step: {step} }} resize {{ job: "gpt" gpus: {count} }} }}\n'
                     for step, count in changes)
    (folder / "job.textproto").write_text(
        'schema_version: 1 name: "real" until: "1h"\n'
        'cluster { hosts { count: 4 gpus: 2 gpu: "h100-80g" nic: "400Gbps" } storage { read: "2GB/s" write: "2GB/s" } }\n'
        f'jobs {{\n  name: "gpt" global_batch: 12 gpus: {gpus} steps: {STEPS} checkpoint {{ every_steps: 12 }}\n'
        f'  dataset {{ samples: {samples} drop_last: true }}\n{configs}}}\n'
        + events, encoding="utf-8")


def training(folder, log, *words):
    words = program(*(words or [PROGRAM]), "train", f"--steps={STEPS}", f"--log={log}")
    words = " ".join(f"'{word}'" for word in words)
    return command("exec", "job.textproto", "--out=out", f"--train={words}")


def check(folder, alone, most=2e-5):
    """Every step was trained, and with the loss of a job that nothing happened to."""
    summary = json.loads((folder / "out" / "summary.json").read_text(encoding="utf-8"))
    assert summary["jobs"][0]["state"] == "complete" and summary["jobs"][0]["steps"] == STEPS
    last = dict(losses(folder / "loss.csv"))  # of a step that was trained twice, the second
    assert sorted(last) == list(range(STEPS))
    worst = max(abs(last[step] - loss) for step, loss in alone)
    assert worst <= most, worst
    return summary


def test_twelve_changes_of_layout(tmp_path, alone):
    changes = list(zip(range(3, 39, 3), (4, 2, 1, 3, 6, 4, 8, 1, 6, 2, 3, 8)))
    write_scenario(tmp_path, 8, changes)
    run([*training(tmp_path, tmp_path / "loss.csv"), "--standby"], tmp_path)
    summary = check(tmp_path, alone)
    assert len(losses(tmp_path / "loss.csv")) == STEPS, "no step was trained twice"
    run(command("sim", "job.textproto", "--out=sim"), tmp_path)
    simulated = json.loads((tmp_path / "sim" / "summary.json").read_text(encoding="utf-8"))
    assert len(summary["jobs"][0]["reconfigurations"]) == len(changes)
    assert ([one["plan_digest"] for one in summary["jobs"][0]["reconfigurations"]] ==
            [one["plan_digest"] for one in simulated["jobs"][0]["reconfigurations"]])
    ends = [line for log in (tmp_path / "out" / "workers" / "gpt").glob("*.log") for line in open(log, encoding="utf-8")]
    assert not any("Error" in line for line in ends), ends


def test_a_program_that_begins_anew_for_every_layout(tmp_path, alone):
    write_scenario(tmp_path, 2, [(12, 3), (24, 1)])
    run(training(tmp_path, tmp_path / "loss.csv", PROGRAM, "--restart"), tmp_path)
    check(tmp_path, alone)
    assert len(losses(tmp_path / "loss.csv")) == STEPS, "no step was trained twice"


def test_a_program_without_a_scenario(tmp_path, alone):
    """Launched with four processes; the program itself asks for two, and for a checkpoint, and a user for four again."""
    words = [f"--launcher={LAUNCHER}", "--hosts=2", "--layout=tp2,pp2,dp1", "--layout=pp2", f"--steps={STEPS}", "--out=out",
             "--standby", "--"]
    with subprocess.Popen([*command("launch", *words), *program(ASKING, "gpt", "10:2", "train", f"--steps={STEPS}", "--log=loss.csv")],
                          cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        deadline = time.monotonic() + SECONDS
        while running.poll() is None and time.monotonic() < deadline:
            if list((tmp_path / "out" / "checkpoints").rglob("manifest.json")) and (tmp_path / "loss.csv").exists() \
                    and 2 in [ranks for *_, ranks in numbers(tmp_path / "loss.csv").values()]:
                run(command("exec", "ctl", "resize", "--run=out", "--gpus=4"), tmp_path)
                break
            time.sleep(0.05)
        said = running.communicate(timeout=SECONDS)[0]
    assert running.returncode == 0, said
    summary = check(tmp_path, alone)
    assert [(one["from"], one["to"]) for one in summary["jobs"][0]["reconfigurations"]] == [
        ("tp2,pp2", "pp2"), ("pp2", "tp2,pp2")]
    assert summary["jobs"][0]["dataset"]["exactly_once"]
    assert {one["layout"] for one in summary["jobs"][0]["trained"]} == {"tp2,pp2", "pp2"}
    checkpoint = scalai.Checkpoint(next((tmp_path / "out" / "checkpoints" / "job").iterdir()))
    checkpoint.verify()
    assert checkpoint.info["kind"] == "job" and checkpoint.info["step"] > 0


@pytest.mark.parametrize("kind", share("train", "copied"))
def test_scaler_and_schedule_that_looks_at_the_loss(tmp_path, kind):
    """Their state follows the job over three changes and a killed process: rates and scales are those of a static run."""
    steps = 40
    run([sys.executable, str(WATCHING), "static", "-", str(steps), "static.csv"], tmp_path)
    run(command("launch", *(f"--layout=dp{ranks}" for ranks in (2, 3, 1)), f"--steps={steps}", "--hosts=1", "--gpus-per-host=3",
                "--standby", "--out=out", "--", sys.executable, WATCHING, kind, "6:3,15:0,20:1,30:2", steps, "loss.csv"), tmp_path)
    assert (tmp_path / "loss.15").exists(), "a process killed itself"
    static, changing = (numbers(tmp_path / f"{name}.csv") for name in ("static", "loss"))
    assert sorted(changing) == sorted(static) == list(range(steps))
    assert {step: row[1:] for step, row in changing.items()} == {step: row[1:] for step, row in static.items()}
    assert max(abs(changing[step][0] - static[step][0]) for step in static) <= 2e-5
    assert len({rate for _, rate, _ in static.values()}) > 10 and static[steps - 1][2] == 2.0**12, "there was something to keep"


def test_samples_read_ahead_are_those_that_are_trained(tmp_path):
    """Over changes of the share and a death between optimizer and `advance`: each step has its batch, once."""
    steps = 64  # eight passes
    said = run(command("launch", *(f"--layout=dp{ranks}" for ranks in (2, 3, 1)), f"--steps={steps}", "--hosts=1",
                       "--gpus-per-host=3", "--standby", "--out=out", "--", sys.executable, READING,
                       "3,kill,1,2", steps, "."), tmp_path)
    assert (tmp_path / "died").exists(), "a process killed itself"
    read = {}
    for log in tmp_path.glob("[0-9].csv"):
        for line in log.read_text(encoding="utf-8").splitlines():
            step, *ids = map(int, line.split(","))
            read.setdefault(step, []).extend(ids)
    static = scalai.Sampler(96, 12, seed=3)
    assert {step: sorted(ids) for step, ids in read.items()} == {step: sorted(static.at(step)) for step in range(steps)}
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    job = summary["jobs"][0]
    assert len(job["reconfigurations"]) == 3 and job["lost_steps"] == 0
    assert job["dataset"]["exactly_once"] and job["dataset"]["samples_read"] == steps * 12, said.stdout


@pytest.mark.parametrize("every", share(0, 20))
def test_another_controller_goes_on_where_the_trainers_stand(tmp_path, alone, every):
    """The first is killed in mid-training, with and without checkpoints: no step is lost, none is trained twice."""
    words = ["--layout=tp1,pp2", "--layout=dp3", f"--steps={STEPS}", "--out=out", f"--checkpoint-every={every}", "--gpus-per-host=3"]
    log = tmp_path / "loss.csv"
    with subprocess.Popen([*command("launch", *words, "--"), *program(PROGRAM, "train", f"--steps={STEPS}", f"--log={log}")],
                          cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as first:
        deadline = time.monotonic() + SECONDS
        while first.poll() is None and time.monotonic() < deadline:
            if log.exists() and len(losses(log)) >= 16:
                break
            time.sleep(0.02)
        assert first.poll() is None, first.communicate()
        first.send_signal(signal.SIGKILL)
    assert len(losses(log)) < STEPS
    with subprocess.Popen(command("exec", "--resume=out"), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as second:
        while second.poll() is None and time.monotonic() < deadline:
            if subprocess.run(command("exec", "ctl", "resize", "--run=out", "--gpus=3"), cwd=tmp_path, check=False,
                              capture_output=True).returncode == 0:
                break
        said = second.communicate(timeout=SECONDS)[0]
    assert second.returncode == 0, said
    summary = check(tmp_path, alone)
    assert len(losses(log)) == STEPS, "no step was trained twice"
    assert summary["jobs"][0]["lost_steps"] == 0 and summary["jobs"][0]["dataset"]["exactly_once"]


def test_deaths(tmp_path, alone):
    """Between two steps, of processes that join, stay or leave, of hosts, and amid the rewriting of the state: only that and
    the loss of a host without copies bring the job back to its checkpoint, and nobody waits for a timeout of PyTorch's."""
    write_scenario(tmp_path, 2, [(6, 4), (14, 2), (22, 3), (34, 6)])
    lost = {"28:2:host": 28 - 24, "39:1:amid": 40 - 36}  # of the latter the others have done step 39, and it is lost, too
    deaths = ["3:0:before", "4:3:build", "2:0:build", "10:1:before", *lost, "6:6:build-host"]
    said = run([*training(tmp_path, tmp_path / "loss.csv", DYING, ",".join(deaths)), "--standby"], tmp_path)
    summary = check(tmp_path, alone)
    assert sorted(one.name for one in tmp_path.glob("*:*:*")) == sorted(deaths), said.stdout + said.stderr
    assert "lost the worker of h1" in said.stdout + said.stderr
    assert (said.stdout + said.stderr).count("killed by signal 9") >= len(deaths), said
    assert summary["jobs"][0]["lost_steps"] == sum(lost.values()), said.stdout + said.stderr
