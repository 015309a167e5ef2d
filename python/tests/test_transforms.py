"""Tensors changed on their way, by steps that are built in and by functions."""

import json
import os
import random
import struct
import subprocess
import sys

import pytest
from stored import write

import scalai

numpy = pytest.importorskip("numpy", reason="no numpy in this environment")


def floats(values, shape, kind="F32"):
    array = numpy.asarray(values, {"F32": "<f4", "F64": "<f8"}[kind]).reshape(shape)
    return kind, shape, array.tobytes()


@pytest.fixture
def state(tmp_path):
    seed = 7
    print("seed", seed)
    generator = numpy.random.default_rng(seed)
    arrays = {"a.weight": generator.normal(size=(30, 50)), "b.weight": generator.normal(size=(3, 40_000)), "c.bias": generator.normal(size=17)}
    arrays = {name: array.astype("<f4") for name, array in arrays.items()}
    path = write(tmp_path / "model.safetensors", {name: floats(array, array.shape) for name, array in arrays.items()})
    return path, arrays


def array_of(checkpoint, name, kind):
    return numpy.frombuffer(checkpoint.read(name), kind).reshape(checkpoint.tensors[name]["shape"])


@scalai.transform("elements", tensors="*.weight")
def clipped(values, tensor, box):
    return numpy.clip(values, -0.5, 0.5)


@scalai.transform("rows", tensors="*.weight", dtype="I8", per_row={"_scale": "F32", "_mean": "F64"})
def small(values, tensor, box):
    scale = numpy.abs(values).max(-1) / 127
    return numpy.rint(values / scale[..., None]).astype("i1"), scale, values.mean(-1, dtype="f8")


def test_a_function_sees_chunks_and_gives_the_whole(state):
    path, arrays = state
    checkpoint = scalai.Checkpoint(path, transforms=["scale(2)", clipped, "cast(fp64)"])
    for name, array in arrays.items():
        expected = numpy.clip(2 * array, -0.5, 0.5) if name.endswith(".weight") else 2 * array
        assert checkpoint.tensors[name]["dtype"] == "F64"
        assert numpy.array_equal(array_of(checkpoint, name, "<f8"), expected.astype("<f8")), name
    assert clipped(numpy.float32(3), "x", []) == numpy.float32(0.5), "it stays a function"


def test_a_single_step_may_stand_alone(state):
    path, arrays = state
    for step in ("scale(2)", ["scale(2)"], ("scale(2)",)):
        checkpoint = scalai.Checkpoint(path, transforms=step)
        assert numpy.array_equal(array_of(checkpoint, "a.weight", "<f4"), 2 * arrays["a.weight"])
    alone = scalai.Checkpoint(path, transforms=clipped)
    assert numpy.array_equal(array_of(alone, "a.weight", "<f4"), numpy.clip(arrays["a.weight"], -0.5, 0.5))
    with pytest.raises(TypeError, match="neither a text nor a function"):
        scalai.Checkpoint(path, transforms=[clipped.function])
    with pytest.raises(TypeError, match="transforms: 2 is neither"):
        scalai.Checkpoint(path, transforms=[2])


def test_any_box_is_that_of_the_whole(state):
    path, arrays = state
    checkpoint = scalai.Checkpoint(path, transforms=[small])
    for name in ("a.weight", "b.weight"):
        codes, scale, mean = small(arrays[name], name, [])
        assert numpy.array_equal(array_of(checkpoint, name, "i1"), codes)
        assert numpy.array_equal(array_of(checkpoint, name + "_scale", "<f4"), scale)
        assert numpy.allclose(array_of(checkpoint, name + "_mean", "<f8"), mean, rtol=1e-12)
        generator = random.Random(3)
        for _ in range(20):
            box = [sorted(generator.sample(range(extent + 1), 2)) for extent in codes.shape]
            part = numpy.frombuffer(checkpoint.read(name, box), "i1")
            assert numpy.array_equal(part, codes[box[0][0]:box[0][1], box[1][0]:box[1][1]].ravel()), (box, "seed 3")


def test_chunks_are_bounded_and_rows_whole(state):
    path, arrays = state
    seen = []

    @scalai.transform("rows")
    def watched(values, tensor, box):
        seen.append((tensor, values.shape, box))
        return values

    scalai.Checkpoint(path, transforms=[watched]).read("b.weight")
    assert sum(shape[0] for _, shape, _ in seen) == 3, "each row once"
    assert all(shape[1] == 40_000 and shape[0] * shape[1] <= 1 << 16 for _, shape, _ in seen)


