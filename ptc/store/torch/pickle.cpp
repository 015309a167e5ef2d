#include "ptc/store/torch/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>
#include <unordered_map>

#include "ptc/base/status.h"

namespace scalai::store {

using Kind = PickleValue::Kind;

const PickleValue* PickleValue::find(std::string_view key) const {
  const auto found = std::find_if(pairs.begin(), pairs.end(), [&](const auto& pair) {
    return pair.first->kind == Kind::kText && pair.first->text == key;
  });
  return found == pairs.end() ? nullptr : found->second;
}

const PickleValue* PickleValue::attribute(std::string_view name) const {
  const PickleValue* from = state;
  // (attributes, those of __slots__)
  if (from != nullptr && from->kind == Kind::kTuple && from->items.size() == 2) {
    const PickleValue* const found = from->items[1]->find(name);
    return found != nullptr ? found : from->items[0]->find(name);
  }
  return from == nullptr ? nullptr : from->find(name);
}

namespace {

constexpr size_t kMostValues = size_t{1} << 24;
// A value of one byte can take a hundred; what torch writes takes about ten times its size.
constexpr size_t kLeastBudget = size_t{64} << 20, kBudgetTimes = 32;

}  // namespace

// One pass over the opcodes with a stack, as Python's own reader.
class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes) : bytes_(bytes) {}

  absl::StatusOr<Pickle> read() {
    while (!done_ && problem_.empty()) {
      begin_ = at_;
      const auto opcode = static_cast<char>(number(1));
      if (problem_.empty()) step(opcode);
      if (pickle_.values_.size() > kMostValues) fail("has too many values");
    }
    if (!problem_.empty()) return invalid(fmt::format("pickle, byte {}: {}", begin_, problem_));
    return std::move(pickle_);
  }

 private:
  void fail(std::string text) {
    if (problem_.empty()) problem_ = std::move(text);
  }

  // --- bytes ---

  std::string_view take(uint64_t count) {
    if (count > bytes_.size() - at_) {
      fail("is cut off");
      return {};
    }
    const std::string_view taken = bytes_.substr(at_, static_cast<size_t>(count));
    at_ += static_cast<size_t>(count);
    return taken;
  }
  uint64_t number(int size) {
    uint64_t value = 0;
    const std::string_view taken = take(static_cast<uint64_t>(size));
    for (size_t i = taken.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(taken[i]);
    return value;
  }
  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) {
      fail("is cut off");
      return {};
    }
    const std::string_view taken = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return taken;
  }

  // --- values ---

  PickleValue* make(Kind kind) {
    charge(sizeof(PickleValue));
    PickleValue& value = pickle_.values_.emplace_back();
    value.kind = kind;
    return &value;
  }
  void charge(size_t bytes) {
    taken_ += bytes;
    if (taken_ > kLeastBudget + kBudgetTimes * bytes_.size()) fail("has values that take too much memory");
  }
  // A value that never changes and that a byte or two can ask for: there is one of it.
  void push_shared(Kind kind, int64_t number = 0) {
    PickleValue*& one = shared_[number << 8 | static_cast<int64_t>(kind)];
    if (one == nullptr) {
      one = make(kind);
      one->number = number;
    }
    push(one);
  }
  void push(PickleValue* value) { stack_.push_back(value); }
  PickleValue* push_new(Kind kind) {
    push(make(kind));
    return stack_.back();
  }
  void push_text(Kind kind, std::string_view text) {
    charge(text.size());
    push_new(kind)->text = text;
  }
  void push_int(int64_t value) {
    constexpr int64_t kSmall = 1 << 16;
    if (value >= 0 && value < kSmall) return push_shared(Kind::kInt, value);
    push_new(Kind::kInt)->number = value;
  }

  // Above the last mark.
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue* pop() {
    if (stack_.size() <= floor()) {
      fail("takes a value that is not there");
      return make(Kind::kNone);
    }
    PickleValue* const value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue* top() {
    if (stack_.size() > floor()) return stack_.back();
    fail("takes a value that is not there");
    return make(Kind::kNone);
  }
  std::vector<PickleValue*> pop_to_mark() {
    if (marks_.empty()) {
      fail("takes values to a mark that is not there");
      return {};
    }
    std::vector<PickleValue*> values(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return values;
  }

  void push_items(Kind kind, std::vector<PickleValue*> items) {
    charge(items.size() * sizeof(void*));
    push_new(kind)->items = std::move(items);
  }
  void push_tuple(std::vector<PickleValue*> items) { push_items(Kind::kTuple, std::move(items)); }
  void pop_tuple(size_t size) {
    std::vector<PickleValue*> items(size);
    for (size_t i = size; i-- > 0;) items[i] = pop();
    push_tuple(std::move(items));
  }
  void push_dict(const std::vector<PickleValue*>& values) {
    PickleValue* const dict = push_new(Kind::kDict);
    set_items(dict, values);
  }
  void set_items(PickleValue* into, const std::vector<PickleValue*>& values) {
    if (values.size() % 2 != 0 || (into->kind != Kind::kDict && into->kind != Kind::kCall)) return fail("is damaged");
    charge(values.size() * sizeof(void*));
    for (size_t i = 0; i < values.size(); i += 2) into->pairs.emplace_back(values[i], values[i + 1]);
  }
  void append(PickleValue* into, const std::vector<PickleValue*>& values) {
    // What is appended to an object (a deque) is no argument of its call; nothing of that kind is looked at.
    if (into->kind == Kind::kCall) return;
    if (into->kind != Kind::kList && into->kind != Kind::kSet) return fail("is damaged");
    charge(values.size() * sizeof(void*));
    into->items.insert(into->items.end(), values.begin(), values.end());
  }
  void call(PickleValue* callee, std::vector<PickleValue*> arguments) {
    PickleValue* const value = push_new(Kind::kCall);
    value->callee = callee;
    value->items = std::move(arguments);
  }
  void reduce() {
    const PickleValue* const arguments = pop();
    PickleValue* const callee = pop();
    if (arguments->kind != Kind::kTuple) return fail("is damaged");
    if (may_copy(arguments->items.size() * sizeof(void*))) call(callee, arguments->items);
  }
  void build() {
    PickleValue* const state = pop();
    PickleValue* const object = top();
    if (object->kind == Kind::kCall) object->state = state;
  }
  void push_name(std::string_view module, std::string_view name) {
    push_new(Kind::kName)->text = fmt::format("{}.{}", module, name);
  }
  void stack_name() {
    const PickleValue* const name = pop();
    const PickleValue* const module = pop();
    if (may_copy(module->text.size() + name->text.size())) push_name(module->text, name->text);
  }
  // What the memo has once can be asked for at every opcode.
  bool may_copy(size_t bytes) {
    constexpr size_t kMostBytes = size_t{64} << 20, kMostTimes = 8;
    copied_ += bytes;
    if (copied_ > kMostBytes + kMostTimes * bytes_.size()) fail("takes the same values too often");
    return problem_.empty();
  }
  void push_long(std::string_view bytes) {
    if (bytes.size() > 8) return fail("has a whole number beyond 64 bits");
    uint64_t value = bytes.empty() || (bytes.back() & 0x80) == 0 ? 0 : ~uint64_t{0};
    for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
    push_int(static_cast<int64_t>(value));
  }
  void push_decimal(std::string_view text) {
    if (text == "00" || text == "01") {
      push_shared(Kind::kBool, text == "01" ? 1 : 0);
      return;
    }
    if (text.ends_with('L')) text.remove_suffix(1);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return fail("has a number that is none");
    push_int(value);
  }

  void push_real(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return fail("has a number that is none");
    push_new(Kind::kFloat)->real = value;
  }

  // Python numbers them without gaps; a pickle may do otherwise.
  void put(uint64_t index, PickleValue* value) {
    constexpr size_t kSparse = 64;  // bytes of a row of the map
    charge(index == memo_.size() ? sizeof(void*) : kSparse);
    if (index == memo_.size()) {
      memo_.push_back(value);
      sparse_memo_.erase(index);
    } else if (index < memo_.size()) {
      memo_[index] = value;
    } else {
      sparse_memo_[index] = value;
    }
  }
  void get(uint64_t index) {
    if (index < memo_.size()) return push(memo_[index]);
    const auto found = sparse_memo_.find(index);
    if (found == sparse_memo_.end()) return fail("remembers a value that is not there");
    push(found->second);
  }
  uint64_t decimal_index() {
    const std::string_view text = line();
    uint64_t index = 0;
    std::from_chars(text.data(), text.data() + text.size(), index);
    return index;
  }

  void step(char opcode);
  bool constant(char opcode);
  bool text(char opcode);
  bool container(char opcode);
  bool object(char opcode);
  bool memory(char opcode);

  size_t copied_ = 0, taken_ = 0;
  std::unordered_map<int64_t, PickleValue*> shared_;
  std::string_view bytes_;
  size_t at_ = 0, begin_ = 0;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::vector<PickleValue*> memo_;
  std::unordered_map<uint64_t, PickleValue*> sparse_memo_;
  bool done_ = false;
  std::string problem_;
  Pickle pickle_;
};

bool PickleReader::constant(char opcode) {
  switch (opcode) {
    case 'N': push_shared(Kind::kNone); return true;
    case '\x88': push_shared(Kind::kBool, 1); return true;
    case '\x89': push_shared(Kind::kBool); return true;
    case 'K': push_int(static_cast<int64_t>(number(1))); return true;
    case 'M': push_int(static_cast<int64_t>(number(2))); return true;
    case 'J': push_int(static_cast<int32_t>(static_cast<uint32_t>(number(4)))); return true;
    case 'I':
    case 'L': push_decimal(line()); return true;
    case 'F': push_real(line()); return true;
    case '\x8a': push_long(take(number(1))); return true;
    case '\x8b': push_long(take(number(4))); return true;
    case 'G': {
      uint64_t bits = 0;  // the one number that is written with its high byte first
      for (const char byte : take(8)) bits = bits << 8 | static_cast<uint8_t>(byte);
      push_new(Kind::kFloat)->real = std::bit_cast<double>(bits);
      return true;
    }
    default: return false;
  }
}

bool PickleReader::text(char opcode) {
  switch (opcode) {
    case 'X': push_text(Kind::kText, take(number(4))); return true;
    case '\x8c': push_text(Kind::kText, take(number(1))); return true;
    case '\x8d': push_text(Kind::kText, take(number(8))); return true;
    case 'V': push_text(Kind::kText, line()); return true;
    case 'U': push_text(Kind::kText, take(number(1))); return true;  // of Python 2
    case 'T': push_text(Kind::kText, take(number(4))); return true;
    case 'C': push_text(Kind::kBytes, take(number(1))); return true;
    case 'B': push_text(Kind::kBytes, take(number(4))); return true;
    case '\x8e':
    case '\x96': push_text(Kind::kBytes, take(number(8))); return true;
    default: return false;
  }
}

bool PickleReader::container(char opcode) {
  switch (opcode) {
    case '(': marks_.push_back(stack_.size()); return true;
    case ']': push_new(Kind::kList); return true;
    case '}': push_new(Kind::kDict); return true;
    case ')': push_shared(Kind::kTuple); return true;
    case '\x8f': push_new(Kind::kSet); return true;
    case 't': push_tuple(pop_to_mark()); return true;
    case 'l': push_items(Kind::kList, pop_to_mark()); return true;
    case 'd': push_dict(pop_to_mark()); return true;
    case '\x85': pop_tuple(1); return true;
    case '\x86': pop_tuple(2); return true;
    case '\x87': pop_tuple(3); return true;
    case 'a': {
      PickleValue* const item = pop();
      append(top(), {item});
      return true;
    }
    case 'e':
    case '\x90': {
      const std::vector<PickleValue*> items = pop_to_mark();
      append(top(), items);
      return true;
    }
    case '\x91': push_items(Kind::kSet, pop_to_mark()); return true;
    case 's': {
      PickleValue* const value = pop();
      PickleValue* const key = pop();
      set_items(top(), {key, value});
      return true;
    }
    case 'u': {
      const std::vector<PickleValue*> values = pop_to_mark();
      set_items(top(), values);
      return true;
    }
    case '0':
      if (stack_.size() > floor()) {
        stack_.pop_back();
      } else {
        pop_to_mark();
      }
      return true;
    case '1': pop_to_mark(); return true;
    case '2': push(top()); return true;
    default: return false;
  }
}

bool PickleReader::object(char opcode) {
  switch (opcode) {
    case 'c': {
      const std::string_view module = line();
      push_name(module, line());
      return true;
    }
    case '\x93': stack_name(); return true;
    case 'R':
    case '\x81': reduce(); return true;
    case '\x92': {
      pop();  // arguments by name
      reduce();
      return true;
    }
    case 'i': {
      const std::string_view module = line();
      push_name(module, line());
      PickleValue* const callee = pop();
      call(callee, pop_to_mark());
      return true;
    }
    case 'o': {
      std::vector<PickleValue*> values = pop_to_mark();
      if (values.empty()) {
        fail("is damaged");
        return true;
      }
      PickleValue* const callee = values.front();
      values.erase(values.begin());
      call(callee, std::move(values));
      return true;
    }
    case 'b': build(); return true;
    case 'Q': {
      PickleValue* const id = pop();
      push_items(Kind::kPersistent, {id});
      return true;
    }
    default: return false;
  }
}

bool PickleReader::memory(char opcode) {
  switch (opcode) {
    case 'q': put(number(1), top()); return true;
    case 'r': put(number(4), top()); return true;
    case 'p': put(decimal_index(), top()); return true;
    case '\x94': put(memo_.size() + sparse_memo_.size(), top()); return true;
    case 'h': get(number(1)); return true;
    case 'j': get(number(4)); return true;
    case 'g': get(decimal_index()); return true;
    case '\x80': number(1); return true;
    case '\x95': number(8); return true;
    case '.':
      pickle_.root_ = pop();
      done_ = true;
      return true;
    default: return false;
  }
}

void PickleReader::step(char opcode) {
  if (constant(opcode) || text(opcode) || container(opcode) || object(opcode) || memory(opcode)) return;
  fail(fmt::format("opcode {:#04x} is not known here", static_cast<uint8_t>(opcode)));
}

absl::StatusOr<Pickle> Pickle::read(std::string_view bytes) { return PickleReader(bytes).read(); }

}  // namespace scalai::store
