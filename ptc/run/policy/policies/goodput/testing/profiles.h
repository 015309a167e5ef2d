#pragma once
// For tests of this folder: a small folder of profiles with numbers that are easy to follow by hand.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai::policy::testing {

// One application, "tiny": 2 epochs of 100, batches 8 and 32, local batches 4, 8 and 16. On one GPU a step takes
// local / 4 s, a tenth of it to exchange; on "11" 2 s, "12" 3 s, "13" 5 s, "22" 4 s at any local batch; on six nodes
// 6 s (6 GPUs), 10 s (12).
class TinyProfiles {
 public:
  TinyProfiles() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = (std::filesystem::temp_directory_path() /
               ("scalai-profiles-" + std::string(test->test_suite_name()) + test->name() + std::to_string(::getpid())))
                  .string();
    write("placements.csv",
          "placement,local_bsz,step_time,sync_time\n"
          "1,4,1,0.1\n1,8,2,0.2\n1,16,4,0.4\n"
          "2,4,1.5,0.5\n2,16,4.5,0.5\n"
          "11,4,2,1\n11,16,2,1\n12,4,3,1\n12,16,3,1\n13,4,5,1\n13,16,5,1\n22,4,4,1\n22,16,4,1\n");
    write("scalability.csv", "num_nodes,num_replicas,local_bsz,step_time,sync_time\n6,6,4,6,2\n6,12,4,10,2\n");
    const std::string header = "progress,iteration,metric,grad_sqr,grad_var\n";
    write("validation-8.csv", header + "100,100,0.5,1,3\n200,200,0.6,1,4\n");
    write("validation-32.csv", header + "110,40,0.5,3,7\n220,80,0.6,3,8\n");
  }
  ~TinyProfiles() {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
  TinyProfiles(const TinyProfiles&) = delete;
  TinyProfiles& operator=(const TinyProfiles&) = delete;

  const std::string& folder() const { return folder_; }

 private:
  void write(const std::string& file, const std::string& text) {
    SCALAI_CHECK(make_folders(folder_ + "/tiny").ok() && write_file(folder_ + "/tiny/" + file, text).ok());
  }
  std::string folder_;
};

}  // namespace scalai::policy::testing
