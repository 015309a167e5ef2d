"""Writes a dataset of each format: Megatron's a and b, records of ten bytes in f, TFRecords in r, a tar of samples in t."""

import io
import struct
import tarfile


def write(name, data):
    with open(name, "wb") as file:
        file.write(data)


def megatron(name, first, lengths, documents):
    write(name + ".bin", struct.pack(f"<{sum(lengths)}i", *range(first, first + sum(lengths))))
    starts = [4 * sum(lengths[:i]) for i in range(len(lengths))]
    ends = [sum(documents[:i]) for i in range(len(documents) + 1)]
    write(name + ".idx", b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, len(lengths), len(ends)) +
          struct.pack(f"<{len(lengths)}i{len(starts)}q{len(ends)}q", *lengths, *starts, *ends))


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data):
    length = struct.pack("<Q", len(data))
    return length + masked_crc(length) + data + masked_crc(data)


megatron("a", 0, [10] * 6, [2, 1, 3])
megatron("b", 60, [43], [1])
write("f", b"x" * 1000)
write("r", record(b"one") + record(b"three"))
write("changed", record(b"One") + record(b"three"))
with tarfile.open("t", "w", format=tarfile.USTAR_FORMAT) as tar:
    for name, text in (("k.x", b"1"), ("k.y", b"2"), ("README", b""), ("l.x", b"3")):
        member = tarfile.TarInfo(name)
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
