// Files of the reference library (PyPI safetensors with numpy) and ours, in both directions. SCALAI_PYTHON names
// another python3 than the one on the path.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "ptc/base/file.h"
#include "ptc/store/safetensors/checksum.h"
#include "ptc/store/safetensors/safetensors.h"
#include "ptc/store/safetensors/testing/test_job.h"
#include "ptc/store/safetensors/testing/write_safetensors.h"

namespace scalai::store {
namespace {

std::string python() {
  const char* named = std::getenv("SCALAI_PYTHON");
  return named == nullptr ? "python3" : named;
}

bool has_reference() {
  return std::system((python() + " -c 'import safetensors, numpy' >/dev/null 2>&1").c_str()) == 0;
}

// Reads ours with the reference, gives every tensor back to it, and writes what numpy knows as well.
constexpr const char* kScript = R"py(
import sys, numpy, safetensors
from safetensors.numpy import load_file, save_file
folder = sys.argv[1]
names = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
         "I16": "int16", "U16": "uint16", "F16": "float16", "BF16": "bfloat16", "I32": "int32", "U32": "uint32",
         "F32": "float32", "F64": "float64", "I64": "int64", "U64": "uint64"}
stored = safetensors.deserialize(open(folder + "/ours", "rb").read())
tensors, keep = {}, []
for name, entry in stored:
    data = bytes(entry["data"])
    if hasattr(safetensors, "TensorSpec"):
        array = numpy.frombuffer(data or b"\0", dtype=numpy.uint8)
        keep.append(array)
        tensors[name] = safetensors.TensorSpec(dtype=names[entry["dtype"]], shape=entry["shape"],
                                               data_ptr=array.ctypes.data, data_len=len(data))
    else:
        tensors[name] = {"dtype": names[entry["dtype"]], "shape": entry["shape"], "data": data}
with safetensors.safe_open(folder + "/ours", framework="numpy") as file:
    metadata = file.metadata()
assert metadata == {"k\u00e9y": "v\u0001\"alue\""}, metadata
open(folder + "/theirs", "wb").write(bytes(safetensors.serialize(tensors, metadata)))
values = load_file(folder + "/numbers")
assert values["x"].dtype == numpy.int32 and values["x"].tolist() == [[0, 1, 2], [3, 4, 5]], values["x"]
save_file({"y": values["x"].T.copy(), "z": numpy.array(7, dtype=numpy.uint8)}, folder + "/numpy")
)py";

class SafetensorsInterop : public FolderTest {
 protected:
  SafetensorsInterop() {
    for (size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<char>(i * 37);
  }
  std::string data_ = std::string(4096, '\0');
};

TEST_F(SafetensorsInterop, BothReadEachOthersFilesAndWriteTheSameBytes) {
  if (!has_reference()) GTEST_SKIP() << python() << " has no safetensors with numpy (pip install safetensors numpy)";
  std::vector<TensorSpec> specs;
  for (const std::string& dtype : tensor::dtype_names()) {
    specs.push_back({"one." + dtype, *tensor::parse_dtype(dtype), {3, 1, 5}});
    specs.push_back({"\xC3\xA9\t\"" + dtype, *tensor::parse_dtype(dtype), {}});
    specs.push_back({"empty." + dtype, *tensor::parse_dtype(dtype), {2, 0}});
  }
  const TensorSource source = [&](const StoredTensor& stored) -> absl::StatusOr<std::span<const std::byte>> {
    return bytes_of(std::string_view(data_).substr(stored.name.size(), static_cast<size_t>(stored.bytes)));
  };
  ASSERT_TRUE(write_safetensors(path("ours"), specs, {{"k\xC3\xA9y", "v\x01\"alue\""}}, source).ok());
  const std::array<int32_t, 6> numbers = {0, 1, 2, 3, 4, 5};
  ASSERT_TRUE(write_safetensors(path("numbers"), {{"x", tensor::DType::kI32, {2, 3}}}, {},
                                [&](const StoredTensor&) -> absl::StatusOr<std::span<const std::byte>> {
                                  return std::as_bytes(std::span(numbers));
                                })
                  .ok());
  ASSERT_TRUE(write_file(path("script.py"), kScript).ok());
  ASSERT_EQ(std::system(fmt::format("{} {} {}", python(), path("script.py"), folder_).c_str()), 0);

  EXPECT_EQ(*read_file(path("theirs")), *read_file(path("ours")));
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::open(path("numpy"));
  ASSERT_TRUE(file.ok()) << file.status();
  std::array<int32_t, 6> turned{};
  ASSERT_TRUE(file->read(*file->find("y"), 0, std::as_writable_bytes(std::span(turned))).ok());
  EXPECT_EQ(turned, (std::array<int32_t, 6>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(file->find("y")->shape, (std::vector<int64_t>{3, 2}));
  EXPECT_TRUE(file->find("z")->shape.empty());
}

}  // namespace
}  // namespace scalai::store
