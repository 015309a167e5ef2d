"""Real training with Megatron-core over changes of layout, against the same training in one process."""

import csv
import json
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("megatron.core", reason="no Megatron-core in this environment: python/environment FOLDER --megatron")

ASKING = pathlib.Path(__file__).resolve().parent / "asking.py"
PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "examples" / "training" / "megatron_gpt.py"
STEPS = 48
CHANGES = {4: 2, 10: 8, 16: 4, 22: 3, 28: 6, 34: 1, 40: 4}
LAYOUTS = ["tp1,pp1,dp1", "tp2", "dp3", "tp2,pp2", "tp2,dp3", "tp2,pp2,dp2"]
BOUND = 2e-6


def losses(path):
    with open(path, encoding="utf-8") as file:
        return {int(row[0]): float(row[1]) for row in csv.reader(file)}


def run(folder, *words):
    done = subprocess.run(list(map(str, words)), cwd=folder, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("options", [["--decay"], ["--plain"]], ids=["distributed optimizer", "plain optimizer"])
def test_changes_of_layout(tmp_path, options):
    """In layouts of tensor, pipeline and data parallelism, between which the distributed optimizer's buckets change."""
    model = [*options, "--batch=12", f"--steps={STEPS}"]
    run(tmp_path, sys.executable, PROGRAM, "static", "--log=static.csv", *model)
    wanted = ",".join(f"{step}:{gpus}" for step, gpus in CHANGES.items())
    run(tmp_path, f"{os.environ['SCALAI_BIN']}/scalai", "launch", *(f"--layout={one}" for one in LAYOUTS), "--hosts=2",
        "--gpus-per-host=4", "--standby", "--out=out", f"--steps={STEPS}", "--", sys.executable, ASKING, "megatron_gpt",
        wanted, "train", "--log=loss.csv", *model)
    job = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))["jobs"][0]
    assert [one["to_gpus"] for one in job["reconfigurations"]] == list(CHANGES.values())
    assert job["dataset"]["exactly_once"]
    static, changing = losses(tmp_path / "static.csv"), losses(tmp_path / "loss.csv")
    assert sorted(changing) == list(range(STEPS))
    assert max(abs(changing[step] - loss) for step, loss in static.items()) <= BOUND
