#include "tests/fuzz/mutate.h"

#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <vector>

#include "ptc/base/json.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size) __attribute__((weak));

namespace scalai::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Json = nlohmann::ordered_json;

template <class T>
T edge(T value, Random& random) {
  if constexpr (std::is_same_v<T, bool>) {
    return !value;
  } else if constexpr (std::is_floating_point_v<T>) {
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    const std::array<T, 12> some = {0,  T(-0.0),   -1,     1,         T(0.5),     std::numeric_limits<T>::max(),
                                    -1, value * 2, -value, kInfinity, -kInfinity, std::numeric_limits<T>::denorm_min()};
    return random.below(16) == 0 ? std::numeric_limits<T>::quiet_NaN() : some[static_cast<size_t>(random.below(12))];
  } else {
    using U = std::make_unsigned_t<T>;
    const auto as_is = static_cast<U>(value);
    const std::array<U, 12> some = {0,
                                    1,
                                    static_cast<U>(-1),
                                    static_cast<U>(std::numeric_limits<T>::min()),
                                    static_cast<U>(std::numeric_limits<T>::max()),
                                    static_cast<U>(as_is + 1),
                                    static_cast<U>(as_is - 1),
                                    static_cast<U>(as_is * 2),
                                    static_cast<U>(as_is / 2),
                                    static_cast<U>(U{1} << random.below(std::numeric_limits<U>::digits)),
                                    static_cast<U>(random.below(10)),
                                    static_cast<U>(random.next())};
    return static_cast<T>(some[static_cast<size_t>(random.below(12))]);
  }
}

// A field of a message, or an entry of one that is repeated.
struct Place {
  Message* message;
  const FieldDescriptor* field;
  int index;  // -1: the field itself
};

void collect(Message& message, std::vector<Place>& places) {
  constexpr int kMostEntries = 64;  // of a field: the rest is alike
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = message.GetDescriptor()->field(i);
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    places.push_back({&message, field, -1});
    const int entries = field->is_repeated() ? std::min(kMostEntries, reflection.FieldSize(message, field)) : 0;
    for (int entry = 0; entry < entries; ++entry) {
      places.push_back({&message, field, entry});
      if (is_message) collect(*reflection.MutableRepeatedMessage(&message, field, entry), places);
    }
    if (!field->is_repeated() && is_message && reflection.HasField(message, field))
      collect(*reflection.MutableMessage(&message, field), places);
  }
}

// A value that is there, or the default of one that is not.
void change_value(const Place& place, Random& random, const Nested& nested) {
  Message* const message = place.message;  // no structured binding: lambdas use them
  const FieldDescriptor* const field = place.field;
  const int index = place.index;
  const Reflection& reflection = *message->GetReflection();
  const auto change = [&](auto get, auto get_entry, auto set, auto set_entry, const auto& changed) {
    if (index < 0) {
      (reflection.*set)(message, field, changed((reflection.*get)(*message, field)));
    } else {
      (reflection.*set_entry)(message, field, index, changed((reflection.*get_entry)(*message, field, index)));
    }
  };
  const auto number = [&](auto value) { return edge(value, random); };
#define SCALAI_CHANGE(TYPE, changed)                                                     \
  change(&Reflection::Get##TYPE, &Reflection::GetRepeated##TYPE, &Reflection::Set##TYPE, \
         &Reflection::SetRepeated##TYPE, changed)
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: return SCALAI_CHANGE(Int32, number);
    case FieldDescriptor::CPPTYPE_INT64: return SCALAI_CHANGE(Int64, number);
    case FieldDescriptor::CPPTYPE_UINT32: return SCALAI_CHANGE(UInt32, number);
    case FieldDescriptor::CPPTYPE_UINT64: return SCALAI_CHANGE(UInt64, number);
    case FieldDescriptor::CPPTYPE_DOUBLE: return SCALAI_CHANGE(Double, number);
    case FieldDescriptor::CPPTYPE_FLOAT: return SCALAI_CHANGE(Float, number);
    case FieldDescriptor::CPPTYPE_BOOL: return SCALAI_CHANGE(Bool, number);
    case FieldDescriptor::CPPTYPE_ENUM:
      return SCALAI_CHANGE(EnumValue, [&](int value) {
        const auto* const type = field->enum_type();
        return random.below(4) == 0 ? edge(value, random)
                                    : type->value(static_cast<int>(random.below(type->value_count())))->number();
      });
    case FieldDescriptor::CPPTYPE_STRING:
      return SCALAI_CHANGE(String, [&](std::string text) {
        const auto found = nested.find(field->full_name());
        found != nested.end() && random.below(8) != 0 ? found->second(text, random) : mutate(text, random);
        return text;
      });
    case FieldDescriptor::CPPTYPE_MESSAGE: return;
  }
#undef SCALAI_CHANGE
}

