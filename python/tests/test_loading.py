"""scalai.torch.DataLoader: whatever is read ahead, a step gets its own batch, and the account is of that."""

import itertools
import random

import pytest

import scalai

torch = pytest.importorskip("torch", reason="no PyTorch in this environment: python/environment FOLDER --torch")
import scalai.torch  # noqa: E402

OPTIONS = [{"num_workers": 0}, {"num_workers": 2}, {"num_workers": 2, "prefetch_factor": 5, "persistent_workers": True},
           {"num_workers": 1, "pin_memory": True}]


class Numbers(torch.utils.data.Dataset):
    """Sample k is k, and some samples cannot be read the first time."""

    def __init__(self, fails=()):
        self.fails = set(fails)

    def __getitem__(self, index):
        if index in self.fails:
            raise RuntimeError(f"sample {index} cannot be read")
        return index


@pytest.mark.parametrize("options", OPTIONS)
def test_every_step_gets_its_batch_over_changes_of_layout(options):
    """A job of 30 steps, three passes, whose shares change and whose steps are given up: one rank of it at a time."""
    seed = random.SystemRandom().randrange(2**31)
    print("seed", seed)
    chance = random.Random(seed)
    sampler = scalai.Sampler(105, 10, seed=seed)
    batches = iter(scalai.torch.DataLoader(Numbers(), batch_sampler=sampler, **options))
    step, given_up = 0, 0
    while step < 30:
        if chance.random() < 0.3:
            ranks = chance.randrange(1, 4)
            sampler.go_to(step)
            sampler.reshape(chance.randrange(ranks), ranks)
        sampler.go_to(step)
        assert next(batches).tolist() == sampler.at(step)
        assert sampler.account(step)[0] == len(sampler.at(step))
        if chance.random() < 0.2 and given_up < 5:
            given_up += 1  # the same step again
            continue
        step += 1


def test_what_was_read_ahead_stays_where_the_share_stays():
    class Counting(Numbers):
        read = 0

        def __getitem__(self, index):
            Counting.read += 1
            return index

    sampler = scalai.Sampler(100, 10)
    batches = iter(scalai.torch.DataLoader(Counting(), batch_sampler=sampler))
    for step in range(5):
        sampler.go_to(step)
        sampler.reshape(0, 1)
        next(batches)
    assert Counting.read == 50


def test_a_sample_that_cannot_be_read_costs_its_step_only():
    sampler = scalai.Sampler(100, 10, shuffle=False)
    batches = iter(scalai.torch.DataLoader(Numbers(fails=[25]), batch_sampler=sampler, num_workers=2))
    for step in (0, 1, 2, 3):
        sampler.go_to(step)
        if step == 2:
            with pytest.raises(RuntimeError, match="sample 25"):
                next(batches)
            assert sampler.account(2) is None
        else:
            assert next(batches).tolist() == sampler.at(step)


def test_a_plain_loader_that_reads_ahead_is_refused():
    """Its batches would be those of other steps, or of a share that is no more."""
    sampler = scalai.Sampler(100, 10)
    sampler.go_to(0)
    with pytest.raises(scalai.InvalidError, match="scalai.torch.DataLoader"):
        next(iter(torch.utils.data.DataLoader(Numbers(), batch_sampler=sampler, num_workers=2)))
    sampler = scalai.Sampler(100, 10)
    early = iter(torch.utils.data.DataLoader(Numbers(), batch_sampler=sampler, num_workers=2))
    with pytest.raises(scalai.InvalidError, match="before Job.start"):
        sampler.begin()
    del early
    sampler = scalai.Sampler(100, 10)
    sampler.begin()
    loader = iter(torch.utils.data.DataLoader(Numbers(), batch_sampler=sampler))
    for step in range(3):
        sampler.go_to(step)
        assert next(loader).tolist() == sampler.at(step)


def test_a_new_iterator_draws_no_random_numbers_of_the_training():
    sampler = scalai.Sampler(100, 10)
    loader = scalai.torch.DataLoader(Numbers(), batch_sampler=sampler, num_workers=1)
    torch.manual_seed(7)
    expected = torch.rand(3).tolist()
    torch.manual_seed(7)
    next(iter(loader))
    assert torch.rand(3).tolist() == expected


def test_mistakes():
    with pytest.raises(scalai.InvalidError, match="not a scalai.Sampler"):
        scalai.torch.DataLoader(Numbers(), batch_sampler=[[1]])
    with pytest.raises(scalai.InvalidError, match="in_order"):
        scalai.torch.DataLoader(Numbers(), batch_sampler=scalai.Sampler(10, 2), in_order=False)


def test_without_a_job_it_goes_on_step_by_step():
    sampler = scalai.Sampler(20, 6, drop_last=True)
    batches = iter(scalai.torch.DataLoader(Numbers(), batch_sampler=sampler, num_workers=2))
    expected = [sampler.at(step) for step in range(7)]
    assert [batch.tolist() for batch in itertools.islice(batches, 7)] == expected
    assert sampler.step == 7
