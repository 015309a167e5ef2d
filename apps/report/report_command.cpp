#include <fmt/format.h>

#include <filesystem>

#include "apps/commands.h"
#include "apps/common/output.h"
#include "apps/common/report_folders.h"
#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/report/page/page.h"

namespace scalai::apps {
namespace {

// Another file than a page of ours is not lost by a slip of the pen.
absl::Status may_replace(const std::string& out, bool force) {
  std::error_code error;
  if (force || !std::filesystem::is_regular_file(out, error)) return absl::OkStatus();
  const auto text = read_file(out);
  if (text.ok() && (text->empty() || report::is_html_page(*text))) return absl::OkStatus();
  return invalid(
      fmt::format("{}: this file exists and is no report of Scalai\nhint: another --out=FILE, or --force", out));
}

int run_report_command(const Arguments& arguments) {
  const std::string out = arguments.text("out");
  if (out.empty()) return usage_error("report", "--out=FILE is missing");
  std::vector<report::PageSource> sources;
  for (const auto& [label, folders] : report_folders(arguments.positional())) {
    if (folders.front() == "-") return usage_error("report", kNoStandardInput);
    sources.push_back(
        {folders.size() == 1 ? label : fmt::format("{} (first of {} seeds)", label, folders.size()), folders.front()});
  }
  if (const absl::Status free = may_replace(out, arguments.flag("force")); !free.ok()) return report_error(free);
  const auto page = report::html_page(sources);
  if (!page.ok()) return report_error(page.status());
  if (const absl::Status written = write_file(out, *page); !written.ok()) return report_error(written);
  print("{}\n", out);
  return 0;
}

}  // namespace

Command report_command() {
  return {{.name = "report",
           .summary = "write one HTML page about runs, for people: what happened, and what it cost",
           .usage = "scalai report DIR… --out=FILE.html",
           .description =
               R"(Each DIR is the --out folder of `scalai sim` or `scalai exec`: of one run, of many jobs, of a recovery
design, or of several strategies, which are then all shown by name. Runs of one scenario and seed stand side by
side. In place of a DIR there may be the table of a sweep (FILE.csv), and what `scalai accuracy --format=json`
printed (FILE.json).

The page is one file without script and without links to a network: it can be sent, printed, and read on a
phone. All its numbers come from the files in DIR; what a DIR has not got is left out with a sentence. The same
files give the same bytes. A page that exists is replaced as a whole; any other file is not.)",
           .options = {text_option("out", "FILE", "Where the page goes."),
                       flag_option("force", "Replace FILE even if it is no page of Scalai.")},
           .examples = {"scalai report out/demo --out=report.html", "scalai report out/sim out/exec --out=report.html",
                        "scalai report out/fifo out/srtf sweep.csv --out=report.html"},
           .min_arguments = 1,
           .max_arguments = -1,
           .endings = kFolderEndings},
          run_report_command};
}

}  // namespace scalai::apps
