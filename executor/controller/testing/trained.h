#pragma once
// For tests: runs with real training by a program that stands in for it (executor/trainers/testing).

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "executor/controller/testing/test_fleet.h"
#include "ptc/store/safetensors/job_checkpoint.h"

namespace scalai::executor::controller::testing {

inline constexpr const char* kCheckpoints = "checkpoint { every_steps: 10 }";

// Workers that say so often that a checkpoint's files are not there yet (trainer_work_test.cpp).
Fleet::Options busy(int times);

class Trained : public ::testing::Test {
 protected:
  static scenario::Scenario scenario_of(const std::string& text,
                                        const std::string& cluster = control::testing::kSmallCluster) {
    auto scenario = control::testing::scenario_of(cluster + text);
    SCALAI_CHECK(scenario.ok(), message_of(scenario.status()));
    return *std::move(scenario);
  }
  // A job that grows, shrinks and changes its layout; every step takes a second.
  static std::string job(const std::string& more) {
    return control::testing::job_text(
        "a",
        "gpus: 2 steps: 41 configs { layout: \"tp2\" step_time: \"1s\" } configs { layout: \"tp2,dp2\" "
        "step_time: \"1s\" } configs { layout: \"tp1\" step_time: \"1s\" } " +
            more);
  }
  static std::string resize(double at_s, int gpus) {
    return fmt::format("events {{ at: \"{}s\" resize {{ job: \"a\" gpus: {} }} }}\n", at_s, gpus);
  }

  Ran train(const scenario::Scenario& scenario, const std::string& variables = "", Fleet::Options fleet = {},
            ExecOptions options = {}) {
    options.programs[0] = {
        .command = variables + " " + TRAINER_PROGRAM, .folder = folder_.path(), .logs = folder_.path() + "/logs"};
    return execute(scenario, "reshard", folder_.path(), std::move(fleet), options);
  }

  std::string checkpoint_of(int64_t step) const { return store::step_folder(folder_.path() + "/checkpoints/a", step); }
  // Every element of this step's checkpoint is that of the step.
  void expect_right(int64_t step) {
    const std::string folder = checkpoint_of(step);
    const auto reader = store::Reader::open(folder);
    ASSERT_TRUE(reader.ok()) << reader.status();
    int64_t elements = 0;
    const collection::Collection& side = reader->collection();
    for (size_t i = 0; i < side.tensors.size(); ++i) {
      const tensor::Box whole = tensor::Box::whole(side.tensors[i].shape);
      const int64_t size = tensor::size_of(side.tensors[i].dtype);
      std::vector<std::byte> bytes(static_cast<size_t>(whole.volume() * size));
      ASSERT_TRUE(reader->read(TensorId(static_cast<int64_t>(i)), whole, bytes).ok());
      for (int64_t index = 0; index < whole.volume(); ++index, ++elements) {
        const uint64_t wanted = static_cast<uint64_t>(index * 7 + step);
        ASSERT_EQ(std::memcmp(bytes.data() + index * size, &wanted, static_cast<size_t>(size)), 0)
            << side.tensors[i].name << " element " << index;
      }
    }
    EXPECT_GT(elements, 100);
  }

  Folder folder_;
};

}  // namespace scalai::executor::controller::testing
