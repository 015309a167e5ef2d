#pragma once
// For tests: a folder with checkpoints, opened and resharded by their names in it.

#include <memory>
#include <string>

#include "ptc/store/views/reshard.h"
#include "ptc/store/views/testing/test_model.h"

namespace scalai::store {

class CheckpointFolder : public FolderTest {
 protected:
  std::shared_ptr<const Checkpoint> open(const std::string& name, const OpenOptions& options = {}) const {
    auto opened = Checkpoint::open(path(name), options);
    SCALAI_CHECK(opened.ok(), message_of(opened.status()));
    return *opened;
  }
  // What reshard makes of it.
  void reshard_to(const std::string& from, const std::string& to, const std::string& view_name) const {
    const auto view = View::make(open(from), view_name);
    ASSERT_TRUE(view.ok()) << view.status();
    write(**view, to);
  }
  void write(const View& view, const std::string& to) const {
    const ReshardOptions options{.target = path(to), .progress = {}};
    const auto plan = plan_reshard(view, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const auto result = reshard(view, *plan, options);
    ASSERT_TRUE(result.ok()) << result.status();
  }
};

}  // namespace scalai::store
