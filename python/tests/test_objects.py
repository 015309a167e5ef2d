"""Small state of objects as text in tensors."""

import math

import pytest

torch = pytest.importorskip("torch", reason="no PyTorch in this environment: python/environment FOLDER --torch")

import scalai.torch  # noqa: E402
from scalai._objects import Objects  # noqa: E402


class Holder:
    def __init__(self, state):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


def carried(state):
    """The state as another process would get it."""
    old, new = Objects({"one": Holder(state)}), Holder(None)
    other = Objects({"one": new})
    other.tensors[0].tensor.copy_(old.tensors[0].tensor)
    other.read()
    return new.state


def test_numbers_come_back_to_the_last_bit():
    state = {"rate": 0.1 + 0.2, "count": 2**70, "best": math.inf, "mode": "min ü", "nothing": None, "on": True,
             "rates": [1e-300, -0.0], "within": {"a": [1, 2.5]}}
    back = carried(state)
    assert back == state
    assert math.copysign(1, back["rates"][1]) == -1
    assert math.isnan(carried({"x": math.nan})["x"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_small_tensors_come_back(dtype):
    state = {"scale": torch.tensor([1.1, 0.0, 3.7]).to(dtype), "tracker": torch.tensor(3).to(dtype)}
    back = carried(state)
    for name, tensor in state.items():
        assert back[name].dtype == dtype and torch.equal(back[name], tensor)


def test_a_schedule_sets_the_rates_of_its_optimizer():
    def made():
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=1.0)
        return optimizer, torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)

    _, old = made()
    for _ in range(3):
        old.step(1.0)
    optimizer, new = made()
    other = Objects({"plateau": new})
    other.tensors[0].tensor.copy_(Objects({"plateau": old}).tensors[0].tensor)
    other.read()
    assert optimizer.param_groups[0]["lr"] == 0.25
    assert new.best == 1.0


def test_the_room_is_that_of_the_beginning():
    holder = Holder({"history": []})
    objects = Objects({"one": holder})
    assert objects.tensors[0].name == "objects.one"
    assert objects.tensors[0].tensor.shape == (4096,)
    holder.state["history"] = list(range(500))
    objects.write()
    holder.state["history"] = list(range(5000))
    with pytest.raises(scalai.InvalidError, match='the state of object "one" has grown to 28[0-9]* bytes; 4096'):
        objects.write()


@pytest.mark.parametrize("state,what", [({1: 2}, "a key 1"), ({"f": print}, "a builtin_function_or_method"),
                                        ({"big": torch.zeros(5000)}, r"a tensor torch.float32 \[5000\]")])
def test_what_would_not_come_back_is_refused(state, what):
    with pytest.raises(scalai.InvalidError, match=rf'the state of object "one" \(Holder\) has {what}'):
        Objects({"one": Holder(state)})


def test_what_has_no_state_is_refused():
    with pytest.raises(scalai.InvalidError, match='object "one" is a int, without state_dict'):
        Objects({"one": 3})


def test_a_collection_has_them():
    def build(world):
        model = torch.nn.Linear(4, 4)
        return model, torch.optim.SGD(model.parameters(), lr=1), None, {"scaler": torch.amp.GradScaler("cpu")}

    collection = scalai.torch.collection_for(build, {"dp": 2})
    tensor = next(one for one in collection.tensors if one["name"] == "objects.scaler")
    assert tensor["dtype"] == "U8" and tuple(tensor["shape"]) == (4096,)
    assert [collection.boxes("objects.scaler", rank) for rank in range(2)] == [[((0, 4096),)]] * 2
    model, optimizer, _, objects = build(None)
    assert "objects.scaler" in scalai.torch.collection_of(model, optimizer, objects=objects).text()
