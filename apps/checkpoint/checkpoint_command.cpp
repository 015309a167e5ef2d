#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/checkpoint/checkpoint_options.h"
#include "apps/checkpoint/commands.h"
#include "apps/common/output.h"
#include "ptc/base/json.h"
#include "ptc/base/parallel.h"
#include "ptc/base/process.h"
#include "ptc/base/progress.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/store/views/checkpoint.h"

namespace scalai::apps {
namespace {

using nlohmann::ordered_json;
using store::Checkpoint;
using store::CheckpointFile;
using store::CheckpointInfo;
using store::LogicalState;

struct OfKind {
  int64_t tensors = 0;
  int64_t bytes = 0;
};

int64_t bytes_of(const LogicalState& state) { return state.shape.elements() * tensor::size_of(state.dtype); }

std::map<model::StateKind, OfKind> by_kind(const Checkpoint& checkpoint) {
  std::map<model::StateKind, OfKind> kinds;
  for (const LogicalState& state : checkpoint.tensors()) {
    ++kinds[state.kind].tensors;
    kinds[state.kind].bytes += bytes_of(state);
  }
  return kinds;
}

std::string model_of(const Checkpoint& checkpoint) {
  const store::KnownModel* known = checkpoint.model();
  if (known == nullptr) return "";
  if (known->model.name.empty()) return known->model.family;
  return fmt::format("{} ({})", known->model.name, known->model.family);
}

std::string notes_text(const CheckpointInfo& info) {
  std::string text;
  for (const std::string& note : info.notes) text += fmt::format("note: {}\n", note);
  return text;
}

void show_json(const Checkpoint& checkpoint) {
  const CheckpointInfo& info = checkpoint.info();
  ordered_json json = {{"path", info.path},     {"kind", store::name_of(info.kind)}, {"naming", info.naming},
                       {"layout", info.layout}, {"model", model_of(checkpoint)},     {"job", info.job}};
  if (info.step >= 0) json["step"] = info.step;
  json["epoch"] = info.epoch;
  json["left_out"] = info.dropped;
  json["notes"] = info.notes;
  json["damage"] = ordered_json::array();
  for (const store::Damage& damage : info.damage)
    json["damage"].push_back({{"what", damage.what}, {"states", damage.states}});
  json["state_bytes"] = checkpoint.state_bytes();
  for (const auto& [kind, of_kind] : by_kind(checkpoint)) {
    json["kinds"].push_back({{"kind", model::name_of(kind)}, {"tensors", of_kind.tensors}, {"bytes", of_kind.bytes}});
  }
  for (const CheckpointFile& file : checkpoint.files()) {
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"tensors", file.tensors}});
  }
  for (const LogicalState& state : checkpoint.tensors()) {
    json["tensors"].push_back({{"name", state.name},
                               {"dtype", tensor::name_of(state.dtype)},
                               {"shape", state.shape.str()},
                               {"kind", model::name_of(state.kind)},
                               {"bytes", bytes_of(state)}});
  }
  print("{}\n", json_text(json, {.indent = 2}));
}

void show_table(const Checkpoint& checkpoint) {
  const CheckpointInfo& info = checkpoint.info();
  Table tensors({"tensor", "dtype", "shape", "kind", "bytes>"});
  for (const LogicalState& state : checkpoint.tensors()) {
    tensors.row({state.name, std::string(tensor::name_of(state.dtype)), state.shape.str(),
                 std::string(model::name_of(state.kind)), fmt::format("{}", bytes_of(state))});
  }
  Table files({"file", "tensors>", "bytes>"});
  int64_t file_bytes = 0;
  for (const CheckpointFile& file : checkpoint.files()) {
    files.row({file.name, fmt::format("{}", file.tensors), fmt::format("{}", file.bytes)});
    file_bytes += file.bytes;
  }
  Table kinds({"state", "tensors>", "bytes>", ""});
  for (const auto& [kind, of_kind] : by_kind(checkpoint)) {
    kinds.row({std::string(model::name_of(kind)), fmt::format("{}", of_kind.tensors), fmt::format("{}", of_kind.bytes),
               format_bytes(of_kind.bytes)});
  }
  print("{}\n{}\n{}\n", tensors.text(stdout_screen()), files.text(stdout_screen()), kinds.text(stdout_screen()));
  print("{}: kind {}, names {}", info.path, store::name_of(info.kind), info.naming);
  if (!info.layout.empty()) print(", layout {}", info.layout);
  if (const std::string model = model_of(checkpoint); !model.empty()) print(", model {}", model);
  if (!info.job.empty()) print(", job {}", info.job);
  if (info.step >= 0) print(", step {}", info.step);
  print("\n{}, {}; {}, {}\n", counted(std::ssize(checkpoint.tensors()), "tensor"),
        format_bytes(checkpoint.state_bytes()), counted(std::ssize(checkpoint.files()), "file"),
        format_bytes(file_bytes));
  print("{}", notes_text(info));
}

