#include "ptc/plan/paging.h"

#include <algorithm>
#include <map>
#include <queue>

#include "ptc/plan/testing/support.h"

namespace scalai::plan {
namespace {

// Oracle: the fewest bytes that leave a device for a host, over all orders of whole boxes, by Dijkstra's algorithm.
// Boxes are digits of a number: an old one is on its device, in a host's memory or given back; a new one absent, there
// or in a host's.
class Pager {
 public:
  Pager(const Plan& plan, int64_t cap) {
    for (const DeviceMemory& memory : plan.memory())
      room_[memory.device.value] = std::max(memory.before, memory.after) + cap;
    plan.for_each_operation([&](const Operation& operation) { add(plan, operation); });
  }
  size_t boxes() const { return boxes_.size(); }

  int64_t least() {
    std::priority_queue<std::pair<int64_t, int64_t>> queue;  // −bytes, state
    reach(std::vector<int>(boxes_.size(), 0), 0, queue);
    while (!queue.empty()) {
      const auto [bytes, code] = queue.top();
      queue.pop();
      if (-bytes > best_[code]) continue;
      const std::vector<int> state = decode(code);
      if (done(state)) return -bytes;
      for (size_t box = 0; box < boxes_.size(); ++box) expand(state, box, -bytes, queue);
    }
    return -1;
  }

 private:
  using Queue = std::priority_queue<std::pair<int64_t, int64_t>>;
  struct Box {
    int device = 0;
    int64_t bytes = 0;
    std::vector<int> sources;  // of a new box: what it is copied from
    bool is_new = false, kept = false;
  };

  // Old state element by element: finer than boxes, so that an order may page less.
  void add(const Plan& plan, const Operation& operation) {
    const int64_t old = tensor::size_of(plan.tensor(operation.tensor).from_dtype);
    std::vector<int> elements;
    for (int64_t at = operation.box.lo[0]; at < operation.box.hi[0] && operation.hop == 0; ++at) {
      const auto place = std::tuple(operation.tensor, at, operation.src.index);
      const auto [found, fresh] = elements_.try_emplace(place, static_cast<int>(boxes_.size()));
      if (fresh) boxes_.push_back({.device = operation.src.index, .bytes = old});
      elements.push_back(found->second);
    }
    if (operation.transfer_class == TransferClass::kKept) {
      for (const int element : elements) boxes_[static_cast<size_t>(element)].kept = true;
      return;
    }
    if (operation.hop > 0) elements = {arrived_.at(std::tuple(operation.tensor, operation.box, operation.src.index))};
    arrived_[std::tuple(operation.tensor, operation.box, operation.dst.value)] = static_cast<int>(boxes_.size());
    boxes_.push_back({operation.dst.value, operation.bytes, elements, true, false});
  }

