"""Scalai's programs, wherever they are."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from ._errors import Error, MissingError


def program(name: str) -> str:
    """The path of one of the programs: in $SCALAI_BIN, in this package, or on PATH."""
    for folder in (os.environ.get("SCALAI_BIN"), Path(__file__).parent / "bin"):
        if folder and os.access(Path(folder) / name, os.X_OK):
            return str(Path(folder) / name)
    found = shutil.which(name)
    if found is None or os.path.samefile(found, sys.argv[0]):
        raise MissingError(f"{name} is neither in $SCALAI_BIN nor in this package nor on PATH; "
                           "install the Debian package, or build it with ./dev build")
    return found


def main() -> None:
    """The command `scalai` of the package: becomes the program of that name."""
    try:
        path = program("scalai")
    except Error as error:
        sys.exit(f"scalai: error: {error}")
    os.execv(path, ["scalai", *sys.argv[1:]])
