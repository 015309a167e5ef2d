"""safetensors files with the standard library alone, by the published format, so that these scripts share no code with
what they test: u64 little-endian N, N bytes of JSON padded with blanks, then the tensors' bytes."""

import json
import struct
from collections import namedtuple

# data: bytes, dense and row-major.
Tensor = namedtuple("Tensor", "dtype shape data")

# Wide types first: the format's own order, highest first.
ORDER = ["U64", "I64", "F64", "F32", "U32", "I32", "BF16", "F16", "U16", "I16", "F8_E4M3", "F8_E5M2", "I8", "U8",
         "BOOL"]
ITEM_BYTES = {"U64": 8, "I64": 8, "F64": 8, "F32": 4, "U32": 4, "I32": 4, "BF16": 2, "F16": 2, "U16": 2, "I16": 2,
              "F8_E4M3": 1, "F8_E5M2": 1, "I8": 1, "U8": 1, "BOOL": 1}


def elements(shape):
    count = 1
    for extent in shape:
        count *= extent
    return count


def write(path, tensors, metadata=None):
    """Writes {name: Tensor} as the reference writer does: by dtype, then by name."""
    header = {"__metadata__": metadata} if metadata else {}
    names = sorted(tensors, key=lambda name: (ORDER.index(tensors[name].dtype), name.encode()))
    at = 0
    for name in names:
        tensor = tensors[name]
        assert len(tensor.data) == elements(tensor.shape) * ITEM_BYTES[tensor.dtype], name
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [at, at + len(tensor.data)]}
        at += len(tensor.data)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            file.write(tensors[name].data)


def read(path):
    """{name: Tensor} and the metadata."""
    with open(path, "rb") as file:
        blob = file.read()
    (size,) = struct.unpack("<Q", blob[:8])
    header = json.loads(blob[8:8 + size])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = Tensor(entry["dtype"], tuple(entry["shape"]), blob[8 + size + begin:8 + size + end])
    return tensors, metadata
