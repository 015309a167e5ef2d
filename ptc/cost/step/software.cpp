#include "ptc/cost/step/software.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/cost/step/internal/built_in_software.h"
#include "ptc/proto/software.pb.h"
#include "ptc/proto/source.h"

namespace scalai::step {
namespace {

// "0.16" → {0, 16}; nothing: not a version.
std::optional<std::vector<int>> numbers_of(std::string_view version) {
  std::vector<int> numbers;
  const char *at = version.data(), *const end = at + version.size();
  while (true) {
    const auto [rest, error] = std::from_chars(at, end, numbers.emplace_back());
    if (error != std::errc{} || numbers.back() < 0) return std::nullopt;
    if (rest == end) return numbers;
    if (*rest != '.') return std::nullopt;
    at = rest + 1;
  }
}

class SettingsReader {
 public:
  SettingsReader(proto::Source& source, std::string path) : source_(source), path_(std::move(path)) {}

  SoftwareSettings read(const proto::SoftwareSettings& message) {
    SoftwareSettings settings;
    name("kernels", message.kernels(), find_kernels, settings.kernels);
    name("overlap", message.overlap(), find_overlap, settings.overlap);
    name("dp_overlap", message.dp_overlap(), find_data_overlap, settings.data_overlap);
    name("framework", message.framework(), find_framework, settings.framework);
    name("loss", message.loss(), find_loss, settings.loss);
    name("dispatch", message.dispatch(), find_dispatch, settings.dispatch);
    name("gradients", message.gradients(), find_gradient_bytes, settings.gradient_bytes);
    if (message.has_expert_overlap()) settings.expert_overlap = message.expert_overlap();
    if (message.has_cuda_graphs()) settings.cuda_graphs = message.cuda_graphs();
    if (message.has_grouped_experts()) settings.grouped_experts = message.grouped_experts();
    if (message.has_sequence_parallel()) settings.sequence_parallel = message.sequence_parallel();
    if (message.has_flash_attention()) settings.flash_attention = message.flash_attention();
    if (message.bucket() > 0) settings.bucket = message.bucket();
    if (message.optimizer_bytes() > 0) settings.optimizer_bytes = message.optimizer_bytes();
    for (const int stage : message.zero()) {
      if (stage < 0 || stage > 3) source_.error(path_ + ".zero", fmt::format("ZeRO has stages 0 to 3, not {}", stage));
      settings.zero.push_back(stage);
    }
    return settings;
  }

 private:
  template <class Value>
  void name(const char* field, const std::string& text, absl::StatusOr<Value> (*find)(std::string_view),
            std::optional<Value>& value) {
    if (text.empty()) return;
    absl::StatusOr<Value> found = find(text);
    if (found.ok()) value = *found;
    if (!found.ok()) source_.error(fmt::format("{}.{}", path_, field), message_of(found.status()));
  }

