"""Every example of every command's help, and every command of the README, runs: in a room that has the files they name."""

import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import time

BIN = pathlib.Path(os.environ.get("SCALAI_BIN", "."))
ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = os.environ.get("SCALAI_DATA", "")  # public traces

# What is left out, and why: a part of the command.
LEFT_OUT = {
    "srun ": "needs Slurm (tests/slurm)",
    "python gpt.py": "needs PyTorch (test_job.py)",
    "python train.py": "needs PyTorch (test_job.py)",
    "exec ctl": "needs a run under way (tests/e2e_exec_live_test.cpp)",
    "scalai sync out/gpt": "needs a run under way (tests/exec_sync_test.cpp)",
    "stats out/gpt": "needs a run under way (tests/exec_live_views_test.cpp)",
    "--run=out/gpt": "needs a run of real training (test_job.py)",
    "--resume=": "needs a run that was broken off (tests/e2e_exec_test.cpp)",
    "checkpoints/step_00000100": "needs a checkpoint of gpt3-xl with its optimizer (tests/e2e_exec_test.cpp)",
    "/mnt/": "needs FUSE, and runs on (tests/fs_test.cpp)",
    "fs mount m ": "needs FUSE, and runs on (tests/fs_test.cpp)",
    "--host=n1": "needs other hosts (tests/near_command_test.cpp)",
    "| man -l": "opens a pager",
}
# Exit codes that are right besides 0: 4 where this machine lacks something, 1 where the command says how it ended.
OTHER_CODES = {"--backend=cuda": 4, "--require=cuda,nccl": 4, "--require-goals": 1, "plan diff": 1}
# The same commands, with less to do: a tiny model's ranks, and shorter runs.
SMALLER = [("--seeds=20", "--seeds=2"), ("--seeds=5", "--seeds=2"), ("failure-rate-sweep.textproto", "failure-rate-sweep.textproto --set=until=1d"),
           ("--range=1h,1d", "--range=6h,12h"), ("accuracy policies --data", "accuracy policies --set=G7 --data"),
           ("exec calibrate", "exec calibrate --bytes=16MiB --repetitions=1"), ("exec bench", "exec bench --repetitions=1"),
           ("ranks/ --from=tp8,pp4 --model=llama3-8b", "ranks/ --from=tp8,pp4 --config=tiny.json"),
           ("ranks/ out/ --from=tp8,pp4 --config=config.json", "ranks/ out/ --force --from=tp8,pp4 --config=tiny.json")]

LLAMA = {"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 4,
         "num_hidden_layers": 4, "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 64,
         "tie_word_embeddings": False, "torch_dtype": "float32"}
COLLECTION = """schema_version: 1
name: "{name}"
meshes {{ name: "m" axes {{ name: "tp" size: {tp} }} }}
devices: "0-{last}"
layouts {{ name: "l" cuts {{ axis: "tp" dim: 0 }} }}
tensors {{ name: "weight" dtype: "F32" shape: [64, 16] mesh: "m" layout: "l" }}
"""
CLUSTER = 'name: "mine" hosts { count: 4 gpus: 8 gpu: "h100-80g" nic: "400Gbps" } storage { read: "2GB/s" write: "2GB/s" }\n'
SCENARIO = ('schema_version: 1 name: "my" until: "100s"\n'
            'cluster { hosts { count: 2 gpus: 2 gpu: "a100-40g" nic: "100Gbps" } storage { read: "1GB/s" } }\n'
            'jobs { name: "a" model: "gpt2" global_batch: 8 devices: [0, 1] configs { layout: "tp2" step_time: "1s" }\n'
            '       configs { layout: "tp1" step_time: "2s" } }\n')


