"""Trials of mutants: which tests reach which mutant, and which test fails because of it.

Each test runs alone once and notes the mutants that it reaches. Then each mutant meets the tests that reach it, the
fast ones first, until one fails.
"""

import collections
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time

from tree import Problem, digest, say

MEMORY_BYTES = 8 << 30     # a mutant that allocates without end fails
FILE_BYTES = 16 << 30    # segments of state reserve 4 GiB each
TIERS_S = (0.15, 1.0, 4.0, 1e9)  # tests of one tier and one program share a process
Outcome = collections.namedtuple("Outcome", "code seconds output")  # code: None after a timeout


def limits():
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))  # not what is only reserved
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(command, folder, variables, timeout_s):
    """A command in a session and a temporary folder of its own; both end with it."""
    scratch = tempfile.mkdtemp(prefix="m")
    environment = {**os.environ, "TMPDIR": scratch, "TEST_TMPDIR": scratch, **variables}
    begun = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=limits)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        seconds = time.monotonic() - begun
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        output.seek(0)
        text = output.read().decode(errors="replace")
    shutil.rmtree(scratch, ignore_errors=True)
    return Outcome(code, seconds, text)


class Trials:
    def __init__(self, tree, programs, noisy, count):
        self.tree, self.programs, self.noisy, self.count = tree, programs, noisy, count
        self.tests = {}      # (program, test) → seconds
        self.reaching = {}   # number → [(program, test)]
        self.digests = {}    # program → hash of its file

    def command(self, program, tests):
        return [str(self.tree.build_folder / "bin" / program), "--gtest_filter=" + ":".join(tests),
                "--gtest_fail_fast", "--gtest_brief=1", "--gtest_color=no"]

    # --- what reaches what

    def names(self, program):
        text = run([str(self.tree.build_folder / "bin" / program), "--gtest_list_tests"], self.tree.tree, {}, 60)
        if text.code != 0:
            raise Problem(1, f"{program} does not list its tests:\n{text.output[-2000:]}")
        suite, names = "", []
        for line in text.output.splitlines():
            name = line.split("#")[0].rstrip()
            if re.fullmatch(r"\S+\.", name):
                suite = name
            elif re.fullmatch(r"  \S+", name) and "DISABLED_" not in suite + name:
                names.append(suite + name.strip())
        return names

    def alone(self, program, test):
        """Seconds, whether it passed, and the mutants reached."""
        with tempfile.NamedTemporaryFile() as reached:
            reached.write(bytes(self.count))
            reached.flush()
            outcome = run(self.command(program, [test]), self.tree.tree, {"SCALAI_MUTANTS_REACHED": reached.name}, 600)
            reached.seek(0)
            numbers = [i for i, byte in enumerate(reached.read()) if byte]
        return {"seconds": outcome.seconds, "passed": outcome.code == 0, "reached": numbers}

    def baseline(self, pool):
        cache = self.tree.work / "baseline.json"
        known = json.loads(cache.read_text()) if cache.is_file() else {}
        for program in self.programs:
            self.digests[program] = digest((self.tree.build_folder / "bin" / program).read_bytes())
            if known.get(program, {}).get("digest") == self.digests[program]:
                continue
            names = self.names(program)
            say(f"{program}: {len(names)} tests, each alone")
            results = list(pool.map(lambda name, program=program: self.alone(program, name), names))
            known[program] = {"digest": self.digests[program], "tests": dict(zip(names, results))}
            cache.write_text(json.dumps(known))
        for program in self.programs:
            for name, result in known[program]["tests"].items():
                if not result["passed"]:
                    say(f"{program}: {name} fails without any mutant and is left out")
                    continue
                self.tests[(program, name)] = result["seconds"]
                for number in result["reached"]:
                    self.reaching.setdefault(number, []).append((program, name))

    # --- one mutant

    def batches(self, number, near):
        """Lists of tests, each for one process: by tier, the near programs first, the cheap ones first."""
        groups = {}
        for program, name in self.reaching.get(number, []):
            seconds = self.tests[(program, name)]
            tier = next(i for i, limit in enumerate(TIERS_S) if seconds < limit)
            groups.setdefault((tier, program not in near, program), []).append((seconds, name))
        for (_, _, program), tests in sorted(groups.items()):
            yield program, [name for _, name in sorted(tests)]

    def digest_of(self, number):
        programs = sorted({program for program, _ in self.reaching.get(number, [])})
        return " ".join(f"{program}:{self.digests[program]}" for program in programs)

    def judge(self, number, near):
        """The result of a mutant: killed, timeout, survived or uncovered; by which test; seconds."""
        begun = time.monotonic()
        if number not in self.reaching:
            return {"result": "uncovered", "by": "", "seconds": 0.0, "unsure": []}
        unsure = []
        for program, names in self.batches(number, near):
            left = names
            while left:
                result, culprit = self.batch(number, program, left)
                if result == "passed":
                    break
                if result == "unsure":  # failed once and passed alone
                    unsure.append(culprit)
                    left = [name for name in left if name != culprit] if culprit in left else []
                    continue
                return {"result": result, "by": f"{program} {culprit}", "seconds": time.monotonic() - begun,
                        "unsure": unsure}
        return {"result": "survived", "by": "", "seconds": time.monotonic() - begun, "unsure": unsure}

    def batch(self, number, program, names):
        variables = {"SCALAI_MUTANT": str(number)}
        expected_s = sum(self.tests[(program, name)] for name in names)
        outcome = run(self.command(program, names), self.tree.tree, variables, 15 + 10 * expected_s)
        if outcome.code == 0:
            return "passed", ""
        failed = re.findall(r"^\[  FAILED  \] ([^ ,]+)", outcome.output, re.M)
        culprit = failed[0] if failed else ""
        if outcome.code is None:
            return "timeout", culprit or names[0]
        if program in self.noisy:  # threads, processes and clocks: a failure counts if it happens twice
            again = [culprit] if culprit in names else names
            expected_s = sum(self.tests[(program, name)] for name in again)
            second = run(self.command(program, again), self.tree.tree, variables, 15 + 10 * expected_s)
            if second.code == 0:
                return "unsure", culprit
        return "killed", culprit or f"{names[0]} or after: exit {outcome.code}"
