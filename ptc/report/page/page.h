#pragma once
// `scalai report`: one HTML page about runs, made of what their folders hold. The page needs no network and no script.
// The same files give the same bytes.

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::report {

// What a page is about: the folder of a run (summary.json), a table of `scalai sweep` (.csv), or what `scalai accuracy
// --format=json` printed (.json).
struct PageSource {
  std::string label;  // names it in the page
  std::string path;
};

// The page. Runs of one scenario and seed are shown side by side, others one after another. A file that a run has not
// got is left out with a sentence. Errors, all of them, a line each: NotFound (a folder or summary.json is missing),
// InvalidArgument (no report, another schema version, a broken file).
absl::StatusOr<std::string> html_page(const std::vector<PageSource>& sources);

// Whether a file is a page of ours, which may be replaced.
bool is_html_page(const std::string& text);

}  // namespace scalai::report
