#include "executor/state/store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>
#include <set>
#include <thread>
#include <tuple>

#include "executor/state/content.h"
#include "executor/state/peer_segment.h"
#include "executor/state/testing/support.h"

namespace scalai::executor::state {
namespace store_test {
const int64_t kPage = Segment::page_bytes();
constexpr TensorId kT(4);
const VersionKey kOld{0, StateVersion::epoch(1)};
const VersionKey kNew{0, StateVersion::epoch(2)};

std::unique_ptr<Store> store_of(const SegmentOptions& options = {}) { return value_or_die(Store::create(options)); }

Directory seen_by_peers(const PeerSegment& peer) {
  return value_or_die(Directory::parse(value_or_die(peer.directory()), peer.capacity()));
}

TEST(Store, AddsFindsAndDrops) {
  const auto store = store_of();
  const Target a = value_or_die(store->add(kOld, kT, Box({0, 0}, {4, 8}), DType::kBF16));
  const Target b = value_or_die(store->add(kOld, kT, Box({4, 0}, {8, 8}), DType::kBF16));
  EXPECT_NE(a.data, b.data);
  EXPECT_EQ(store->bytes_held(), 2 * 4 * 8 * 2);
  EXPECT_EQ(store->bytes_in_use(), 2 * kPage);
  const std::vector<Piece> found = store->find(kOld, kT, Box({3, 2}, {5, 4}));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].part, Box({3, 2}, {4, 4}));
  EXPECT_EQ(store->target(found[0]).data, a.data);
  EXPECT_EQ(found[1].source(store->base()).data, b.data);
  EXPECT_TRUE(store->holds_all(kOld, kT, Box({0, 0}, {8, 8})));
  EXPECT_FALSE(store->holds_all(kOld, kT, Box({0, 0}, {9, 8})));
  EXPECT_EQ(store->versions(), std::vector{kOld});
  EXPECT_EQ(store->pieces(kOld).at(kT).size(), 2u);
  store->drop(kOld);
  EXPECT_EQ(store->bytes_held(), 0);
  EXPECT_EQ(store->bytes_in_use(), 0);
  EXPECT_TRUE(store->versions().empty());
  EXPECT_TRUE(store->pieces(kOld).empty());
  store->drop(kOld);
}

