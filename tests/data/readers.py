"""Sequential readers of the dataset formats, by their published descriptions; the standard library only.

Nothing here knows of ours: what these read, other readers read. Each takes a path and returns the samples in the order
of the file; what does not follow the format is an AssertionError that names the path.
"""
import os
import struct
import tarfile

from make_dataset import masked_crc32c

TOKEN_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 8, 7: 4, 8: 2}


class IndexedDataset:
    """One Megatron .bin/.idx pair: `documents` is a list of lists of sequences, each the bytes of its tokens."""

    def __init__(self, bin_path):
        self.path = os.path.splitext(bin_path)[0]
        with open(self.path + ".idx", "rb") as file:
            index = file.read()
        assert index[:9] == b"MMIDIDX\0\0", "%s.idx: magic" % self.path
        version, self.dtype, sequences, entries = struct.unpack_from("<QBQQ", index, 9)
        assert version == 1, "%s.idx: version %d" % (self.path, version)
        self.lengths = struct.unpack_from("<%di" % sequences, index, 34)
        self.pointers = struct.unpack_from("<%dq" % sequences, index, 34 + 4 * sequences)
        self.doc_idx = struct.unpack_from("<%dq" % entries, index, 34 + 12 * sequences)
        assert len(index) == 34 + 12 * sequences + 8 * entries, "%s.idx: %d bytes" % (self.path, len(index))
        assert self.doc_idx[0] == 0 and self.doc_idx[-1] == sequences, "%s.idx: doc_idx" % self.path
        self.check_with_numpy(index, sequences, entries)
        self.documents = self.read_documents(bin_path)

    def check_with_numpy(self, index, sequences, entries):
        """The arrays as Megatron takes them from the file, where numpy is there."""
        try:
            import numpy
        except ImportError:
            return
        lengths = numpy.frombuffer(index, dtype=numpy.int32, count=sequences, offset=34)
        pointers = numpy.frombuffer(index, dtype=numpy.int64, count=sequences, offset=34 + lengths.nbytes)
        documents = numpy.frombuffer(index, dtype=numpy.int64, count=entries,
                                     offset=34 + lengths.nbytes + pointers.nbytes)
        assert (tuple(lengths), tuple(pointers), tuple(documents)) == (self.lengths, self.pointers, self.doc_idx)

    def read_documents(self, bin_path):
        width = TOKEN_BYTES[self.dtype]
        with open(bin_path, "rb") as file:
            data = file.read()
        sequences, at = [], 0
        for length, pointer in zip(self.lengths, self.pointers):
            assert pointer == at, "%s: sequence %d at %d, not %d" % (bin_path, len(sequences), pointer, at)
            sequences.append(data[pointer:pointer + length * width])
            at += length * width
        assert at == len(data), "%s: %d of %d bytes are in sequences" % (bin_path, at, len(data))
        return [sequences[lo:hi] for lo, hi in zip(self.doc_idx, self.doc_idx[1:])]


def read_tfrecords(path):
    """The payloads; every length and payload is checked against its masked CRC-32C."""
    records = []
    with open(path, "rb") as file:
        while header := file.read(12):
            length, length_crc = struct.unpack("<QI", header)
            assert length_crc == masked_crc32c(header[:8]), "%s: length of record %d" % (path, len(records))
            payload = file.read(length)
            (payload_crc,) = struct.unpack("<I", file.read(4))
            assert payload_crc == masked_crc32c(payload), "%s: payload of record %d" % (path, len(records))
            records.append(payload)
    return records


def read_tar(path):
    """WebDataset samples: (key, {extension: content}); neighbours with one key are one sample, and no key comes twice."""
    samples, seen = [], set()
    with open(path, "rb") as file:
        file.seek(-1024, os.SEEK_END)
        assert file.read() == bytes(1024), "%s: no two zero blocks at the end" % path
    with tarfile.open(path, "r:") as archive:
        for member in archive:
            if not member.isfile():
                continue
            folder, name = os.path.split(member.name)
            stem, extension = name.split(".", 1)
            key = os.path.join(folder, stem)
            if not samples or samples[-1][0] != key:
                assert key not in seen, "%s: sample %s comes twice" % (path, key)
                seen.add(key)
                samples.append((key, {}))
            assert extension not in samples[-1][1], "%s: %s comes twice" % (path, member.name)
            samples[-1][1][extension] = archive.extractfile(member).read()
    return samples


def read_fixed(path, record_bytes):
    with open(path, "rb") as file:
        data = file.read()
    assert len(data) % record_bytes == 0, "%s: no whole number of records" % path
    return [data[i:i + record_bytes] for i in range(0, len(data), record_bytes)]
