import json
import random

import pytest

import scalai


def read(samplers, steps):
    """The ids of the next steps, by all ranks together."""
    return [sorted(id for sampler in samplers for id in next(sampler)) for _ in range(steps)]


def test_ranks_together_read_every_sample_once():
    one = scalai.Sampler(100, 16, seed=7)
    whole = read([one], 7)
    assert sorted(id for batch in whole for id in batch) == list(range(100))
    assert [len(batch) for batch in whole] == [16] * 6 + [4]
    three = [scalai.Sampler(100, 16, rank=rank, ranks=3, seed=7) for rank in range(3)]
    assert read(three, 7) == whole
    assert read(three, 7) != whole  # another order in the second pass


def test_a_change_of_ranks_loses_and_doubles_nothing():
    seed = random.SystemRandom().randrange(2**31)
    print("seed", seed)
    chance = random.Random(seed)
    static = scalai.Sampler(1000, 24, seed=seed)
    samplers, step = [scalai.Sampler(1000, 24, seed=seed)], 0
    for _ in range(30):
        steps = chance.randrange(1, 20)
        assert read(samplers, steps) == read([static], steps)
        step += steps
        ranks = chance.randrange(1, 9)
        state = json.loads(json.dumps(samplers[0].state_dict()))
        samplers = [scalai.Sampler(1000, 24, seed=seed) for _ in range(ranks)]
        for rank, sampler in enumerate(samplers):
            sampler.load_state_dict(state)
            sampler.reshape(rank, ranks)
            assert sampler.step == step


def test_order_and_last_batch_can_be_chosen():
    plain = scalai.Sampler(10, 4, shuffle=False)
    assert [next(plain) for _ in range(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [0, 1, 2, 3]]
    dropped = scalai.Sampler(10, 4, shuffle=False, drop_last=True)
    assert [next(dropped) for _ in range(3)] == [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2, 3]]
    assert dropped.at(0) == [0, 1, 2, 3]


@pytest.mark.parametrize("arguments", [{"samples": 0, "global_batch": 4}, {"samples": 10, "global_batch": 0},
                                       {"samples": 10, "global_batch": 4, "rank": 2, "ranks": 2}])
def test_mistakes(arguments):
    with pytest.raises(scalai.InvalidError):
        scalai.Sampler(**arguments)


def test_a_state_of_another_kind_is_refused():
    sampler = scalai.Sampler(10, 4)
    with pytest.raises(scalai.InvalidError):
        sampler.load_state_dict({"step": 3})
    with pytest.raises(scalai.InvalidError, match="before"):
        later = scalai.Sampler(10, 4)
        next(later)
        fresh = scalai.Sampler(10, 4)
        fresh.load_state_dict(later.state_dict())
        fresh.at(0)


def test_a_job_takes_the_batch_of_its_step_once():
    sampler = scalai.Sampler(100, 10, shuffle=False)
    sampler.go_to(3)
    assert next(sampler) == list(range(30, 40))
    with pytest.raises(scalai.InvalidError, match="step 4 is asked for while step 3 is trained"):
        next(sampler)
    assert sampler.account(3)[0] == 10
    sampler.go_to(3)  # it was given up
    assert sampler.account(3) is None, "nothing was read for it"
    assert next(sampler) == list(range(30, 40))


def test_a_step_beyond_all_counting_is_refused():
    sampler = scalai.Sampler(10, 4)
    for step in (2**52 + 1, 2**63 - 1):
        with pytest.raises(scalai.InvalidError, match="beyond"):
            sampler.at(step)
