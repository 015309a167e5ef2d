"""Scenarios in virtual time: runs `scalai sim` and reads its report."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ._errors import FailedError, InvalidError, MissingError
from ._programs import program

_RAISED = {2: InvalidError, 3: InvalidError, 4: MissingError}


class Report:
    """The report of one run. Its files are those of docs/reports.md."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))

    @property
    def reconfigurations(self) -> list[dict[str, Any]]:
        """One dict a reconfiguration, of all jobs, in order; ready for a DataFrame."""
        return [{"job": job["name"], **one} for job in self.summary["jobs"] for one in job.get("reconfigurations", [])]

    def table(self, name: str) -> list[dict[str, Any]]:
        """A CSV file of the report as a list of dicts: "events", "transfers", "devices"."""
        path = self.folder / f"{name}.csv"
        if not path.exists():
            known = ", ".join(sorted(one.stem for one in self.folder.glob("*.csv")))
            raise MissingError(f'the report has no table "{name}"; there are {known}')
        with open(path, newline="", encoding="utf-8") as file:
            return [{key: _value(text) for key, text in row.items()} for row in csv.DictReader(file)]

    def __repr__(self) -> str:
        return f"<Report in {self.folder}>"


def _value(text: str) -> Any:
    if text == "":
        return None
    if text.startswith("'") and text.lstrip("'").startswith(("=", "+", "-", "@", "\t", "\r")):
        return text[1:]  # an apostrophe keeps spreadsheets from running it
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def simulate(scenario: str | os.PathLike[str], *, strategy: str | None = None, cluster: str | os.PathLike[str] | None = None,
             out: str | os.PathLike[str] | None = None, options: tuple[str, ...] = ()) -> Report:
    """Runs a scenario file in virtual time with one strategy (the scenario's own if None).

    `out` is the folder of the report, which must be new or a report's; without it a temporary folder that lives as
    long as the Report. `options` are further ones of ``scalai sim``.
    """
    temporary = None
    if out is None:
        temporary = tempfile.TemporaryDirectory(prefix="scalai-")
        out = Path(temporary.name) / "report"
    command = [program("scalai"), "sim", os.fspath(scenario), f"--out={os.fspath(out)}", *options]
    if strategy is not None:
        command.append(f"--strategy={strategy}")
    if cluster is not None:
        command.append(f"--cluster={os.fspath(cluster)}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not (Path(out) / "summary.json").exists():
        raise _RAISED.get(done.returncode, FailedError)(done.stderr.strip() or f"scalai sim: exit code {done.returncode}")
    report = Report(Path(out))
    report.exit_code = done.returncode
    report._temporary = temporary
    return report
