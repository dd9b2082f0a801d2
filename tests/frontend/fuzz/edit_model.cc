// Edits of what a model says: any field of any of its messages takes another value, goes, doubles or moves.
#include <google/protobuf/message.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "onnx/defs/schema.h"
#include "onnx/onnx_pb.h"
#include "tests/fuzz/target.h"

namespace rannc::fuzz {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using ONNX_NAMESPACE::ModelProto;

constexpr std::array<int64_t, 20> kIntegers = {0,
                                               1,
                                               2,
                                               3,
                                               4,
                                               7,
                                               8,
                                               -1,
                                               -2,
                                               -3,
                                               16,
                                               27,
                                               255,
                                               65536,
                                               1 << 20,
                                               1 << 24,
                                               2147483647,
                                               4294967296,
                                               std::numeric_limits<int64_t>::max(),
                                               std::numeric_limits<int64_t>::min()};
constexpr std::array<double, 9> kReals = {0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, 3.0, NAN, INFINITY};
constexpr std::array<const char*, 12> kStrings = {
    "",     "x",      "linear",    "cubic",   "SAME_UPPER", "bidirectional",
    "none", "../../", "/dev/zero", "a,b->ab", "...",        "\xff\xfe"};

class ModelEditor {
 public:
  ModelEditor(ModelProto& model, const ModelProto& other, Random& random) : model_(model), random_(random) {
    collect<Message>(model, parts_);
    collect<const Message>(other, donors_);
  }

  void edit() {
    Message& part = *parts_[below(parts_.size(), random_)];
    if (&part == &model_ && parts_.size() > 1 && !one_in(8)) return edit();
    const FieldDescriptor* const field = pick_field(part);
    if (field == nullptr) return;
    field->is_repeated() ? edit_list(part, *field) : edit_one(part, *field);
  }

