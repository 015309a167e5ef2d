"""The instrumented tree of a mutation run: a copy of the sources, its sample of mutants, its build.

WORK/tree holds the copy, WORK/build its build, WORK/found/ the mutants of each source by a hash of its text.
"""

import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys

import mutations
from mutations import Mutant

AT_LEAST_EACH = 40  # mutants of a folder, in a run of several


class Problem(Exception):
    """A message for the user and an exit code."""

    def __init__(self, code, message):
        super().__init__(code, message)  # as it was called: it comes from other processes too
        self.code, self.message = code, message

    def __str__(self):
        return self.message


def say(message):
    print(f"mutants: {message}", file=sys.stderr, flush=True)


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def write_if_other(path, data):
    if not path.is_file() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


class Tree:
    def __init__(self, root, work, jobs):
        self.root, self.work, self.jobs = root, work, jobs
        self.tree, self.build_folder = work / "tree", work / "build"
        self.log = work / "build.log"
        self.precompiled = {}

    # --- copying, configuring, building

    def copy(self, instrumented=()):
        """Sources as git knows them; those that are instrumented are written later."""
        names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=self.root,
                               check=True, capture_output=True, text=True).stdout.split("\0")
        names = {name for name in names if name and (self.root / name).is_file()}
        for name in sorted(names):
            target = self.tree / name
            if name in instrumented and target.is_file():
                continue
            write_if_other(target, (self.root / name).read_bytes())
            target.chmod((self.root / name).stat().st_mode & 0o777)
        for old in list(self.tree.rglob("*")):
            if old.is_file() and str(old.relative_to(self.tree)) not in names:
                old.unlink()

    def configure(self):
        command = ["cmake", "-S", str(self.tree), "-B", str(self.build_folder), "-G", "Ninja",
                   "-DCMAKE_BUILD_TYPE=RelWithDebInfo",  # Release has flags of its own
                   "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -w -D_GLIBCXX_ASSERTIONS", "-DSCALAI_WERROR=OFF"]
        self.logged(command, "configuring")

    def logged(self, command, what):
        with open(self.log, "w", encoding="utf-8") as log:
            if subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode:
                tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
                raise Problem(5, f"{what} failed; {self.log} ends:\n{tail}")

    def ninja(self, targets):
        self.logged(["ninja", "-C", str(self.build_folder), "-j", str(self.jobs), "-k", "0", *targets], "building")

    # --- finding and choosing

    def sources(self, folder):
        return sorted(str(path.relative_to(self.root)) for path in (self.root / folder).rglob("*.cpp")
                      if not path.name.endswith("_test.cpp") and "testing" not in path.relative_to(self.root).parts)

    def arguments(self, folder):
        """What the compiler is told of the folder's library: macros, include folders, language."""
        for entry in json.loads((self.build_folder / "compile_commands.json").read_text()):
            if f"/build/{folder}/CMakeFiles/" in entry["file"] or f"/tree/{folder}/" in entry["file"]:
                words = shlex.split(entry["command"])
                kept = [w for w in words if w.startswith(("-D", "-I", "-std="))]
                for i, word in enumerate(words):
                    if word == "-isystem":
                        kept += words[i:i + 2]
                return kept + self.headers(kept)
        raise Problem(4, f"the folder {folder} is not part of this configuration")

    def headers(self, arguments):
        """The usual headers, read once for all sources with the same arguments: they are half of libclang's time."""
        key = " ".join(arguments)
        if key not in self.precompiled:
            header = self.build_folder / "CMakeFiles/scalai_pch_source.dir/cmake_pch.hxx"
            to = self.work / f"headers-{digest(key.encode())}.pch"
            self.precompiled[key] = mutations.precompiled(str(header), arguments, str(to)) if header.is_file() else []
        return self.precompiled[key]

    def found(self, name, arguments):
        data = (self.root / name).read_bytes()
        finder = pathlib.Path(mutations.__file__).read_bytes()
        cache = self.work / "found" / f"{name.replace('/', '-')}-{digest(data + finder)}.json"
        if cache.is_file():
            return [Mutant(**one) for one in json.loads(cache.read_text())]
        mutants, errors = mutations.find(str(self.root / name), data, arguments)
        if errors:
            raise Problem(5, f"libclang cannot read {name}: {errors[0]}")
        for mutant in mutants:
            mutant.path = name
        write_if_other(cache, json.dumps([dataclasses.asdict(one) for one in mutants]).encode())
        return mutants

    def compiled(self, name, mutants, arguments):
        return mutations.compilable(str(self.root / name), (self.root / name).read_bytes(), mutants, arguments,
                                    str(self.root / mutations.HEADER))

    def all_mutants(self, folders):
        """Lists by folder. One process a source: libclang keeps a core busy and memory for itself."""
        with concurrent.futures.ProcessPoolExecutor(self.jobs) as pool:
            waiting = {folder: [pool.submit(self.found, name, self.arguments(folder)) for name in self.sources(folder)]
                       for folder in folders}
            return {folder: [one for future in futures for one in future.result()]
                    for folder, futures in waiting.items()}

    def kept_sample(self, folders, count, seed):
        """The file of a sample that was built before from the same sources."""
        parts = [" ".join(folders), str(count), str(seed)]
        parts += [digest((self.root / name).read_bytes()) for folder in folders for name in self.sources(folder)]
        parts += [digest(pathlib.Path(mutations.__file__).read_bytes())]
        return self.work / f"sample-{digest(' '.join(parts).encode())}.json"

    def load(self, file):
        kept = json.loads(file.read_text())
        self.totals = kept["totals"]
        return [Mutant(**one) for one in kept["mutants"]]

    def store(self, file, mutants):
        kept = {"totals": self.totals, "mutants": [dataclasses.asdict(one) for one in mutants]}
        write_if_other(file, json.dumps(kept).encode())

    def sample(self, folders, count, seed):
        """Mutants of each folder in proportion to all that it has, in an order that only the seed decides."""
        everything = self.all_mutants(folders)
        total = sum(map(len, everything.values()))
        self.totals = {folder: len(mutants) for folder, mutants in everything.items()}
        self.rest = {}
        chosen = {}
        for folder, mutants in everything.items():
            mutants = sorted(mutants, key=lambda m: (m.path, m.key()))
            random.Random(f"{seed} {folder}").shuffle(mutants)
            share = max(count * len(mutants) // total, min(AT_LEAST_EACH, count // len(folders)))
            chosen[folder], self.rest[folder] = mutants[:share], mutants[share:]
        self.drop_what_does_not_compile(chosen)
        return self.numbered(chosen)

    @staticmethod
    def numbered(chosen):
        mutants = [one for folder in chosen for one in sorted(chosen[folder], key=lambda m: (m.path, m.key()))]
        for number, mutant in enumerate(mutants):
            mutant.number = number
        return mutants

    def drop_what_does_not_compile(self, chosen):
        self.numbered(chosen)
        dirty = {one.path for mutants in chosen.values() for one in mutants}
        with concurrent.futures.ProcessPoolExecutor(self.jobs) as pool:
            while dirty:
                waiting = {}
                for folder, mutants in chosen.items():
                    for name in sorted(dirty & {one.path for one in mutants}):
                        here = [one for one in mutants if one.path == name]
                        waiting[(folder, name)] = pool.submit(self.compiled, name, here, self.arguments(folder))
                dirty = set()
                for (folder, name), future in waiting.items():
                    kept = {one.key() for one in future.result()}
                    bad = [one for one in chosen[folder] if one.path == name and one.key() not in kept]
                    dirty |= self.replace(chosen, folder, bad)
                self.numbered(chosen)

    def replace(self, chosen, folder, bad):
        """Puts others in the place of those that do not compile; returns their files."""
        keys = {(one.path, one.key()) for one in bad}
        chosen[folder] = [one for one in chosen[folder] if (one.path, one.key()) not in keys]
        fresh, self.rest[folder] = self.rest[folder][:len(bad)], self.rest[folder][len(bad):]
        chosen[folder] += fresh
        return {one.path for one in fresh}

    # --- the instrumented build

    def write(self, mutants):
        names = sorted({one.path for one in mutants})
        self.copy(names)
        for name in names:
            data = mutations.instrument((self.root / name).read_bytes(), [one for one in mutants if one.path == name])
            head = f'#include "{mutations.HEADER}"\n#line 1 "{self.tree / name}"\n'.encode()
            write_if_other(self.tree / name, head + data)

    def build(self, mutants, targets):
        """Builds the tree; mutants that only this compiler refuses are dropped. Returns those that stay."""
        while True:
            self.write(mutants)
            try:
                self.ninja(targets)
                return mutants
            except Problem:
                bad = self.blamed(mutants)
                if not bad:
                    raise
                say(f"{len(bad)} mutants do not compile and are dropped")
                mutants = [one for one in mutants if one.number not in bad]

    def blamed(self, mutants):
        bad = set()
        pattern = re.compile(r"^(\S+):(\d+):\d+: error:", re.M)
        for path, line in set(pattern.findall(self.log.read_text(errors="replace"))):
            name = os.path.relpath(path, self.tree)
            here = [one for one in mutants if one.path == name]
            one = mutations.innermost(here, int(line), (self.root / name).read_bytes()) if here else None
            if one:
                bad.add(one.number)
        return bad
