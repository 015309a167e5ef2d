#include "tests/crash/states.h"

#include <algorithm>
#include <set>

namespace scalai::crash {
namespace {

constexpr int64_t kAllOf = 4096;  // so many are enumerated, if they are wanted

int64_t combinations(const std::vector<Dimension>& dimensions) {
  int64_t count = 1;
  for (const Dimension& dimension : dimensions) {
    count *= dimension.options;
    if (count > kAllOf) return kAllOf + 1;
  }
  return count;
}

Choice with(const std::vector<Dimension>& dimensions, bool all) {
  Choice choice;
  for (const Dimension& dimension : dimensions) choice.values.push_back(all ? dimension.options - 1 : 0);
  return choice;
}

// Half of the sectors before and after; the choice has a block with a write.
void tear(const std::vector<Dimension>& dimensions, Random& random, Choice& choice) {
  std::vector<int> blocks;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    if (dimensions[i].what == Dimension::What::kBlock && choice.values[i] > 0) blocks.push_back(static_cast<int>(i));
  }
  if (blocks.empty()) return;
  choice.torn = blocks[static_cast<size_t>(random.below(std::ssize(blocks)))];
  const auto cut = static_cast<int>(random.between(1, 7));
  const auto first = static_cast<uint8_t>((1 << cut) - 1);
  const int64_t form = random.below(3);
  choice.sectors = form == 0   ? first
                   : form == 1 ? static_cast<uint8_t>(~first)
                               : static_cast<uint8_t>(random.below(256));
}

void add_families(const std::vector<Dimension>& dimensions, std::vector<Choice>& choices) {
  std::set<int> folders;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    choices.push_back(with(dimensions, false));
    choices.back().values[i] = dimensions[i].options - 1;
    choices.push_back(with(dimensions, true));
    choices.back().values[i] = 0;
    if (dimensions[i].what == Dimension::What::kEntry) folders.insert(dimensions[i].node);
  }
  for (const int folder : folders) {
    for (const bool others : {false, true}) {
      Choice choice = with(dimensions, others);
      const auto is_here = [&](size_t i) {
        return dimensions[i].what == Dimension::What::kEntry && dimensions[i].node == folder;
      };
      for (size_t i = 0; i < dimensions.size(); ++i) {
        if (is_here(i)) choice.values[i] = 0;
      }
      choices.push_back(choice);
      for (size_t i = 0; i < dimensions.size(); ++i) {
        if (!is_here(i)) continue;
        choice.values[i] = 1;
        choices.push_back(choice);
      }
    }
  }
}

// The last few changes of names in any combination, all else as programs see it: two steps in the wrong order show
// here, at one moment or the next.
void add_latest(const std::vector<Dimension>& dimensions, std::vector<Choice>& choices) {
  std::vector<size_t> latest;
  for (size_t i = dimensions.size(); i-- > 0 && latest.size() < 3;) {
    if (dimensions[i].what == Dimension::What::kEntry) latest.push_back(i);
  }
  for (size_t mask = 0; mask + 1 < size_t{1} << latest.size(); ++mask) {
    choices.push_back(with(dimensions, true));
    for (size_t i = 0; i < latest.size(); ++i) choices.back().values[latest[i]] = static_cast<int>(mask >> i & 1);
  }
}

// In every other one the older changes of names are all there, or none: what readers look at lies in the last few.
Choice random_choice(const std::vector<Dimension>& dimensions, Random& random) {
  const auto entries = std::count_if(dimensions.begin(), dimensions.end(), [](const Dimension& dimension) {
    return dimension.what == Dimension::What::kEntry;
  });
  const int64_t old = random.below(2) == 0 ? std::max<int64_t>(0, entries - random.between(2, 16)) : 0;
  Choice choice = with(dimensions, false);
  std::fill(choice.values.begin(), choice.values.begin() + old, static_cast<int>(random.below(2)));
  const double share = random.uniform();
  for (auto i = static_cast<size_t>(old); i < dimensions.size(); ++i) {
    if (random.uniform() < share) choice.values[i] = static_cast<int>(random.between(1, dimensions[i].options - 1));
  }
  if (random.below(3) == 0) tear(dimensions, random, choice);
  return choice;
}

// All combinations, each block torn in the last one.
void visit_all(const std::vector<Dimension>& dimensions, Random& random, const Visit& visit) {
  Choice choice = with(dimensions, false);
  while (visit(choice)) {
    size_t i = 0;
    while (i < dimensions.size() && ++choice.values[i] == dimensions[i].options) choice.values[i++] = 0;
    if (i == dimensions.size()) break;
  }
  for (size_t i = 0; i < 2 * dimensions.size(); ++i) {
    Choice torn = with(dimensions, true);
    tear(dimensions, random, torn);
    if (torn.torn < 0 || !visit(torn)) return;
  }
}

}  // namespace

void visit_choices(const std::vector<Dimension>& dimensions, int64_t wanted, Random& random, const Visit& visit) {
  if (combinations(dimensions) <= std::min(wanted, kAllOf)) return visit_all(dimensions, random, visit);
  const auto shuffle = [&](std::vector<Choice>& choices) {
    for (size_t i = choices.size(); i > 1; --i)
      std::swap(choices[i - 1], choices[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
  };
  std::vector<Choice> first, families;
  add_latest(dimensions, first);
  shuffle(first);
  first.push_back(with(dimensions, true));
  first.push_back(with(dimensions, false));
  add_families(dimensions, families);
  shuffle(families);
  // Where there is no time for all of a family, any share of it.
  if (std::ssize(families) > wanted / 2) families.resize(static_cast<size_t>(wanted / 2));
  first.insert(first.end(), families.begin(), families.end());
  for (const Choice& choice : first) {
    if (!visit(choice)) return;
  }
  for (int64_t tries = 0; tries < 2 * wanted; ++tries) {
    if (!visit(random_choice(dimensions, random))) return;
  }
}

}  // namespace scalai::crash
