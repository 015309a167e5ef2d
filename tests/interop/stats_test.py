#!/usr/bin/env python3
"""`scalai checkpoint stats` against numpy: random tensors of every type, with zeros, NaN and infinities, and a later checkpoint.

    stats_test.py SCALAI [SEED]
"""

import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
NUMPY = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U8": np.uint8,
         "BOOL": np.uint8}


def e4m3(code):
    sign, exponent, fraction = -1.0 if code & 128 else 1.0, (code >> 3) & 15, code & 7
    if exponent == 15 and fraction == 7:
        return math.nan
    return sign * (math.ldexp(fraction, -9) if exponent == 0 else math.ldexp(8 + fraction, exponent - 10))


def values_of(dtype, raw):
    """As doubles, by numpy or by the type's definition."""
    if dtype == "BF16":
        return (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype == "F8_E5M2":
        return (np.frombuffer(raw, np.uint8).astype(np.uint16) << 8).view(np.float16).astype(np.float64)
    if dtype == "F8_E4M3":
        return np.array([e4m3(code) for code in raw], np.float64)
    return np.frombuffer(raw, NUMPY[dtype]).astype(np.float64)


def random_bytes(source, dtype, count):
    if dtype == "BOOL":
        return bytes(source.getrandbits(1) for _ in range(count))
    if dtype in ("F64", "F32", "F16") and source.random() < 0.7:
        numbers = np.array([source.gauss(0, 10.0 ** source.randrange(-4, 4)) for _ in range(count)])
        for special in (0.0, -0.0, math.nan, math.inf, -math.inf):
            numbers[source.randrange(count)] = special
        return numbers.astype(NUMPY[dtype]).tobytes()
    raw = bytearray(source.randbytes(count * SIZES[dtype]))
    if dtype == "F64":  # squares are in the range of double
        for at in range(7, len(raw), 8):
            raw[at] = raw[at] & 0x80 | 0x3F
    if dtype in ("I64",):  # exactly a double
        for at in range(7, len(raw), 8):
            raw[at] = raw[at - 1] = 0
    return bytes(raw)


def write(path, tensors):
    header, at = {}, 0
    for name, (dtype, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": [len(raw) // SIZES[dtype]], "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(raw for _, raw in tensors.values()))


def close(ours, exact, what):
    assert math.isclose(ours, exact, rel_tol=1e-12, abs_tol=1e-300), f"{what}: {ours} is not {exact}"


def check(one, values, before):
    name, finite = one["name"], values[np.isfinite(values)]
    assert one["elements"] == len(values), name
    assert one["nan"] == np.isnan(values).sum() and one["inf"] == np.isinf(values).sum(), name
    assert one["zeros"] == (values == 0).sum(), name
    if len(finite):
        assert one["min"] == finite.min() and one["max"] == finite.max(), name
        squares = math.fsum(x * x for x in finite)
        close(one["norm"], math.sqrt(squares), name + " norm")
        assert abs(one["mean"] - math.fsum(finite) / len(finite)) <= 1e-13 * math.fsum(abs(finite)) / len(finite), name
    powers, counts = np.unique(np.clip(np.frexp(np.abs(finite[finite != 0]))[1] - 1, -127, 127), return_counts=True)
    assert one["magnitudes"] == [[int(p), int(c)] for p, c in zip(powers, counts)], name
    differs = ~((values == before) | (np.isnan(values) & np.isnan(before)))
    numbers = differs & np.isfinite(values) & np.isfinite(before)
    change = one["change"]
    assert change["changed"] == differs.sum() and change["no_number"] == (differs & ~numbers).sum(), name
    gaps = np.abs(values[numbers] - before[numbers])
    close(change["norm"], math.sqrt(math.fsum(x * x for x in gaps)), name + " change")
    assert change["largest"] == (gaps.max() if len(gaps) else 0), name


def main():
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    source = random.Random(seed)
    np.seterr(invalid="ignore")  # signalling NaN
    old, new = {}, {}
    for dtype, size in SIZES.items():
        for length in (1 + source.randrange(20), 3000 + source.randrange(3000)):
            raw = bytearray(random_bytes(source, dtype, length))
            old[f"{dtype}.{length}"] = (dtype, bytes(raw))
            for _ in range(length // 10):
                at = source.randrange(length) * size
                raw[at:at + size] = random_bytes(source, dtype, 64)[:size]
            new[f"{dtype}.{length}"] = (dtype, bytes(raw))
    with tempfile.TemporaryDirectory() as folder:
        for name, tensors in ("old", old), ("new", new):
            write(pathlib.Path(folder, name + ".safetensors"), tensors)
        said = subprocess.run([sys.argv[1], "checkpoint", "stats", f"{folder}/new.safetensors", f"--since={folder}/old.safetensors", "--format=json"],
                              check=True, capture_output=True, text=True).stdout
    tensors = json.loads(said)["tensors"]
    assert len(tensors) == len(new), len(tensors)
    for one in tensors:
        dtype = one["name"].split(".")[0]
        check(one, values_of(dtype, new[one["name"]][1]), values_of(dtype, old[one["name"]][1]))
    print(len(tensors), "tensors are as numpy has them")


if __name__ == "__main__":
    main()
