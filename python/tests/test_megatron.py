"""Collections that are read off Megatron-core, against what its ranks really hold."""

import logging
import pathlib
import re
import sys
import types
import warnings

import pytest
from ranks import dist, on_ranks, torch

pytest.importorskip("megatron.core", reason="no Megatron-core in this environment: python/environment FOLDER --megatron")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "training"))
warnings.simplefilter("ignore")
logging.getLogger("megatron").setLevel(logging.ERROR)
import megatron_on_cpu  # noqa: E402

megatron_on_cpu.install()
from megatron.core import parallel_state, tensor_parallel  # noqa: E402
from megatron.core.dist_checkpointing.mapping import ShardedObject, ShardedTensor, ShardedTensorFactory  # noqa: E402
from megatron.core.distributed import (DistributedDataParallel, DistributedDataParallelConfig,  # noqa: E402
                                       finalize_model_grads)
from megatron.core.models.gpt import GPTModel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer  # noqa: E402
from megatron.core.optimizer.grad_scaler import DynamicGradScaler  # noqa: E402
from megatron.core.pipeline_parallel import get_forward_backward_func  # noqa: E402
from megatron.core.transformer import TransformerConfig  # noqa: E402

import scalai.megatron  # noqa: E402
from scalai._objects import Objects  # noqa: E402
from scalai.megatron import collection_from_sharded, state_of_sharded  # noqa: E402

LAYERS, TOKENS, LENGTH = 4, 64, 16


def build(tp=1, pp=1, cp=1, ep=1, etp=None, order="tp-cp-ep-dp-pp", experts=None, tied=True, bf16=False, distributed=False):
    """A GPT with SwiGLU and two query groups for four heads."""
    parallel_state.initialize_model_parallel(tp, pp, context_parallel_size=cp, expert_model_parallel_size=ep,
                                             expert_tensor_parallel_size=etp, order=order)
    tensor_parallel.model_parallel_cuda_manual_seed(3)
    torch.manual_seed(3)
    dtype = torch.bfloat16 if bf16 else torch.float32
    config = TransformerConfig(
        num_layers=LAYERS, hidden_size=16, num_attention_heads=4, num_query_groups=2, ffn_hidden_size=24,
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, expert_model_parallel_size=ep,
        expert_tensor_parallel_size=etp, num_moe_experts=experts, pipeline_dtype=dtype, params_dtype=dtype, bf16=bf16,
        use_cpu_initialization=True, gated_linear_unit=True, activation_func=torch.nn.functional.silu,
        add_bias_linear=False, hidden_dropout=0.0, attention_dropout=0.0, bias_activation_fusion=False,
        gradient_accumulation_fusion=False)
    model = GPTModel(config, get_gpt_layer_local_spec(num_experts=experts, moe_grouped_gemm=False), TOKENS, LENGTH,
                     pre_process=parallel_state.is_pipeline_first_stage(),
                     post_process=parallel_state.is_pipeline_last_stage(), share_embeddings_and_output_weights=tied)
    model = DistributedDataParallel(
        config, DistributedDataParallelConfig(use_distributed_optimizer=distributed, bucket_size=4000),
        model.bfloat16() if bf16 else model)
    optimizer = get_megatron_optimizer(OptimizerConfig(optimizer="adam", lr=1e-2, bf16=bf16, params_dtype=dtype,
                                                       use_distributed_optimizer=distributed), [model])
    return config, model, optimizer


def train(config, model, optimizer, steps=1):
    """Losses of the microbatches of this rank; none but on the last stage."""
    config.finalize_model_grads_func, config.grad_scale_func = finalize_model_grads, optimizer.scale_loss
    first, replicas = parallel_state.get_data_parallel_rank(), parallel_state.get_data_parallel_world_size()

    def forward(batches, part):
        tokens = next(batches)
        out = part(tokens[:, :-1].contiguous(), torch.arange(LENGTH).expand(len(tokens), -1), None,
                   labels=tokens[:, 1:].contiguous())
        return out, lambda loss: (loss.float().mean(), {"loss": loss.float().mean().item()})

    losses = []
    for step in range(steps):
        model.zero_grad_buffer()
        optimizer.zero_grad()
        batch = torch.randint(TOKENS, (2, 4, LENGTH + 1), generator=torch.Generator().manual_seed(step))[:, first::replicas]
        losses += get_forward_backward_func()(
            forward_step_func=forward, data_iterator=iter(batch), model=model, num_microbatches=2, seq_length=LENGTH,
            micro_batch_size=batch.shape[1], forward_only=False)
        optimizer.step()
    return [one["loss"] for one in losses]


