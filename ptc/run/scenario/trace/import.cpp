#include "ptc/run/scenario/trace/import.h"

#include <fmt/format.h>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/internal/finish.h"
#include "ptc/run/scenario/trace/internal/formats.h"

namespace scalai::trace {

const std::vector<Format>& all_formats() {
  static const std::vector<Format> formats = [] {
    std::vector<Format> all{own_format()};
    for (const auto& family : {gavel_formats(), table_job_formats(), document_job_formats(), host_formats(),
                               document_host_formats(), price_formats()}) {
      all.insert(all.end(), family.begin(), family.end());
    }
    return all;
  }();
  return formats;
}

namespace {

absl::StatusOr<const Format*> find_format(const std::string& name) {
  std::vector<std::string> names;
  for (const Format& format : all_formats()) {
    if (format.info.name == name) return &format;
    names.push_back(format.info.name);
  }
  const std::string near = closest(name, names);
  return invalid(fmt::format(
      "there is no trace format {}\n  hint: {}", in_quotes(name),
      near.empty() ? fmt::format("there are {}", fmt::join(names, ", ")) : fmt::format("did you mean {}?", near)));
}

}  // namespace

const std::vector<TraceFormat>& trace_formats() {
  static const std::vector<TraceFormat> infos = [] {
    std::vector<TraceFormat> all;
    for (const Format& format : all_formats()) all.push_back(format.info);
    return all;
  }();
  return infos;
}

absl::StatusOr<Imported> import_traces(const std::string& format, const std::vector<std::string>& paths,
                                       const std::vector<std::string>& set,
                                       const std::function<void(int64_t)>& bytes_read) {
  SCALAI_CHECK(!paths.empty());
  SCALAI_ASSIGN_OR_RETURN(const Format* found, find_format(format));
  Reading reading;
  reading.content = found->info.content;
  reading.summary.format = format;
  reading.source = paths.front();
  reading.bytes_read = bytes_read;
  reading.options = OptionValues::parse(format, found->info.options, set, reading.problems);
  const Window window = read_window(reading);
  SCALAI_RETURN_IF_ERROR(reading.problems.status());  // before a large file is read in vain
  for (const std::string& path : paths) {
    SCALAI_RETURN_IF_ERROR(found->read(path, reading));
    ++reading.file;
  }
  SCALAI_RETURN_IF_ERROR(reading.problems.status());
  if (reading.workload_name.empty()) reading.workload_name = stem_of(paths.front());
  return finish(std::move(reading), window);
}

absl::StatusOr<Imported> import_trace(const std::string& format, const std::string& path,
                                      const std::vector<std::string>& set) {
  return import_traces(format, {path}, set);
}

}  // namespace scalai::trace