  std::vector<int> decode(int64_t code) const {
    std::vector<int> state;
    for (size_t i = 0; i < boxes_.size(); ++i, code /= 3) state.push_back(static_cast<int>(code % 3));
    return state;
  }
  bool done(const std::vector<int>& state) const {
    for (size_t i = 0; i < boxes_.size(); ++i) {
      if (boxes_[i].is_new && state[i] != 1) return false;
      if (boxes_[i].kept && state[i] != 0) return false;
    }
    return true;
  }
  bool on_device(const std::vector<int>& state, size_t box) const { return state[box] == (boxes_[box].is_new ? 1 : 0); }
  bool fits(const std::vector<int>& state, int device) const {
    int64_t held = 0;
    for (size_t i = 0; i < boxes_.size(); ++i)
      held += boxes_[i].device == device && on_device(state, i) ? boxes_[i].bytes : 0;
    return held <= room_.at(device);
  }
  // Gives back what nobody copies any more.
  void reach(std::vector<int> state, int64_t bytes, Queue& queue) {
    for (size_t i = 0; i < boxes_.size(); ++i) {
      if (boxes_[i].is_new || boxes_[i].kept) continue;
      bool wanted = false;
      for (size_t j = 0; j < boxes_.size(); ++j) {
        const std::vector<int>& sources = boxes_[j].sources;
        wanted |= state[j] == 0 && std::count(sources.begin(), sources.end(), static_cast<int>(i)) > 0;
      }
      if (!wanted) state[i] = 2;
    }
    int64_t code = 0;
    for (size_t i = boxes_.size(); i-- > 0;) code = code * 3 + state[i];
    const auto [at, fresh] = best_.try_emplace(code, bytes);
    if (!fresh && at->second <= bytes) return;
    at->second = bytes;
    queue.push({-bytes, code});
  }
  void expand(std::vector<int> state, size_t box, int64_t bytes, Queue& queue) {
    const Box& one = boxes_[box];
    const int there = one.is_new ? 1 : 0, in_host = one.is_new ? 2 : 1;
    const int before = state[box];
    if (before == there) {
      state[box] = in_host;
      return reach(state, bytes + one.bytes, queue);
    }
    const bool arrives =
        one.is_new && before == 0 && std::ranges::all_of(one.sources, [&](int source) {
          return !boxes_[static_cast<size_t>(source)].is_new || state[static_cast<size_t>(source)] != 0;
        });
    if (before != in_host && !arrives) return;
    state[box] = there;
    if (fits(state, one.device)) reach(state, bytes, queue);
  }

