import json

import pytest

import scalai

OLD = {"name": "old", "meshes": [{"axes": [{"name": "tp", "size": 2}]}], "devices": "0-1",
       "tensors": [{"name": "weight", "dtype": "BF16", "shape": [1024, 512], "cuts": [{"axis": "tp", "dim": 0}]},
                   {"name": "step", "dtype": "I64", "kind": "SCALAR"}]}
NEW = {**OLD, "name": "new", "devices": "0-3", "meshes": [{"axes": [{"name": "tp", "size": 4}]}],
       "tensors": [{"name": "weight", "dtype": "BF16", "shape": [1024, 512], "cuts": [{"axis": "tp", "dim": 1}]},
                   {"name": "step", "dtype": "I64", "kind": "SCALAR"}]}


def collections():
    return scalai.Collection.from_dict(OLD), scalai.Collection.from_dict(NEW)


def test_a_collection_tells_what_it_holds():
    old, new = collections()
    assert (old.name, old.ranks, old.devices) == ("old", 2, [0, 1])
    assert old.tensors == [
        {"name": "weight", "dtype": "BF16", "shape": (1024, 512), "kind": "param", "bytes": 1024 * 512 * 2},
        {"name": "step", "dtype": "I64", "shape": (), "kind": "scalar", "bytes": 8}]
    assert old.boxes("weight", 1) == [((512, 1024), (0, 512))]
    assert new.boxes("weight", 3) == [((0, 1024), (384, 512))]
    assert old.boxes("step", 0) == [()]
    with pytest.raises(scalai.MissingError, match='no tensor "bias"'):
        old.boxes("bias", 0)
    with pytest.raises(scalai.InvalidError, match="no rank 2 of 2"):
        old.boxes("weight", 2)


def test_files(tmp_path):
    old, _ = collections()
    old.save(tmp_path / "old.textproto")
    again = scalai.Collection.load(tmp_path / "old.textproto")
    assert again.text() == old.text()
    assert again.tensors == old.tensors
    with pytest.raises(scalai.MissingError):
        scalai.Collection.load(tmp_path / "none.textproto")


def test_all_mistakes_of_a_collection_are_named_at_once():
    wrong = json.loads(json.dumps(OLD))
    wrong["tensors"][0]["cuts"][0]["axis"] = "tq"
    wrong["tensors"][1]["dtype"] = "I65"
    with pytest.raises(scalai.InvalidError) as caught:
        scalai.Collection.from_dict(wrong, name="mine")
    assert 'mine: error: /tensors/0/cuts/0/axis: unknown axis "tq"' in str(caught.value)
    assert "I65" in str(caught.value)
    assert isinstance(caught.value, ValueError) and caught.value.exit_code == 3


def test_a_plan_and_its_proof(tmp_path):
    old, new = collections()
    plan = scalai.plan(old, new, gpus_per_host=2)
    half = 1024 * 512 * 2 // 2
    assert plan.feasible and plan.missing == []
    # Devices 0 and 1 keep a quarter each of what they hold; all else moves, half of it to the second host.
    assert plan.bytes["same_device"] == half // 2
    assert plan.bytes["same_host"] + plan.bytes["cross_host"] == plan.lower_bound["same_host"] + plan.lower_bound["cross_host"]
    assert plan.seconds is None
    assert plan.devices == [0, 1, 2, 3]
    plan.verify()
    pieces = plan.explain("weight")
    assert sum(piece["bytes"] for piece in pieces) == 1024 * 512 * 2
    assert {piece["device"] for piece in pieces} == {0, 1, 2, 3}
    assert any(step["step"] == "send" for step in plan.program(0))
    assert plan.digest in str(plan) and plan.digest in repr(plan)
    with pytest.raises(scalai.MissingError, match='no tensor "bias"'):
        plan.explain("bias")
    plan.save(tmp_path / "plan.binpb")
    assert (tmp_path / "plan.binpb").stat().st_size > 0


def test_a_cluster_file_gives_seconds(tmp_path):
    old, new = collections()
    cluster = tmp_path / "cluster.textproto"
    cluster.write_text('hosts { count: 1 gpus: 4 gpu: "h100-80g" nic: "400Gbps" }\n', encoding="utf-8")
    try:
        plan = scalai.plan(old, new, cluster=cluster)
    except scalai.InvalidError as error:
        pytest.fail(str(error))
    assert 0 < plan.seconds < 1


def test_lost_state_is_named():
    old, new = collections()
    plan = scalai.plan(old, scalai.Collection.from_dict({**NEW, "devices": "0,2-4"}), lost=[1])
    assert not plan.feasible
    assert {entry["tensor"] for entry in plan.missing} == {"weight"}
    stored = scalai.plan(old, scalai.Collection.from_dict({**NEW, "devices": "0,2-4"}), lost=[1], storage=True)
    assert stored.feasible and stored.bytes["from_storage"] == 1024 * 512


def test_options_are_those_of_the_command_line():
    old = scalai.Collection.of_model("gpt3-xl", "tp4,pp2", devices=range(8))
    new = scalai.Collection.of_model("gpt3-xl", "tp2,pp2", devices=range(4))
    free = scalai.plan(old, new)
    capped = scalai.plan(old, new, memory_cap="64MiB")
    assert capped.rounds > free.rounds == 1
    assert max(one["bytes"] for one in capped.summary["peak_extra_bytes"]) <= 64 * 2**20
    capped.verify()
    placed = scalai.plan(old, new, placement="free", gpus_per_host=2)
    assert sorted(placed.devices) == [0, 1, 2, 3]
    for wrong in ({"strategy": "fastest"}, {"placement": "best"}, {"memory_cap": "64 apples"}, {"gpus_per_host": 0}):
        with pytest.raises(scalai.InvalidError):
            scalai.plan(old, new, **wrong)
    with pytest.raises(scalai.InvalidError, match="gpt9"):
        scalai.Collection.of_model("gpt9", "tp1")
    with pytest.raises(scalai.InvalidError, match="precision"):
        scalai.Collection.of_model("gpt3-xl", "tp1", precision="fp4")
