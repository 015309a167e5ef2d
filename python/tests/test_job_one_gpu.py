"""Real training with one GPU, which stands for all devices of the job. Collectives are gloo's, because NCCL wants a GPU for
each process."""

import pytest

import scalai

torch = pytest.importorskip("torch", reason="no PyTorch in this environment: python/environment FOLDER --torch")

from test_job import DYING, PROGRAM, alone, check, run, training, write_scenario  # noqa: E402,F401, a fixture

LAYOUTS = {1: "tp1", 2: "tp2", 3: "dp3", 6: "tp2,dp3"}  # gloo sends nothing from a GPU to the next stage
MOST = 1e-4  # between sums in another order, over 64 steps


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("way", ["in place", "copied", "begun anew"])
def test_changes_of_layout_and_a_death(tmp_path, alone, way):
    """In memory of the GPU that is the worker's; copied from there to the worker's host memory; by a program that begins anew."""
    write_scenario(tmp_path, 2, [(10, 6), (20, 1), (30, 3), (45, 2)], LAYOUTS)
    program = [PROGRAM, "--restart"] if way == "begun anew" else [DYING, "5:1:before"]
    where = [] if way == "copied" else ["--backend=cuda", "--devices-per-gpu=8"]
    said = run([*training(tmp_path, tmp_path / "loss.csv", *program, "--collectives=gloo"), *where, "--standby"], tmp_path)
    summary = check(tmp_path, alone, MOST)
    assert way == "copied" or summary["jobs"][0]["lost_steps"] == 0, said
    scalai.Checkpoint(next((tmp_path / "out" / "checkpoints" / "gpt").iterdir())).verify()
