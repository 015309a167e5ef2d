#include "apps/data/data_command.h"

#include <map>
#include <nlohmann/json.hpp>

#include "apps/common/output.h"
#include "ptc/base/json.h"
#include "ptc/base/progress.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/store/datasets/build.h"
#ifdef SCALAI_WITH_CURL
#include "vfs/remote/remote_source.h"
#endif

namespace scalai::apps {
namespace {

using nlohmann::ordered_json;

const std::map<std::string, datasets::Format> kKinds = {{"megatron", datasets::Format::kMegatron},
                                                        {"tfrecord", datasets::Format::kTfRecord},
                                                        {"tar", datasets::Format::kTar},
                                                        {"fixed", datasets::Format::kFixed}};

void print_summary(const datasets::BuildRequest& request, const datasets::BuildSummary& built,
                   const std::string& format) {
  if (format == "json") {
    const ordered_json json = {
        {"index", request.out},          {"digest", built.digest},           {"kind", name_of(request.format)},
        {"files", request.files.size()}, {"documents", built.documents},     {"tokens", built.tokens},
        {"bytes", built.bytes},          {"index_bytes", built.index_bytes}, {"members_left_out", built.left_out}};
    print("{}\n", json_text(json, {.indent = 2}));
    return;
  }
  print("{}: {} documents in {} {} file{}, {}\ndigest {}, index of {}\n", request.out, built.documents,
        request.files.size(), name_of(request.format), request.files.size() == 1 ? "" : "s", format_bytes(built.bytes),
        built.digest, format_bytes(built.index_bytes));
  if (built.tokens > 0) print("{} tokens\n", built.tokens);
  if (built.left_out > 0) print("{} members belong to no sample and were left out\n", built.left_out);
}

int index(const Arguments& arguments) {
  for (const std::string& file : arguments.positional()) {
    if (file == "-") return usage_error("data index", kNoStandardInput);
  }
  if (!arguments.has("kind")) return usage_error("data index", "--kind=megatron|tfrecord|tar|fixed is needed");
  if (!arguments.has("out")) return usage_error("data index", "--out=INDEX is needed");
  const datasets::Format format = kKinds.at(arguments.text("kind"));
  if (arguments.has("record-bytes") != (format == datasets::Format::kFixed)) {
    return usage_error("data index", format == datasets::Format::kFixed ? "--kind=fixed needs --record-bytes=N"
                                                                        : "--record-bytes is for --kind=fixed");
  }
  const absl::StatusOr<SourceOpener> opener = data_opener();
  if (!opener.ok()) return report_error(opener.status());
  Progress progress("indexing");
  datasets::BuildRequest request{
      .format = format, .files = arguments.positional(), .out = arguments.text("out"), .opener = *opener};
  if (arguments.has("record-bytes")) request.record_bytes = arguments.count("record-bytes");
  request.progress = [&](double fraction, std::string_view detail) { progress.update(fraction, detail); };
  const auto built = datasets::build_index(request);
  if (!built.ok()) return report_error(built.status());
  print_summary(request, *built, arguments.text("format"));
  return 0;
}

}  // namespace

Command data_index_command() {
  return {
      {.name = "index",
       .summary = "find the documents of data files",
       .usage = "scalai data index --kind=KIND FILE… --out=INDEX",
       .description =
           R"(Reads data files once and writes where each document lies. Documents are numbered through all files in the
order given. The files stay where they are; one that changes afterwards is refused until it is indexed
again. A FILE may be an http:// or https:// address on a server that gives ranges.

  megatron  NAME.bin with NAME.idx beside it (either name, or NAME): documents of token sequences
  tfrecord  uncompressed records; all checksums are checked
  tar       uncompressed WebDataset shards: members up to the first dot of their names are a sample
  fixed     records of --record-bytes each)",
       .options = {choice_option("kind", "KIND", "What the files are.", {"megatron", "tfrecord", "tar", "fixed"}),
                   text_option("out", "INDEX", "The index to be written; replaced as a whole."),
                   count_option("record-bytes", "N", "Bytes of a record."), format_option({"table", "json"})},
       .examples = {"scalai data index --kind=megatron corpus_text_document --out=corpus.index",
                    "scalai data index --kind=tar shards/*.tar --out=images.index"},
       .min_arguments = 1,
       .max_arguments = -1},
      index};
}

absl::StatusOr<SourceOpener> data_opener() {
#ifdef SCALAI_WITH_CURL
  return vfs::make_opener();
#else
  return SourceOpener(open_file_source);
#endif
}

}  // namespace scalai::apps