TEST(Store, RefusesWhatCannotBe) {
  const auto store = store_of({.limit = 3 * kPage});
  const auto code = [](const auto& result) { return result.status().code(); };
  EXPECT_TRUE(store->add(kOld, kT, Box({0, 0}, {4, 8}), DType::kF32).ok());
  EXPECT_EQ(code(store->add(kOld, kT, Box({3, 7}, {5, 9}), DType::kF32)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(store->add(kOld, kT, Box({8, 8}, {8, 9}), DType::kF32)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(store->add(kOld, kT, Box({8}, {9}), DType::kF32)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(store->add(kOld, kT, Box({8, 0}, {12, kPage}), DType::kF32)), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(store->add({1, kOld.version}, kT, Box({3, 7}, {5, 9}), DType::kF32).ok()) << "another job";
  EXPECT_TRUE(store->add(kOld, TensorId(5), Box({3, 7}, {5, 9}), DType::kF32).ok()) << "another tensor";
  EXPECT_EQ(store->keep(kOld, kNew.version, kT, Box({0, 0}, {5, 8})).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store->keep({0, StateVersion::epoch(7)}, kNew.version, kT, Box({0, 0}, {1, 1})).code(),
            absl::StatusCode::kNotFound);
  EXPECT_OK(store->keep(kOld, kNew.version, kT, Box({0, 0}, {2, 8})));
  EXPECT_EQ(store->keep(kOld, kNew.version, kT, Box({1, 0}, {3, 8})).code(), absl::StatusCode::kInvalidArgument);
  const absl::Status unknown = store->publish({0, StateVersion::snapshot(9)});
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(message_of(unknown), "no state of job 0, snapshot 9 is held");
  EXPECT_EQ(store->bytes_in_use(), 3 * kPage);
  const TensorBox gone[] = {{kT, Box({0, 0}, {1, 8})}, {kT, Box({0, 0}, {1, 1})}};
  EXPECT_EQ(store->give_back(kOld, gone).code(), absl::StatusCode::kNotFound) << "twice the same";
  EXPECT_TRUE(store->holds_all(kOld, kT, Box({0, 0}, {4, 8}))) << "nothing has changed";
}

TEST(Store, KeptBytesAreTheSameBytes) {
  const auto store = store_of();
  const Box box({0, 0}, {8, kPage});
  const Target a = value_or_die(store->add(kOld, kT, box, DType::kU8));
  a.data[kPage] = std::byte{42};
  const Box half({0, 0}, {4, kPage});
  EXPECT_OK(store->keep(kOld, kNew.version, kT, half));
  EXPECT_EQ(store->bytes_in_use(), 8 * kPage);
  store->drop(kOld);
  EXPECT_EQ(store->bytes_in_use(), 4 * kPage) << "the half that nobody reads went back";
  EXPECT_EQ(store->bytes_held(), 4 * kPage);
  const std::vector<Piece> found = store->find(kNew, kT, box);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].part, half);
  EXPECT_EQ(store->target(found[0]).data, a.data);
  EXPECT_EQ(a.data[kPage], std::byte{42});
  store->drop(kNew);
  EXPECT_EQ(store->bytes_in_use(), 0);
}

// Columns share pages: a page goes back with its last column.
TEST(Store, GivesBackPagesOnceAllOfThemIsDead) {
  const auto store = store_of();
  const Box box({0, 0}, {16, kPage / 2});  // two rows a page
  ASSERT_OK(store->add(kOld, kT, box, DType::kU8).status());
  const TensorBox left[] = {{kT, Box({0, 0}, {16, kPage / 4})}};
  EXPECT_OK(store->give_back(kOld, left));
  EXPECT_EQ(store->bytes_in_use(), 8 * kPage);
  EXPECT_EQ(store->bytes_held(), 4 * kPage);
  const TensorBox some_right[] = {{kT, Box({1, kPage / 4}, {7, kPage / 2})}};
  EXPECT_OK(store->give_back(kOld, some_right));
  EXPECT_EQ(store->bytes_in_use(), 6 * kPage);  // rows 2 to 5
  EXPECT_FALSE(store->holds_all(kOld, kT, Box({1, kPage / 4}, {2, kPage / 2})));
  EXPECT_TRUE(store->holds_all(kOld, kT, Box({7, kPage / 4}, {16, kPage / 2})));
  const TensorBox rest[] = {{kT, Box({0, kPage / 4}, {1, kPage / 2})}, {kT, Box({7, kPage / 4}, {16, kPage / 2})}};
  EXPECT_OK(store->give_back(kOld, rest));
  EXPECT_EQ(store->bytes_in_use(), 0);
  EXPECT_TRUE(store->versions().empty());
}

TEST(Store, PeersSeeAVersionFromItsPublication) {
  const auto store = store_of();
  const Box box({0}, {3 * kPage});
  ASSERT_OK(store->add(kOld, kT, box, DType::kU8).status());
  const PeerSegment peer = value_or_die(PeerSegment::open(store->address()));
  EXPECT_TRUE(seen_by_peers(peer).versions().empty());
  EXPECT_OK(store->publish(kOld));
  const uint64_t epoch = peer.epoch();
  EXPECT_TRUE(cover(seen_by_peers(peer).find(kOld, kT, box), box));
  // The next version is prepared unseen, and its abortion disturbs no reader.
  EXPECT_OK(store->keep(kOld, kNew.version, kT, Box({0}, {5})));
  ASSERT_OK(store->add(kNew, kT, Box({5}, {9}), DType::kU8).status());
  EXPECT_FALSE(seen_by_peers(peer).contains(kNew));
  store->drop(kNew);
  EXPECT_TRUE(peer.still_valid(epoch));
  // Early frees are gone from sight, and the epoch is another.
  const TensorBox part[] = {{kT, Box({kPage}, {2 * kPage})}};
  EXPECT_OK(store->give_back(kOld, part));
  EXPECT_FALSE(peer.still_valid(epoch));
  EXPECT_EQ(seen_by_peers(peer).find(kOld, kT, box).size(), 2u);
  const uint64_t later = peer.epoch();
  store->begin_rewrite();
  EXPECT_FALSE(peer.still_valid(peer.epoch()));
  store->end_rewrite();
  EXPECT_FALSE(peer.still_valid(later));
  store->drop(kOld);
  EXPECT_TRUE(seen_by_peers(peer).versions().empty());
}

TEST(Store, APublishedVersionIsSeenAsItWasThen) {
  const auto store = store_of();
  ASSERT_OK(store->add(kOld, kT, Box({0}, {4}), DType::kU8).status());
  EXPECT_OK(store->publish(kOld));
  ASSERT_OK(store->add(kOld, kT, Box({4}, {8}), DType::kU8).status());
  const PeerSegment peer = value_or_die(PeerSegment::open(store->address()));
  const TensorBox part[] = {{kT, Box({0}, {2})}, {kT, Box({6}, {8})}};
  EXPECT_OK(store->give_back(kOld, part));
  const std::vector<Piece> found = seen_by_peers(peer).find(kOld, kT, Box({0}, {8}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].part, Box({2}, {4}));
}

TEST(Store, AStoreThatIsGoneHoldsNothing) {
  auto store = store_of();
  ASSERT_OK(store->add(kOld, kT, Box({0}, {4}), DType::kU8).status());
  EXPECT_OK(store->publish(kOld));
  const PeerSegment peer = value_or_die(PeerSegment::open(store->address()));
  const uint64_t epoch = peer.epoch();
  store.reset();
  EXPECT_FALSE(peer.still_valid(epoch));
  EXPECT_TRUE(seen_by_peers(peer).versions().empty());
}

// Random use against sets of elements: what is found, what the bytes are, what memory is held.
class Model {
 public:
  using Element = std::tuple<StateVersion, int32_t, int64_t>;  // version, tensor, element
  explicit Model(uint64_t seed) : random_(seed), store_(store_of()) {}
  void step(int64_t epoch, TensorId tensor, int64_t what) {
    const VersionKey key{0, StateVersion::epoch(epoch)};
    // Mostly inside of what is held, where anything but add can do something.
    const std::vector<Piece> held = store_->find(key, tensor, whole_);
    Box outer = whole_;
    if (what != 0 && !held.empty() && random_.below(4) > 0) {
      outer = held[static_cast<size_t>(random_.below(static_cast<int64_t>(held.size())))].part;
    }
    const Box box = random_box(random_, outer);
    if (what == 0) add(key, tensor, box);
    if (what == 1) keep(key, StateVersion::epoch(random_.between(1, 4)), tensor, box);
    if (what == 2) give_back(key, tensor, box);
    if (what == 3 && random_.below(4) == 0) drop(key);
    check(key, tensor);
  }
  void finish() {
    for (int64_t epoch = 1; epoch <= 4; ++epoch) drop({0, StateVersion::epoch(epoch)});
    EXPECT_EQ(store_->bytes_held(), 0);
    EXPECT_EQ(store_->bytes_in_use(), 0);
  }

 private:
  std::set<Element> elements(const VersionKey& key, TensorId tensor, const Box& box) const {
    std::set<Element> all;
    for (const Index& index : indices_of(box)) all.insert({key.version, tensor.value, position_in(whole_, index)});
    return all;
  }
  int64_t count_held(const std::set<Element>& some) const {
    int64_t count = 0;
    for (const Element& element : some) count += held_.contains(element);
    return count;
  }
  // Each new buffer writes numbers of its own, so that every element tells where it comes from.
  void add(const VersionKey& key, TensorId tensor, const Box& box) {
    const std::set<Element> wanted = elements(key, tensor, box);
    const absl::StatusOr<Target> target = store_->add(key, tensor, box, DType::kU64);
    ASSERT_EQ(target.ok(), count_held(wanted) == 0) << box.str();
    if (!target.ok()) return;
    for (const Index& index : indices_of(box)) {
      const uint64_t number = page_of_.size();
      const int64_t at = 8 * position_in(box, index);
      std::memcpy(target->data + at, &number, 8);
      page_of_.push_back((target->data + at - store_->base()) / kPage);
      held_[{key.version, tensor.value, position_in(whole_, index)}] = number;
    }
  }
  void keep(const VersionKey& from, StateVersion to, TensorId tensor, const Box& box) {
    const std::set<Element> source = elements(from, tensor, box);
    const bool all = count_held(source) == box.volume();
    const bool free = count_held(elements({0, to}, tensor, box)) == 0;
    ASSERT_EQ(store_->keep(from, to, tensor, box).ok(), all && free) << box.str();
    if (!all || !free) return;
    for (const auto& [version, id, element] : source) held_[{to, id, element}] = held_.at({version, id, element});
  }
  void give_back(const VersionKey& key, TensorId tensor, const Box& box) {
    const std::set<Element> wanted = elements(key, tensor, box);
    const bool all = count_held(wanted) == box.volume();
    const TensorBox boxes[] = {{tensor, box}};
    ASSERT_EQ(store_->give_back(key, boxes).ok(), all);
    if (!all) return;
    for (const Element& element : wanted) held_.erase(element);
  }
  void drop(const VersionKey& key) {
    store_->drop(key);
    std::erase_if(held_, [&](const auto& entry) { return std::get<0>(entry.first) == key.version; });
  }
  void check(const VersionKey& key, TensorId tensor) {
    int64_t found_elements = 0;
    for (const Piece& piece : store_->find(key, tensor, whole_)) {
      const Source source = piece.source(store_->base());
      for (const Index& index : indices_of(piece.part)) {
        uint64_t number = 0;
        std::memcpy(&number, source.data + 8 * position_in(source.box, index), 8);
        const auto expected = held_.find({key.version, tensor.value, position_in(whole_, index)});
        ASSERT_TRUE(expected != held_.end() && expected->second == number) << piece.part.str();
        ++found_elements;
      }
    }
    ASSERT_EQ(found_elements, count_held(elements(key, tensor, whole_)));
    std::set<uint64_t> numbers;  // kept elements are held once
    for (const auto& [element, number] : held_) numbers.insert(number);
    ASSERT_EQ(store_->bytes_held(), static_cast<int64_t>(8 * numbers.size()));
    std::set<int64_t> pages;  // and no page without a held element is
    for (const uint64_t number : numbers) pages.insert(page_of_[number]);
    ASSERT_EQ(store_->bytes_in_use(), static_cast<int64_t>(pages.size()) * kPage);
  }

  Random random_;
  const Box whole_{{0, 0}, {6, 500}};  // a row is nearly a page
  std::unique_ptr<Store> store_;
  std::map<Element, uint64_t> held_;
  std::vector<int64_t> page_of_;  // of the element with this number
};

TEST(Store, RandomUseAgainstAModel) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(1000 + seed);
    Model model(seed);
    for (int i = 0; i < 40; ++i) {
      model.step(random.between(1, 4), TensorId(random.below(2)), random.below(4));
      if (testing::Test::HasFatalFailure()) return;
    }
    model.finish();
  }
}

TEST(Store, ThreadsMayUseItAtOnce) {
  const auto store = store_of();
  std::vector<std::thread> threads;
  for (int32_t job = 0; job < 4; ++job) {
    threads.emplace_back([&store, job] {
      const Box box({0}, {100});
      for (int64_t epoch = 1; epoch <= 50; ++epoch) {
        const VersionKey key{job, StateVersion::epoch(epoch)}, kept{job, StateVersion::epoch(epoch + 1000)};
        SCALAI_CHECK(store->add(key, kT, box, DType::kF32).ok());
        SCALAI_CHECK(store->publish(key).ok());
        SCALAI_CHECK(store->keep(key, kept.version, kT, Box({0}, {10})).ok());
        SCALAI_CHECK(store->holds_all(key, kT, box));
        store->drop(key);
        SCALAI_CHECK(store->holds_all(kept, kT, Box({0}, {10})));
        store->drop(kept);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store->bytes_held(), 0);
  EXPECT_TRUE(store->versions().empty());
}

}  // namespace store_test
}  // namespace scalai::executor::state
