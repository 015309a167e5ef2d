#!/usr/bin/env python3
"""torch checkpoints to safetensors. Needs torch (2.1 or newer) and nothing else.

    torch_to_safetensors.py model.pt model.safetensors              a file of torch.save
    torch_to_safetensors.py HF_DIR OUT_DIR                          pytorch_model*.bin, the index and *.json go along
    torch_to_safetensors.py ITER_DIR OUT_DIR [--tp=4 --pp=2]        Megatron's mp_rank_XX[_YYY[_ZZZ]]/model_optim_rng.pt
    torch_to_safetensors.py DCP_DIR model.safetensors               a folder of torch.distributed.checkpoint

Nested dicts become names with dots. README.md says more. Exit codes: 0 done, 2 command line, 3 a checkpoint that cannot
be converted, 4 torch or a file is missing, 5 failed while writing.
"""

import argparse
import ctypes
import dataclasses
import enum
import glob
import importlib
import io
import json
import os
import pickle
import re
import shutil
import struct
import sys
import warnings

try:
    import torch
except ImportError:
    print("torch_to_safetensors.py: torch is missing (pip install torch)", file=sys.stderr)
    sys.exit(4)

# By the names that torch gives them; older ones lack some.
DTYPES = {"uint64": "U64", "int64": "I64", "float64": "F64", "float32": "F32", "uint32": "U32", "int32": "I32",
          "bfloat16": "BF16", "float16": "F16", "uint16": "U16", "int16": "I16", "float8_e4m3fn": "F8_E4M3",
          "float8_e5m2": "F8_E5M2", "int8": "I8", "uint8": "U8", "bool": "BOOL"}
DTYPE_NAMES = {getattr(torch, name): stored for name, stored in DTYPES.items() if hasattr(torch, name)}
ORDER = list(DTYPES.values())  # of tensors in a file: the format's own order
MOST_HEADER_BYTES = 100_000_000
PIECE_BYTES = 16 << 20


class Problem(Exception):
    """What the user has to know; `code` is the exit code."""

    def __init__(self, message, code=3):
        super().__init__(message)
        self.code = code


# --- writing ----------------------------------------------------------------------------------------------------------

class Entry:
    """One tensor to be written: what the header says, and where it comes from."""

    def __init__(self, dtype, shape, load):
        self.dtype, self.shape, self.load = dtype, tuple(shape), load
        self.bytes = torch.empty(0, dtype=dtype).element_size()
        for extent in self.shape:
            self.bytes *= extent


def entry_of(tensor):
    return Entry(tensor.dtype, tensor.shape, lambda: tensor)


def check_tensor(name, tensor):
    """Why it cannot be written, or None."""
    if tensor.layout is not torch.strided or tensor.is_quantized:
        return f"{name}: is not a dense tensor ({tensor.layout})"
    if tensor.is_meta:
        return f"{name}: has no data (device meta)"
    if type(tensor).__name__ == "DTensor":
        return f"{name}: is a DTensor, of which this file has one share; save it with torch.distributed.checkpoint"
    if tensor.dtype not in DTYPE_NAMES:
        return f"{name}: safetensors has no {tensor.dtype}"
    return None


def header_of(entries, metadata):
    """The file's first bytes, and the names in the order of their data."""
    names = sorted(entries, key=lambda name: (ORDER.index(DTYPE_NAMES[entries[name].dtype]), name.encode()))
    header, at = {"__metadata__": metadata}, 0
    for name in names:
        if name == "__metadata__":
            raise Problem("a tensor named __metadata__ cannot be stored")
        entry = entries[name]
        header[name] = {"dtype": DTYPE_NAMES[entry.dtype], "shape": list(entry.shape),
                        "data_offsets": [at, at + entry.bytes]}
        at += entry.bytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MOST_HEADER_BYTES:
        raise Problem(f"{len(names)} tensors: the header would have {len(text)} bytes, more than the format allows")
    return struct.pack("<Q", len(text)) + text, names


