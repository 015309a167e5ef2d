"""Functions over the tensors of a checkpoint, chunk by chunk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ._errors import MissingError

# Numpy's names for the elements that functions see and give.
_NUMPY = {"BOOL": "?", "U8": "u1", "I8": "i1", "I16": "<i2", "U16": "<u2", "I32": "<i4", "U32": "<u4", "F32": "<f4", "F64": "<f8",
          "I64": "<i8", "U64": "<u8"}


class Transform:
    """A function of a user as a step of ``Checkpoint(transforms=…)``; made by :func:`transform`. Calling it calls the function."""

    def __init__(self, function: Callable[..., Any], split: str, tensors: Iterable[str], dtype: str, per_row: Mapping[str, str],
                 name: str):
        self.function = function
        self.split = split
        self.tensors = [tensors] if isinstance(tensors, str) else list(tensors)
        self.outputs = [("", dtype, False), *((suffix, of, True) for suffix, of in per_row.items())]
        self.name = name or _name_of(function)
        self.text = getattr(function, "__name__", self.name)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    def run(self, tensor: str, box: list[tuple[int, int]], output: int, dtype: str, values: bytearray, into: str) -> bytes:
        """For the core: elements of a box, and which output of the function is wanted in which type."""
        numpy = _numpy()
        shape = [end - begin for begin, end in box]
        made = self.function(numpy.frombuffer(values, _NUMPY[dtype]).reshape(shape), tensor, box)
        if len(self.outputs) > 1:
            if not isinstance(made, tuple) or len(made) != len(self.outputs):
                raise TypeError(f"{self.text} has to give {len(self.outputs)} arrays, as a tuple")
            made = made[output]
        made = numpy.asarray(made)
        wanted = tuple(shape[:-1] if self.outputs[output][2] else shape)
        if made.shape != wanted:
            raise ValueError(f"{self.text} gave an array of the shape {made.shape}, {wanted} is expected")
        if numpy.dtype(_NUMPY[into]).kind != "f" and made.dtype.kind == "f":
            raise TypeError(f"{self.text} gave {made.dtype} for elements of {into}; round them and use astype")
        return made.astype(_NUMPY[into]).tobytes()


def transform(split: str, *, tensors: str | Iterable[str] = (), dtype: str = "", per_row: Mapping[str, str] | None = None,
              name: str = "") -> Callable[[Callable[..., Any]], Transform]:
    """Declares a function over chunks of tensors: a decorator.

    split    "elements": of any box, element by element; "rows": of boxes with whole rows along the last dimension
    tensors  names, in which ``*`` stands for any text; without it the parameters
    dtype    of the result, as safetensors spells it ("BF16", "I8"); without it the tensor's
    per_row  with "rows": tensors beside it with an element a row, suffix of their names → dtype: ``{"_scale": "F32"}``
    name     tells results apart, also for a killed ``reshard`` that is gone on with; without it a digest of the function's code, which
             does not see what the function refers to

    The function takes ``(values, tensor, box)``: a numpy array of its own, in float32 (float64 for F64) or the tensor's integers;
    the tensor's name; ``(begin, end)`` for each dimension. It gives an array of the same shape, and with ``per_row`` a tuple: that
    array, and for each tensor beside it one without the last dimension. Floating results are rounded once. Several threads may
    call it at once; it has to give the same whenever it is called with the same.
    """
    if split not in ("elements", "rows"):
        raise ValueError(f'"{split}" is not "elements" or "rows"')
    if per_row and split != "rows":
        raise ValueError('per_row needs split "rows"')
    _numpy()
    return lambda function: Transform(function, split, tensors, dtype, per_row or {}, name)


def _numpy() -> Any:
    try:
        import numpy
    except ImportError as error:
        raise MissingError("functions over tensors need numpy: pip install numpy") from error
    return numpy


def _name_of(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    if code is None:
        raise ValueError("a function without code of its own needs name=…")
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    given = [function.__defaults__, function.__kwdefaults__, cells]
    if not _is_plain(given):
        raise ValueError("a function with defaults or variables around it that are no numbers or texts needs name=…: runs that go on tell "
                         "functions apart by it")
    digest = hashlib.sha256(code.co_code + repr((_plain(code.co_consts), code.co_names, given)).encode()).hexdigest()[:16]
    return f"{function.__module__}.{function.__qualname__}:{digest}"


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return _is_plain([*value.items()])
    if isinstance(value, (list, tuple)):
        return all(_is_plain(one) for one in value)
    return value is None or isinstance(value, (bool, int, float, complex, str, bytes))


def _plain(constants: tuple[Any, ...]) -> tuple[Any, ...]:
    """Constants without addresses, which differ from run to run."""
    return tuple((one.co_code.hex(), _plain(one.co_consts), one.co_names) if hasattr(one, "co_code") else one for one in constants)
