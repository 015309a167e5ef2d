#pragma once
// Which folders are runs. Any thread.

#include <filesystem>
#include <string>

namespace scalai::apps {

// Whether a folder is that of a run that goes on, or was broken off.
inline bool is_run(const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder + "/run.json", ignored) &&
         std::filesystem::exists(folder + "/address", ignored);
}

}  // namespace scalai::apps
