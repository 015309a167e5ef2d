#include "ptc/base/url.h"

#include <gtest/gtest.h>

namespace scalai {
namespace {

TEST(Url, WhatIsEncodedIsDecoded) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(percent_decoded(percent_encoded(all)), all);
  EXPECT_EQ(percent_decoded("%4"), "%4");
  EXPECT_EQ(percent_decoded("%%41%g1%"), "%A%g1%");
}

TEST(Url, NamesAreEncodedInAddressesAlone) {
  EXPECT_EQ(percent_encoded("a b/c~d-e_f.g"), "a%20b/c~d-e_f.g");
  EXPECT_EQ(percent_encoded("ä%?#&"), "%C3%A4%25%3F%23%26");
  for (const char* folder : {"http://h/f", "https://h/f%20g"})
    EXPECT_EQ(location_in(folder, "a#1?v=%62.safetensors"), std::string(folder) + "/a%231%3Fv%3D%2562.safetensors");
  EXPECT_EQ(location_in("s3://bucket/f", "a#1"), "s3://bucket/f/a#1");
  EXPECT_EQ(location_in("/data/f", "a b"), "/data/f/a b");
}

}  // namespace
}  // namespace scalai