def step(model, optimizer):
    """A step with gradients that depend on the parameters, for layouts in which Megatron-core does not train on the CPU."""
    for parameter in model.parameters():
        parameter.main_grad.copy_(parameter.detach().float().sin() + 0.5)
    optimizer.step()


def shards_of(value):
    """Megatron's own boxes: each ShardedTensor of a state dict, factories applied."""
    if isinstance(value, ShardedTensorFactory):
        value = value.build()
    if isinstance(value, ShardedTensor):
        yield value
    elif isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from shards_of(one)


def numbered(shard):
    """Each element's place in Megatron's global tensor, for the elements of a shard."""
    whole = torch.arange(torch.Size(shard.global_shape).numel(), dtype=torch.float64).reshape(shard.global_shape)
    return whole[shard.global_slice()].reshape(shard.local_shape)


def state_and_collection(options, steps=0, **more):
    """With {"model": …} around the model's state dict if an order is given: names must not depend on it."""
    _, model, optimizer = build(**options)
    for _ in range(steps):
        step(model, optimizer)
    state = model.module.sharded_state_dict()
    chosen = optimizer if steps else None
    return state, optimizer, collection_from_sharded({"model": state} if "order" in options else state, chosen, **more)


def looked_at(options, steps=0):
    """The collection; and each local tensor, with its elements numbered by their places in Megatron's tensor of this key."""
    state, optimizer, collection = state_and_collection(options, steps)
    shards = list(shards_of(state)) + (list(shards_of(optimizer.sharded_state_dict(state))) if steps else [])
    with torch.no_grad():
        for shard in shards:
            shard.data.copy_(numbered(shard))
    keys = {shard.data.data_ptr(): shard.key for shard in shards}
    found = state_of_sharded(state, optimizer if steps else None)
    return collection.text(), {one.name: (keys.get(one.tensor.data_ptr()), one.tensor.clone()) for one in found}


def parsed(results):
    texts = {text for text, *_ in results}
    assert len(texts) == 1, "ranks do not agree"
    return scalai.Collection.parse(texts.pop())


def put_together(collection, name, shape, parts):
    """The whole tensor from what each rank has, a run of elements that fill its boxes in order. Replicas must agree."""
    whole = torch.full(shape, float("nan"), dtype=torch.float64)
    for rank, local in enumerate(parts):
        rest = None if local is None else local.flatten().double()
        for box in collection.boxes(name, rank):
            assert rest is not None, f"{name} is not on rank {rank}"
            inside = whole[tuple(slice(begin, end) for begin, end in box)]
            mine, rest = rest[:inside.numel()].reshape(inside.shape), rest[inside.numel():]
            assert (inside.isnan() | (inside == mine)).all(), f"{name} has two values at one place"
            inside.copy_(mine)
        assert rest is None or len(rest) == 0, f"{name} has more on rank {rank} than its boxes"
    assert not whole.isnan().any(), f"{name} is not whole"
    return whole


LAYOUTS = [(1, {}), (2, {"tp": 2}), (2, {"pp": 2}), (4, {"tp": 2, "pp": 2, "tied": False}), (8, {"tp": 2, "pp": 2}),
           (4, {"tp": 2, "cp": 2}), (8, {"tp": 2, "pp": 2, "order": "tp-cp-ep-pp-dp"}),
           (4, {"tp": 2, "experts": 4, "ep": 2, "etp": 1}), (4, {"tp": 2, "experts": 4, "ep": 2, "etp": 2}),
           (8, {"pp": 2, "tp": 2, "experts": 4, "ep": 4, "etp": 1})]


def named(options):
    return ",".join(f"{key}{value}" for key, value in options.items()) if isinstance(options, dict) else str(options)


