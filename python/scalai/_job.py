"""A training job whose GPUs change: the side of the training process.

    job = scalai.attach()
    job.start(build, data=scalai.Sampler(samples, global_batch=512))
    while job.step < total:
        with job:                              # a step that another process cannot finish is given up, by all
            train_step(job.model, job.optimizer, next(job.data))
        job.advance()                          # a safe point: here the layout may change

The worker of this host owns the memory of the state and outlives this process. Orders come from it (_worker.py): take up
a layout, train until a step, leave.
"""

from __future__ import annotations

import contextlib
import datetime
import gc
import json
import math
import os
import random
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

from . import _core
from ._errors import FailedError, InvalidError
from ._sampling import Sampler
from ._worker import Word, Worker, open_sockets
from ._world import World, forget_meshes, number_groups_from

_GROUPS = 1 << 20  # more process groups than a layout has

Build = Callable[[World], tuple[Any, ...]]


def attach() -> Job:
    """The job that this process trains: `scalai exec --train` and `scalai launch` start one process for each device."""
    request = os.environ.pop("SCALAI_DESCRIBE", None)
    return Description(json.loads(request)) if request is not None else Job(Worker())


class Job:
    """`model`, `optimizer`, `scheduler`, `objects` are what `build` returned for the present layout, `world` is that layout,
    and `step` counts the steps done. Keep no references to the former: they are built anew when the layout changes."""

    def __init__(self, worker: Worker):
        self._worker = worker
        self._word: Word | None = None
        self._rewriting = False
        self._interrupted = ""
        self._interrupted_at = -1
        self._poisoned = False
        self._sockets: set[str] = set()  # open when the layout began
        self._framework: Any = None
        self._state: Any = None  # Rewriting, which needs PyTorch
        self._until = 0
        self._in_place: bool | None = True
        self._memory: Any = None  # of a GPU, part by part, until the layout comes
        self._copy_s = 0.0
        self._meeting: Any = None
        self._mapping: Any = None
        self._small: Any = None  # state of the objects, as tensors
        self._build: Build | None = None
        self._noted = -1  # the last step whose samples the worker knows
        self._asked: dict[str, Any] = {}
        self._share = (0, 1)
        self.step = 0
        self.model: Any = None
        self.optimizer: Any = None
        self.scheduler: Any = None
        self.objects: dict[str, Any] = {}
        self.world: World | None = None
        self.data: Sampler | None = None

    def start(self, build: Build, data: Sampler | None = None, *, data_axes: Sequence[str] = ("dp",), seed: int = 0,
              backend: str | None = None, meta: bool = True, restart: bool = False, timeout_s: float = 600,
              framework: Any = None, in_place: bool | None = None) -> None:
        """Takes up the first layout; returns when there is a step to train.

        build      makes (model, optimizer), (…, scheduler) or (…, scheduler, objects) for a World; the model is a module or
                   a list of modules, the scheduler depends on the number of steps only, or is None; objects is a dict of
                   all else that has state_dict() and load_state_dict(): a gradient scaler, a schedule that looks at the
                   loss. Their state is small, and the same on all ranks
        data       follows the job: step, and this process's share of every batch
        data_axes  the axes of the mesh along which batches are shared out
        seed       of PyTorch's and Python's random numbers, which are set for every step and share of the data
        backend    of torch.distributed; without it "gloo", with "nccl" where there is CUDA
        meta       layouts after the first are built on the meta device; False for a `build` that cannot
        restart    a layout after the first is for this program begun anew, in the same process: for a `build` that can run
                   only once. The state stays where it is
        timeout_s  after so long without an answer other processes count as gone
        framework  scalai.megatron for models and optimizers of Megatron-core; without it they are PyTorch's
        in_place   the model lies in the worker's memory. False: it is copied there about once a second, or less often if
                   that takes long; a process that dies costs the steps since. Without it True, but False with CUDA where
                   the worker's memory is not on the GPU, and with Megatron-core, whose buffers cannot be put elsewhere
        """
        from ._rewriting import Rewriting

        self._state = Rewriting()
        self._framework = framework
        if in_place and framework is not None:
            raise InvalidError("Job.start: in_place=True is for models of PyTorch's own")
        self._in_place = False if framework is not None else in_place
        if data is not None:
            data.begin()
        self._build, self.data = build, data
        gc.collect()
        gc.freeze()  # what was imported stays: every layout ends with a collection, which need not look at it
        self._data_axes, self._seed, self._meta = tuple(data_axes), seed, meta
        self._backend, self._restart, self._timeout_s = backend, restart, timeout_s
        self._obey()

    def advance(self) -> None:
        """The step is done. Waits where the worker wants it, takes up another layout, or leaves (SystemExit)."""
        if self._word is None:
            raise FailedError("Job.start comes before Job.advance")
        if not self._interrupted and not self._rewriting and (self._in_place or self.step + 1 >= self._until):
            with self:  # no optimizer has told of its step
                self._before_rewriting()
        if not self._interrupted:
            self._note_samples()
            self.step += 1
            if self._rewriting:
                began = time.monotonic()
                if not self._state.advances():
                    self._word.rewriting(self.step - 1)
                    self._small.write()
                    self._mapping.copy_out()
                    self._word.whole(self.step)
                self._copy_s = 0 if self._in_place else time.monotonic() - began
                self._rewriting = False
        if self._interrupted or self.step >= self._until:
            anew = bool(self._interrupted) and self._poisoned
            self._answer_train(self._interrupted, anew)
            if anew:
                self._worker.begin_anew(None)
            self._obey()
        self._begin_step()

    def request(self, gpus: int) -> None:
        """Asks for another number of GPUs. The layout changes at a later `advance`, if the run has one for as many."""
        if gpus < 1:
            raise InvalidError(f"Job.request: {gpus} GPUs")
        self._asked["gpus"] = gpus

    def snapshot(self) -> None:
        """Asks for a checkpoint: of the state at a later `advance`, mostly within a second. Training goes on."""
        self._asked["save"] = True

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if not isinstance(error, (RuntimeError, ConnectionError)):
            return False
        # Most likely another process is gone. If it is not, the same step fails again, and then the run.
        traceback.print_exception(kind, error, trace)
        # A fresh process would know nothing of what this one's libraries may have kept.
        self._poisoned = self._interrupted_at == self.step
        self._interrupted_at = self.step
        self._interrupted = " ".join(f"step {self.step + 1}: {type(error).__name__}: {error}".split())[:300]
        # Others that wait for this process have to hear of it: nothing may keep the connections open. Where something does
        # (gloo's last as long as anything refers to a group), this process closes them by beginning anew.
        while error is not None:
            traceback.clear_frames(error.__traceback__)
            error = error.__cause__ or error.__context__
        self._release()
        self._poisoned = self._poisoned or bool(open_sockets() - self._sockets)
        return True

    def _obey(self) -> None:
        while True:
            order = self._worker.next_order()
            if self._word is not None and (self._restart or self._poisoned) and order["do"] in ("meet", "map", "layout", "rest"):
                self._release()
                self._worker.begin_anew(order)
            if order["do"] == "meet":
                self._meet(order["world"])
            elif order["do"] == "map":
                self._map(order)
            elif order["do"] == "layout":
                self._take_up(order)
            elif order["do"] == "train":
                self._until, self._ask = order["until"], order.get("ask", False)
                if self.model is not None and self.step < self._until and not self._interrupted:
                    self._begin_step()
                    return
                problem = self._interrupted or ("" if self.model is not None else "it has no layout")
                self._answer_train(problem)
            elif order["do"] == "rest":
                self._memory = None
                self._release()
                self._worker.answer(done="rest")
            elif order["do"] == "leave":
                self._release()
                sys.exit(0)

    def _answer_train(self, problem: str, anew: bool = False) -> None:
        """With what the program asks for; `anew`: the program begins anew, and attaches once more."""
        self._worker.answer(done="train", step=self.step, problem=problem, asked=self._asked, anew=anew, copy_s=self._copy_s)
        self._asked = {}

    def _note_samples(self) -> None:
        """What is trained on in this step: number of samples, and two sums. The worker knows it although this process dies."""
        account = self.data.account(self.step) if self.data is not None and self._noted != self.step else None
        if account is not None:
            self._worker.answer(share=self._share, read=[self.step, *account])
            self._noted = self.step

    def _begin_step(self) -> None:
        """What a step draws at random depends on the step and the share of the data, not on the layout before."""
        import torch

        seed = hash((self._seed, self.step, self._share[0])) & 0x7FFFFFFFFFFFFFFF
        torch.default_generator.manual_seed(seed)  # torch.manual_seed looks for devices each time, which takes 0.8 ms
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed)
        random.seed(seed)
        if hasattr(self._framework, "seed"):
            self._framework.seed(seed)
        if self.data is not None:
            self.data.go_to(self.step)

    def _share_in(self, world: World) -> tuple[int, int]:
        """Number of this process's share of a batch, and the number of shares."""
        share, shares = 0, 1
        for axis, size in world.axes.items():
            if axis in self._data_axes:
                share, shares = share * size + world.coordinate(axis), shares * size
        return share, shares

    def _meet(self, world: int) -> None:
        import torch.distributed as dist

        self._release()
        self._meeting = dist.TCPStore("0.0.0.0", 0, world, is_master=True, wait_for_workers=False)
        self._worker.answer(done="meet", port=self._meeting.port)

    def _map(self, order: dict[str, Any]) -> None:
        """Parts of the state on a GPU. The layout that they are for comes when all are there."""
        problem = ""
        try:
            if order["first"]:
                self._release(keep_meeting=True)
                self._memory = _core.GpuMemory(order["gpu"], *order["range"])
            for (offset, count), descriptor in zip(order["parts"], order["descriptors"]):
                self._memory.map(offset, count, descriptor)
        except Exception as error:
            traceback.print_exc()
            problem = f"{type(error).__name__}: {error}"
        for descriptor in order["descriptors"]:
            os.close(descriptor)
        self._worker.answer(done="map", problem=problem)

    def _take_up(self, order: dict[str, Any]) -> None:
        _, *memory = order["descriptors"]
        order["memory"], self._memory = memory[0] if memory else self._memory, None
        try:
            began = time.monotonic()
            _check(order)
            self._release(keep_meeting=True)
            self._sockets = open_sockets()
            self._communicate(order)
            grouped = time.monotonic()
            self._build_for(order)
            built = time.monotonic()
        except Exception as error:  # of the user's code, mostly; the worker decides what to do
            traceback.print_exc()
            self._release()
            self._worker.answer(done="layout", problem=f"{type(error).__name__}: {error}")
            return
        finally:
            for descriptor in order["descriptors"]:
                os.close(descriptor)
        self._worker.answer(done="layout", group_s=grouped - began, build_s=built - grouped)

    def _communicate(self, order: dict[str, Any]) -> None:
        import torch
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh

        from ._mapping import device_of

        axes = {name: size for name, size in order["axes"]}
        world = World(axes, order["rank"], None, order["local_rank"])
        host, _, port = order["address"].rpartition(":")
        timeout = datetime.timedelta(seconds=self._timeout_s)
        if order["rank"] != 0:
            self._meeting = None
        store = self._meeting if order["rank"] == 0 else dist.TCPStore(host, int(port), world.size, timeout=timeout)
        cuda = torch.cuda.is_available()
        world.device = device_of(order["memory"])
        if cuda and world.device.type == "cpu":
            world.device = torch.device("cuda", world.local_rank % torch.cuda.device_count())
        if cuda:
            torch.cuda.set_device(world.device)
        number_groups_from(0)  # one that came to nothing has been counted, here and not in a process that is new
        dist.init_process_group(self._backend or ("cpu:gloo,cuda:nccl" if cuda else "gloo"),
                                store=dist.PrefixStore(f"version {order['version']}", store), rank=world.rank,
                                world_size=world.size, timeout=timeout)
        number_groups_from((order["version"] + 1) * _GROUPS)
        world.mesh = init_device_mesh("cuda" if cuda else "cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))
        self.world, self._share = world, self._share_in(world)

    def _build_for(self, order: dict[str, Any]) -> None:
        import torch

        from ._mapping import Mapping, device_of, left_on_meta, parts_of
        from ._objects import Objects
        from .torch import state_of

        assert self.world is not None
        fresh, device = order["fresh"], device_of(order["memory"])
        if self._in_place is None:
            self._in_place = device.type == "cuda" or not torch.cuda.is_available()
        if not self._in_place:
            device = self.world.device  # what is copied need not lie where the worker's memory does
        on_meta = self._meta and not fresh and self._in_place
        if on_meta:
            with torch.device("meta"):
                model, optimizer, scheduler, objects = self._built()
            on_meta = not left_on_meta(parts_of(model), optimizer)
        if not on_meta:
            with torch.device(device) if device.type == "cuda" else contextlib.nullcontext():
                model, optimizer, scheduler, objects = self._built()
        if self._framework is None:
            small = Objects(objects)
            self._mapping = Mapping(order)
            if self._in_place:
                self._mapping.take(parts_of(model), optimizer, small.tensors, fresh)
            else:
                self._mapping.copy(state_of(parts_of(model), optimizer) + small.tensors, fresh)
        else:
            small = Objects(self._framework.objects_of(optimizer, objects))
            self._mapping = self._framework.Copies(order, model, optimizer, small.tensors, fresh)
        self._word = Word(order["descriptors"][0], order["word"])
        self._rewriting, self._interrupted, self._noted = False, "", -1
        self.step = order["step"]
        if scheduler is not None:
            _bring_to(scheduler, self.step)
        if not fresh:
            small.read()
        if self._in_place and hasattr(optimizer, "register_step_pre_hook"):
            self._state.take([one.local for one in state_of(parts_of(model), optimizer)], not small.tensors)
            optimizer.register_step_pre_hook(self._before_rewriting)
            optimizer.register_step_post_hook(self._after_rewriting)
        if self.data is not None:
            self.data.go_to(self.step)
            self.data.reshape(*self._share)
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self.objects, self._small = dict(objects or {}), small

    def _built(self) -> tuple[Any, Any, Any, Any]:
        from .torch import whole_result

        assert self._build is not None
        return whole_result(self._build(self.world))

    def _before_rewriting(self, *_: Any) -> None:
        """All processes rewrite their state, or none: whoever cannot come this far leaves the others at the old step."""
        import torch.distributed as dist

        self._state.calls()
        assert self._word is not None
        if self._rewriting:  # another call of the same step
            self._word.rewriting(self.step)
            return
        dist.barrier()
        if self._ask:  # somebody reads the state as it is
            self._ask = False
            self._worker.answer(done="rewriting")
            self._worker.next_order()
        self._note_samples()
        self._rewriting = True
        self._word.rewriting(self.step)

    def _after_rewriting(self, *_: Any) -> None:
        if self._state.returns():
            assert self._word is not None
            self._mapping.copy_out()
            self._word.whole(self.step + 1)

    def _release(self, keep_meeting: bool = False) -> None:
        """Lets go of the layout: model, mapped memory, communication."""
        import torch.distributed as dist

        self.model = self.optimizer = self.scheduler = self._mapping = self._small = self.world = None
        self.objects = {}
        if not keep_meeting:
            self._meeting = None
        if self._framework is not None:
            self._framework.release()
        forget_meshes()
        gc.collect()
        if dist.is_initialized():
            dist.destroy_process_group()


class Description(Job):
    """In place of a job: `start` writes down what the state would be in each layout, and ends the program."""

    def __init__(self, request: dict[str, Any]):
        self._request = request

    def start(self, build: Build, data: Sampler | None = None, *, framework: Any = None, **options: Any) -> None:
        if framework is None:
            from . import torch as framework

        if data is not None:
            data.begin()
        for layout in self._request["layouts"]:
            framework.collection_for(build, dict(layout["axes"])).save(f"{self._request['folder']}/{layout['name']}.textproto")
        with open(f"{self._request['folder']}/job.json", "w", encoding="utf-8") as file:
            json.dump({"data": data.state_dict() if data is not None else None}, file)
        sys.exit(0)


def _check(order: dict[str, Any]) -> None:
    """Numbers of a layout order that nothing behind it checks."""
    ranks = math.prod(size for _, size in order["axes"])
    if not 0 <= order["step"] <= _core.most_steps or not 0 <= order["rank"] < ranks:
        raise InvalidError(f"the worker orders step {order['step']} as rank {order['rank']} of {ranks}")


def _bring_to(scheduler: Any, step: int) -> None:
    """A schedule is a function of the step, so it is run again to here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "lr_scheduler.step() before optimizer.step()"
        for one in scheduler if isinstance(scheduler, Iterable) else (scheduler,):
            for _ in range(step):
                one.step()