def write_tensor(file, name, entry):
    tensor = entry.load().detach()
    if tensor.dtype != entry.dtype or tuple(tensor.shape) != entry.shape:
        raise Problem(f"{name}: is {tensor.dtype} {list(tensor.shape)}, announced as {entry.dtype} {list(entry.shape)}")
    tensor = tensor.cpu().resolve_conj().resolve_neg().contiguous()
    if entry.bytes == 0:
        return
    address = tensor.data_ptr()  # no numpy: it knows neither bfloat16 nor float8
    for begin in range(0, entry.bytes, PIECE_BYTES):
        count = min(PIECE_BYTES, entry.bytes - begin)
        file.write((ctypes.c_char * count).from_address(address + begin))


def write_file(path, entries):
    """Under a temporary name, flushed, then renamed: after a kill there is all of it or nothing of that name."""
    if sys.byteorder != "little":
        raise Problem("this machine is big-endian; the format is not", 4)
    header, names = header_of(entries, {"format": "pt"})
    unfinished = f"{path}.partial.{os.getpid()}"
    try:
        with open(unfinished, "wb") as file:
            file.write(header)
            for name in names:
                write_tensor(file, name, entries[name])
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
        raise


# --- state dicts ------------------------------------------------------------------------------------------------------

class Report:
    """What was left out or is worth knowing, for stderr."""

    def __init__(self):
        self.notes = []

    def left_out(self, where, name, value):
        self.notes.append(f"{where}: left out {name} ({type(value).__name__})")

    def note(self, text):
        self.notes.append(text)


def flatten(value, name, where, report, found):
    """Tensors of nested dicts and lists by dotted names into `found`; the rest is reported."""
    if isinstance(value, torch.Tensor):
        if name in found:
            raise Problem(f"{where}: two tensors would be named {name}")
        found[name] = value
    elif isinstance(value, dict) and value:
        for key, part in value.items():
            flatten(part, f"{name}.{key}" if name else str(key), where, report, found)
    elif isinstance(value, (list, tuple)) and any(isinstance(part, (torch.Tensor, dict, list)) for part in value):
        for i, part in enumerate(value):
            flatten(part, f"{name}.{i}", where, report, found)
    else:
        report.left_out(where, name or "everything", value)
    return found


def pick(value, key, where):
    for part in key.split(".") if key else []:
        if not isinstance(value, dict) or part not in value:
            has = ", ".join(map(str, value)) if isinstance(value, dict) else type(value).__name__
            raise Problem(f"{where}: has no {part} of --key={key}; it has: {has}")
        value = value[part]
    return value


def same_bytes(tensors):
    """Names of tensors that are one and the same, by the first of them."""
    first, again = {}, {}
    for name, tensor in tensors.items():
        if tensor.numel() == 0:
            continue
        key = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if key in first:
            again[name] = first[key]
        else:
            first[key] = name
    return again


def entries_of(tensors, where, args, report):
    problems = list(filter(None, (check_tensor(name, tensor) for name, tensor in tensors.items())))
    if problems:
        raise Problem("\n".join(f"{where}: {problem}" for problem in problems))
    for name, other in same_bytes(tensors).items():
        if args.drop_aliases:
            del tensors[name]
        report.note(f"{where}: {name} is {other}" + (", left out" if args.drop_aliases else ", written twice"))
    if not tensors:
        raise Problem(f"{where}: has no tensors")
    return {name: entry_of(tensor) for name, tensor in tensors.items()}


# --- reading what torch.save wrote ------------------------------------------------------------------------------------

class Placeholder:
    """Stands for an object whose class is not loaded: takes whatever a pickle does to it, and does nothing."""

    def __init__(self, *_, **__):
        pass

    def __call__(self, *_, **__):
        return self

    def __setstate__(self, _):
        pass

    def __setitem__(self, *_):
        pass

    def append(self, _):
        pass

    def extend(self, _):
        pass


REBUILDERS = {"_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_parameter", "_rebuild_parameter_with_state"}


def is_harmless(module, name):
    """What a checkpoint's tensors are made of."""
    if module == "collections":
        return name in ("OrderedDict", "defaultdict")
    if module == "torch._utils":
        return name in REBUILDERS
    if module == "torch":
        value = getattr(torch, name, None)
        return name == "Size" or isinstance(value, (torch.dtype, torch.layout, torch.memory_format))
    if module == "torch.storage":
        return name in ("UntypedStorage", "TypedStorage")
    return False