@pytest.mark.parametrize("ranks,options", LAYOUTS, ids=named)
@pytest.mark.parametrize("steps", [0, 1])
def test_boxes_are_those_of_megatron(ranks, options, steps):
    results = on_ranks(ranks, looked_at, options, steps)
    collection = parsed(results)
    assert {tensor["name"] for tensor in collection.tensors} == {name for _, parts in results for name in parts}
    first_of = {}
    for tensor in collection.tensors:
        name = tensor["name"]
        found = [parts.get(name, (None, None)) for _, parts in results]
        whole = put_together(collection, name, tensor["shape"], [local for _, local in found])
        if name.endswith("common_step"):
            continue
        # Each layer and expert is one run of Megatron's tensor, in order.
        first = int(whole.flatten()[0])
        assert torch.equal(whole.flatten(), torch.arange(first, first + whole.numel(), dtype=torch.float64)), name
        assert first % whole.numel() == 0
        (key,) = {key for key, local in found if local is not None}
        assert first_of.setdefault((key, first), name) == name, f"{name} and another are the same"
    kinds = {tensor["name"].rpartition(".")[2]: tensor["kind"] for tensor in collection.tensors}
    assert kinds["weight"] == "param"
    if steps:
        assert (kinds["exp_avg"], kinds["exp_avg_sq"], kinds["common_step"]) == ("exp_avg", "exp_avg_sq", "scalar")


def test_names_count_over_the_whole_model():
    collection = parsed(on_ranks(4, looked_at, {"pp": 2, "experts": 2, "ep": 2}))
    known = {tensor["name"]: tensor["shape"] for tensor in collection.tensors}
    assert known["decoder.layers.3.mlp.experts.experts.1.linear_fc1.weight"] == (2, 24, 16)
    assert known["decoder.layers.2.self_attention.linear_qkv.weight"] == (32, 16)
    assert collection.name == "pp2,dp2,ep2"
    # The tied embedding is on both stages, experts on their rank, layers on their stage.
    assert [len(collection.boxes("embedding.word_embeddings.weight", rank)) for rank in range(4)] == [1, 1, 1, 1]
    assert [len(collection.boxes("decoder.layers.3.mlp.experts.experts.1.linear_fc1.weight", rank))
            for rank in range(4)] == [0, 0, 0, 1]


def texts_of(metadata):
    _, model, _ = build(pp=2, experts=4, ep=2)
    return [collection_from_sharded(model.module.sharded_state_dict(metadata=one)).text() for one in (None, metadata)]


def test_keys_with_the_numbers_of_layers_give_the_same_names():
    for metadata in ({"non_homogeneous_layers": True}, {"singleton_local_shards": True}):
        stacked, numbered_keys = on_ranks(4, texts_of, metadata)[0]
        names = [{tensor["name"] for tensor in scalai.Collection.parse(text).tensors} for text in (stacked, numbered_keys)]
        if "singleton_local_shards" in metadata:  # the halves of SwiGLU are tensors of their own
            names = [{name for name in one if "fc1" not in name} for one in names]
        assert names[0] == names[1]


def chunks_of_a_stage():
    """Interleaved: each stage has two chunks of one layer."""
    parallel_state.initialize_model_parallel(1, 2, virtual_pipeline_model_parallel_size=2)
    tensor_parallel.model_parallel_cuda_manual_seed(3)
    config = TransformerConfig(num_layers=LAYERS, hidden_size=16, num_attention_heads=4, pipeline_model_parallel_size=2,
                               virtual_pipeline_model_parallel_size=2, pipeline_dtype=torch.float32,
                               use_cpu_initialization=True)
    chunks = [GPTModel(config, get_gpt_layer_local_spec(), TOKENS, LENGTH, vp_stage=stage,
                       pre_process=parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=stage),
                       post_process=parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=stage))
              for stage in range(2)]
    return collection_from_sharded({f"model{i}": chunk.sharded_state_dict() for i, chunk in enumerate(chunks)}).text()


def test_virtual_stages():
    collection = scalai.Collection.parse(on_ranks(2, chunks_of_a_stage)[0])
    holders = [[rank for rank in range(2) if collection.boxes(f"decoder.layers.{layer}.mlp.linear_fc1.weight", rank)]
               for layer in range(LAYERS)]
    assert holders == [[0], [1], [0], [1]]


def gathered(options):
    """The collection; the flat parts of this rank; and, as Megatron gathers them, the whole tensors of its shards."""
    state, optimizer, collection = state_and_collection(options, 2)
    parts = {one.name: one.tensor.clone() for one in state_of_sharded(state, optimizer)}
    whole = optimizer.sharded_state_dict(state, metadata={"distrib_optim_sharding_type": "fully_reshardable"})
    shards = [(one.key, one.prepend_axis_num, one.global_slice(), one.global_shape, one.data.clone())
              for one in shards_of(whole["param_state"] if "param_state" in whole else
                                   {i: one["param_state"] for i, one in whole.items()})]
    return collection.text(), parts, shards