// One more entry: a copy of one that is there, or an empty one.
void add_entry(const Place& place, Random& random, const Nested& nested) {
  const auto& [message, field, index] = place;
  const Reflection& reflection = *message->GetReflection();
  const int entries = reflection.FieldSize(*message, field);
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    Message* const fresh = reflection.AddMessage(message, field);
    if (entries > 0 && random.below(4) != 0)
      fresh->CopyFrom(reflection.GetRepeatedMessage(*message, field, static_cast<int>(random.below(entries))));
    return;
  }
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: reflection.AddInt32(message, field, 0); break;
    case FieldDescriptor::CPPTYPE_INT64: reflection.AddInt64(message, field, 0); break;
    case FieldDescriptor::CPPTYPE_UINT32: reflection.AddUInt32(message, field, 0); break;
    case FieldDescriptor::CPPTYPE_UINT64: reflection.AddUInt64(message, field, 0); break;
    case FieldDescriptor::CPPTYPE_DOUBLE: reflection.AddDouble(message, field, 0); break;
    case FieldDescriptor::CPPTYPE_FLOAT: reflection.AddFloat(message, field, 0); break;
    case FieldDescriptor::CPPTYPE_BOOL: reflection.AddBool(message, field, false); break;
    case FieldDescriptor::CPPTYPE_ENUM: reflection.AddEnumValue(message, field, 0); break;
    default: reflection.AddString(message, field, ""); break;
  }
  change_value({message, field, entries}, random, nested);
}

void change_entries(const Place& place, Random& random, const Nested& nested) {
  const auto& [message, field, index] = place;
  const Reflection& reflection = *message->GetReflection();
  const int entries = reflection.FieldSize(*message, field);
  const auto any = [&] { return static_cast<int>(random.below(entries)); };
  switch (entries == 0 ? 0 : random.below(6)) {
    case 0: return add_entry(place, random, nested);
    case 1: return reflection.RemoveLast(message, field);
    case 2: return reflection.ClearField(message, field);
    case 3: return reflection.SwapElements(message, field, any(), any());
    case 4:
      for (int64_t i = random.below(40); i >= 0; --i) add_entry(place, random, nested);
      return;
    default: reflection.SwapElements(message, field, any(), entries - 1); return reflection.RemoveLast(message, field);
  }
}

void collect(Json& value, std::vector<Json*>& places) {
  places.push_back(&value);
  if (!value.is_structured()) return;
  for (Json& part : value) collect(part, places);
}

void change_number(Json& value, Random& random) {
  if (value.is_number_integer() && random.below(4) != 0) {
    value = edge(value.get<int64_t>(), random);
  } else {
    value = edge(value.get<double>(), random);
  }
}

// Of an object or a list that has some: one goes, comes twice, changes place or name.
void change_parts(Json& value, Random& random) {
  const auto at = static_cast<int64_t>(random.below(static_cast<int64_t>(value.size())));
  const auto part = std::next(value.begin(), at);
  if (random.below(3) == 0) {
    value.erase(part);
  } else if (value.is_array()) {
    random.below(2) == 0 ? value.push_back(Json(*part)) : std::swap(*part, value.front());
  } else {
    std::string name = part.key();
    mutate(name, random);
    value[name] = Json(*part);
  }
}

}  // namespace

int changes(Random& random) { return random.below(4) == 0 ? static_cast<int>(random.between(2, 4)) : 1; }

