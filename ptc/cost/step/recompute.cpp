#include "ptc/cost/step/recompute.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "ptc/base/status.h"

namespace scalai::step {
namespace {

constexpr std::array<std::pair<std::string_view, Recompute::Module>, 6> kModules = {
    {{"core_attn", Recompute::kCoreAttention},
     {"layernorm", Recompute::kNorms},
     {"moe_act", Recompute::kExpertActivation},
     {"mlp", Recompute::kFeedForward},
     {"moe", Recompute::kExperts},
     {"mla_up_proj", Recompute::kLatentUp}}};
constexpr Recompute kOperations{.kind = Recompute::Kind::kOperations};
constexpr std::array<std::pair<std::string_view, Recompute>, 4> kWhole = {{{"none", Recompute::kNone},
                                                                           {"selective", Recompute::kSelective},
                                                                           {"op", kOperations},
                                                                           {"full", Recompute::kFull}}};
constexpr std::string_view kFirst = "full-first-", kEvery = "full-every-";
constexpr int kMostLayers = 100'000;

// A positive number behind a prefix.
std::optional<int> number_behind(std::string_view prefix, std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  int number = 0;
  const char* last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + prefix.size(), last, number);
  if (error != std::errc{} || end != last || number < 1 || number > kMostLayers) return std::nullopt;
  return number;
}

std::optional<Recompute> modules_of(std::string_view name) {
  Recompute found{.kind = Recompute::Kind::kModules};
  while (true) {
    const size_t end = std::min(name.find('+'), name.size());
    const auto* known = std::find_if(kModules.begin(), kModules.end(),
                                     [&](const auto& module) { return module.first == name.substr(0, end); });
    if (known == kModules.end() || found.has(known->second)) return std::nullopt;
    found.modules = static_cast<uint8_t>(found.modules | known->second);
    if (end == name.size()) return found;
    name.remove_prefix(end + 1);
  }
}

}  // namespace

int Recompute::whole_layers(int layers) const {
  if (kind != Kind::kLayers) return 0;
  return first > 0 ? std::min(first, layers) : layers / every;
}

std::string name_of(const Recompute& recompute) {
  for (const auto& [name, value] : kWhole) {
    if (value == recompute) return std::string(name);
  }
  if (recompute.first > 0) return fmt::format("{}{}", kFirst, recompute.first);
  if (recompute.every > 1) return fmt::format("{}{}", kEvery, recompute.every);
  std::vector<std::string_view> names;
  for (const auto& [name, module] : kModules) {
    if (recompute.has(module)) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, "+"));
}

absl::StatusOr<Recompute> find_recompute(std::string_view name) {
  for (const auto& [known, value] : kWhole) {
    if (known == name) return value;
  }
  if (const auto first = number_behind(kFirst, name))
    return Recompute{.kind = Recompute::Kind::kLayers, .first = *first};
  if (const auto every = number_behind(kEvery, name)) {
    return *every == 1 ? Recompute::kFull : Recompute{.kind = Recompute::Kind::kLayers, .every = *every};
  }
  if (const auto modules = modules_of(name)) return *modules;
  return invalid(fmt::format("there is no recomputation \"{}\"; choose among {}, or modules joined by \"+\"", name,
                             fmt::join(recompute_names(), ", ")));
}

std::vector<std::string> recompute_names() {
  std::vector<std::string> names = {"none", "selective", "full", "full-first-N", "full-every-N", "op"};
  for (const auto& [name, module] : kModules) names.emplace_back(name);
  return names;
}

}  // namespace scalai::step
