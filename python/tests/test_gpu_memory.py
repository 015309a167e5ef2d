"""Memory of a GPU that another process owns, mapped part by part; over a stand-in for the driver."""

import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="no PyTorch in this environment: python/environment FOLDER --torch")
DRIVER = pathlib.Path(os.environ.get("SCALAI_BIN", "."), "..", "lib", "fake-driver").resolve()

if "inside" in sys.argv:
    import gc

    from scalai import InvalidError, _core

    def raises(text, call, *arguments):
        with pytest.raises(InvalidError, match=text):
            call(*arguments)

    SIZE = 1 << 16
    files = [os.memfd_create(f"part {i}") for i in range(2)]
    for file in files:
        os.ftruncate(file, SIZE)
    memory = _core.GpuMemory(1, 2 * SIZE, 4 * SIZE)
    for i, file in enumerate(files):
        memory.map((2 + i) * SIZE, SIZE, file)
    assert memory.gpu == 1 and not memory.on_gpu
    raises("does not fit", memory.map, SIZE, SIZE, files[0])
    raises("is not mapped", memory.tensor, 2 * SIZE, 3 * SIZE)
    whole = memory.tensor(3 * SIZE - 8, 16).view(torch.float32)  # of both parts
    assert whole.shape == (4,) and whole.device.type == "cpu"
    whole.copy_(torch.arange(4.0))
    assert torch.frombuffer(bytearray(os.pread(files[0], 8, SIZE - 8)), dtype=torch.float32).tolist() == [0, 1]
    assert torch.frombuffer(bytearray(os.pread(files[1], 8, 0)), dtype=torch.float32).tolist() == [2, 3]
    view = whole[1:3]
    maps = lambda: pathlib.Path("/proc/self/maps").read_text(encoding="utf-8").count("memfd:part")  # noqa: E731
    del memory, whole
    gc.collect()
    assert maps() == 2 and view.tolist() == [1, 2], "a tensor keeps the memory"
    del view
    gc.collect()
    assert maps() == 0, "nobody has it"
    print("done")
    sys.exit(0)


def test_parts_are_one_memory():
    if not DRIVER.exists():
        pytest.skip("no stand-in for the CUDA driver: ./dev test builds it")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(DRIVER)}
    done = subprocess.run([sys.executable, __file__, "inside"], env=environment, capture_output=True, text=True, timeout=300,
                          check=False)
    assert done.stdout == "done\n", done.stderr
