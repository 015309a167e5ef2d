#include "ptc/state/tensor/convert.h"

#include <cstring>
#include <string>
#include <type_traits>

#include "ptc/base/status.h"
#include "ptc/state/tensor/codec.h"

namespace scalai::tensor {
namespace {
using codec::with_codec;

bool floating(DType dtype) {
  return with_codec(dtype, [](auto) {});
}

template <class From, class To>
typename To::Stored cast(typename From::Stored value) {
  if constexpr (!std::is_same_v<From, codec::F64>) {
    return To::narrow(From::widen(value));
  } else if constexpr (std::is_same_v<To, codec::F32>) {
    return static_cast<float>(value);
  } else {
    return To::narrow(codec::to_odd(value));
  }
}

template <class From, class To>
void convert_all(int64_t count, const std::byte* __restrict src, std::byte* __restrict dst) {
  using In = typename From::Stored;
  using Out = typename To::Stored;
  for (int64_t i = 0; i < count; ++i) {
    codec::store(dst + i * int64_t{sizeof(Out)}, cast<From, To>(codec::load<In>(src + i * int64_t{sizeof(In)})));
  }
}
}  // namespace

bool convertible(DType from, DType to) { return from == to || (floating(from) && floating(to)); }

void convert(DType from, DType to, int64_t count, const std::byte* src, std::byte* dst) {
  if (from == to) {
    std::memcpy(dst, src, static_cast<size_t>(count * size_of(from)));
    return;
  }
  SCALAI_CHECK(convertible(from, to), std::string(name_of(from)) + " to " + std::string(name_of(to)));
  with_codec(from, [&](auto from_codec) {
    with_codec(to, [&](auto to_codec) { convert_all<decltype(from_codec), decltype(to_codec)>(count, src, dst); });
  });
}

}  // namespace scalai::tensor
