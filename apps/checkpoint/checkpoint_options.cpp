#include "apps/checkpoint/checkpoint_options.h"

#include <fmt/format.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/state/tensor/convert.h"
#include "ptc/store/naming/family.h"
#ifdef SCALAI_WITH_CURL
#include "vfs/remote/http_client.h"
#include "vfs/remote/remote_source.h"
#endif

namespace scalai::apps {

std::vector<OptionSpec> checkpoint_source_options() {
  return {
      text_option("from", "LAYOUT", "Layout of rank files that do not say it, as in tp8,pp4."),
      choice_option("names", "NAMES", "Whose names the tensors of such files have (rank files: megatron if not given).",
                    {"hf", "megatron", "logical"}),
      text_option("config", "FILE", "A config.json that says which model it is."),
      suggesting(text_option("model", "NAME", "The same by the name of a catalogue model."), store::model_names()),
      text_option("families", "DIR",
                  "Folder of naming families (*.textproto) that add to the built-in ones or replace them."),
      flag_option(
          "trust-source",
          "Take files of a server that tells neither ETag nor Last-Modified for unchanged. Else what was read of "
          "them is read again in the end, and a difference is an error.")};
}

OptionSpec drop_option() {
  return list_option(
      "drop", "NAMES",
      "Leave out tensors that the model has no place for, by their names in the files; *, ? and [a-z] as in "
      "names of files; or an optimizer's state that is not understood (optimizer). Else they are refused.");
}

void tell_dropped(const store::Checkpoint* checkpoint) {
  if (checkpoint == nullptr || checkpoint->info().dropped.empty()) return;
  for (const std::string& note : checkpoint->info().notes) {
    if (note.starts_with("left out")) say("scalai checkpoint: note: {}\n", note);
  }
}

namespace {

absl::StatusOr<tensor::DType> parse_float(const std::string& text) {
  static const std::map<std::string, tensor::DType> kNames = {
      {"fp64", tensor::DType::kF64},    {"float64", tensor::DType::kF64},  {"fp32", tensor::DType::kF32},
      {"float32", tensor::DType::kF32}, {"fp16", tensor::DType::kF16},     {"float16", tensor::DType::kF16},
      {"bf16", tensor::DType::kBF16},   {"bfloat16", tensor::DType::kBF16}};
  const auto found = kNames.find(absl::AsciiStrToLower(text));
  if (found != kNames.end()) return found->second;
  const absl::StatusOr<tensor::DType> known = tensor::parse_dtype(text);
  const bool is_small = known.ok() && tensor::size_of(*known) == 1;
  if (known.ok() && !is_small && tensor::convertible(*known, tensor::DType::kF32)) return known;
  return invalid(fmt::format("--dtype: \"{}\" is not fp32, bf16, fp16 or fp64{}", clipped(text, 40),
                             is_small ? "; 8 bits need scales, which are not made here" : ""));
}

// Nothing for a local path.
absl::StatusOr<SourceOpener> opener_of(const std::string& path, [[maybe_unused]] bool trust_source) {
  if (path.find("://") == std::string::npos) return SourceOpener();
#ifdef SCALAI_WITH_CURL
  const std::string shown = vfs::display_name(path);
  if (!vfs::is_remote(path)) return invalid(fmt::format("{}: not an http, https or s3 address", shown));
  if (shown != path)
    return invalid(
        fmt::format("{}: an address of a checkpoint has no user, query or fragment; s3:// takes credentials "
                    "from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                    shown));
  return vfs::make_opener({.trust_source = trust_source});
#else
  return missing("this program was built without libcurl, which reads from servers");
#endif
}

}  // namespace

absl::StatusOr<store::OpenOptions> open_options_of(const Arguments& arguments, const std::string& path) {
  SCALAI_ASSIGN_OR_RETURN(SourceOpener opener, opener_of(path, arguments.flag("trust-source")));
  store::OpenOptions options = {.names = arguments.text("names"),
                                .from = arguments.text("from"),
                                .config = arguments.text("config"),
                                .model = arguments.text("model"),
                                .families = arguments.text("families"),
                                .opener = std::move(opener)};
  store::add_drop(arguments.list("drop"), options);
  return options;
}

absl::StatusOr<std::map<model::StateKind, tensor::DType>> parse_dtypes(const std::string& text) {
  using Kind = model::StateKind;
  static const std::map<std::string_view, std::vector<Kind>> kKinds = {
      {"params", {Kind::kParam}},     {"buffers", {Kind::kBuffer}},
      {"master", {Kind::kMaster}},    {"moments", {Kind::kExpAvg, Kind::kExpAvgSq, Kind::kMomentum}},
      {"exp_avg", {Kind::kExpAvg}},   {"exp_avg_sq", {Kind::kExpAvgSq}},
      {"momentum", {Kind::kMomentum}}};
  std::map<Kind, tensor::DType> dtypes;
  const std::vector<std::string> words = absl::StrSplit(text, ',');
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const std::string kind = equals == std::string::npos ? "params" : word.substr(0, equals);
    const auto found = kKinds.find(kind);
    if (found == kKinds.end())
      return invalid(
          fmt::format("--dtype: \"{}\" is not params, buffers, master, moments, exp_avg, exp_avg_sq or momentum",
                      clipped(kind, 40)));
    SCALAI_ASSIGN_OR_RETURN(const tensor::DType dtype,
                            parse_float(equals == std::string::npos ? word : word.substr(equals + 1)));
    for (const Kind each : found->second) {
      if (!dtypes.emplace(each, dtype).second) return invalid(fmt::format("--dtype: \"{}\" is said twice", kind));
    }
  }
  return dtypes;
}

}  // namespace scalai::apps
