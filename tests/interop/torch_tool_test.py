#!/usr/bin/env python3
"""Tests of ptc/store/tools/torch_to_safetensors.py: needs torch, and nothing else.

    torch_tool_test.py [-v] [TESTS]
"""

import argparse
import contextlib
import ctypes
import errno
import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
import warnings
from collections import OrderedDict
from unittest import mock

import torch

from plain_safetensors import read

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../ptc/store/tools"))
import torch_to_safetensors as tool  # noqa: E402

DTYPES = {"uint64": "U64", "int64": "I64", "float64": "F64", "float32": "F32", "uint32": "U32", "int32": "I32",
          "bfloat16": "BF16", "float16": "F16", "uint16": "U16", "int16": "I16", "float8_e4m3fn": "F8_E4M3",
          "float8_e5m2": "F8_E5M2", "int8": "I8", "uint8": "U8", "bool": "BOOL"}


def raw(tensor):
    tensor = tensor.detach().contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()) if tensor.numel() else b""


class Dangerous:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


class ToolTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        torch.manual_seed(3)

    def path(self, *parts):
        path = os.path.join(self.folder, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def run_tool(self, *words, code=0):
        said = io.StringIO()  # in this process: importing torch takes seconds
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            self.assertEqual(tool.main(list(words)), code, said.getvalue())
        left = [name for _, folders, files in os.walk(self.folder) for name in folders + files if ".partial." in name]
        self.assertEqual(left, [])
        return said.getvalue()

    def check(self, path, expected):
        found, metadata = read(path)
        self.assertEqual(metadata, {"format": "pt"})
        self.assertEqual(found.keys(), expected.keys())
        for name, tensor in expected.items():
            self.assertEqual(found[name].dtype, DTYPES[str(tensor.dtype)[len("torch."):]], name)
            self.assertEqual(found[name].shape, tuple(tensor.shape), name)
            self.assertEqual(found[name].data, raw(tensor), name)

    def test_all_dtypes_shapes_and_strides(self):
        state = OrderedDict()
        for name in DTYPES:
            if hasattr(torch, name):
                state[name] = torch.randint(0, 2, (3, 5)).to(getattr(torch, name))
        state["turned"] = torch.randn(4, 7).t()
        state["scalar"] = torch.tensor(2.5)
        state["empty"] = torch.empty(0, 3)
        state["wärme"] = torch.nn.Parameter(torch.randn(2))
        torch.save(state, self.path("a.pt"))
        self.run_tool(self.path("a.pt"), self.path("a.safetensors"))
        self.check(self.path("a.safetensors"), state)
        try:
            from safetensors.torch import load_file, save_file
        except ImportError:
            return
        loaded = load_file(self.path("a.safetensors"))
        for name, tensor in state.items():
            self.assertEqual(raw(loaded[name]), raw(tensor), name)
        save_file({name: tensor.contiguous() for name, tensor in state.items()}, self.path("b"), {"format": "pt"})
        with open(self.path("a.safetensors"), "rb") as ours, open(self.path("b"), "rb") as theirs:
            self.assertEqual(ours.read(), theirs.read(), "not the bytes of the reference writer")

    def test_as_a_program(self):
        tensor = torch.randn(3)
        torch.save({"w": tensor}, self.path("a.pt"))
        words = [sys.executable, tool.__file__, self.path("a.pt"), self.path("a")]
        done = subprocess.run(words, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, f"{self.path('a')}: 1 tensors\n"), done.stderr)
        self.check(self.path("a"), {"w": tensor})
        self.assertEqual(subprocess.run(words, capture_output=True).returncode, 3)

    def test_nested_dicts_lists_and_what_is_left_out(self):
        a, b, c = torch.randn(2), torch.randn(3), torch.randn(4)
        torch.save({"model": {"x": {"y": a}}, "optimizer": {"state": {0: {"exp_avg": b}}, "groups": [{"lr": 0.1}]},
                    "list": [c, "text"], "step": 7}, self.path("a.pt"))
        said = self.run_tool(self.path("a.pt"), self.path("all"))
        self.check(self.path("all"), {"model.x.y": a, "optimizer.state.0.exp_avg": b, "list.0": c})
        for name in ("step (int)", "list.1 (str)", "optimizer.groups.0.lr (float)"):
            self.assertIn("left out " + name, said)
        self.run_tool(self.path("a.pt"), self.path("part"), "--key=model.x")
        self.check(self.path("part"), {"y": a})
        self.assertIn("it has: model, optimizer", self.run_tool(self.path("a.pt"), self.path("no"), "--key=z", code=3))

    def test_shared_storage(self):
        whole = torch.randn(6, 4)
        state = {"whole": whole, "same": whole, "rows": whole[2:4], "column": whole[:, 1]}
        torch.save(state, self.path("a.pt"))
        self.assertIn("same is whole, written twice", self.run_tool(self.path("a.pt"), self.path("a")))
        self.check(self.path("a"), state)
        self.run_tool(self.path("a.pt"), self.path("b"), "--drop-aliases")
        del state["same"]
        self.check(self.path("b"), state)
        square = torch.randn(3, 3)
        torch.save({"square": square, "turned": square.t()}, self.path("c.pt"))
        self.run_tool(self.path("c.pt"), self.path("c"), "--drop-aliases")
        self.check(self.path("c"), {"square": square, "turned": square.t()})

    def test_what_cannot_be_stored_is_named_all_at_once(self):
        torch.save({"good": torch.randn(2), "c": torch.randn(2, dtype=torch.complex64),
                    "s": torch.eye(3).to_sparse()}, self.path("a.pt"))
        said = self.run_tool(self.path("a.pt"), self.path("a"), code=3)
        self.assertIn("c: safetensors has no torch.complex64", said)
        self.assertIn("s: is not a dense tensor", said)
        self.assertFalse(os.path.exists(self.path("a")))
        torch.save({"a.b": torch.ones(1), "a": {"b": torch.ones(1)}}, self.path("b.pt"))
        self.assertIn("two tensors would be named a.b", self.run_tool(self.path("b.pt"), self.path("b"), code=3))

    def test_pickles_run_only_when_trusted(self):
        mark = self.path("mark")
        tensor = torch.randn(3)
        torch.save({"w": tensor, "other": Dangerous(mark)}, self.path("a.pt"))
        self.assertIn("--trust", self.run_tool(self.path("a.pt"), self.path("a"), code=3))
        said = self.run_tool(self.path("a.pt"), self.path("a"), "--placeholders")
        self.assertIn("left out other (Placeholder)", said)
        self.assertFalse(os.path.exists(mark), "it ran")
        self.check(self.path("a"), {"w": tensor})
        self.run_tool(self.path("a.pt"), self.path("b"), "--trust")
        self.assertTrue(os.path.exists(mark))
        self.check(self.path("b"), {"w": tensor})

    def test_the_old_form_of_torch_save(self):
        state = {"w": torch.randn(3, 2), "half": torch.randn(4).half()}
        torch.save(state, self.path("a.pt"), _use_new_zipfile_serialization=False)
        self.run_tool(self.path("a.pt"), self.path("a"))
        self.check(self.path("a"), state)

    def test_files_in_the_way_and_broken_ones(self):
        torch.save({"w": torch.randn(3)}, self.path("a.pt"))
        with open(self.path("there"), "w") as file:
            file.write("old")
        self.assertIn("is there already", self.run_tool(self.path("a.pt"), self.path("there"), code=3))
        with open(self.path("a.pt"), "rb") as file:
            content = file.read()
        with open(self.path("cut.pt"), "wb") as file:
            file.write(content[:len(content) // 2])
        self.run_tool(self.path("cut.pt"), self.path("there"), "--force", code=3)
        with open(self.path("there")) as file:
            self.assertEqual(file.read(), "old")
        self.run_tool(self.path("a.pt"), self.path("there"), "--force")
        self.run_tool(self.path("none.pt"), self.path("x"), code=4)
        os.makedirs(self.path("folder", "x"))
        self.assertIn("none of", self.run_tool(self.path("folder"), self.path("x"), code=3))

    def test_large_tensors_go_piece_by_piece(self):
        state = {"w": torch.randn(40), "v": torch.randn(3)}
        torch.save(state, self.path("a.pt"))
        with mock.patch.object(tool, "PIECE_BYTES", 28):
            self.run_tool(self.path("a.pt"), self.path("a"))
        self.check(self.path("a"), state)

    def test_a_full_disk_leaves_nothing(self):
        torch.save({"w": torch.randn(3)}, self.path("a.pt"))
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with mock.patch.object(tool, "write_tensor", side_effect=full):
            self.assertIn("No space left", self.run_tool(self.path("a.pt"), self.path("a"), code=5))
        self.assertFalse(os.path.exists(self.path("a")))

    def test_what_pickles_may_name(self):
        for module, name in (("torch._utils", "_rebuild_tensor_v2"), ("torch", "float32"), ("torch", "Size"),
                             ("collections", "OrderedDict")):
            self.assertTrue(tool.is_harmless(module, name), name)
        for module, name in (("torch._utils", "_import_dotted_name"), ("torch", "load"), ("collections", "abc"),
                             ("builtins", "eval"), ("os", "system"), ("torch.storage", "torch")):
            self.assertFalse(tool.is_harmless(module, name), name)
        find = tool.refuse_in_metadata("x")
        self.assertEqual(find("torch.distributed.checkpoint.metadata", "Metadata").__name__, "Metadata")
        for module, name in (("torch.distributed.checkpoint.state_dict_saver", "save"), ("builtins", "eval"),
                             ("torch.distributed.checkpoint.filesystem", "os"),
                             ("torch.distributed.checkpoint.filesystem", "os.system"),
                             ("torch.distributed.checkpoint.filesystem", "FileSystemWriter")):
            with self.assertRaises(tool.Problem):
                find(module, name)

    def test_hugging_face_folder(self):
        parts = [{"a.weight": torch.randn(4, 2)}, {"b.weight": torch.randn(3).bfloat16()}]
        for i, part in enumerate(parts):
            torch.save(part, self.path("hf", f"pytorch_model-{i + 1:05d}-of-00002.bin"))
        for name, text in (("config.json", "{}"), ("pytorch_model.bin.index.json", "{}")):
            with open(self.path("hf", name), "w") as file:
                file.write(text)
        self.run_tool(self.path("hf"), self.path("out"))
        self.assertEqual(sorted(os.listdir(self.path("out"))), [
            "config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
            "model.safetensors.index.json"])
        for i, part in enumerate(parts):
            self.check(self.path("out", f"model-{i + 1:05d}-of-00002.safetensors"), part)
        with open(self.path("out", "model.safetensors.index.json")) as file:
            self.assertEqual(json.load(file), {"metadata": {"total_size": 38}, "weight_map": {
                "a.weight": "model-00001-of-00002.safetensors", "b.weight": "model-00002-of-00002.safetensors"}})

    def megatron(self, names, chunks=1):
        weights = {}
        for name in names:
            models = {"model" if chunks == 1 else f"model{i}":
                      {"decoder.w": torch.randn(2, 3), "mlp._extra_state": torch.ones(1)} for i in range(chunks)}
            torch.save({"args": argparse.Namespace(a=1), "iteration": 5, "optimizer": {"state": {}}, **models},
                       self.path("job", "iter_0000005", name, "model_optim_rng.pt"))
            weights[name] = models
        with open(self.path("job", "latest_checkpointed_iteration.txt"), "w") as file:
            file.write("5\n")
        return weights

    def test_megatron_ranks(self):
        weights = self.megatron([f"mp_rank_{tp:02d}_{pp:03d}" for tp in range(2) for pp in range(2)])
        said = self.run_tool(self.path("job"), self.path("out"), "--tp=2", "--pp=2")
        for name in ("optimizer (dict)", "iteration (int)", "mlp._extra_state"):
            self.assertIn("left out " + name, said)
        self.assertEqual(len(os.listdir(self.path("out"))), 4)
        for rank, name in enumerate(["mp_rank_00_000", "mp_rank_01_000", "mp_rank_00_001", "mp_rank_01_001"]):
            self.check(self.path("out", f"rank_{rank:03d}.safetensors"),
                       {"decoder.w": weights[name]["model"]["decoder.w"]})
        self.assertIn("--tp=4", self.run_tool(self.path("job"), self.path("no"), "--tp=4", code=3))

    def test_megatron_without_stages_and_with_virtual_ones(self):
        weights = self.megatron(["mp_rank_00", "mp_rank_01"], chunks=2)
        self.run_tool(self.path("job", "iter_0000005"), self.path("out"))
        for rank in range(2):
            models = weights[f"mp_rank_{rank:02d}"]
            self.check(self.path("out", f"rank_{rank:03d}.safetensors"),
                       {f"model{i}.decoder.w": models[f"model{i}"]["decoder.w"] for i in range(2)})

    def test_megatron_experts_and_a_missing_rank(self):
        names = [f"mp_rank_{tp:02d}_{pp:03d}_{ep:03d}" for tp in range(2) for pp in range(2) for ep in range(2)]
        weights = self.megatron(names)
        self.run_tool(self.path("job"), self.path("out"))
        for tp in range(2):
            for pp in range(2):
                for ep in range(2):
                    name = f"mp_rank_{tp:02d}_{pp:03d}_{ep:03d}"
                    self.check(self.path("out", f"rank_{tp + 2 * (ep + 2 * pp):03d}.safetensors"),
                               {"decoder.w": weights[name]["model"]["decoder.w"]})
        os.rename(self.path("job", "iter_0000005", names[3]), self.path("job", "iter_0000005", "gone"))
        said = self.run_tool(self.path("job"), self.path("no"), code=3)
        self.assertIn("no folder for tp 0, pp 1, ep 1", said)
        self.assertFalse(os.path.exists(self.path("no")))

    def test_dcp_folder(self):
        import torch.distributed.checkpoint as dcp
        state = {"model": {"a": torch.randn(5, 3), "b": torch.randn(4).bfloat16(), "c": torch.tensor(3)},
                 "step": 7, "optim": {"a.exp_avg": torch.randn(5, 3)}}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there is no process group
            dcp.save(state, checkpoint_id=self.path("dcp"))
        said = self.run_tool(self.path("dcp"), self.path("all"))
        self.assertIn("left out step", said)
        self.check(self.path("all"), {"optim.a.exp_avg": state["optim"]["a.exp_avg"],
                                      **{f"model.{name}": tensor for name, tensor in state["model"].items()}})
        self.run_tool(self.path("dcp"), self.path("model"), "--key=model")
        self.check(self.path("model"), state["model"])

    def test_broken_dcp_folders(self):
        import torch.distributed.checkpoint as dcp
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dcp.save({"w": torch.randn(5, 3)}, checkpoint_id=self.path("dcp"))
        data = [name for name in os.listdir(self.path("dcp")) if name.endswith(".distcp")]
        os.truncate(self.path("dcp", data[0]), 10)
        self.assertIn("w: torch cannot read it", self.run_tool(self.path("dcp"), self.path("out"), code=3))
        os.truncate(self.path("dcp", ".metadata"), 40)
        self.assertIn(".metadata: is not what", self.run_tool(self.path("dcp"), self.path("out"), code=3))
        self.assertFalse(os.path.exists(self.path("out")))

    def test_a_dcp_folder_runs_nothing(self):
        mark = self.path("mark")
        with open(self.path("dcp", ".metadata"), "wb") as file:
            pickle.dump(Dangerous(mark), file)
        self.assertIn("--trust", self.run_tool(self.path("dcp"), self.path("out"), code=3))
        self.assertFalse(os.path.exists(mark), "it ran")


if __name__ == "__main__":
    unittest.main()
