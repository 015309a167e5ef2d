# cmake -DIN=FILE -DOUT=FILE.cpp -DNAME=scalai::x::bytes -P ScalaiEmbed.cmake: a source file that defines
# `std::string_view scalai::x::bytes()`, the content of FILE.
file(READ "${IN}" _hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" _hex "${_hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," _bytes "${_hex}")
string(REGEX REPLACE "::[^:]*$" "" _namespace "${NAME}")
string(REGEX REPLACE "^.*::" "" _function "${NAME}")
file(WRITE "${OUT}" "#include <string_view>

namespace ${_namespace} {
namespace {
const unsigned char kBytes[] = {
${_bytes}};
}  // namespace
std::string_view ${_function}();
std::string_view ${_function}() { return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes)}; }
}  // namespace ${_namespace}
")
