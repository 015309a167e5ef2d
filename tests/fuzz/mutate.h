#pragma once
// Mutants that stay valid in structure: a message or a JSON document with a few fields changed, instead of bytes that
// no parser takes. Numbers become edges, texts others, entries go, come twice or change places; what was left out
// appears.
//
// A fuzzer that has them defines
//   extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
//     return fuzz::mutate_input(data, size, max_size, seed, [](std::string_view input, Random& random) { … });
//   }
// fuzz_test plays the same functions without libFuzzer. Any thread; equal seeds give equal mutants.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "ptc/base/random.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace scalai::fuzz {

using Change = std::function<std::string(std::string_view input, Random& random)>;

// What texts inside a message are made of, by the full name of their field: "scalai.proto.LiveState.collection".
using Nested = std::map<std::string, std::function<void(std::string& text, Random& random)>>;

// One change each.
void mutate(google::protobuf::Message& message, Random& random, const Nested& nested = {});
void mutate(nlohmann::ordered_json& value, Random& random);
void mutate(std::string& text, Random& random);

// So many changes as fuzzers make at a time: one, seldom more.
int changes(Random& random);

// A message as bytes (of a seed where they are none) with changes.
std::string mutate_bytes(std::string_view bytes, const std::string& seed, google::protobuf::Message& message,
                         Random& random, const Nested& nested = {});
// A text form (of a seed where it is none) with changes.
std::string mutate_textproto(std::string_view text, std::string_view seed, google::protobuf::Message& message,
                             Random& random);
// JSON with changes; `seed` where it is none.
std::string mutate_json(std::string_view text, std::string_view seed, Random& random);

// The input after `change`, in place; as it was where that is larger than `max_size`. Now and then libFuzzer changes
// bytes.
size_t mutate_input(uint8_t* data, size_t size, size_t max_size, unsigned seed, const Change& change);

}  // namespace scalai::fuzz
