"""The second act of the demo: gpt.py trains while its GPUs go and come back.

    python elastic.py --out=out/train                     8 → 4 → 8 processes, about two minutes on two cores
    python elastic.py --changes=30:2,60:8 --gpus=1        a schedule of one's own: from step 30 on 2 processes, …

Writes a scenario, its collections, and the run into --out; prints each change and what it cost, and draws loss.svg.
"""

import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys

GPT = pathlib.Path(__file__).resolve().parent / "gpt.py"
LAYOUTS = {1: "tp1", 2: "pp2", 3: "dp3", 4: "tp2,pp2", 6: "tp2,dp3", 8: "tp2,pp2,dp2"}


def scalai():
    """The command, from $SCALAI_BIN or PATH."""
    return os.path.join(os.environ["SCALAI_BIN"], "scalai") if "SCALAI_BIN" in os.environ else "scalai"


def write_scenario(folder, gpus, changes, steps, checkpoint_every, model=(), program=GPT):
    """job.textproto and the collections of its layouts; `changes` are steps and numbers of devices, of which each host has two."""
    layouts = [LAYOUTS[count] for count in sorted({gpus, *(count for _, count in changes)})]
    subprocess.run([sys.executable, program, "collections", folder, *layouts, *model], check=True, stdout=subprocess.DEVNULL)
    batch = next((word.partition("=")[2] for word in model if word.startswith("--batch=")), 8)
    configs = "".join(f'  configs {{ layout: "{one}" step_time: "1s" collection: "{one}.textproto" }}\n' for one in layouts)
    events = "".join(f'events {{ at_step {{ job: "gpt" step: {step} }} resize {{ job: "gpt" gpus: {count} }} }}\n'
                     for step, count in changes)
    (folder / "job.textproto").write_text(
        'schema_version: 1 name: "elastic" until: "10h"\n'
        'cluster { hosts { count: 4 gpus: 2 gpu: "h100-80g" nic: "400Gbps" } storage { read: "2GB/s" write: "2GB/s" } }\n'
        f'jobs {{\n  name: "gpt" global_batch: {batch} gpus: {gpus} steps: {steps} '
        f'checkpoint {{ every_steps: {checkpoint_every} }}\n{configs}}}\n' + events, encoding="utf-8")


def training(program, steps, log, model=()):
    """The value of --train."""
    return " ".join([sys.executable, str(program), "train", f"--steps={steps}", f"--log={log}", *model])


def losses(path):
    """Loss and processes by step; of a step that was trained twice, the second. And how many rows there are."""
    if not path.exists():
        return {}, 0
    with path.open(encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if len(row) == 4]
    return {int(row[0]): (float(row[1]), int(row[3])) for row in rows}, len(rows)


def summary_of(folder):
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))["jobs"][0]


def draw(path, curves, processes):
    """Curves (label, colour, width, value by step) above, the number of processes by step below."""
    left, width, top, height = 60, 720, 20, 300
    values = [value for _, _, _, curve in curves for value in curve.values()]
    high, low, last = max(values), min(values), max(processes)
    across = lambda step: left + width * step / max(1, last)  # noqa: E731
    down = lambda value: top + height * (high - value) / (high - low)  # noqa: E731
    lines = "".join('<polyline points="{}" stroke="{}" stroke-width="{}"/>\n'.format(
        " ".join(f"{across(step):.1f},{down(value):.1f}" for step, value in sorted(curve.items())), colour, stroke)
        for _, colour, stroke, curve in curves)
    stairs = " ".join(f"{across(step):.1f},{430 - 80 * count / max(processes.values()):.1f}" for step, count in sorted(processes.items()))
    legend = "".join(f'<text x="{left + width - 8}" y="{top + 18 + 16 * i}" text-anchor="end" fill="{colour}">{label}</text>\n'
                     for i, (label, colour, _, _) in enumerate(curves))
    marks = "".join(f'<text x="{left - 8}" y="{down(at) + 4:.1f}" text-anchor="end">{at:.1f}</text>\n' for at in (low, (low + high) / 2, high))
    marks += "".join(f'<text x="{across(step):.1f}" y="448" text-anchor="middle">{step}</text>\n'
                     for step in range(0, last + 2, max(1, (last + 1) // 6)))
    path.write_text(f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 470" font-family="sans-serif" font-size="12">
<rect width="800" height="470" fill="white"/>
<g fill="none"><rect x="{left}" y="{top}" width="{width}" height="{height}" stroke="#999"/>
<rect x="{left}" y="350" width="{width}" height="80" stroke="#999"/>
{lines}<polyline points="{stairs}" stroke="#00467a" stroke-width="2"/></g>
{legend}{marks}<text x="{left + 8}" y="{top + height - 8}">training loss</text>
<text x="{left + 8}" y="366">processes, up to {max(processes.values())}</text>
<text x="{left + width / 2}" y="466" text-anchor="middle">step</text>
</svg>
""", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="out/train")
    parser.add_argument("--gpus", type=int, default=8, choices=sorted(LAYOUTS))
    parser.add_argument("--changes", default="40:4,100:8", help="STEP:PROCESSES,…")
    parser.add_argument("--steps", type=int, default=120)
    options = parser.parse_args()
    try:
        changes = [tuple(int(number) for number in word.split(":")) for word in options.changes.split(",") if word]
        if not all(len(one) == 2 and one[1] in LAYOUTS and 0 < one[0] < options.steps for one in changes):
            raise ValueError
    except ValueError:
        parser.error(f"--changes={options.changes}: STEP:PROCESSES,… with steps below {options.steps} and processes of {sorted(LAYOUTS)}")
    folder = pathlib.Path(options.out).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "loss.csv"
    log.unlink(missing_ok=True)
    write_scenario(folder, options.gpus, changes, options.steps, checkpoint_every=50)
    words = [scalai(), "exec", "job.textproto", "--out=run", "--standby", f"--train={training(GPT, options.steps, log)}"]
    print("$ " + " ".join(words), file=sys.stderr)
    if code := subprocess.run(words, cwd=folder, check=False).returncode:
        sys.exit(code)
    found, rows = losses(log)
    print(f"{'step':>5}  {'from → to':<24}{'moved':>10}{'transfer':>11}{'new processes, model, communication':>37}")
    for one in summary_of(folder / "run")["reconfigurations"]:
        moved = one["bytes"]["same_host"] + one["bytes"]["cross_host"]
        print(f"{one['step']:>5}  {one['from'] + ' → ' + one['to']:<24}{moved / 1e6:>7.2f} MB{one['phases_s']['transfer'] * 1e3:>8.1f} ms"
              f"{one['phases_s']['resume']:>35.2f} s")
    draw(folder / "loss.svg", [("training loss", "#00467a", 1.5, {step: loss for step, (loss, _) in found.items()})],
         {step: count for step, (_, count) in found.items()})
    print(f"{rows} steps, each once; the loss went from {found[0][0]:.3f} to {found[max(found)][0]:.3f}: {folder}/loss.svg")


if __name__ == "__main__":
    main()
