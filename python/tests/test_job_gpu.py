"""Real training where devices are like GPUs: their memory is mapped by those only who are given its parts. Libraries stand in
for NCCL and the CUDA driver."""

import os
import pathlib
import subprocess

import pytest

import scalai

pytest.importorskip("torch", reason="no PyTorch in this environment: python/environment FOLDER --torch")

from test_job import DYING, PROGRAM, SECONDS, alone, check, run, training, write_scenario  # noqa: E402,F401, a fixture

LIKE_GPUS = pathlib.Path(os.environ.get("SCALAI_BIN", "."), "..", "lib").resolve()


@pytest.fixture
def like_gpus(monkeypatch):
    """Options of such a run."""
    if not (LIKE_GPUS / "libscalai_fake_nccl.so").exists():
        pytest.skip("no stand-ins for NCCL and the CUDA driver: ./dev test builds them")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(LIKE_GPUS / "fake-driver"))
    return ["--transport=nccl", f"--nccl={LIKE_GPUS / 'libscalai_fake_nccl.so'}"]


@pytest.mark.parametrize("more", [[], ["--restart"]], ids=["in place", "begun anew"])
def test_state_on_gpus(tmp_path, alone, like_gpus, more):
    """Processes train in memory that is the worker's and a GPU's, over changes of layout and a death."""
    write_scenario(tmp_path, 2, [(15, 4), (40, 1)] if more else [(10, 4), (20, 3), (30, 8), (38, 1)])
    program = [PROGRAM, "--restart"] if more else [DYING, "5:1:before"]
    said = run([*training(tmp_path, tmp_path / "loss.csv", *program), *like_gpus, "--standby"], tmp_path)
    summary = check(tmp_path, alone)
    assert summary["jobs"][0]["lost_steps"] == 0, said
    scalai.Checkpoint(next((tmp_path / "out" / "checkpoints" / "gpt").iterdir())).verify()


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="there is a GPU, and a driver")
def test_a_gpu_without_a_driver(tmp_path, like_gpus, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    write_scenario(tmp_path, 1, [])
    done = subprocess.run([*training(tmp_path, tmp_path / "loss.csv"), *like_gpus], cwd=tmp_path, capture_output=True, text=True,
                          timeout=SECONDS, check=False)
    assert done.returncode == 5 and "the state lies on a GPU, and this process finds no CUDA driver" in done.stderr