FLAT = [(2, {"distributed": True, "bf16": True}), (4, {"tp": 2, "distributed": True, "bf16": True}),
        (8, {"tp": 2, "pp": 2, "distributed": True, "bf16": True}), (8, {"tp": 2, "cp": 2, "distributed": True}),
        (4, {"pp": 2, "distributed": True}),
        (8, {"tp": 2, "experts": 4, "ep": 2, "etp": 1, "distributed": True})]


@pytest.mark.parametrize("ranks,options", FLAT, ids=named)
def test_buckets_of_the_distributed_optimizer(ranks, options):
    results = on_ranks(ranks, gathered, options)
    collection = parsed(results)
    wholes = {}
    for _, _, shards in results:
        for key, _, place, shape, data in shards:
            empty = torch.full(shape, float("nan"), dtype=torch.float64)
            whole = wholes.setdefault(key.partition("optimizer.state.")[2], empty)
            whole[place] = data.double()
    checked, halves = set(), 0
    for tensor in collection.tensors:
        name, _, state = tensor["name"].rpartition(".")
        parts = [parts.get(tensor["name"]) for _, parts, _ in results]
        mine = put_together(collection, tensor["name"], tensor["shape"], parts)
        if state not in ("fp32_param", "exp_avg", "exp_avg_sq"):
            continue
        halves += any(local is not None and 0 < local.numel() < mine.numel() for local in parts)
        numbers = [int(word) for word in name.split(".") if word.isdigit()]
        key = ".".join(word for word in name.split(".") if not word.isdigit())
        whole = wholes[f"{'param' if state == 'fp32_param' else state}.{key}"]
        assert torch.equal(mine.flatten(), whole[tuple(numbers)].flatten()), tensor["name"]
        checked.add((state, key))
    assert halves > 0, "no parameter lies on two ranks"
    assert {state for state, _ in checked} == {"exp_avg", "exp_avg_sq"} | ({"fp32_param"} if options.get("bf16") else set())
    assert len(checked) >= len(wholes) * (1 if options.get("bf16") else 2 / 3)


def test_plans_between_layouts():
    texts = [on_ranks(ranks, looked_at, options, 1)[0][0] for ranks, options in
             [(1, {}), (4, {"tp": 2, "pp": 2}), (8, {"tp": 2, "pp": 2}), (2, {"pp": 2})]]
    for old, new in [(0, 2), (2, 1), (1, 3), (3, 2)]:
        plan = scalai.plan(scalai.Collection.parse(texts[old]), scalai.Collection.parse(texts[new]))
        assert plan.feasible
        plan.verify()


def text_of(options):
    return state_and_collection(options, 1, vocabulary=50)[2].text()


def test_plans_from_and_to_the_distributed_optimizer():
    """In full and in mixed precision its state has the names and shapes of the plain optimizer's, padding or not."""
    for bf16 in (False, True):
        collections = [
            scalai.Collection.parse(on_ranks(ranks, text_of, {"bf16": bf16, **options})[0]) for ranks, options in
            [(2, {"tp": 2}), (4, {"tp": 2, "distributed": True}), (4, {"pp": 2, "distributed": True})]]
        kinds = {tensor["kind"] for tensor in collections[1].tensors}
        assert kinds == {"param", "exp_avg", "exp_avg_sq", "scalar"} | ({"master"} if bf16 else set())
        assert {tensor["shape"] for tensor in collections[1].tensors if "word_embeddings" in tensor["name"]} == {(50, 16)}
        for old, new in [(0, 1), (1, 2), (2, 0)]:
            plan = scalai.plan(collections[old], collections[new])
            assert plan.feasible
            plan.verify()


def losses_of(options):
    return train(*build(**options), steps=3)


@pytest.mark.parametrize("ranks,options,alike", [
    (1, {}, [(4, {"tp": 2}), (2, {"distributed": True})]), (2, {"pp": 2}, [(8, {"tp": 2, "pp": 2, "distributed": True})])])
