"""Checkpoints as Python sees them."""

import json
import os
import struct
import subprocess
from pathlib import Path

import pytest
from stored import write

import scalai
from scalai._programs import program

WEIGHT = [float(i) for i in range(6 * 4)]


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "model.safetensors",
                 {"weight": ("F32", (6, 4), struct.pack("<24f", *WEIGHT)), "step": ("I64", (), struct.pack("<q", 7)),
                  "none": ("F32", (0, 4), b"")})


def test_any_box_of_any_tensor(path):
    checkpoint = scalai.Checkpoint(path)
    assert checkpoint.info == {"kind": "plain", "layout": "", "job": "", "step": -1, "left_out": []}
    assert checkpoint.tensors["weight"] == {"name": "weight", "dtype": "F32", "shape": (6, 4), "kind": "param", "bytes": 96}
    assert struct.unpack("<24f", checkpoint.read("weight")) == tuple(WEIGHT)
    part = [WEIGHT[4 * row + column] for row in range(2, 5) for column in range(1, 3)]
    assert list(struct.unpack("<6f", checkpoint.read("weight", [(2, 5), (1, 3)]))) == part
    assert struct.unpack("<q", checkpoint.read("step")) == (7,)
    assert checkpoint.read("none") == b"" and checkpoint.read("weight", [(3, 3), (0, 4)]) == b""
    memory = bytearray(40)
    checkpoint.read("weight", [(0, 2), (0, 4)], into=memoryview(memory)[8:])
    assert struct.unpack("<8x8f", memory) == tuple(WEIGHT[:8])
    checkpoint.verify()


def test_what_is_not_there_is_named(path, tmp_path):
    checkpoint = scalai.Checkpoint(path)
    with pytest.raises(scalai.MissingError, match='has no tensor "bias"'):
        checkpoint.read("bias")
    for box, message in (([(0, 6)], "1 ranges"), ([(0, 7), (0, 4)], "0..7 lies outside"), ([(3, 2), (0, 4)], "3..2 lies"),
                         ([(-1, 2), (0, 4)], "-1..2 lies")):
        with pytest.raises(scalai.InvalidError, match=message):
            checkpoint.read("weight", box)
    with pytest.raises(scalai.InvalidError, match="the box has 96 bytes, the memory for it 95"):
        checkpoint.read("weight", into=bytearray(95))
    with pytest.raises(scalai.MissingError):
        scalai.Checkpoint(tmp_path / "nothing")
    (tmp_path / "broken.safetensors").write_bytes(path.read_bytes()[:-1])
    with pytest.raises(scalai.InvalidError, match="broken.safetensors"):
        scalai.Checkpoint(tmp_path / "broken.safetensors")


def test_names_of_files_may_have_any_bytes(path, tmp_path):
    latin = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    latin.mkdir()
    path.rename(latin / "model.safetensors")
    checkpoint = scalai.Checkpoint(latin / "model.safetensors")
    assert struct.unpack("<24f", checkpoint.read("weight")) == tuple(WEIGHT)
    with pytest.raises(scalai.MissingError, match=r"caf\\xe9/nothing"):
        scalai.Checkpoint(latin / "nothing")
    with pytest.raises(scalai.MissingError, match=r"caf\\xe9/none"):
        scalai.Collection.load(latin / "none")


def test_a_flipped_bit_is_found(path, tmp_path):
    arranged = tmp_path / "arranged"
    halves = {"name": "halves", "meshes": [{"axes": [{"name": "tp", "size": 2}]}], "devices": "0-1",
              "tensors": [{"name": "weight", "dtype": "F32", "shape": [6, 4], "cuts": [{"axis": "tp", "dim": 1}]},
                          {"name": "step", "dtype": "I64"}, {"name": "none", "dtype": "F32", "shape": [0, 4]}]}
    scalai.Collection.from_dict(halves).save(tmp_path / "halves.textproto")
    subprocess.run([program("scalai"), "checkpoint", "reshard", path, arranged, f"--to={tmp_path / 'halves.textproto'}"], check=True)
    checkpoint = scalai.Checkpoint(arranged)
    assert checkpoint.info["kind"] == "arranged"
    assert checkpoint.read("weight") == scalai.Checkpoint(path).read("weight")
    checkpoint.verify()
    file = sorted(arranged.glob("*.safetensors"))[-1]
    content = bytearray(file.read_bytes())
    content[-1] ^= 1  # of the weight
    file.write_bytes(content)
    with pytest.raises(scalai.InvalidError, match=json.dumps(file.name)[1:-1]):
        scalai.Checkpoint(arranged).verify()
    # Also if another part of the stored tensor is read, and if all is copied.
    damaged = scalai.Checkpoint(arranged)
    with pytest.raises(scalai.InvalidError, match="do not have the checksum of the manifest"):
        damaged.read("weight", [(5, 6), (3, 4)])
    with pytest.raises(scalai.InvalidError, match="do not have the checksum of the manifest"):
        damaged.reshard(tmp_path / "copy", "logical")
    assert not (tmp_path / "copy").exists()


def test_a_file_that_was_replaced_is_not_confirmed(path, tmp_path):
    checkpoint = scalai.Checkpoint(path)
    before = checkpoint.read("weight")
    checkpoint.confirm()
    (tmp_path / "other").write_bytes(path.read_bytes())
    (tmp_path / "other").rename(path)
    assert checkpoint.read("weight") == before
    with pytest.raises(scalai.InvalidError, match="was replaced by another file"):
        checkpoint.confirm()