 private:
  template <class Of>
  static void collect(Of& message, std::vector<Of*>& found) {
    found.push_back(&message);
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* const field : fields) {
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) collect<Of>(child<Of>(message, *field, i), found);
    }
  }
  template <class Of>
  static Of& child(Of& message, const FieldDescriptor& field, int index) {
    const Reflection& reflection = *message.GetReflection();
    if constexpr (std::is_const_v<Of>) {
      return field.is_repeated() ? reflection.GetRepeatedMessage(message, &field, index)
                                 : reflection.GetMessage(message, &field);
    } else {
      return field.is_repeated() ? *reflection.MutableRepeatedMessage(&message, &field, index)
                                 : *reflection.MutableMessage(&message, &field);
    }
  }

  bool one_in(size_t n) { return below(n, random_) == 0; }
  template <class T, size_t n>
  T any_of(const std::array<T, n>& from) {
    return from[below(n, random_)];
  }

  /// Mostly one that is set.
  const FieldDescriptor* pick_field(const Message& part) {
    std::vector<const FieldDescriptor*> fields;
    part.GetReflection()->ListFields(part, &fields);
    if (!fields.empty() && !one_in(4)) return fields[below(fields.size(), random_)];
    const Descriptor& type = *part.GetDescriptor();
    return type.field_count() == 0
               ? nullptr
               : type.field(static_cast<int>(below(static_cast<size_t>(type.field_count()), random_)));
  }

  /// A message of that type out of the other model; null where it has none.
  const Message* donor(const Descriptor* type) {
    std::vector<const Message*> fitting;
    for (const Message* const candidate : donors_) {
      if (candidate->GetDescriptor() == type) fitting.push_back(candidate);
    }
    return fitting.empty() ? nullptr : fitting[below(fitting.size(), random_)];
  }

  void edit_one(Message& part, const FieldDescriptor& field) {
    const Reflection& reflection = *part.GetReflection();
    if (one_in(5)) return reflection.ClearField(&part, &field);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return set(part, field, -1);
    if (const Message* const from = donor(field.message_type()))
      reflection.MutableMessage(&part, &field)->CopyFrom(*from);
  }

  void edit_list(Message& part, const FieldDescriptor& field) {
    const Reflection& reflection = *part.GetReflection();
    const int count = reflection.FieldSize(part, &field);
    const auto any = [&] { return static_cast<int>(below(static_cast<size_t>(count), random_)); };
    switch (count == 0 ? 3 : below(5, random_)) {
      case 0:
        reflection.SwapElements(&part, &field, any(), count - 1);
        return reflection.RemoveLast(&part, &field);
      case 1:
        return reflection.SwapElements(&part, &field, any(), any());
      case 2:
        if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
          const std::string copy = reflection.GetRepeatedMessage(part, &field, any()).SerializePartialAsString();
          reflection.AddMessage(&part, &field)->ParsePartialFromString(copy);
          return;
        }
        [[fallthrough]];
      case 3:
        return add(part, field);
      default:
        if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return set(part, field, any());
        if (const Message* const from = donor(field.message_type())) {
          reflection.MutableRepeatedMessage(&part, &field, any())->CopyFrom(*from);
        }
    }
  }

  void add(Message& part, const FieldDescriptor& field) {
    const Reflection& reflection = *part.GetReflection();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const Message* const from = donor(field.message_type());
      if (from != nullptr) reflection.AddMessage(&part, &field)->CopyFrom(*from);
      return;
    }
    set(part, field, -1);
  }

  /// Sets a field, or its element `index`; of a list, -1 adds an element.
  void set(Message& part, const FieldDescriptor& field, int index) {
    const Reflection& r = *part.GetReflection();
    Message* const p = &part;
    const FieldDescriptor* const f = &field;
    const bool list = field.is_repeated();
    const auto put = [&](auto single, auto element, auto appended, auto value) {
      if (!list) return (r.*single)(p, f, value);
      index < 0 ? (r.*appended)(p, f, value) : (r.*element)(p, f, index, value);
    };
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return put(&Reflection::SetInt32, &Reflection::SetRepeatedInt32, &Reflection::AddInt32,
                   static_cast<int32_t>(integer()));
      case FieldDescriptor::CPPTYPE_INT64:
        return put(&Reflection::SetInt64, &Reflection::SetRepeatedInt64, &Reflection::AddInt64, integer());
      case FieldDescriptor::CPPTYPE_UINT64:
        return put(&Reflection::SetUInt64, &Reflection::SetRepeatedUInt64, &Reflection::AddUInt64,
                   static_cast<uint64_t>(integer()));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return put(&Reflection::SetFloat, &Reflection::SetRepeatedFloat, &Reflection::AddFloat,
                   static_cast<float>(any_of(kReals)));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return put(&Reflection::SetDouble, &Reflection::SetRepeatedDouble, &Reflection::AddDouble, any_of(kReals));
      case FieldDescriptor::CPPTYPE_ENUM:
        return put(&Reflection::SetEnumValue, &Reflection::SetRepeatedEnumValue, &Reflection::AddEnumValue,
                   static_cast<int>(below(18, random_)));
      case FieldDescriptor::CPPTYPE_STRING: {
        const std::string text = string(part, field);
        if (!list) return r.SetString(p, f, text);
        return index < 0 ? r.AddString(p, f, text) : r.SetRepeatedString(p, f, index, text);
      }
      default:
        return;
    }
  }

  int64_t integer() { return one_in(3) ? static_cast<int64_t>(below(30, random_)) : any_of(kIntegers); }

  /// What such a field says elsewhere: names lead to other values, operators become others; bytes are edited.
  std::string string(const Message& part, const FieldDescriptor& field) {
    if (field.type() == FieldDescriptor::TYPE_BYTES && !field.is_repeated()) {
      std::string bytes = part.GetReflection()->GetString(part, &field);
      edit_bytes(bytes, bytes, random_);
      return bytes;
    }
    if (field.name() == "op_type" && one_in(2)) return any_operator();
    std::vector<std::string> said;
    for (const Message* const message : parts_) strings_of(*message, field, said);
    for (const Message* const message : donors_) strings_of(*message, field, said);
    return said.empty() || one_in(6) ? any_of(kStrings) : said[below(said.size(), random_)];
  }

  static void strings_of(const Message& message, const FieldDescriptor& field, std::vector<std::string>& said) {
    if (message.GetDescriptor() != field.containing_type()) return;
    const Reflection& reflection = *message.GetReflection();
    const int count = field.is_repeated() ? reflection.FieldSize(message, &field) : 0;
    for (int i = 0; i < count; ++i) said.push_back(reflection.GetRepeatedString(message, &field, i));
    if (!field.is_repeated()) said.push_back(reflection.GetString(message, &field));
  }

  std::string any_operator() {
    static const std::vector<ONNX_NAMESPACE::OpSchema> all = ONNX_NAMESPACE::OpSchemaRegistry::get_all_schemas();
    return all[below(all.size(), random_)].Name();
  }

  ModelProto& model_;
  Random& random_;
  std::vector<Message*> parts_;
  std::vector<const Message*> donors_;
};

}  // namespace

void edit(std::string& input, const std::string& other, Random& random) {
  ModelProto model, donor;
  if (below(6, random) == 0 || !model.ParsePartialFromString(input)) return edit_bytes(input, other, random);
  if (!donor.ParsePartialFromString(other)) donor = model;
  ModelEditor(model, donor, random).edit();
  input = model.SerializePartialAsString();
}

}  // namespace rannc::fuzz
