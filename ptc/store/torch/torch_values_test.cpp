#include "ptc/store/torch/internal/torch_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/store/torch/testing/torch_writer.h"

namespace scalai::store::internal {
namespace torch_values_test {

using testing::ElementsAre;

Pickle read(PickleWriter& writer) { return Pickle::read(writer.op(".").bytes()).value(); }

TEST(TorchValues, DtypesHaveTwoNames) {
  EXPECT_EQ(dtype_of("torch.BFloat16Storage"), tensor::DType::kBF16);
  EXPECT_EQ(dtype_of("torch.bfloat16"), tensor::DType::kBF16);
  EXPECT_EQ(dtype_of("torch.float8_e4m3fn"), tensor::DType::kF8E4M3);
  EXPECT_EQ(dtype_of("torch.complex64"), std::nullopt);
  EXPECT_EQ(dtype_of(""), std::nullopt);
}

TEST(TorchValues, SizesAreTuplesListsOrTheirOwnClass) {
  PickleWriter tuple, size, text, empty;
  tuple.numbers({2, 3});
  size.name("torch", "Size").numbers({4}).op("\x85R");
  text.op("(").text("x").op("t");
  empty.name("torch", "Size").op(")R");
  EXPECT_THAT(*numbers_of(read(tuple).root()), ElementsAre(2, 3));
  EXPECT_THAT(*numbers_of(read(size).root()), ElementsAre(4));
  EXPECT_EQ(numbers_of(read(text).root()), std::nullopt);
  EXPECT_EQ(numbers_of(read(empty).root()), std::nullopt);
}

}  // namespace torch_values_test
}  // namespace scalai::store::internal
