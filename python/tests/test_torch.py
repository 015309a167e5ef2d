"""Collections that are read off PyTorch modules, against what the ranks really hold."""

import pytest
from ranks import dist, on_ranks, torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import scalai
from scalai.torch import collection_for, collection_of, state_of

WIDTH, ROWS = 12, 250  # 250 rows over three ranks are 84, 84 and 82


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, ROWS)
        self.down = nn.Linear(ROWS, WIDTH)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("scratch", torch.zeros(3), persistent=False)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Stage(nn.Module):
    """Two blocks a stage, with names that count over the whole model."""

    def __init__(self, stage):
        super().__init__()
        self.blocks = nn.ModuleDict({str(2 * stage + i): Block() for i in range(2)})

    def forward(self, x):
        for block in self.blocks.values():
            x = block(x)
        return x


def build(pp, dp, tp, steps=1):
    return build_on(init_device_mesh("cpu", (pp, dp, tp), mesh_dim_names=("pp", "dp", "tp")), steps)


def build_on(mesh, steps):
    pp, dp, tp = mesh.mesh.shape
    torch.manual_seed(1 + mesh.get_local_rank("pp"))
    model = Stage(mesh.get_local_rank("pp"))
    for block in model.blocks.values():
        if tp > 1:
            parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        if dp > 1:
            fully_shard(block, mesh=mesh["dp"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(steps):
        model(torch.ones(2, WIDTH)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return mesh, model, optimizer


def looked_at(pp, dp, tp, steps):
    mesh, model, optimizer = build(pp, dp, tp, steps)
    collection = collection_of(model, optimizer, mesh)
    parts = {}
    for one in state_of(model, optimizer):
        whole = one.tensor.detach()
        parts[one.name] = (one.local.clone(), whole.full_tensor() if isinstance(whole, DTensor) else whole.clone())
    return collection.text(), parts


@pytest.mark.parametrize("pp,dp,tp,steps", [(1, 1, 1, 1), (1, 1, 2, 1), (1, 3, 1, 1), (2, 1, 1, 0), (1, 2, 2, 1), (2, 2, 1, 0),
                                            (2, 2, 2, 1), (1, 2, 3, 0)])
def test_boxes_are_what_the_ranks_hold(pp, dp, tp, steps):
    results = on_ranks(pp * dp * tp, looked_at, pp, dp, tp, steps)
    texts = {text for text, _ in results}
    assert len(texts) == 1, "ranks do not agree"
    collection = scalai.Collection.parse(texts.pop())
    assert collection.ranks == pp * dp * tp
    known = {tensor["name"]: tensor for tensor in collection.tensors}
    assert set(known) == {name for _, parts in results for name in parts}
    assert not any("scratch" in name for name in known)
    kinds = {name.rpartition(".")[2]: tensor["kind"] for name, tensor in known.items()}
    assert kinds["exp_avg"] == "exp_avg" and kinds["exp_avg_sq"] == "exp_avg_sq" and kinds["step"] == "scalar"
    for rank, (_, parts) in enumerate(results):
        for name in known:
            boxes = collection.boxes(name, rank)
            if name not in parts:
                assert boxes == [], f"{name} is not on rank {rank}"
                continue
            local, whole = parts[name]
            assert tuple(whole.shape) == known[name]["shape"]
            if local.numel() == 0:
                assert boxes == []
                continue
            (box,) = boxes
            assert torch.equal(local, whole[tuple(slice(begin, end) for begin, end in box)]), (name, rank)


def test_every_layout_plans_to_every_other():
    collections = [scalai.Collection.parse(on_ranks(dp * tp, looked_at, 1, dp, tp, 0)[0][0]) for dp, tp in ((1, 2), (3, 1), (2, 2))]
    for old in collections:
        for new in collections:
            plan = scalai.plan(old, new)
            assert plan.feasible
            plan.verify()


def test_the_depth_of_the_pipeline_may_change():
    def build_stage(world):
        own = [name for i, name in enumerate("abc") if i * world.axes["pp"] // 3 == world.coordinate("pp")]
        model = nn.ModuleDict({name: nn.Linear(4, 4) for name in own})
        return model, torch.optim.AdamW(model.parameters())

    collections = [collection_for(build_stage, {"pp": stages}) for stages in (1, 2, 3)]
    for old in collections:
        for new in collections:
            scalai.plan(old, new).verify()


@pytest.mark.parametrize("pp,dp,tp", [(1, 3, 1), (2, 1, 2), (2, 2, 2)])
def test_a_layout_is_known_without_its_processes(pp, dp, tp):
    real = scalai.Collection.parse(on_ranks(pp * dp * tp, looked_at, pp, dp, tp, 0)[0][0])
    foreseen = collection_for(lambda world: build_on(world.mesh, 0)[1:], {"pp": pp, "dp": dp, "tp": tp})
    assert foreseen.text() == real.text()


def test_a_scenario_of_a_real_job(tmp_path):
    configs = ""
    for sizes, seconds in (({"pp": 2, "dp": 2, "tp": 1}, 1), ({"pp": 2, "dp": 1, "tp": 1}, 2), ({"pp": 2, "dp": 1, "tp": 3}, 1.5)):
        collection = collection_for(lambda world: build_on(world.mesh, 0)[1:], sizes)
        collection.save(tmp_path / f"{collection.name}.textproto")
        configs += (f'configs {{ layout: "{collection.name}" step_time: "{seconds}s" '
                    f'collection: "{collection.name}.textproto" }}\n')
    (tmp_path / "mine.textproto").write_text(
        'schema_version: 1 name: "mine" until: "20min"\n'
        'cluster { hosts { count: 2 gpus: 4 gpu: "h100-80g" nic: "400Gbps" } storage { read: "2GB/s" write: "2GB/s" } }\n'
        f'jobs {{ name: "gpt" global_batch: 12 gpus: 4 steps: 400 checkpoint {{ every_steps: 50 }}\n{configs} }}\n'
        'events { at: "2min" resize { job: "gpt" gpus: 2 } }\nevents { at: "5min" resize { job: "gpt" gpus: 6 } }\n',
        encoding="utf-8")
    report = scalai.simulate(tmp_path / "mine.textproto")
    assert [(one["from"], one["to"]) for one in report.reconfigurations] == [
        ("pp2,dp2", "pp2"), ("pp2", "tp3,pp2")]
    assert report.summary["jobs"][0]["steps"] == 400


def test_a_build_that_fails_is_told():
    def build(world):
        raise RuntimeError("no such layer")

    with pytest.raises(scalai.FailedError, match="no such layer"):
        collection_for(build, {"dp": 2})


def refused(make):
    with pytest.raises(scalai.InvalidError) as caught:
        on_ranks(2, make)
    return str(caught.value)


def two_stages_of_one_name():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("pp",))
    model = nn.ModuleDict({"layer": nn.Linear(3, 3)})
    if mesh.get_local_rank("pp") == 5:
        return None
    return collection_of(model, None, mesh).text()


def test_a_layer_local_name_is_refused():
    text = refused(two_stages_of_one_name)
    assert 'tensor "layer.weight" is on the stages [0, 1]' in text and 'tied=["layer.weight"]' in text


def tied_stages():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("pp",))
    torch.manual_seed(1)
    return collection_of(nn.ModuleDict({"embedding": nn.Embedding(5, 4)}), None, mesh, tied=["embedding.weight"]).text()


def test_a_tied_tensor_is_one():
    collection = scalai.Collection.parse(on_ranks(2, tied_stages)[0])
    assert [len(collection.boxes("embedding.weight", rank)) for rank in range(2)] == [1, 1]


def shards_in_plain_tensors(cuts):
    rank = dist.get_rank()
    model = nn.Module()
    model.weight = nn.Parameter(torch.zeros(5 if rank == 0 else 3, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    return collection_of(model, optimizer, mesh, cuts=cuts).text()


def test_plain_shards_are_refused_or_declared():
    with pytest.raises(scalai.InvalidError, match=r'"weight" has the shape \[5, 4\] on rank 0, \[3, 4\] on rank 1; .*cuts='):
        on_ranks(2, shards_in_plain_tensors, {})
    collection = scalai.Collection.parse(on_ranks(2, shards_in_plain_tensors, {"weight": ("tp", 0)})[0])
    assert [tensor["shape"] for tensor in collection.tensors] == [(8, 4), (8, 4)]
    assert collection.boxes("weight.momentum_buffer", 1) == [((5, 8), (0, 4))]
    with pytest.raises(scalai.InvalidError, match="cannot be cut"):
        on_ranks(2, shards_in_plain_tensors, {"weight": ("pp", 0)})


def partial_tensor():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    model = nn.Module()
    model.weight = nn.Parameter(DTensor.from_local(torch.ones(4), mesh, [Partial()]))
    return collection_of(model, None, mesh).text()


def test_partial_sums_are_no_state():
    assert 'tensor "weight" on rank 0 is P' in refused(partial_tensor)


def flat_axes():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "cp"))
    flat = mesh["dp", "cp"]._flatten("both")
    model = nn.Module()
    model.weight = nn.Parameter(distribute_tensor(torch.arange(24.0).reshape(6, 4), flat, [Shard(0)]))
    return collection_of(model, None, mesh).text(), model.weight.to_local().tolist()


def test_a_flattened_mesh_is_several_axes_as_one():
    results = on_ranks(4, flat_axes)
    collection = scalai.Collection.parse(results[0][0])
    whole = torch.arange(24.0).reshape(6, 4)
    for rank, (_, local) in enumerate(results):
        boxes = collection.boxes("weight", rank)
        assert (whole[boxes[0][0][0]:boxes[0][0][1]].tolist() if boxes else []) == local


def test_unknown_optimizer_state_is_refused():
    model = nn.Linear(3, 3)
    with pytest.raises(scalai.InvalidError, match='RMSprop has no state for "weight" yet'):
        state_of(model, torch.optim.RMSprop(model.parameters()))
    with pytest.raises(scalai.InvalidError, match="that the model lacks"):
        state_of(nn.Linear(3, 3), torch.optim.AdamW(model.parameters()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.state[model.weight]["history"] = [1, 2]
    with pytest.raises(scalai.InvalidError, match='"history" of "weight" is a list'):
        state_of(model, optimizer)


def test_state_before_the_first_step_is_the_optimizers_own():
    torch.manual_seed(3)
    for make in (lambda p: torch.optim.AdamW(p, lr=0.1, amsgrad=True), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)):
        models = [nn.Linear(4, 4), nn.Linear(4, 4)]
        models[1].load_state_dict(models[0].state_dict())
        optimizers = [make(model.parameters()) for model in models]
        state_of(models[0], optimizers[0])
        for _ in range(3):
            for model, optimizer in zip(models, optimizers):
                model(torch.ones(2, 4)).square().sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        assert torch.equal(models[0].weight, models[1].weight)
