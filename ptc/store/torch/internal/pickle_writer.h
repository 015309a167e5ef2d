#pragma once
// Writes a pickle of protocol 2, opcode by opcode (https://docs.python.org/3/library/pickletools.html). Names and texts
// that come again are references to the first. Values.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace scalai::store::internal {

class PickleWriter {
 public:
  PickleWriter& op(std::string_view opcodes);
  PickleWriter& text(std::string_view value);
  PickleWriter& number(int64_t value);
  PickleWriter& real(double value);
  PickleWriter& numbers(const std::vector<int64_t>& values);             // a tuple
  PickleWriter& name(std::string_view module, std::string_view object);  // of a class or function

  const std::string& bytes() const { return bytes_; }

 private:
  PickleWriter& once(std::string opcodes);

  std::string bytes_ = std::string("\x80\x02", 2);
  std::unordered_map<std::string, uint32_t> written_;  // opcodes of a value ─► its place in the memo
};

}  // namespace scalai::store::internal
