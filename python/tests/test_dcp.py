"""Checkpoints of other layouts, loaded by torch.distributed.checkpoint."""

import pytest
from ranks import on_ranks, torch
from stored import write
from test_torch import build, looked_at
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.tensor import DTensor

import scalai
import scalai.dcp
from scalai.torch import DTYPES, state_of


def keep(path, tensors):
    return write(path, {name: (DTYPES[value.dtype], value.shape, bytes(value.reshape(-1).view(torch.uint8).tolist()))
                        for name, value in tensors.items()})


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A checkpoint of a model on one process, with other numbers in it; and these numbers."""
    ((_, parts),) = on_ranks(1, looked_at, 1, 1, 1, 1)
    torch.manual_seed(20261124)
    whole = {name: torch.randn(value.shape).to(value.dtype) if value.is_floating_point() else torch.full_like(value, 9)
             for name, (value, _) in parts.items()}
    path = tmp_path_factory.mktemp("stored") / "model.safetensors"
    return keep(path, whole), whole


def state_dicts(model, optimizer):
    model_state, optimizer_state = get_state_dict(model, optimizer)
    return {"model": model_state, "optimizer": optimizer_state}


def loaded(dp, tp, path):
    _, model, optimizer = build(1, dp, tp)
    state = state_dicts(model, optimizer)
    scalai.dcp.load(state, path)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 1e-2
    return {one.name: one.tensor.full_tensor() if isinstance(one.tensor, DTensor) else one.tensor.detach().clone()
            for one in state_of(model, optimizer)}


@pytest.mark.parametrize("dp,tp", [(1, 1), (3, 1), (1, 2), (2, 2)])
def test_every_rank_gets_its_parts(stored, dp, tp):
    path, whole = stored
    for parts in on_ranks(dp * tp, loaded, dp, tp, str(path)):
        assert parts.keys() == whole.keys()
        assert [name for name in whole if not torch.equal(parts[name], whole[name])] == []


def refused(path):
    _, model, optimizer = build(1, 1, 1)
    before = {one.name: one.tensor.detach().clone() for one in state_of(model, optimizer)}
    state = state_dicts(model, optimizer)
    try:
        scalai.dcp.load(state, path)
    finally:
        assert all(torch.equal(one.tensor, before[one.name]) for one in state_of(model, optimizer)), "half of it was written"


def test_all_that_does_not_fit_is_named(stored, tmp_path):
    _, whole = stored
    other = dict(whole)
    del other["blocks.0.up.bias"], other["blocks.1.norm.weight.exp_avg"]
    other["blocks.0.down.weight"] = other["blocks.0.down.weight"][:, :-1]
    other["blocks.1.up.weight"] = other["blocks.1.up.weight"].to(torch.bfloat16)
    path = keep(tmp_path / "other.safetensors", other)
    with pytest.raises(scalai.InvalidError) as caught:
        on_ranks(1, refused, str(path))
    message = str(caught.value)
    for part in ('"model.blocks.0.up.bias": the checkpoint has no tensor "blocks.0.up.bias"',
                 'no tensor "blocks.1.norm.weight.exp_avg"', '"model.blocks.0.down.weight" has the shape [12, 250], '
                 '"blocks.0.down.weight" [12, 249]', '"blocks.1.up.weight" torch.bfloat16 in the checkpoint; cast=True'):
        assert part in message, message
    assert message.count("\n") == 3


def test_what_no_rank_asks_for_is_named(tmp_path):
    path = keep(tmp_path / "more.safetensors", {"weight": torch.ones(2), "extra": torch.ones(3)})
    state = {"model": {"weight": torch.zeros(2)}}
    with pytest.raises(scalai.InvalidError, match='"extra": no rank asks for it'):
        scalai.dcp.load(state, path)
    assert state["model"]["weight"].tolist() == [0, 0]
    scalai.dcp.load(state, path, drop="ext*")
    assert state["model"]["weight"].tolist() == [1, 1]


def test_types_are_converted_on_request(tmp_path):
    path = keep(tmp_path / "half.safetensors", {"weight": torch.arange(6.).view(2, 3).bfloat16()})
    state = {"net": {"weight": torch.zeros(3, 2).t(), "note": "stays"}}
    with pytest.raises(scalai.InvalidError, match='"net.weight": the checkpoint has no tensor "net.weight"'):
        scalai.dcp.load(state, path)
    scalai.dcp.load(state, path, prefixes={"net.": ""}, cast=True)
    assert state["net"]["weight"].tolist() == [[0, 1, 2], [3, 4, 5]] and state["net"]["note"] == "stays"


def test_damage_is_an_error(tmp_path):
    path = keep(tmp_path / "whole.safetensors", {"weight": torch.arange(6.).view(2, 3)})
    scalai.Checkpoint(path).reshard(tmp_path / "stored", "logical")
    file = tmp_path / "stored" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(scalai.InvalidError, match="do not have the checksum of the manifest"):
        scalai.dcp.load({"weight": torch.zeros(2, 3)}, tmp_path / "stored")


def test_names_of_keys():
    assert scalai.dcp.name_of("optimizer.state.head.weight.exp_avg") == "head.weight.exp_avg"
    assert scalai.dcp.name_of("model.model.layers.0") == "model.layers.0"
    assert scalai.dcp.name_of("head.model.weight") == "head.model.weight"
    assert scalai.dcp.name_of("a.b.c", {"a.": "x.", "a.b.": "y."}) == "y.c"