def refusing_pickle(other):
    """A pickle module that loads harmless names and hands all others to `other`."""

    class Unpickler(pickle.Unpickler):
        def find_class(self, module, name):
            return super().find_class(module, name) if is_harmless(module, name) else other(module, name)

    module = type(sys)("placeholder_pickle")
    module.__dict__.update({key: getattr(pickle, key) for key in pickle.__all__ if hasattr(pickle, key)})
    module.Unpickler = Unpickler
    module.load = lambda file, **options: Unpickler(file, **options).load()
    module.loads = lambda data, **options: Unpickler(io.BytesIO(data), **options).load()
    return module


def load_options(args):
    if args.trust:
        return {"weights_only": False}
    if args.placeholders:
        return {"weights_only": False, "pickle_module": refusing_pickle(lambda *_: Placeholder)}
    if hasattr(torch.serialization, "add_safe_globals"):
        torch.serialization.add_safe_globals([argparse.Namespace])  # Megatron's arguments; plain attributes
    return {"weights_only": True}


def load(path, args, report):
    """What torch.save wrote; tensors stay in the file until they are read, where its form allows that."""
    options = load_options(args)
    try:
        try:
            return torch.load(path, map_location="cpu", mmap=True, **options)
        except RuntimeError as error:
            if "mmap" not in str(error):
                raise
            report.note(f"{path}: of torch before 1.6, so all of it is read to memory")
            return torch.load(path, map_location="cpu", **options)
    except FileNotFoundError as error:
        raise Problem(f"{path}: {error.strerror}", 4) from error
    except pickle.UnpicklingError as error:
        reason = str(error).strip().splitlines()
        reason = next((line.strip() for line in reason if "GLOBAL" in line or "Unsupported" in line), reason[0])
        raise Problem(f"{path}: holds objects other than tensors: {reason}\n"
                      "  --placeholders reads the tensors and runs nothing of the rest; --trust runs whatever the "
                      "file says, so only for files that you trust as you trust a program") from error
    except (RuntimeError, EOFError, OSError, ValueError, AttributeError, ImportError, TypeError, KeyError) as error:
        raise Problem(f"{path}: torch cannot read it: {error}") from error


# --- the four kinds ---------------------------------------------------------------------------------------------------

def convert_file(src, dst, args, report):
    tensors = flatten(pick(load(src, args, report), args.key, src), "", src, report, {})
    entries = entries_of(tensors, src, args, report)
    write_file(dst, entries)
    return len(entries)


