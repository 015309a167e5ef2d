#include "labs/near/commands/near_held.h"

#include <gmock/gmock.h>

#include <set>
#include <string>

namespace scalai::apps {
namespace near_held_test {

using ::testing::ElementsAre;

// Which of these hosts keep each of the files a, b and c.
std::vector<std::string> kept(const std::vector<std::string>& hosts, const HeldBytes& held) {
  near::Source source;
  for (const std::string& name : hosts) {
    source.hosts.push_back({.name = name, .folder = "/out"});
    source.by_host.push_back({{"a", {}}, {"b", {}}, {"c", {}}});
  }
  keep_where_held(held, source);
  std::vector<std::string> all;
  for (const auto& files : source.by_host) {
    std::string& names = all.emplace_back();
    for (const auto& [name, facts] : files) names += name;
  }
  return all;
}

TEST(KeepWhereHeld, FilesAreForHostsThatHoldAsGoodAsMost) {
  const HeldBytes held = {{"a", {{"n1", 100}, {"n2", 91}, {"n3", 89}}}, {"b", {{"n2", 7}}}};
  EXPECT_THAT(kept({"n1", "u@n2.cluster", "n3"}, held), ElementsAre("ac", "abc", "c")) << "c is no file of tensors";
  EXPECT_THAT(kept({"n3", "n4"}, held), ElementsAre("abc", "bc")) << "of those that are asked; b is held by none";
  EXPECT_THAT(kept({"x", "y"}, held), ElementsAre("abc", "abc"));
  EXPECT_THAT(kept({}, held), ElementsAre());
}

}  // namespace near_held_test
}  // namespace scalai::apps
