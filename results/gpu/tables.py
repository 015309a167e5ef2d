"""Tables of `scalai accuracy` from what parts.py and steps.py have measured: tables.py MEASURED GPU DATE, writes
results/perfmodel/published/own_*.csv."""

import csv
import pathlib
import sys

PUBLISHED = pathlib.Path(__file__).resolve().parents[1] / "perfmodel" / "published"


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(name, head, columns, rows):
    with open(PUBLISHED / f"{name}.csv", "w", encoding="utf-8") as file:
        file.write("".join(f"# {line}\n" for line in head) + ",".join(columns) + "\n")
        file.writelines(",".join(map(str, row)) + "\n" for row in rows)


def microseconds(seconds):
    return f"{float(seconds) * 1e6:.4g}"


def main():
    folder, gpu, date = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    short, place = gpu.split("-")[0], f"results/gpu/{folder.name}"
    source = f"source: measured here, {date}: results/gpu/parts.py, {place}"

    def head(title, columns, more=""):
        return ["kind: kernel", f"title: {title} on one {short.upper()} (PyTorch 2.11, CUDA 13)", f"{source}/{columns}",
                "columns: published in microseconds, median of seven, amid others in a CUDA graph",
                f"default: gpu={gpu} kernels=tuned{more}"]

    products = rows_of(folder / "products.csv")
    columns = ["label", "op", "precision", "m", "n", "k", "count", "published"]
    write(f"own_products_{short}", head("Products of layers of GPT-3 and Llama at tp 1 to 8", "products.csv", " op=product"), columns,
          [[f"{r['model']} tp{r['tp']} {r['part']} {r['m']}x{r['n']}x{r['k']} {r['form'].replace(', ', ' ')} {r['dtype']}", "product", r["dtype"],
            r["m"], r["n"], r["k"], 1, microseconds(r["seconds"])] for r in products])
    write(f"own_experts_{short}", head("Products of experts, in one kernel", "grouped.csv", " op=product"), columns,
          [[f"{r['model']} {r['part']} {r['count']}x {r['m']}x{r['n']}x{r['k']}", "product", r["dtype"], r["m"], r["n"], r["k"],
            r["count"], microseconds(r["seconds"])] for r in rows_of(folder / "grouped.csv") if r["form"] == "grouped"])
    attention = rows_of(folder / "attention.csv")
    write(f"own_attention_{short}", head("Fused causal attention, by cuDNN (tuned) and by the second generation of flash attention",
                                         "attention.csv"),
          ["label", "op", "kernels", "batch", "length", "heads", "head_size", "published"],
          [[f"{r['kernel']} {r['batch']}x{r['length']} {r['heads']} heads of {r['head_size']} {way}", f"attention-{way}",
            "tuned" if r["kernel"] == "cudnn" else "fused", r["batch"], r["length"], r["heads"], r["head_size"],
            microseconds(r[way])] for r in attention for way in ("forward", "backward")])
    memory = rows_of(folder / "memory.csv")
    write(f"own_memory_{short}", head("Kernels that memory bounds, among them fused Adam", "memory.csv", " op=memory"),
          ["label", "op", "size", "published"],
          [[f"{r['kernel']} {int(r['bytes']) / 2 ** 20:.4g} MiB, {r['tensors']} tensors".replace(", 1 tensors", "").replace(",", ""),
            "memory", f"{r['bytes']}B", microseconds(r["seconds"])] for r in memory if "foreach" not in r["kernel"]])


if __name__ == "__main__":
    main()