def convert_hugging_face(src, dst, args, report):
    files = sorted(glob.glob(os.path.join(src, "pytorch_model*.bin")))
    index, count = {}, 0
    for path in files:
        name = re.sub(r"^pytorch_model(.*)\.bin$", r"model\1.safetensors", os.path.basename(path))
        tensors = flatten(load(path, args, report), "", path, report, {})
        twice = sorted(tensors.keys() & index.keys())
        if twice:
            raise Problem(f"{path}: {twice[0]} is in {index[twice[0]][0]} as well")
        entries = entries_of(tensors, path, args, report)
        index.update({tensor: (name, entry.bytes) for tensor, entry in entries.items()})
        write_file(os.path.join(dst, name), entries)
        count += len(entries)
    if len(files) > 1:
        text = {"metadata": {"total_size": sum(size for _, size in index.values())},
                "weight_map": {tensor: name for tensor, (name, _) in index.items()}}
        with open(os.path.join(dst, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
            file.write(json.dumps(text, indent=2, sort_keys=True) + "\n")
    for path in glob.glob(os.path.join(src, "*.json")):
        if not path.endswith(".bin.index.json"):
            shutil.copy(path, dst)
    return count


RANK_FOLDER = re.compile(r"^mp_rank_(\d{2,})(?:_(\d{3,}))?(?:_(\d{3,}))?$")


def megatron_files(folder, args):
    """{(tp, pp, ep): file}, complete, and the sizes of the three."""
    found = {}
    for name in sorted(os.listdir(folder)):
        match = RANK_FOLDER.match(name)
        if not match:
            continue
        # Without pipeline stages the second number, if any, is the expert rank only when --pp=1 says so.
        tp, second, third = (int(part) if part else 0 for part in match.groups())
        place = (tp, 0, second) if args.pp == 1 and third == 0 and second else (tp, second, third)
        if place in found:
            raise Problem(f"{folder}: {name} and {found[place]} are the same rank")
        found[place] = name
    sizes = [max(place[i] for place in found) + 1 for i in range(3)]
    for i, (option, given) in enumerate((("--tp", args.tp), ("--pp", args.pp))):
        if given and given != sizes[i]:
            raise Problem(f"{folder}: has {sizes[i]} ranks where {option}={given} says {given}")
    missing = [(tp, pp, ep) for pp in range(sizes[1]) for ep in range(sizes[2]) for tp in range(sizes[0])
               if (tp, pp, ep) not in found]
    if missing:
        raise Problem("\n".join(f"{folder}: no folder for tp {tp}, pp {pp}, ep {ep}" for tp, pp, ep in missing))
    return found, sizes


def megatron_model(state, path, report):
    """Weights of a rank by Megatron's names; those of virtual stages begin with model0., model1., …"""
    chunks = [key for key in state if re.match(r"^model\d*$", str(key))] if isinstance(state, dict) else []
    if not chunks:
        raise Problem(f"{path}: has no \"model\"; is it a checkpoint of Megatron?")
    tensors = {}
    for key, value in state.items():
        if key not in chunks:
            report.left_out(path, key, value)
            continue
        flatten(value, "" if key == "model" else key, path, report, tensors)
    for name in [name for name in tensors if name.endswith("_extra_state")]:
        report.left_out(path, name, tensors.pop(name))
    return tensors


def convert_megatron(src, dst, args, report):
    found, (tp_size, _, ep_size) = megatron_files(src, args)
    count = 0
    for (tp, pp, ep), name in sorted(found.items(), key=lambda item: item[1]):
        paths = [os.path.join(src, name, file) for file in ("model_optim_rng.pt", "model_rng.pt")]
        path = next(filter(os.path.exists, paths), paths[0])
        rank = tp + tp_size * (ep + ep_size * pp)
        entries = entries_of(megatron_model(load(path, args, report), path, report), path, args, report)
        write_file(os.path.join(dst, f"rank_{rank:03d}.safetensors"), entries)
        count += len(entries)
    return count


def refuse_in_metadata(folder):
    """Of DCP's own it takes plain data (dataclasses and enumerations), of others nothing."""

    def find(module, name):
        of_dcp = module.startswith("torch.distributed.checkpoint.")
        others = (("builtins", "set"), ("datetime", "datetime"), ("torch.serialization", "_get_layout"),
                  ("pathlib", "PosixPath"), ("pathlib", "WindowsPath"),
                  ("torch.distributed._shard.sharded_tensor.metadata", "TensorProperties"),
                  ("torch.distributed._shard.sharded_tensor.metadata", "MEM_FORMAT_ENCODING"))
        if of_dcp or (module, name) in others:
            value = getattr(importlib.import_module(module), name, None)
            if not of_dcp or isinstance(value, enum.EnumMeta) or dataclasses.is_dataclass(value):
                return value
        raise Problem(f"{folder}/.metadata: holds a {module}.{name}, which is no part of a checkpoint's description; "
                      "--trust runs whatever the file says")

    return find


def load_metadata(folder):
    path = os.path.join(folder, ".metadata")
    try:
        with open(path, "rb") as file:
            return refusing_pickle(refuse_in_metadata(folder)).load(file)
    except (pickle.UnpicklingError, EOFError, ImportError, AttributeError, TypeError, ValueError, IndexError) as error:
        raise Problem(f"{path}: is not what this torch writes: {error}") from error


def dcp_reader(folder, args):
    from torch.distributed.checkpoint import FileSystemReader

    class Reader(FileSystemReader):
        kept = None  # it is asked for once a tensor, and large

        def read_metadata(self, *positional, **named):
            if self.kept is None and args.trust:
                self.kept = super().read_metadata(*positional, **named)
            if self.kept is None:
                self.kept = load_metadata(folder)
            if getattr(self.kept, "storage_meta", None) is not None:
                self.kept.storage_meta.load_id = self.load_id
            return self.kept

    return Reader(folder)


def load_dcp(reader, name, meta):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.api import CheckpointException
    state = {name: torch.empty(tuple(meta.size), dtype=meta.properties.dtype)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no process group
        try:
            dcp.load(state, storage_reader=reader)
        except CheckpointException as error:  # no Exception; holds those of its readers, by rank
            reasons = "; ".join(str(wrapped[0]).strip() for wrapped in error.failures.values())
            raise Problem(f"{reader.path}: {name}: torch cannot read it: {reasons}") from error
        except (RuntimeError, OSError, ValueError) as error:
            raise Problem(f"{reader.path}: {name}: torch cannot read it: {error}") from error
    return state[name]


def convert_dcp(src, dst, args, report):
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    entries, problems = {}, []
    prefix = args.key + "." if args.key else ""
    reader = dcp_reader(src, args)
    for name, meta in reader.read_metadata().state_dict_metadata.items():
        if not isinstance(meta, TensorStorageMetadata):
            report.left_out(src, name, meta)
        elif not name.startswith(prefix):
            report.note(f"{src}: left out {name} (not below {args.key})")
        elif meta.properties.dtype not in DTYPE_NAMES:
            problems.append(f"{src}: {name}: safetensors has no {meta.properties.dtype}")
        else:
            entries[name[len(prefix):]] = Entry(meta.properties.dtype, meta.size,
                                                lambda name=name, meta=meta: load_dcp(reader, name, meta))
    if problems:
        raise Problem("\n".join(problems))
    if not entries:
        raise Problem(f"{src}: has no tensors" + (f" below --key={args.key}" if args.key else ""))
    write_file(dst, entries)
    return len(entries)


# --- program ----------------------------------------------------------------------------------------------------------

def kind_of(src):
    """The converter for what is at `src`, and whether it makes a folder."""
    if os.path.isfile(src):
        return src, convert_file, False
    if not os.path.isdir(src):
        raise Problem(f"{src}: no such file or folder", 4)
    latest = os.path.join(src, "latest_checkpointed_iteration.txt")
    if os.path.exists(latest):
        with open(latest, encoding="utf-8") as file:
            step = file.read().strip()
        src = os.path.join(src, "release" if step == "release" else f"iter_{int(step):07d}")
    if os.path.exists(os.path.join(src, ".metadata")):
        return src, convert_dcp, False
    if any(map(RANK_FOLDER.match, os.listdir(src))):
        return src, convert_megatron, True
    if glob.glob(os.path.join(src, "pytorch_model*.bin")):
        return src, convert_hugging_face, True
    raise Problem(f"{src}: has none of .metadata (DCP), mp_rank_XX (Megatron), pytorch_model*.bin (Hugging Face)")


def convert(args, report):
    src, converter, makes_folder = kind_of(args.src)
    dst = args.dst.rstrip("/")
    if os.path.exists(dst) and (makes_folder or not args.force or os.path.isdir(dst)):
        raise Problem(f"{dst}: is there already" + ("" if makes_folder else " (--force replaces a file)"))
    if not makes_folder:
        return converter(src, dst, args, report)
    unfinished = f"{dst}.partial.{os.getpid()}"
    os.makedirs(unfinished)
    try:
        count = converter(src, unfinished, args, report)
        os.rename(unfinished, dst)
        return count
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def main(words=None):
    parser = argparse.ArgumentParser(description="torch checkpoints to safetensors.")
    parser.add_argument("src", help="a file of torch.save, or a folder: Hugging Face, Megatron, DCP")
    parser.add_argument("dst", help="a file, or for Hugging Face and Megatron a folder; must not be there")
    parser.add_argument("--key", default="", help="take only what is below this key, such as state_dict or model")
    parser.add_argument("--tp", type=int, help="tensor-parallel size that a Megatron folder has to have")
    parser.add_argument("--pp", type=int, help="pipeline stages that it has to have")
    parser.add_argument("--drop-aliases", action="store_true", help="write tensors with several names once")
    parser.add_argument("--placeholders", action="store_true", help="read files that hold other objects; none is made")
    parser.add_argument("--trust", action="store_true", help="run whatever the pickles in the files say")
    parser.add_argument("--force", action="store_true", help="replace the file dst")
    args = parser.parse_args(words)
    if args.trust and args.placeholders:
        parser.error("--trust and --placeholders exclude each other")
    report, code = Report(), 0
    try:
        count = convert(args, report)
        print(f"{args.dst}: {count} tensors")
    except Problem as problem:
        report.note(f"error: {problem}")
        code = problem.code
    except OSError as error:
        report.note(f"error: {error.filename or args.dst}: {error.strerror}")
        code = 5
    for note in report.notes:
        print(note, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
