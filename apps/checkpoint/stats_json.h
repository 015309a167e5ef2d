#pragma once
// Statistics as JSON, and back: what `scalai checkpoint stats` prints, and what its workers answer. Pure functions; any
// thread.

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "ptc/state/tensor/element_stats.h"

namespace scalai::apps {

nlohmann::ordered_json json_of(const tensor::ElementStats& stats);  // without magnitudes
// [power, elements]: of elements with 2^power <= |x| < 2^(power + 1).
nlohmann::ordered_json json_of_magnitudes(const tensor::ElementStats& stats);
nlohmann::ordered_json json_of(const tensor::ElementChange& change);

// Of an object with both of the first two. nullopt: a power that is none, or counts that are no whole numbers from 0 to
// that of the elements. Throws nlohmann's exceptions where a key lacks.
std::optional<tensor::ElementStats> elements_of_json(const nlohmann::json& one);
std::optional<tensor::ElementChange> change_of_json(const nlohmann::json& change);

}  // namespace scalai::apps