def test_reshard_writes_what_a_function_gives(state, tmp_path):
    path, arrays = state
    told = scalai.Checkpoint(path, transforms=[small]).reshard(tmp_path / "out", "logical", verify=True, threads=3)
    assert told["bytes_written"] == told["bytes"] > 0
    written = scalai.Checkpoint(tmp_path / "out")
    written.verify()
    for name in ("a.weight", "b.weight"):
        assert numpy.array_equal(array_of(written, name, "i1"), small(arrays[name], name, [])[0])
    assert numpy.array_equal(array_of(written, "c.bias", "<f4"), arrays["c.bias"])
    with pytest.raises(scalai.InvalidError, match="--force"):
        scalai.Checkpoint(path).reshard(tmp_path / "out", "logical")
    scalai.Checkpoint(path).reshard(tmp_path / "out", "logical", force=True)
    with pytest.raises(scalai.InvalidError, match="memory cap"):
        scalai.Checkpoint(path).reshard(tmp_path / "more", "logical", process_memory=1 << 20)


def test_what_a_function_does_wrong_names_tensor_and_box(state, tmp_path):
    path, _ = state

    def refusal(function, **how):
        checkpoint = scalai.Checkpoint(path, transforms=[scalai.transform("rows", tensors="a.*", **how)(function)])
        with pytest.raises(scalai.InvalidError) as error:
            checkpoint.reshard(tmp_path / "out", "logical", restart=True)
        assert not (tmp_path / "out").exists()
        return str(error.value)

    def divides(values, tensor, box):
        return values / "two"

    assert 'tensor "a.weight" box [0:30, 0:50]: ' in refusal(divides)
    assert "ZeroDivisionError: " in refusal(lambda values, tensor, box: 1 // 0)
    assert "gave an array of the shape (50,), (30, 50) is expected" in refusal(lambda values, tensor, box: values[0])
    assert "gave float32 for elements of I8; round them" in refusal(lambda values, tensor, box: values, dtype="I8")
    assert "has to give 2 arrays, as a tuple" in refusal(lambda values, tensor, box: values, per_row={"_x": "F32"})


def test_wrong_steps_are_named(state):
    path, _ = state
    with pytest.raises(scalai.InvalidError, match='no tensor is named "x"'):
        scalai.Checkpoint(path, transforms=[scalai.transform("elements", tensors=["x"])(lambda values, tensor, box: values)])
    with pytest.raises(scalai.InvalidError, match="nothing: is not NAME"):
        scalai.Checkpoint(path, transforms=["nothing"])
    with pytest.raises(scalai.InvalidError, match="F31"):
        scalai.Checkpoint(path, transforms=[scalai.transform("elements", dtype="F31")(lambda values, tensor, box: values)])
    with pytest.raises(ValueError, match='is not "elements" or "rows"'):
        scalai.transform("columns")
    with pytest.raises(ValueError, match="per_row needs"):
        scalai.transform("elements", per_row={"_x": "F32"})


def test_names_follow_the_code():
    def made(function):
        return scalai.transform("elements")(function).name

    def one(values, tensor, box):
        return values + 1

    first = made(one)

    def one(values, tensor, box):  # noqa: F811
        return values + 2

    assert made(one) != first, "another constant"
    assert scalai.transform("elements", name="mine")(one).name == "mine"
    assert made(lambda values, tensor, box: [each for each in values]) == made(lambda values, tensor, box: [each for each in values]), \
        "code inside code has no address in it"
    with pytest.raises(ValueError, match="needs name="):
        made(numpy.negative)


def test_another_function_does_not_go_on_with_a_killed_run(state, tmp_path):
    path, _ = state

    def fails(values, tensor, box):
        raise RuntimeError("the end")

    with pytest.raises(scalai.InvalidError, match="the end"):
        scalai.Checkpoint(path, transforms=[scalai.transform("elements")(fails)]).reshard(tmp_path / "out", "logical")
    with pytest.raises(scalai.InvalidError, match="an earlier run was cut short with another source"):
        scalai.Checkpoint(path, transforms=[clipped]).reshard(tmp_path / "out", "logical")
    scalai.Checkpoint(path, transforms=[clipped]).reshard(tmp_path / "out", "logical", restart=True)


def test_a_script_leaves_nothing_behind(state, tmp_path):
    """A function's globals have the checkpoint that has the function."""
    path, _ = state
    (tmp_path / "script.py").write_text(f"""import scalai
@scalai.transform("elements")
def same(values, tensor, box):
    return values
checkpoint = scalai.Checkpoint({str(path)!r}, transforms=[same, scalai.transform("elements")(lambda values, tensor, box: values)])
assert len(checkpoint.read("c.bias")) == 68
""")
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_integers_are_seen_as_they_are(tmp_path):
    path = write(tmp_path / "n.safetensors", {"n": ("I64", (4,), struct.pack("<4q", 1, -2, 3, 1 << 60))})
    doubled = scalai.transform("elements", tensors="n")(lambda values, tensor, box: 2 * values)
    assert struct.unpack("<4q", scalai.Checkpoint(path, transforms=[doubled]).read("n")) == (2, -4, 6, 1 << 61)


def test_masters_do_not_stay_behind(tmp_path):
    hidden, rows = 32, 48
    shapes = {"model.embed_tokens.weight": (1024, hidden), "lm_head.weight": (1024, hidden), "model.norm.weight": (hidden,)}
    layer = {"input_layernorm": (hidden,), "post_attention_layernorm": (hidden,), "self_attn.q_proj": (32, hidden),
             "self_attn.k_proj": (8, hidden), "self_attn.v_proj": (8, hidden), "self_attn.o_proj": (hidden, 32),
             "mlp.gate_proj": (rows, hidden), "mlp.up_proj": (rows, hidden), "mlp.down_proj": (hidden, rows)}
    shapes |= {f"model.layers.0.{name}.weight": shape for name, shape in layer.items()}
    (tmp_path / "ranks").mkdir()
    kinds = ["", ".master", ".exp_avg", ".exp_avg_sq"]
    write(tmp_path / "ranks" / "rank_000.safetensors",
          {name + kind: floats(numpy.ones(shape), shape) for name, shape in shapes.items() for kind in kinds})
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "num_attention_heads": 8,
              "num_key_value_heads": 2, "num_hidden_layers": 1, "intermediate_size": rows, "vocab_size": 1024,
              "max_position_embeddings": 64, "tie_word_embeddings": False}
    (tmp_path / "config.json").write_text(json.dumps(config))

    def reshard(out, *words):
        program = [f"{os.environ['SCALAI_BIN']}/scalai", "checkpoint", "reshard", str(tmp_path / "ranks"), str(tmp_path / out), "--to=tp1,hf",
                   "--from=tp1", "--names=hf", f"--config={tmp_path}/config.json", *words]
        return subprocess.run(program, capture_output=True, text=True, check=False)

    refused = reshard("a", "--transform=scale(0.5)")
    assert refused.returncode == 3 and "would undo the transforms" in refused.stderr, refused.stderr
    assert not (tmp_path / "a").exists()
    for out, words in {"b": ["--transform=scale(0.5)", "--drop=optimizer"], "c": ["--transform=cast(bf16)"],
                       "d": ["--transform=scale(0.5)", "--transform=scale(0.5, tensors=*.master)"]}.items():
        done = reshard(out, *words, "--verify")
        assert done.returncode == 0, done.stderr
    halves = scalai.Checkpoint(tmp_path / "d")
    assert {numpy.frombuffer(halves.read(name), "<f4")[0] for name in halves.tensors if name.endswith((".weight", ".master"))} == {0.5}
    assert {numpy.frombuffer(halves.read(name), "<f4")[0] for name in halves.tensors if ".exp" in name} == {1}


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize("error", [ValueError("\udcff bad name"), Silent()])
def test_any_exception_is_an_error_of_the_run(state, tmp_path, error):
    @scalai.transform("elements", name="fails")
    def fails(values, tensor, box):
        raise error

    with pytest.raises(scalai.InvalidError, match=type(error).__name__):
        scalai.Checkpoint(state[0], transforms=[fails]).reshard(tmp_path / "out", to="logical")


def test_functions_are_told_apart_by_what_they_are_made_of():
    def made(factor):
        @scalai.transform("elements")
        def times(values, tensor, box):
            return values * factor
        return times

    assert made(2.0).name == made(2.0).name != made(4.0).name
    with pytest.raises(ValueError, match="name="):
        made(numpy.ones(3))