  proto::Source& source_;
  const std::string path_;
};

std::vector<Software::Case> read_cases(const proto::SoftwareVersion& version, const std::string& path,
                                       proto::Source& source) {
  std::vector<Software::Case> cases;
  for (int i = 0; i < version.cases_size(); ++i) {
    const proto::SoftwareCase& message = version.cases(i);
    Software::Case& one = cases.emplace_back();
    if (message.has_experts()) one.experts = message.experts();
    if (message.has_fp8()) one.fp8 = message.fp8();
    one.gpus.assign(message.gpus().begin(), message.gpus().end());
    const std::string at = fmt::format("{}.cases[{}]", path, i);
    one.settings = SettingsReader(source, at + ".settings").read(message.settings());
  }
  return cases;
}

// Each version has the settings of those before it, and the cases of the last one that has any.
std::vector<Software> read_versions(const proto::SoftwareFile& message, proto::Source& source) {
  std::vector<Software> all;
  std::vector<Software::Case> settings, cases;
  for (int i = 0; i < message.versions_size(); ++i) {
    const proto::SoftwareVersion& version = message.versions(i);
    const std::string path = fmt::format("versions[{}]", i);
    const auto numbers = numbers_of(version.version());
    if (!numbers) {
      source.error(path + ".version", fmt::format("\"{}\" is no version", version.version()),
                   "numbers with points between: 25.09");
    } else if (!all.empty() && *numbers <= numbers_of(all.back().version)) {
      source.error(path + ".version", fmt::format("{} is not after {}", version.version(), all.back().version));
    }
    settings.push_back({.experts = {},
                        .fp8 = {},
                        .gpus = {},
                        .settings = SettingsReader(source, path + ".settings").read(version.settings())});
    if (version.cases_size() > 0) cases = read_cases(version, path, source);
    Software& software = all.emplace_back();
    software = {.program = message.name(),
                .version = version.version(),
                .title = message.title(),
                .sources = {message.sources().begin(), message.sources().end()},
                .default_for = {message.default_for().begin(), message.default_for().end()},
                .default_with_zero3 = message.default_with_zero3(),
                .cases = settings};
    software.cases.insert(software.cases.end(), cases.begin(), cases.end());
  }
  return all;
}

// By program, the oldest version first.
const std::vector<Software>& built_in() {
  static const std::vector<Software> kAll = [] {
    std::vector<Software> all;
    for (const internal::BuiltInText& text : internal::built_in_software()) {
      auto versions = parse_software(std::string(text.text), std::string(text.name) + ".textproto");
      SCALAI_CHECK(versions.ok(), message_of(versions.status()));
      all.insert(all.end(), versions->begin(), versions->end());
    }
    return all;
  }();
  return kAll;
}

bool begins_with_any(std::string_view text, const std::vector<std::string>& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(), [&](const auto& one) { return text.starts_with(one); });
}

template <class Value>
void override_with(const std::optional<Value>& from, std::optional<Value>& to) {
  if (from) to = from;
}

void override_with(const SoftwareSettings& from, SoftwareSettings& to) {
  override_with(from.kernels, to.kernels);
  override_with(from.overlap, to.overlap);
  override_with(from.data_overlap, to.data_overlap);
  override_with(from.framework, to.framework);
  override_with(from.loss, to.loss);
  override_with(from.dispatch, to.dispatch);
  override_with(from.gradient_bytes, to.gradient_bytes);
  override_with(from.optimizer_bytes, to.optimizer_bytes);
  override_with(from.expert_overlap, to.expert_overlap);
  override_with(from.cuda_graphs, to.cuda_graphs);
  override_with(from.grouped_experts, to.grouped_experts);
  override_with(from.sequence_parallel, to.sequence_parallel);
  override_with(from.flash_attention, to.flash_attention);
  override_with(from.bucket, to.bucket);
  if (!from.zero.empty()) to.zero = from.zero;
}

}  // namespace

absl::StatusOr<std::vector<Software>> parse_software(const std::string& text, const std::string& file) {
  proto::Source source(file, text);
  proto::SoftwareFile message;
  source.parse(text, message);
  source.is_name("name", message.name());
  if (message.sources_size() == 0) source.missing("sources");
  if (message.versions_size() == 0) source.missing("versions");
  std::vector<Software> versions = read_versions(message, source);
  if (!source.empty()) return invalid(source.render());
  return versions;
}

std::vector<std::string> software_names() {
  std::vector<std::string> names;
  const std::vector<Software>& all = built_in();
  for (size_t end = all.size(); end > 0;) {
    size_t begin = end;
    while (begin > 0 && all[begin - 1].program == all[end - 1].program) --begin;
    names.push_back(all[begin].program);
    for (size_t i = end; i > begin; --i) names.push_back(all[i - 1].name());
    end = begin;
  }
  return names;
}

