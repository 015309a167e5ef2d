"""The questions of Scalai to a policy program, and its answers: docs/policy-protocol.md as a few Python objects.

    from scalai_policy import grant, serve

    def decide(state):
        return [grant(job, job.gpus) for job in state.jobs.values() if not job.has]

    serve(decide, "all-at-once")

Scalai sends what changed; this module adds it up. Copy it beside your program. Standard library only.
"""
import json
import sys


class Job:
    """A job of the cluster. Attributes are the fields of the protocol, as of the time `at_s`."""

    def __init__(self, index):
        self.index = index  # order of submission
        self.at_s = 0.0
        self.has = self.beside = None

    def done(self, now_s):
        """Iterations done. A job that trains evenly goes on by itself, and nobody tells."""
        return self.work_done + self.even_per_s * (now_s - self.at_s)

    def gpu_type(self):
        return self.has["type"] if self.has else None


class State:
    """The cluster and its jobs at one question.

    now_s, events, capacity, price   as in the question
    hosts      list by host: {"type", "gpus"}; `usable[h]` of these GPUs may be given away now
    free       by GPU type: usable GPUs that no job has
    held       by host: GPUs that jobs have
    down       hosts of which no GPU may be given away: down or under notice, maybe with jobs still on them
    jobs       by name, in order of submission
    changed    jobs that are new or changed since the last question; gone: jobs that left
    """

    def __init__(self, hello):
        self.seed, self.types, self.hosts = hello["seed"], hello["types"], hello["hosts"]
        self.jobs, self.changed, self.gone = {}, [], []
        self.usable = [host["gpus"] for host in self.hosts]
        self.held = [0] * len(self.hosts)
        self.down = []
        self._held_by_type = {gpu["type"]: 0 for gpu in self.types}
        self._count = 0

    def update(self, question):
        self.now_s, self.events = question["now_s"], question["events"]
        self.capacity, self.price = question["capacity"], question["price"]
        if "short_hosts" in question:
            self.usable = [host["gpus"] for host in self.hosts]
            for short in question["short_hosts"]:
                self.usable[short["host"]] = short["gpus"]
            self.down = [h for h, gpus in enumerate(self.usable) if gpus == 0]
        self.gone = [self.jobs.pop(name) for name in question["gone"]]
        for job in self.gone:
            self._hold(job, -1)
        self.changed = []
        for fields in question["changed"]:
            job = self.jobs.get(fields["job"])
            if job is None:
                job = self.jobs[fields["job"]] = Job(self._count)
                self._count += 1
            self._hold(job, -1)
            job.__dict__.update(fields)
            job.at_s = self.now_s
            self._hold(job, 1)
            self.changed.append(job)
        self.free = {gpu: count - self._held_by_type[gpu] for gpu, count in self.capacity.items()}
        for host in self.down:  # they are in no capacity, nor are the GPUs of jobs that are still there
            self.free[self.hosts[host]["type"]] += self.held[host]

    def _hold(self, job, sign):
        if not job.has:
            return
        part = sign / 2 if job.beside else sign  # two jobs have the same GPUs: half each
        self._held_by_type[job.has["type"]] += part * job.has["gpus"]
        for share in job.has["hosts"]:
            self.held[share["host"]] += part * share["gpus"]

    def rates(self, *questions):
        """Iterations a second, one answer a question: {"job", "type", "gpus"}: of these GPUs; {"job", "hosts"}: of GPUs
        on these hosts; with "beside": the pair of rates when both jobs are on the same GPUs, (0, 0) if they cannot."""
        return _ask({"ask": "rates", "of": questions})["rates"]

    def change_costs(self, *questions):
        """Seconds that a change of GPUs is expected to take, one a question: {"job", "gpus"}."""
        return _ask({"ask": "change_costs", "of": questions})["change_costs"]


def grant(job, gpus, gpu_type=None, hosts=None, beside=None):
    """Gives a job GPUs (0: it waits), of a type where there are several. `hosts`: {host: gpus}, else as few as possible.
    `beside`: a job whose GPUs it shares."""
    answer = {"job": job.job, "gpus": gpus}
    if gpu_type is not None:
        answer["type"] = gpu_type
    if hosts is not None:
        answer["hosts"] = [{"host": host, "gpus": count} for host, count in hosts.items()]
    if beside is not None:
        answer["beside"] = beside.job
    return answer


def serve(decide, name, curves=False, past=None):
    """Answers until Scalai has no more questions. `decide(state)` returns a list of grants, or the whole answer: a dict
    of "grants", "refused" and "wake_at_s". `curves`: jobs have rates at all sizes, `job.curves[type][gpus - min_gpus]`.
    `past(state, answer)`: called in place of decide for what it answered before the run went on from a snapshot (`scalai sim
    --resume`): it restores what decide remembers. Without it such a program writes no snapshots."""
    hello = json.loads(sys.stdin.readline())
    lacks = {"beside", "change_costs", "curves", "delta", "rates"} - set(hello.get("offers", ()))
    if lacks:
        sys.exit("this Scalai is older than scalai_policy.py; it does not offer " + ", ".join(sorted(lacks)))
    greeting = {"scalai_policy": 1, "name": name, "delta": True, "curves": curves}
    if past:
        greeting["past"] = True
    _say(greeting)
    state = State(hello)
    for line in sys.stdin:
        question = json.loads(line)
        state.update(question)
        if "answered" in question:
            past(state, question["answered"])
            _say({})
            continue
        answer = decide(state)
        _say({"grants": answer} if isinstance(answer, list) else answer)


def _say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _ask(message):
    _say(message)
    return json.loads(sys.stdin.readline())
