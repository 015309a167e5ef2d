#!/usr/bin/env python3
"""Writes small datasets in the formats that ptc/store/datasets reads, from a seed; needs the standard library only.

    make_dataset.py KIND --out=PREFIX [--files=1] [--documents=100] [--seed=1] ...

KIND is megatron (PREFIX-0.bin, PREFIX-0.idx), tfrecord (PREFIX-0.tfrecord), tar (PREFIX-0.tar) or fixed (PREFIX-0.bin).
Documents go to the files in order, about as many to each. The names of the data files are printed, one a line, in order:
what `scalai data index --kind=KIND FILE...` takes. Same arguments, same bytes, on any machine and Python version.
"""
import argparse
import io
import os
import struct
import tarfile

DTYPES = {"uint8": (1, "B"), "int8": (2, "b"), "int16": (3, "h"), "int32": (4, "i"), "int64": (5, "q"),
          "uint16": (8, "H")}


class Random:
    """SplitMix64, so that the bytes do not depend on what a Python version makes of a seed."""

    def __init__(self, seed):
        self.state = seed & 0xFFFFFFFFFFFFFFFF

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        return z ^ (z >> 31)

    def between(self, lo, hi):
        return lo + self.next() % (hi - lo + 1)

    def bytes(self, count):
        words = (count + 7) // 8
        return struct.pack("<%dQ" % words, *(self.next() for _ in range(words)))[:count]


def crc32c_table():
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC_TABLE = crc32c_table()


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = CRC_TABLE[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


def masked_crc32c(data):
    value = crc32c(data)
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def write_megatron(prefix, documents, random, options):
    """Documents of one or more sequences; a token's value tells nothing, as in real data."""
    code, letter = DTYPES[options.dtype]
    width = struct.calcsize(letter)
    lengths, pointers, doc_idx, at = [], [], [0], 0
    with open(prefix + ".bin", "wb") as data:
        for _ in range(documents):
            for _ in range(random.between(1, options.max_sequences)):
                tokens = random.between(1, options.max_tokens)
                data.write(random.bytes(tokens * width))
                lengths.append(tokens)
                pointers.append(at)
                at += tokens * width
            doc_idx.append(len(lengths))
    with open(prefix + ".idx", "wb") as index:
        index.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(lengths), len(doc_idx)))
        index.write(struct.pack("<%di" % len(lengths), *lengths))
        index.write(struct.pack("<%dq" % len(pointers), *pointers))
        index.write(struct.pack("<%dq" % len(doc_idx), *doc_idx))
    return prefix + ".bin"


def write_tfrecord(prefix, documents, random, options):
    with open(prefix + ".tfrecord", "wb") as data:
        for _ in range(documents):
            payload = random.bytes(random.between(0, options.max_bytes))
            length = struct.pack("<Q", len(payload))
            data.write(length + struct.pack("<I", masked_crc32c(length)))
            data.write(payload + struct.pack("<I", masked_crc32c(payload)))
    return prefix + ".tfrecord"


def write_tar(prefix, documents, random, options):
    """WebDataset: members of one sample share the path up to the first dot of its last component."""
    formats = {"ustar": tarfile.USTAR_FORMAT, "pax": tarfile.PAX_FORMAT, "gnu": tarfile.GNU_FORMAT}
    folder = "train/" + ("a-folder-with-a-rather-long-name/" * 4 if options.long_names else "")
    with tarfile.open(prefix + ".tar", "w", format=formats[options.tar_format]) as archive:
        for _ in range(documents):
            key = "%ssample_%08d" % (folder, options.next_key)
            options.next_key += 1
            for extension in ("json", "seg.png", "cls")[: random.between(1, 3)]:
                member = tarfile.TarInfo("%s.%s" % (key, extension))
                content = random.bytes(random.between(0, options.max_bytes))
                member.size = len(content)
                member.mtime = 1700000000
                archive.addfile(member, io.BytesIO(content))
    return prefix + ".tar"


def write_fixed(prefix, documents, random, options):
    with open(prefix + ".bin", "wb") as data:
        for _ in range(documents):
            data.write(random.bytes(options.record_bytes))
    return prefix + ".bin"


WRITERS = {"megatron": write_megatron, "tfrecord": write_tfrecord, "tar": write_tar, "fixed": write_fixed}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(WRITERS))
    parser.add_argument("--out", required=True, help="path and start of the files' names")
    parser.add_argument("--files", type=int, default=1, help="data files (default 1)")
    parser.add_argument("--documents", type=int, default=100, help="documents in all files together (default 100)")
    parser.add_argument("--seed", type=int, default=1, help="default 1")
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="uint16", help="megatron: of a token (default uint16)")
    parser.add_argument("--max-tokens", type=int, default=60, help="megatron: in a sequence (default 60)")
    parser.add_argument("--max-sequences", type=int, default=3, help="megatron: in a document (default 3)")
    parser.add_argument("--max-bytes", type=int, default=700, help="tfrecord, tar: in a payload (default 700)")
    parser.add_argument("--record-bytes", type=int, default=64, help="fixed: of a record (default 64)")
    parser.add_argument("--tar-format", choices=("ustar", "pax", "gnu"), default="ustar", help="tar (default ustar)")
    parser.add_argument("--long-names", action="store_true", help="tar: names that ustar's 100 bytes do not hold")
    return parser.parse_args()


def main():
    options = parse_arguments()
    options.next_key = 0
    random = Random(options.seed)
    os.makedirs(os.path.dirname(os.path.abspath(options.out)), exist_ok=True)
    for file in range(options.files):
        lo, hi = (options.documents * i // options.files for i in (file, file + 1))
        print(WRITERS[options.kind]("%s-%d" % (options.out, file), hi - lo, random, options))


if __name__ == "__main__":
    main()
