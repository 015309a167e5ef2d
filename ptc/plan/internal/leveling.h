#pragma once
// Leveling: who carries which bytes, so that the place that carries most carries as little as it can.
//
//   L(p)   = base load of p + its shares of the demands that name it
//   F(G)   = base loads in G + demands all of whose places are in G         what only the places of G can carry
//   least  = max( floor,  max over sets of places G of ⌈F(G) / |G|⌉ )
//
// A linear program in shares; by Hall's theorem its optimum in whole bytes is `least`. It is found by filling demand
// after demand evenly and then moving bytes along augmenting paths out of the hottest places. Where no path leads on,
// the places reached are a set G that proves that no way is cooler. Deterministic: integers only, ties go to the lowest
// place.

#include <cstdint>
#include <vector>

namespace scalai::plan::internal {

struct Demand {
  std::vector<int32_t> places;  // any of them may carry any share of it; ascending, not empty
  int64_t bytes = 0;
};

struct Leveled {
  int64_t least = 0;
  std::vector<std::vector<int64_t>> shares;  // by demand, then as Demand::places
};

// `loads` are the base loads by place. With a tolerance n > 0 it stops once no place carries more than least + least /
// n; `least` is then a bound that was proven, though there may be a higher one.
Leveled level(std::vector<int64_t> loads, const std::vector<Demand>& demands, int64_t floor, int64_t tolerance = 0);

}  // namespace scalai::plan::internal