def scalai(*words, cwd=None, check=True):
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([BIN / "scalai", *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 or not check, f"scalai {' '.join(map(str, words))}\n{done.stdout}{done.stderr}"
    return done.stdout


def commands():
    """All programs, and the commands that their overviews list."""
    found = []
    for program in sorted(BIN.glob("scalai*")):
        if not re.fullmatch("scalai(-(accuracy|checkpoint|data|exec|fs|jobs|near|sim))?", program.name):
            continue
        found.append([program])
        listed = False
        for line in help_of([program]).splitlines():
            if not line.startswith("  "):
                listed = line in ("Commands:", "About the program itself:")
            elif listed and line[2] not in " -":
                found.append([program, *line[2:].split("  ")[0].split()])
        if program.name == "scalai-exec":
            found += [[program, verb] for verb in ("launch", "worker", "sync", "ctl", "bench", "calibrate", "doctor")]
    return found


def help_of(command):
    return subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout


def examples():
    found = {}
    for command in commands():
        listed = re.search(r"\nExamples:\n(.*?)(\n\n|\Z)", help_of(command), re.S)
        for line in joined(listed[1]) if listed else ():
            found.setdefault(line, " ".join([command[0].name, *command[1:]]))
    readme = (ROOT / "README.md").read_text("utf-8")
    for line in joined("\n".join(line for line in readme.splitlines() if line.startswith("    "))):
        if re.match(r"(\$ )?scalai ", line):
            found.setdefault(line.removeprefix("$ "), "README.md")
    return found


def joined(text):
    """Lines, without the breaks of long ones."""
    return [re.sub(r"\s+", " ", line).strip() for line in re.sub(r"\\\n", " ", text).splitlines()]


def make_room(room):
    """What the examples name."""
    for name in ("scenarios", "results"):
        (room / name).symlink_to(ROOT / name)
    (room / ".config/fish/completions").mkdir(parents=True)
    (room / "config.json").write_text(json.dumps({**LLAMA, "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 32000,
                                                  "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32}))
    (room / "cluster.textproto").write_text(CLUSTER)
    (room / "my.textproto").write_text(SCENARIO)
    for name, tp in {"old": 2, "new": 4}.items():
        (room / f"{name}.textproto").write_text(COLLECTION.format(name=name, tp=tp, last=tp - 1))
    for name, to in {"a": "tp2", "b": "tp1"}.items():
        scalai("plan", "--model=gpt2", "--from=tp4", f"--to={to}", f"--out={name}.binpb", cwd=room)
    models = room / "models"
    models.mkdir()
    for folder in ("llama3-8b", "llama-hf"):
        hugging_face(models / folder)
    shutil.copy(models / "llama3-8b/config.json", models / "tiny.json")
    scalai("checkpoint", "reshard", "llama3-8b", "ranks", "--to=tp8,pp4", cwd=models)
    for file in (models / "ranks").iterdir():  # as another tool's: nothing but their tensors
        if file.suffix != ".safetensors":
            file.unlink()
    for name in ("sim", "fifo", "srtf"):
        scalai("sim", "my.textproto", f"--out=out/{name}", cwd=room)
    scalai("sweep", "my.textproto", "--vary=jobs[0].configs[0].step_time=1s,2s", "--out=sweep.csv", cwd=room)
    datasets(room)
    (room / "philly_jobs.csv").write_text("submit_s,duration_s,num_gpus,vc\n" + "".join(
        f"{100 * i},{50 + i},{1 << i % 6},e13805\n" for i in range(50)))


def hugging_face(folder):
    """A tiny Llama of zeros."""
    folder.mkdir()
    config = {**LLAMA, "num_attention_heads": 8, "num_key_value_heads": 8}
    (folder / "config.json").write_text(json.dumps(config))
    h, ffn, tokens = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    shapes = {"model.embed_tokens.weight": [tokens, h], "lm_head.weight": [tokens, h], "model.norm.weight": [h]}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        shapes.update({at + f"self_attn.{part}_proj.weight": [h, h] for part in "qkvo"})
        shapes.update({at + "mlp.gate_proj.weight": [ffn, h], at + "mlp.up_proj.weight": [ffn, h], at + "mlp.down_proj.weight": [h, ffn],
                       at + "input_layernorm.weight": [h], at + "post_attention_layernorm.weight": [h]})
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))


def datasets(room):
    lengths = [40] * 2000
    (room / "corpus_text_document.bin").write_bytes(bytes(4 * sum(lengths)))
    offsets = [4 * sum(lengths[:i]) for i in range(len(lengths))]
    (room / "corpus_text_document.idx").write_bytes(
        b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 4, len(lengths), len(lengths) + 1) + struct.pack(f"<{len(lengths)}i", *lengths) +
        struct.pack(f"<{len(lengths)}q", *offsets) + struct.pack(f"<{len(lengths) + 1}q", *range(len(lengths) + 1)))
    scalai("data", "index", "--kind=fixed", "--record-bytes=16", "corpus_text_document.bin", "--out=train.index", cwd=room)
    (room / "shards").mkdir()
    for i in range(2):
        (room / "shards" / f"{i}.txt").write_text("one")
        subprocess.run(["tar", "-cf", f"{i}.tar", f"{i}.txt"], cwd=room / "shards", check=True)


NEEDS_DATA = "needs public traces (SCALAI_DATA)"


def problem_of(line, room):
    """None where the example does what it should; NEEDS_DATA where it cannot."""
    for words, fewer in SMALLER:
        line = line.replace(words, fewer)
    line = re.sub("accuracy policies$", "accuracy policies --set=G9", line)
    line = line.replace("/data/traces", DATA)
    if "p3-trace.csv" in line:
        line = line.replace("p3-trace.csv", str(next(pathlib.Path(DATA).rglob("*p3*trace*.csv"))))
    codes = {0, *(code for part, code in OTHER_CODES.items() if part in line)}
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "HOME": str(room)}
    folder = room / "models" if line.startswith(("scalai checkpoint", "scalai near")) else room  # where "out" is another
    done = subprocess.run(["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode == 4 and not os.path.isdir(DATA) and "SCALAI_DATA" in done.stderr:
        return NEEDS_DATA
    return None if done.returncode in codes else f"{line}\nexit code {done.returncode}\n{done.stdout[-300:]}{done.stderr[-600:]}"


def test_examples_run(tmp_path):
    make_room(tmp_path)
    found = examples()
    assert len(found) > 100 and sum(where == "README.md" for where in found.values()) > 6
    # Those that write what others read come first.
    order = sorted(found, key=lambda line: ("--out=out" not in line and " out/ --to" not in line, "compare" in line or "report" in line))
    problems, left_out = [], []
    for line in order:
        why = next((why for part, why in LEFT_OUT.items() if part in line), None)
        if why is None and not os.path.isdir(DATA) and ("/data/traces" in line or "p3-trace.csv" in line):
            why = NEEDS_DATA
        if why is not None:
            left_out.append(f"{line}: {why}")
            continue
        began = time.monotonic()
        problem = problem_of(line, tmp_path)
        if problem == NEEDS_DATA:
            left_out.append(f"{line}: {problem}")
        elif problem:
            problems.append(f"{found[line]}: {problem}")
        print(f"{time.monotonic() - began:6.1f} s  {line}", flush=True)
    print("left out:", *left_out, sep="\n  ")
    assert not problems, "\n\n".join([f"{len(problems)} of {len(order)} examples:", *problems])