void mutate(std::string& text, Random& random) {
  const auto any = [&] { return static_cast<size_t>(random.below(std::ssize(text))); };
  const size_t digit = text.find_first_of("0123456789", text.empty() ? 0 : any());
  if (digit != std::string::npos && random.below(2) == 0) {
    const size_t end = std::min(text.find_first_not_of("0123456789", digit), text.size());
    const int64_t number = std::strtoll(text.substr(digit, end - digit).c_str(), nullptr, 10);
    text.replace(digit, end - digit, std::to_string(edge(number, random)));
    return;
  }
  switch (text.empty() ? random.between(0, 1) : random.below(7)) {
    case 0:
      text.insert(text.begin() + random.below(std::ssize(text) + 1), static_cast<char>(random.between(1, 126)));
      break;
    case 1: text += random.below(4) == 0 ? std::string(300, 'x') : "a"; break;
    case 2: text.clear(); break;
    case 3: text.erase(text.begin() + static_cast<ptrdiff_t>(any())); break;
    case 4: text.resize(any()); break;
    case 5: text += text.substr(0, 200); break;
    default: text[any()] = static_cast<char>(random.between(1, 126)); break;
  }
}

void mutate(Message& message, Random& random, const Nested& nested) {
  std::vector<Place> places;
  collect(message, places);
  if (places.empty()) return;
  const Place& place = places[static_cast<size_t>(random.below(std::ssize(places)))];
  const auto& [in, field, index] = place;
  const Reflection& reflection = *in->GetReflection();
  const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (field->is_repeated() && (index < 0 || is_message)) return change_entries(place, random, nested);
  if (!is_message) return change_value(place, random, nested);
  if (reflection.HasField(*in, field)) return reflection.ClearField(in, field);
  reflection.MutableMessage(in, field);
}

void mutate(Json& value, Random& random) {
  std::vector<Json*> places;
  collect(value, places);
  Json& place = *places[static_cast<size_t>(random.below(std::ssize(places)))];
  if (random.below(8) == 0) {
    const std::array<Json, 7> others = {nullptr, true, 0, -1, "", Json::array(), Json::object()};
    place = others[static_cast<size_t>(random.below(7))];
  } else if (place.is_structured() && !place.empty()) {
    change_parts(place, random);
  } else if (place.is_number()) {
    change_number(place, random);
  } else if (place.is_string()) {
    auto text = place.get<std::string>();
    mutate(text, random);
    place = text;
  } else if (place.is_boolean()) {
    place = !place.get<bool>();
  } else {
    place = random.below(2) == 0 ? Json(random.below(100)) : Json("a");
  }
}

std::string mutate_bytes(std::string_view bytes, const std::string& seed, Message& message, Random& random,
                         const Nested& nested) {
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || message.ByteSizeLong() == 0)
    message.ParseFromString(seed);
  for (int i = changes(random); i > 0; --i) mutate(message, random, nested);
  return message.SerializeAsString();
}

std::string mutate_textproto(std::string_view text, std::string_view seed, Message& message, Random& random) {
  using google::protobuf::TextFormat;
  const google::protobuf::LogSilencer quiet;
  if (!TextFormat::ParseFromString(std::string(text), &message) || message.ByteSizeLong() == 0)
    TextFormat::ParseFromString(std::string(seed), &message);
  for (int i = changes(random); i > 0; --i) mutate(message, random);
  std::string changed;
  TextFormat::PrintToString(message, &changed);
  return changed;
}

std::string mutate_json(std::string_view text, std::string_view seed, Random& random) {
  absl::StatusOr<Json> value = read_ordered_json(text);
  if (!value.ok() || !value->is_structured()) value = read_ordered_json(seed);
  for (int i = changes(random); i > 0; --i) mutate(*value, random);
  return value->dump(-1, ' ', false, Json::error_handler_t::replace);
}

size_t mutate_input(uint8_t* data, size_t size, size_t max_size, unsigned seed, const Change& change) {
  Random random(seed);
  if (LLVMFuzzerMutate != nullptr && random.below(16) == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string changed = change({reinterpret_cast<const char*>(data), size}, random);
  if (changed.size() > max_size) return size;
  std::copy(changed.begin(), changed.end(), data);
  return changed.size();
}

}  // namespace scalai::fuzz
