"""The JSON Schema that `scalai schema` prints, in a validator, beside what `scalai validate` says of the same files."""

import copy
import json
import os
import pathlib
import subprocess

import pytest

jsonschema = pytest.importorskip("jsonschema", reason="no jsonschema in this environment: python/environment FOLDER")
SCALAI = pathlib.Path(os.environ["SCALAI_BIN"], "scalai")

SCENARIO = {
    "schema_version": 1,
    "name": "json",
    "until": "1h",
    "cluster": {
        "hosts": [{"count": 4, "kind": "dgx-h100"}],
        "fabric": {"kind": "FAT_TREE", "leaf_hosts": 1, "group_hosts": 2},
        "storage": {"read": "10GB/s"},
    },
    "jobs": [{"name": "j", "model": "llama3-8b", "global_batch": 64, "gpus": 32, "configs": [{"layout": "tp8,dp4"}, {"layout": "tp8,dp3"}],
              "checkpoint": {"every_steps": 10}}],
    "events": [{"at": "20min", "fail": {"hosts": [3]}}],
}


def schema(of="scenario"):
    return json.loads(subprocess.run([SCALAI, "schema", of, "--format=json-schema"], capture_output=True, check=True).stdout)


def changed(*path, to):
    scenario = copy.deepcopy(SCENARIO)
    at = scenario
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = to
    return scenario


def judged(scenario, tmp_path):
    """The places of problems by the schema, and whether `scalai validate` takes the file."""
    errors = jsonschema.Draft202012Validator(schema()).iter_errors(scenario)
    file = tmp_path / "s.json"
    file.write_text(json.dumps(scenario), "utf-8")
    done = subprocess.run([SCALAI, "validate", file], capture_output=True, text=True)
    return ["/".join(map(str, error.absolute_path)) for error in errors], done.returncode == 0


@pytest.mark.parametrize("of", ["scenario", "cluster"])
def test_it_is_a_schema(of):
    jsonschema.Draft202012Validator.check_schema(schema(of))


def test_what_is_right_passes(tmp_path):
    assert judged({**SCENARIO, "jobs": [{**SCENARIO["jobs"][0], "global_batch": 96}]}, tmp_path) == ([], True)


@pytest.mark.parametrize("path, to, where", [
    (("jobs", 0, "chekpoint"), {}, "jobs/0"),
    (("cluster", "fabric", "kind"), "fat_tree", "cluster/fabric/kind"),
    (("until",), 3600, "until"),
    (("cluster", "hosts"), {"count": 4}, "cluster/hosts"),
    (("events", 0, "repair"), {"hosts": [3]}, "events/0"),
])
def test_what_is_wrong_does_not(path, to, where, tmp_path):
    places, accepted = judged(changed(*path, to=to), tmp_path)
    assert where in places
    assert not accepted
