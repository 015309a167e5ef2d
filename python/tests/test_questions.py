"""docs/howto/questions.md: every command runs, in one folder and in order, and prints what is shown of it."""

import os
import pathlib
import subprocess

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "howto" / "questions.md"


def parts(text):
    """Files to save, and commands with the lines that the page shows of what they print."""
    lines, found, file = text.splitlines(), [], None
    for line in lines:
        if line.startswith("```file="):
            file = (line[len("```file="):], [])
        elif line == "```" and file:
            found.append(("file", file[0], "\n".join(file[1]) + "\n"))
            file = None
        elif file:
            file[1].append(line)
        elif line.startswith("    $ "):
            found.append(("command", line[6:], []))
        elif line.startswith("    ") and found and found[-1][0] == "command" and line.strip() != "…":
            found[-1][2].append(line.strip())
    return found


def test_the_page_can_be_followed(tmp_path):
    environment = {**os.environ, "PATH": os.environ["SCALAI_BIN"] + os.pathsep + os.environ["PATH"]}
    commands = 0
    for kind, name, content in parts(PAGE.read_text("utf-8")):
        if kind == "file":
            (tmp_path / name).write_text(content, "utf-8")
            continue
        done = subprocess.run(["bash", "-c", name], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{name}\n{done.stdout}{done.stderr}"
        for line in content:
            assert line in done.stdout, f"{name}\n{line}\n{done.stdout}"
        commands += 1
    assert commands > 20
    pages = sorted(path.name for path in tmp_path.glob("*.html"))
    assert pages == ["host.html", "policies.html", "rack.html", "spares.html", "spot.html"]
