#pragma once
// Folders on the command lines of commands that read reports. Any thread may call.

#include <string>
#include <utility>
#include <vector>

namespace scalai::apps {

// A label and the folder of a report, for each of `arguments`: the folder itself when it is a report, else the reports in
// it, by name (what several strategies were written to); a folder without any, or a file, stands for itself. Labels are
// names of folders; with several arguments a report inside one is "FOLDER/REPORT", and equal labels become their paths.
std::vector<std::pair<std::string, std::string>> report_folders(const std::vector<std::string>& arguments);

}  // namespace scalai::apps