  std::vector<Box> boxes_;
  std::map<std::tuple<TensorId, int64_t, int>, int> elements_;     // old, by device
  std::map<std::tuple<TensorId, tensor::Box, int>, int> arrived_;  // new, by device
  std::map<int, int64_t> room_;
  std::map<int64_t, int64_t> best_;
};

int64_t bytes_of(const Case& job, int64_t cap) {
  return paging_of_whole_boxes(job.input(), job.plan().memory(), cap).bytes;
}

// Device 0 and 4 swap two halves of one tensor.
Case swapped_halves() {
  return {.from = one_tensor({64}, cut_over("x", 0), devices({0, 4})),
          .to = one_tensor({64}, cut_over("x", 0), devices({4, 0}))};
}

TEST(PagingOfWholeBoxes, OfASwapIsWhatTheCapLacks) {
  const Case job = swapped_halves();
  const int64_t box = 32 * 4;
  EXPECT_EQ(bytes_of(job, 0), box);
  EXPECT_EQ(bytes_of(job, 100), box - 100);
  EXPECT_EQ(bytes_of(job, box), 0);
  EXPECT_FALSE(paging_of_whole_boxes(job.input(), job.plan().memory(), box).device.valid());
  EXPECT_EQ(paging_of_whole_boxes(job.input(), job.plan().memory(), 0).device_bytes, box);
}

TEST(PagingOfWholeBoxes, OfSwapsApartAddUp) {
  const Case job{.from = one_tensor({64}, cut_over("x", 0), devices({0, 1, 4, 5})),
                 .to = one_tensor({64}, cut_over("x", 0), devices({4, 5, 0, 1}))};
  const PagingBound bound = paging_of_whole_boxes(job.input(), job.plan().memory(), 4);
  EXPECT_EQ(bound.bytes, 2 * (16 * 4 - 4));
  EXPECT_EQ(bound.device_bytes, 16 * 4 - 4);
}

// Two tensors: once the small one has been swapped first, the large one still needs room for all of it but what is
// free.
TEST(PagingOfWholeBoxes, CountsTheLargestBoxToo) {
  Case job{.from = collection_of({{"x", 2}}, devices({0, 4}),
                                 {tensor_of("s", {2}, {cut_over("x", 0)}), tensor_of("w", {64}, {cut_over("x", 0)})})};
  job.to = job.from;
  job.to.device_of_rank = devices({4, 0});
  const PagingBound bound = paging_of_whole_boxes(job.input(), job.plan().memory(), 8);
  EXPECT_EQ(bound.bytes, 32 * 4 - 2 * 8);
  EXPECT_EQ(bound.by, "largest box");
  EXPECT_EQ(bytes_of(job, 64), 0);
  EXPECT_EQ(paging_of_whole_boxes(swapped_halves().input(), swapped_halves().plan().memory(), 0).by, "first arrival");
}

// Who only receives, or only gives, needs no room.
TEST(PagingOfWholeBoxes, IsZeroIfAChainHasAnEnd) {
  const Case job{.from = one_tensor({60}, cut_over("x", 0), devices({0, 1, 2})),
                 .to = one_tensor({60}, cut_over("x", 0), devices({1, 2, 3}))};
  EXPECT_EQ(bytes_of(job, 0), 0);
}

// A device that gives a box away and copies a part of it for itself needs it once.
TEST(PagingOfWholeBoxes, CountsAnElementOnce) {
  const Case job{.from = one_tensor({64}, cut_over("x", 0), devices({0, 1})), .to = replicas({64}, devices({0, 1}))};
  EXPECT_EQ(bytes_of(job, 0), 0);
}

TEST(PagingOfWholeBoxes, SaysNothingIfStateCanBeReadAgain) {
  Case job = swapped_halves();
  job.residency.extra = {{TensorId(0), tensor::Box({0}, {64}), HostId(2)}};
  EXPECT_EQ(bytes_of(job, 0), 0);
  job = swapped_halves();
  job.residency.storage = true;
  EXPECT_EQ(bytes_of(job, 0), 0);
}

// Exhaustive over all orders of all boxes.
TEST(PagingOfWholeBoxes, IsAtMostTheBestOrder) {
  int compared = 0, positive = 0, met = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Random random(seed);
    const int64_t elements = random.between(2, 6);
    const auto side = [&] {
      const int count = static_cast<int>(random.between(2, 3));
      std::vector<tensor::Cut> cuts;
      if (random.below(5) > 0) cuts.push_back(cut_over("x", 0));
      return collection_of({{"x", count}}, random_devices(random, count, 3),
                           {tensor_of("w", {elements}, cuts), tensor_of("v", {2}, {cut_over("x", 0)})});
    };
    const Case job{.from = side(), .to = side()};
    const Plan plan = job.plan();
    for (const int64_t cap : {0, 4, 8}) {
      Pager pager(plan, cap);
      if (pager.boxes() > 13) continue;
      const int64_t least = pager.least();
      ASSERT_GE(least, 0);
      const int64_t bound = bytes_of(job, cap);
      ASSERT_LE(bound, least) << "cap " << cap;
      ++compared;
      positive += bound > 0;
      met += bound > 0 && bound == least;
    }
  }
  EXPECT_GT(compared, 200);
  EXPECT_GT(positive, 10);
  EXPECT_GT(met, 5);
}

// Our plan under the cap cuts boxes: it moves what it moves without a cap.
TEST(PagingOfWholeBoxes, OurPlansCutInsteadAndRepeatNothing) {
  int capped = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Random random(seed);
    const Sizes from = random_sizes(random, 8), to = random_sizes(random, 8);
    Case job{.from = grid_collection(from, random_devices(random, from.world(), 8)),
             .to = grid_collection(to, random_devices(random, to.world(), 8))};
    const Plan whole = job.plan();
    const int64_t cap = random.below(400);
    // A plan without a cap that keeps it is an order of whole boxes.
    int64_t most = 0;
    for (const DeviceMemory& memory : whole.memory()) most = std::max(most, memory.peak_extra);
    EXPECT_EQ(paging_of_whole_boxes(job.input(), whole.memory(), most).bytes, 0);
    job.options.memory_cap = cap;
    const auto plan = make_plan(job.input());
    if (!plan.ok()) continue;
    ++capped;
    EXPECT_EQ(plan->bytes(), whole.bytes());
  }
  EXPECT_GT(capped, 20);
}

}  // namespace
}  // namespace scalai::plan