absl::StatusOr<Software> find_software(std::string_view name) {
  const Software* newest = nullptr;
  bool known = false;
  for (const Software& one : built_in()) {
    if (name != one.program && !name.starts_with(one.program + "-")) continue;
    const std::string_view rest = name.substr(std::min(name.size(), one.program.size() + 1));
    const auto asked = numbers_of(rest);
    if (!rest.empty() && !asked) continue;
    known = true;
    if (rest.empty() || *numbers_of(one.version) <= *asked) newest = &one;
  }
  if (newest != nullptr) return *newest;
  const std::vector<std::string> names = software_names();
  if (known)
    return invalid(fmt::format("\"{}\" is older than all that is known; there are {}", name, fmt::join(names, ", ")));
  const std::string near = closest(name, names);
  return invalid(fmt::format(
      "unknown software \"{}\"; {}", name,
      near.empty() ? fmt::format("there are {}", fmt::join(names, ", ")) : fmt::format("did you mean \"{}\"?", near)));
}

const Software& default_software(std::string_view gpu_kind, int zero) {
  const Software *found = nullptr, *otherwise = nullptr, *sharded = nullptr;
  for (const Software& one : built_in()) {  // the last is the newest version
    if (one.default_with_zero3) sharded = &one;
    for (const std::string& kind : one.default_for) {
      if (kind.empty()) otherwise = &one;
      if (!kind.empty() && gpu_kind.starts_with(kind)) found = &one;
    }
  }
  if (zero >= 3 && sharded != nullptr && !gpu_kind.starts_with("tpu")) return *sharded;
  return found != nullptr ? *found : *otherwise;
}

SoftwareSettings settings_of(const Software& software, const SoftwareUse& use, Math math) {
  SoftwareSettings settings;
  for (const Software::Case& one : software.cases) {
    if (one.experts.value_or(use.experts) != use.experts) continue;
    if (one.fp8.value_or(is_narrow(math)) != is_narrow(math)) continue;
    if (one.gpus.empty() || begins_with_any(use.gpu_kind, one.gpus)) override_with(one.settings, settings);
  }
  return settings;
}

std::string_view name_of(Given given) {
  constexpr std::array<std::string_view, 3> kNames = {"flags", "software", "nothing"};
  return kNames[static_cast<size_t>(given)];
}

absl::StatusOr<Trainer> train_with(std::string_view name, std::string_view gpu_kind, const ModelShape& model,
                                   Training& training, int zero) {
  const bool guessed = name.empty() || name == kDefaultSoftware;
  if (guessed && model.heads == 0) return Trainer();
  absl::StatusOr<Software> software = guessed ? default_software(gpu_kind, zero) : find_software(name);
  if (!software.ok()) return software.status();
  const SoftwareUse use = {.gpu_kind = gpu_kind, .experts = model.experts > 0};
  Trainer trainer = {.software = software->name(),
                     .settings = settings_of(*software, use, training.precision.math),
                     .given = guessed ? Given::kNothing : Given::kSoftware};
  apply(trainer.settings, training);
  return trainer;
}

void apply(const SoftwareSettings& settings, Training& training) {
  const auto set = [](const auto& from, auto& to) {
    if (from) to = *from;
  };
  set(settings.kernels, training.kernels);
  set(settings.overlap, training.overlap);
  set(settings.data_overlap, training.data_overlap);
  set(settings.framework, training.framework);
  if (settings.loss) training.loss = settings.loss;
  set(settings.dispatch, training.dispatch);
  if (training.precision.param_bytes < 4) {  // recipes are of training in 16 bits and less
    set(settings.gradient_bytes, training.precision.gradient_bytes);
    if (training.precision.optimizer == model::Optimizer::kAdam)
      set(settings.optimizer_bytes, training.precision.optimizer_bytes);
  }
  set(settings.expert_overlap, training.expert_overlap);
  set(settings.cuda_graphs, training.cuda_graphs);
  set(settings.grouped_experts, training.grouped_experts);
  set(settings.sequence_parallel, training.sequence_parallel);
  set(settings.flash_attention, training.flash_attention);
  set(settings.bucket, training.bucket);
}

}  // namespace scalai::step
