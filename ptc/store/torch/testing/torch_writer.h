#pragma once
// Small files of torch.save, for tests: the archive, and the pickle of a dict of tensors.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ptc/base/hash.h"
#include "ptc/store/torch/internal/little_endian.h"
#include "ptc/store/torch/internal/pickle_writer.h"

namespace scalai::store {

using internal::append_number;
using internal::PickleWriter;

// An archive of stored entries, as torch writes it but for the alignment of their data.
class ZipWriter {
 public:
  void add(const std::string& name, std::string_view data, uint16_t method = 0, uint16_t flags = 0,
           bool has_checksum = true) {
    crc_ = has_checksum ? crc32_of(data) : 0;
    const size_t header = bytes_.size();
    entry(0x04034b50, name, data, method, flags, bytes_);
    bytes_ += name;
    bytes_ += data;
    append_number(table_, 0x02014b50, 4);
    append_number(table_, 0, 2);
    entry_fields(name, data, method, flags, table_);
    append_number(table_, 0, 2);  // comment
    append_number(table_, 0, 2);  // disk
    append_number(table_, 0, 2);  // attributes
    append_number(table_, 0, 4);
    append_number(table_, header, 4);
    table_ += name;
    ++entries_;
  }
  std::string finish() const {
    std::string all = bytes_ + table_;
    append_number(all, 0x06054b50, 4);
    append_number(all, 0, 4);
    append_number(all, entries_, 2);
    append_number(all, entries_, 2);
    append_number(all, table_.size(), 4);
    append_number(all, bytes_.size(), 4);
    append_number(all, 0, 2);
    return all;
  }

 private:
  void entry_fields(const std::string& name, std::string_view data, uint16_t method, uint16_t flags,
                    std::string& to) const {
    append_number(to, 0, 2);  // version
    append_number(to, flags, 2);
    append_number(to, method, 2);
    append_number(to, 0, 4);  // time
    append_number(to, crc_, 4);
    append_number(to, data.size(), 4);
    append_number(to, data.size(), 4);
    append_number(to, name.size(), 2);
    append_number(to, 0, 2);  // extra
  }
  void entry(uint32_t signature, const std::string& name, std::string_view data, uint16_t method, uint16_t flags,
             std::string& to) const {
    append_number(to, signature, 4);
    entry_fields(name, data, method, flags, to);
  }

  std::string bytes_, table_;
  uint32_t crc_ = 0;  // of the entry that is added
  uint64_t entries_ = 0;
};

struct TorchTensor {
  std::string name;
  std::string storage = "FloatStorage";
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  int64_t first = 0;
  std::string key = "0";
};

inline void append_tensor(PickleWriter& pickle, const TorchTensor& tensor) {
  pickle.name("torch._utils", "_rebuild_tensor_v2").op("(");
  pickle.op("(").text("storage").name("torch", tensor.storage).text(tensor.key).text("cpu").number(1).op("tQ");
  pickle.number(tensor.first).numbers(tensor.shape).numbers(tensor.strides).op("\x89");
  pickle.name("collections", "OrderedDict").op(")R").op("tR");
}

// torch.save({name: tensor, …, "iteration": 7}) with these storages, of which one may have no checksum.
inline std::string torch_file(const std::vector<TorchTensor>& tensors,
                              const std::vector<std::pair<std::string, std::string>>& storages,
                              std::string_view without_checksum = "") {
  PickleWriter pickle;
  pickle.op("}(");
  for (const TorchTensor& tensor : tensors) {
    pickle.text(tensor.name);
    append_tensor(pickle, tensor);
  }
  pickle.text("iteration").number(7).op("u.");
  ZipWriter zip;
  zip.add("archive/data.pkl", pickle.bytes());
  zip.add("archive/byteorder", "little");
  for (const auto& [key, data] : storages) zip.add("archive/data/" + key, data, 0, 0, key != without_checksum);
  zip.add("archive/version", "3\n");
  return zip.finish();
}

}  // namespace scalai::store
