"""The examples of the README that are whole programs."""

import re
from pathlib import Path

import pytest

EXAMPLES = [block for block in re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / "README.md").read_text("utf-8"), re.S)
            if block.startswith("import")]


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples_run(number, monkeypatch, tmp_path, capsys):
    if "torch" in EXAMPLES[number]:
        pytest.importorskip("torch", reason="no PyTorch in this environment: python/environment FOLDER --torch")
    monkeypatch.chdir(tmp_path)
    exec(compile(EXAMPLES[number], f"README.md, example {number}", "exec"), {"__name__": "example"})
    if number == 0:
        assert "survives the loss of" in capsys.readouterr().out
    else:
        assert {path.name for path in tmp_path.iterdir()} == {"dp8.textproto", "dp4.textproto"}
