"""A step's state counts as whole when the optimizer returns only for a program that leaves it alone afterwards."""

import pytest

torch = pytest.importorskip("torch", reason="no PyTorch in this environment: python/environment FOLDER --torch")
from scalai._rewriting import Rewriting  # noqa: E402


class Program:
    """One parameter, trained; `afterwards` is what the program does with it between the optimizer and `advance`."""

    def __init__(self, alone=True, calls=lambda step: 1, afterwards=lambda step, weight: None):
        self.weight = torch.nn.Parameter(torch.ones(9))
        self.optimizer = torch.optim.AdamW([self.weight], lr=0.1)
        self.calls, self.afterwards = calls, afterwards
        self.rewriting = Rewriting()
        self.whole = []  # at the return of the optimizer, call by call
        self.weight.grad = torch.ones(9)
        self.optimizer.step()
        self.optimizer.register_step_pre_hook(lambda *_: self.rewriting.calls())
        self.optimizer.register_step_post_hook(lambda *_: self.whole.append(self.rewriting.returns()))
        self.rewriting.take([self.weight.detach(), *self.optimizer.state[self.weight].values()], alone)

    def run(self, steps):
        """Of each step: whether the state was whole, and stayed so."""
        found = []
        for step in range(steps):
            for _ in range(self.calls(step)):
                self.optimizer.step()
            with torch.no_grad():
                self.afterwards(step, self.weight)
            found.append(self.rewriting.advances())
        return found


def test_a_program_that_leaves_its_state_alone():
    program = Program()
    assert program.run(4) == [False, True, True, True], "the first step tells how it does"
    assert program.whole == [False, True, True, True]
    program.rewriting.take([program.weight.detach()], True)
    assert program.run(1) == [True], "another layout of the same program"


def test_two_calls_a_step():
    program = Program(calls=lambda step: 2)
    assert program.run(3) == [False, True, True]
    assert program.whole == [False, False, False, True, False, True]


@pytest.mark.parametrize("afterwards", [lambda step, weight: weight.clamp_(max=0.01),
                                        lambda step, weight: weight.data.mul_(0.5)], ids=["clamp", "data"])
def test_a_program_that_changes_its_state_afterwards(afterwards):
    program = Program(afterwards=afterwards)
    assert program.run(3) == [False] * 3 and program.whole == [False] * 3


def test_a_program_that_begins_to_later():
    program = Program(afterwards=lambda step, weight: weight.mul_(0.5) if step == 2 else None)
    assert program.run(5) == [False, True, False, False, False]
    assert program.whole == [False, True, True, False, False]


@pytest.mark.parametrize("calls", [lambda step: 1 + (step == 2), lambda step: step != 2], ids=["twice", "never"])
def test_a_step_with_other_calls(calls):
    program = Program(calls=calls)
    assert program.run(5) == [False, True, False, False, False]


def test_state_beside_the_tensors():
    program = Program(alone=False)
    assert program.run(3) == [False] * 3 and not any(program.whole)
