#!/usr/bin/env python3
"""The reference library on files of ours, and its files for us. Needs PyPI's safetensors, with numpy or torch.

    pypi.py check DIR...           reads every safetensors file, compares with the plain reader
    pypi.py rewrite HF_DIR OUT     reads it and writes it again, one file a file, with metadata {"format": "pt"}
    pypi.py torch_bin HF_DIR OUT   as pytorch_model*.bin of torch.save (needs torch)

Numpy is used unless torch is installed; numpy knows no bfloat16, and says so.
"""

import glob
import os
import shutil
import sys

from plain_safetensors import read

try:
    import torch
except ImportError:
    torch = None


def library():
    if torch is not None:
        from safetensors import torch as module
    else:
        from safetensors import numpy as module
    return module


def raw(value):
    if torch is None:
        return value.tobytes()
    import ctypes
    value = value.contiguous()
    return ctypes.string_at(value.data_ptr(), value.numel() * value.element_size()) if value.numel() else b""


def files_of(folder):
    files = sorted(glob.glob(os.path.join(folder, "*.safetensors")))
    assert files, f"{folder}: no files"
    return files


def check(folders):
    count = 0
    for path in (path for folder in folders for path in files_of(folder)):
        plain, _ = read(path)
        found = library().load_file(path)
        assert found.keys() == plain.keys(), path
        for name, value in found.items():
            assert tuple(value.shape) == plain[name].shape, (path, name, value.shape)
            assert raw(value) == plain[name].data, (path, name)
        count += len(plain)
    print(f"{count} tensors read by {library().__name__}")


def copy_rest(src, out):
    os.makedirs(out, exist_ok=True)
    for path in glob.glob(os.path.join(src, "*.json")):
        shutil.copy(path, out)


def rewrite(src, out):
    copy_rest(src, out)
    for path in files_of(src):
        library().save_file(library().load_file(path), os.path.join(out, os.path.basename(path)), {"format": "pt"})


def torch_bin(src, out):
    dtypes = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
    copy_rest(src, out)
    for path in files_of(src):
        tensors = {name: torch.frombuffer(bytearray(tensor.data), dtype=dtypes[tensor.dtype]).reshape(tensor.shape)
                   for name, tensor in read(path)[0].items()}
        name = os.path.basename(path).replace("model", "pytorch_model").replace(".safetensors", ".bin")
        torch.save(tensors, os.path.join(out, name))


def main():
    command, words = sys.argv[1], sys.argv[2:]
    if command == "check":
        check(words)
    else:
        {"rewrite": rewrite, "torch_bin": torch_bin}[command](*words)


if __name__ == "__main__":
    main()
