"""State that is small and no tensor: of gradient scalers, of schedules that look at the loss. As text, in a tensor of its
own, it goes where the model's state goes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch

from ._errors import InvalidError
from .torch import LocalTensor, raise_problems

_ROOM = 4096           # bytes of a text, or four times what it begins with
_MOST_ELEMENTS = 1024  # of a tensor within
_TENSOR = "scalai.tensor"


class Objects:
    """What has state_dict() and load_state_dict(), by name. The state is the same on all ranks."""

    def __init__(self, objects: Mapping[str, Any] | None):
        self._objects = dict(objects or {})
        problems = [f'object "{name}" is a {type(one).__name__}, without state_dict and load_state_dict'
                    for name, one in self._objects.items()
                    if not hasattr(one, "state_dict") or not hasattr(one, "load_state_dict")]
        raise_problems(problems)
        self.tensors: list[LocalTensor] = []
        for name, one in self._objects.items():
            text = _text_of(name, one)
            room = max(_ROOM, 1 << (4 * len(text) - 1).bit_length())
            self.tensors.append(LocalTensor(f"objects.{name}", "BUFFER", _padded(text, room)))

    def write(self) -> None:
        """The tensors get the state of the objects."""
        for (name, one), local in zip(self._objects.items(), self.tensors):
            text, room = _text_of(name, one), local.tensor.numel()
            if len(text) > room:
                raise InvalidError(f'the state of object "{name}" has grown to {len(text)} bytes; {room} is what it has room for')
            local.tensor.copy_(_padded(text, room))

    def read(self) -> None:
        """The objects get the state in the tensors."""
        for one, local in zip(self._objects.values(), self.tensors):
            one.load_state_dict(_decoded(json.loads(bytes(local.tensor.tolist()))))
            # A schedule of PyTorch restores itself, and leaves the rates to the optimizer's state_dict.
            if hasattr(one, "get_last_lr") and hasattr(one, "optimizer"):
                for group, rate in zip(one.optimizer.param_groups, one.get_last_lr()):
                    group["lr"] = rate


def _padded(text: bytes, room: int) -> torch.Tensor:
    with torch.device("cpu"):  # also where the model is built on the meta device
        return torch.frombuffer(bytearray(text.ljust(room)), dtype=torch.uint8)


def _text_of(name: str, one: Any) -> bytes:
    try:
        return json.dumps(_encoded(one.state_dict())).encode()
    except (TypeError, ValueError) as problem:
        raise InvalidError(f'the state of object "{name}" ({type(one).__name__}) has {problem}; it can hold numbers, texts, '
                           f"lists, dicts with texts as keys and tensors of up to {_MOST_ELEMENTS} elements") from None


def _encoded(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [_encoded(one) for one in value]
    if isinstance(value, torch.Tensor):
        if value.numel() > _MOST_ELEMENTS or value.is_complex():
            raise ValueError(f"a tensor {value.dtype} {list(value.shape)}")
        return {_TENSOR: str(value.dtype).removeprefix("torch."), "shape": list(value.shape),
                "values": value.detach().flatten().tolist()}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"a key {key!r}")
        return {key: _encoded(one) for key, one in value.items()}
    raise TypeError(f"a {type(value).__name__}")


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(one) for one in value]
    if not isinstance(value, dict):
        return value
    if _TENSOR in value:
        with torch.device("cpu"):
            return torch.tensor(value["values"], dtype=getattr(torch, value[_TENSOR])).view(value["shape"])
    return {key: _decoded(one) for key, one in value.items()}