// What verify() knows, and no more.
std::string sums_text(const Checkpoint::Sums& sums) {
  if (sums.summed == 0 && sums.tensors > 0)
    return "it has no checksums; everything is there and readable, and copies are equal";
  if (sums.summed < sums.tensors)
    return fmt::format(
        "the checksums of {} of its {} tensors are right; the others have none, and are there and readable",
        sums.summed, sums.tensors);
  return sums.of_manifest ? "all checksums are right" : "all checksums of tensors (CRC-32 of the archives) are right";
}

int verify(const Checkpoint& checkpoint, const std::string& format) {
  absl::Status status;
  {
    Progress line("verify");
    status = checkpoint.verify(
        {.threads = static_cast<int>(hardware_threads()), .progress = [&](int64_t done, int64_t total) {
           line.update(static_cast<double>(done) / static_cast<double>(std::max<int64_t>(total, 1)),
                       fmt::format("{} of {}", format_bytes(done), format_bytes(total)));
         }});
  }
  if (status.ok()) status = checkpoint.known_damage();
  if (!status.ok()) return report_error(status);
  int64_t bytes = 0;
  for (const CheckpointFile& file : checkpoint.files()) bytes += file.bytes;
  const Checkpoint::Sums sums = checkpoint.sums();
  if (format == "json") {
    print("{}\n", json_text(ordered_json({{"path", checkpoint.info().path},
                                          {"valid", true},
                                          {"files", checkpoint.files().size()},
                                          {"bytes", bytes},
                                          {"checksums", sums.summed == sums.tensors},
                                          {"tensors", sums.tensors},
                                          {"tensors_with_checksums", sums.summed},
                                          {"left_out", checkpoint.info().dropped},
                                          {"notes", checkpoint.info().notes}}),
                            {.indent = 2}));
    return 0;
  }
  print("{}: valid: {}, {}; {}\n", checkpoint.info().path, counted(std::ssize(checkpoint.files()), "file"),
        format_bytes(bytes), sums_text(sums));
  print("{}", notes_text(checkpoint.info()));
  return 0;
}

int checkpoint_main(const Arguments& arguments) {
  const std::string& action = arguments.positional()[0];
  if (action != "show" && action != "verify") {
    return usage_error(
        "checkpoint",
        fmt::format("unknown word \"{}\"; the words are show DIR, verify DIR, stats DIR and reshard SRC DST", action));
  }
  raise_open_files();  // a checkpoint of a thousand ranks has as many files
  const auto options = open_options_of(arguments, arguments.positional()[1]);
  if (!options.ok()) return report_error(options.status());
  const auto checkpoint = Checkpoint::open(arguments.positional()[1], *options);
  if (!checkpoint.ok()) return report_error(checkpoint.status());
  const std::string format = arguments.text("format");
  if (action == "verify") return verify(**checkpoint, format);
  format == "json" ? show_json(**checkpoint) : show_table(**checkpoint);
  return 0;
}

}  // namespace

Command checkpoint_command() {
  return {{.name = "checkpoint",
           .summary = "show what a checkpoint holds, or verify it",
           .usage = "scalai checkpoint show|verify DIR [OPTION…]\nscalai checkpoint stats DIR [OPTION…]\nscalai "
                    "checkpoint reshard SRC DST --to=LAYOUT [OPTION…]",
           .description = "DIR is any checkpoint that `scalai checkpoint reshard` reads, or a safetensors file.",
           .options = joined({checkpoint_source_options(), {drop_option(), format_option({"table", "json"})}}),
           .examples = {"scalai checkpoint show out/ --format=json", "scalai checkpoint verify out/",
                        "scalai checkpoint verify ranks/ --from=tp8,pp4 --model=llama3-8b"},
           .min_arguments = 2,
           .max_arguments = 2,
           .verbs =
               {{"show", "Print kind, model, layout, tensors and files."},
                {"verify",
                 "Read all of it: headers, checksums where it has any, and whether copies of the same state are equal. "
                 "All damage is listed by file, tensor and box, and the exit code is 3; so is damage that "
                 "--accept-damage copied."},
                {"stats", "What is in its tensors: scalai checkpoint stats --help."},
                {"reshard", "Write it in another layout: scalai checkpoint reshard --help."}}},
          checkpoint_main};
}

}  // namespace scalai::apps
