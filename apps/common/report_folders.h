#pragma once
// Folders on the command lines of commands that read reports. Any thread may call.

#include <string>
#include <vector>

namespace scalai::apps {

// One run, or one with several seeds: then its folder holds "seed-N" for each.
struct ReportFolder {
  std::string label;
  std::vector<std::string> folders;  // of reports, at least one, by seed
};

// The reports that each of `arguments` names: the folder itself when it is a report, else the reports in it, by name
// (what several alternatives were written to); a folder without any, or a file, stands for itself. Labels are names of
// folders; with several arguments a report inside one is "FOLDER/REPORT", and equal labels become their paths.
std::vector<ReportFolder> report_folders(const std::vector<std::string>& arguments);

}  // namespace scalai::apps