def test_training_on_the_cpu_has_the_losses_of_other_layouts(ranks, options, alike):
    """Stages draw their weights for themselves; tensor and data parallelism change nothing."""
    def mean(found):
        return torch.tensor([losses for losses in found if losses], dtype=torch.float64).mean(0)

    losses = mean(on_ranks(ranks, losses_of, options))
    assert len(losses) == 6 and losses.isfinite().all()
    for others, layout in alike:
        assert torch.allclose(mean(on_ranks(others, losses_of, layout)), losses, atol=1e-4), layout


# ---- tensors by hand: what Megatron's layers do not make

def shard(key, rows, at, whole, replica=0, columns=3, **more):
    return ShardedTensor(key, torch.zeros(rows, columns), torch.float32, (rows, columns), (whole, columns), (at, 0), None,
                         replica, **more)


def by_hand(make, sizes, more):
    return collection_from_sharded({"model": make(dist.get_rank())}, sizes=sizes, **more).text()


def refused(ranks, make, sizes, **more):
    with pytest.raises(scalai.InvalidError) as caught:
        on_ranks(ranks, by_hand, make, sizes, more)
    return str(caught.value)


def test_parts_that_are_not_equal_are_explicit():
    rows = [3, 1, 2, 4]
    collection = scalai.Collection.parse(on_ranks(
        4, by_hand, lambda rank: [shard("w", rows[rank], sum(rows[:rank]), 10)], {"tp": 2, "dp": 2}, {})[0])
    assert [collection.boxes("w", rank)[0][0] for rank in range(4)] == [(0, 3), (3, 4), (4, 6), (6, 10)]
    assert "EXPLICIT" in collection.text() and "tp+dp" in collection.text()


def test_axes_in_another_order_than_that_of_the_mesh():
    """FSDP2 over tensor parallelism: tp is the slow one."""
    at = [0, 4, 2, 6]
    text = on_ranks(4, by_hand, lambda rank: [shard("w", 2, at[rank], 8)], {"tp": 2, "dp": 2}, {})[0]
    collection = scalai.Collection.parse(text)
    assert [collection.boxes("w", rank)[0][0] for rank in range(4)] == [(0, 2), (4, 6), (2, 4), (6, 8)]
    assert "EXPLICIT" not in text


def test_padding_of_the_vocabulary_never_travels():
    def padded(rank):
        rows = {1: 64, 2: 32, 3: 24}[dist.get_world_size()]
        return [shard("e", rows, rank * rows, dist.get_world_size() * rows, allow_shape_mismatch=True)]

    collections = [scalai.Collection.parse(on_ranks(ranks, by_hand, padded, {"tp": ranks}, {"vocabulary": 50})[0])
                   for ranks in (1, 2, 3)]
    assert [one.tensors[0]["shape"] for one in collections] == [(50, 3)] * 3
    assert [collections[2].boxes("e", rank)[0][0] for rank in range(3)] == [(0, 24), (24, 48), (48, 50)]
    for old in collections:
        for new in collections:
            scalai.plan(old, new).verify()


@pytest.mark.parametrize("make,text", [
    (lambda rank: [shard("w", 2, 0, 2)], r'"w" \[0:2, 0:3\] is the main replica of 2 of the ranks \[0, 1\]: two tensors'),
    (lambda rank: [shard("w", 2, 0, 2, replica=1)], "nobody would save it"),
    (lambda rank: [shard("w", 2, 3 * rank, 5)], "has a gap or an overlap at 2 of dimension 0, cut over tp"),
    (lambda rank: [shard("w", 2, 2 * rank, 5)], "ends at 4 of 5 in dimension 0"),
    (lambda rank: [shard("w", 2, 1, 3, replica=rank)], "has a gap or an overlap at 0 of dimension 0, cut over nothing"),
    (lambda rank: [shard("w", 2, 2 * rank, 4 + rank)], r'"w" has shape \[4, 3\] on rank 0, \[5, 3\] on rank 1'),
    (lambda rank: [shard("w", 2, 2 * rank, 4), shard("w", 2, 2 * rank, 4)], '"w" on rank 0 is there twice'),
    (lambda rank: [ShardedObject("rng", [1, 2], (1,), (0,))], '"rng" on rank 0 is a list, no tensor; .*ignore='),
    (lambda rank: {"param_state": {0: shard("b", 2, 0, 2)}, "param_state_sharding_type": "dp_reshardable"},
     'distributed optimizer as "dp_reshardable", .*give optimizer='),
    (lambda rank: {"common_step": torch.tensor(rank)}, '"model.common_step" has value 0.0 on rank 0, 1.0 on rank 1'),
])
def test_what_cannot_be_told_apart_from_a_mistake_is_refused(make, text):
    found = refused(2, make, {"tp": 2})
    assert re.search(text, found), found


