#pragma once
// Python pickles as data: a tree of values in which classes and functions are names that nobody calls. A pickle can ask
// to run any function; here that is a value ("call"), and who reads the tree decides what a known name means. So
// reading one runs nothing and imports nothing. Protocols 0 to 5, those opcodes that torch and its state need
// (https://docs.python.org/3/library/pickletools.html). Values; any thread may call.

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::store {

// Pointers are to values of the same Pickle. Several places may share one, as equal small numbers do, and a list may
// contain itself: limit the depth.
struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kBytes,
    kList,
    kTuple,
    kDict,
    kSet,
    kName,        // of a class or function
    kCall,        // what a call of `callee` with `items` would give
    kPersistent,  // an object outside of the pickle, by its id items[0]
  };
  Kind kind = Kind::kNone;
  int64_t number = 0;  // kInt; kBool: 0 or 1
  double real = 0;     // kFloat
  std::string text;    // kText, kBytes; kName: "torch._utils._rebuild_tensor_v2"
  std::vector<PickleValue*> items;
  std::vector<std::pair<PickleValue*, PickleValue*>>
      pairs;  // kDict; kCall: what was put into the object as into a dict
  PickleValue* callee = nullptr;
  PickleValue* state = nullptr;  // kCall: its attributes; nullptr: none

  bool is_call_of(std::string_view name) const { return kind == Kind::kCall && callee->text == name; }
  // The value of a text key of a dict, or of an object that was filled like one; nullptr: none.
  const PickleValue* find(std::string_view key) const;
  // An attribute of an object (dataclass, argparse.Namespace); nullptr: none.
  const PickleValue* attribute(std::string_view name) const;
};

class Pickle {
 public:
  // Errors (InvalidArgument) name the byte: an unknown opcode; a pickle that is cut off, or takes what is not there;
  // more than 2^24 values, or values that take more than 64 MiB and 32 times the pickle; a whole number beyond 64 bits.
  static absl::StatusOr<Pickle> read(std::string_view bytes);

  const PickleValue& root() const { return *root_; }  // lives as long as the pickle, wherever that is moved

  // A copy's root would be the original's, and a vector of pickles copies what it can.
  Pickle() = default;
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;
  Pickle(Pickle&&) = default;
  Pickle& operator=(Pickle&&) = default;

 private:
  friend class PickleReader;
  std::deque<PickleValue> values_;  // which stay where they are
  const PickleValue* root_ = nullptr;
};

}  // namespace scalai::store
