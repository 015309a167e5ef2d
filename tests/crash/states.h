#pragma once
// Which crash states of one moment are looked at: all, if few; else the last three changes of names in any
// combination, none and all of the pending changes, each one alone, each one missing, the changes of each folder up to
// each of them, torn blocks, and random combinations.

#include <functional>
#include <vector>

#include "ptc/base/random.h"
#include "tests/crash/disk.h"

namespace scalai::crash {

// False: no more states are wanted at this moment.
using Visit = std::function<bool(const Choice& choice)>;

// At most about `wanted` choices; some may lead to one state.
void visit_choices(const std::vector<Dimension>& dimensions, int64_t wanted, Random& random, const Visit& visit);

}  // namespace scalai::crash