def test_other_refusals():
    three = refused(4, lambda rank: [shard("w", 2, 0, 2, replica=rank)] if rank < 3 else [], {"tp": 2, "dp": 2})
    assert "is held by the ranks [0, 1, 2], which are no block of the mesh" in three
    many = refused(2, lambda rank: [ShardedObject(f"state{i}", 1, (1,), (0,)) for i in range(15)], {"tp": 2})
    assert many.endswith("… and 10 more") and '"state14" on rank 0' in many and '"state4" on rank 1' in many
    padded = refused(2, lambda rank: [shard("w", 4, 0, 4, replica=rank, allow_shape_mismatch=True)], {"dp": 2}, vocabulary=3)
    assert '"w" has a padded vocabulary, which takes one even cut of dimension 0' in padded
    assert "those of 3 ranks; the job has 2" in refused(2, lambda rank: [], {"tp": 3})
    with pytest.raises(scalai.InvalidError, match="parallel groups are not initialized"):
        on_ranks(1, lambda: collection_from_sharded({}))
    odd = lambda rank: [ShardedTensorFactory("w", torch.zeros(4, 3), lambda key, data, *_: [  # noqa: E731
        ShardedTensor.from_rank_offsets(key, data[i::2].clone(), (0, i, 2)) for i in range(2)], None)]
    assert "2 pieces here that do not lie one after the other in memory" in refused(1, odd, {"tp": 1})


def test_what_is_no_state_is_left_out():
    def make(rank):
        return [shard("w", 2, 2 * rank, 4), ShardedObject("layer._extra_state", None, (1,), (0,)),
                ShardedObject("rng", [1], (1,), (0,)), {"lr": 1e-3}]

    collection = scalai.Collection.parse(on_ranks(2, by_hand, make, {"tp": 2}, {"ignore": ["r?g"]})[0])
    assert [tensor["name"] for tensor in collection.tensors] == ["w"]


def before_a_step(options):
    _, model, optimizer = build(**options)
    return collection_from_sharded(model.module.sharded_state_dict(), optimizer)


def test_optimizers_without_state_are_refused():
    for options in ({}, {"distributed": True}):
        with pytest.raises(scalai.InvalidError, match="has no state .*yet; take a step first"):
            on_ranks(1, before_a_step, options)


def random_states():
    build(tp=2, pp=1)
    found = []
    for number in (5, 5, 6):
        scalai.megatron.seed(number << 33 | number)
        found.append({name: state.clone() for name, state in tensor_parallel.get_cuda_rng_tracker().get_states().items()})
        with tensor_parallel.get_cuda_rng_tracker().fork():
            torch.rand(3)
    return found


def test_random_states_follow_from_the_seed():
    ranks = on_ranks(2, random_states)
    for first, again, other in ranks:
        assert first.keys() == again.keys() and all(torch.equal(state, again[name]) for name, state in first.items())
        assert not any(torch.equal(state, other[name]) for name, state in first.items())
    alike = {name for name in ranks[0][0] if torch.equal(ranks[0][0][name], ranks[1][0][name])}
    assert "data-parallel-rng" in alike and "model-parallel-rng" not in alike


def test_the_gradient_scaler_is_an_object():
    """Its count of good steps is no tensor, and its scale is another tensor after every change."""
    def made():
        scaler = DynamicGradScaler(16.0, 1.0, 2.0, 0.5, 3, 2)
        return scaler, Objects(scalai.megatron.objects_of(
            types.SimpleNamespace(chained_optimizers=[types.SimpleNamespace(grad_scaler=scaler)] * 2), {"mine": scaler}))

    old, objects = made()
    assert [one.name for one in objects.tensors] == ["objects.grad_scaler.0", "objects.mine"]
    for overflow in (False, False, False, False, True):
        old.update(overflow)
    objects.write()
    new, others = made()
    for mine, theirs in zip(objects.tensors, others.tensors):
        theirs.tensor.copy_(mine.tensor)
    others.read()
    assert float(new.scale) == 32.0 and new.state_dict() == old.state_dict()
    assert old.state_dict()["hysteresis_tracker"] == 1
