// A machine with a stack and a memo, as of protocol 2 of Python's pickletools.
#include "frontend/torchscript/internal/archive/pickle_machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <vector>

#include "frontend/torchscript/internal/archive/check_code.h"

namespace rannc::frontend::torchscript {

namespace {

constexpr std::string_view kTensorFunctions[] = {"torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_qtensor"};
constexpr std::string_view kOtherFunctions[] = {"torch.jit._pickle restore_type_tag",
                                                "torch.jit._pickle build_intlist",
                                                "torch.jit._pickle build_tensorlist",
                                                "torch.jit._pickle build_doublelist",
                                                "torch.jit._pickle build_boollist",
                                                "builtins complex",
                                                "collections OrderedDict",
                                                "torch device"};

/// Bytes of an element by the name of the storage's class.
std::optional<int64_t> storage_element_bytes(std::string_view storage) {
  struct Type {
    std::string_view name;
    int64_t bytes;
  };
  static constexpr Type kTypes[] = {{"Byte", 1},        {"Char", 1},         {"Short", 2},          {"Int", 4},
                                    {"Long", 8},        {"Half", 2},         {"Float", 4},          {"Double", 8},
                                    {"ComplexHalf", 4}, {"ComplexFloat", 8}, {"ComplexDouble", 16}, {"Bool", 1},
                                    {"BFloat16", 2},    {"QInt8", 1},        {"QUInt8", 1},         {"QInt32", 4}};
  for (const Type& type : kTypes) {
    if (storage == fmt::format("{}Storage", type.name)) return type.bytes;
  }
  return std::nullopt;
}

class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, const PickleRecord& record, const PickleLimits& limits)
      : bytes_(bytes), record_(record), limits_(limits) {}

  Result<PickledTable> run() {
    if (!bytes_.starts_with("\x80\x02")) return fail("is no pickle of protocol 2");
    at_ = 2;
    while (true) {
      begin_ = at_;
      if (at_ == bytes_.size()) return fail("ends before its last instruction");
      const char code = bytes_[at_++];
      if (code == '.') break;
      RANNC_TRY(step(code));
    }
    if (stack_.size() != 1) return fail(fmt::format("leaves {} objects, expected one", stack_.size()));
    return PickledTable{std::move(objects_), stack_[0]};
  }

 private:
  Diagnostic fail(std::string message) const {
    return error({record_.path, 0, 0, record_.name}, fmt::format("the pickle, at byte {}: {}", begin_, message));
  }
  Diagnostic bad_operands() const { return fail("an instruction has operands that torch.jit.save does not write"); }

  // --- bytes

  bool has(uint64_t count) const { return bytes_.size() - at_ >= count; }
  template <class Number>
  std::optional<Number> read() {
    if (!has(sizeof(Number))) return std::nullopt;
    Number number{};
    std::memcpy(&number, bytes_.data() + at_, sizeof(Number));  // little-endian
    at_ += sizeof(Number);
    return number;
  }
  std::optional<std::string_view> line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view found = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }

  // --- objects

  Pickled& object(PickleId id) { return objects_[id]; }
  PickleId push(Pickled made) {
    objects_.push_back(std::move(made));
    stack_.push_back(static_cast<PickleId>(objects_.size() - 1));
    return stack_.back();
  }
  Result<void> plain(PickleKind kind = PickleKind::kOther) { return push({kind}), Result<void>(); }
  template <class Number>
  Result<void> integer() {
    const auto number = read<Number>();
    if (!number) return fail("an integer is cut off");
    push({PickleKind::kInteger, static_cast<int64_t>(*number)});
    return {};
  }
  /// Whether the stack has that many objects above the last mark.
  bool above_mark(size_t count) const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()) >= count; }
  std::vector<PickleId> pop(size_t count) {
    std::vector<PickleId> taken(stack_.end() - static_cast<int64_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return taken;
  }
  std::optional<std::vector<PickleId>> pop_to_mark() {
    if (marks_.empty()) return std::nullopt;
    const size_t mark = marks_.back();
    marks_.pop_back();
    return pop(stack_.size() - mark);
  }

  // --- instructions

  Result<void> step(char code) {
    switch (static_cast<unsigned char>(code)) {
      case '(':
        marks_.push_back(stack_.size());
        return {};
      case 'N':
      case 0x88:
      case 0x89:
        return plain();
      case 'J':
        return integer<int32_t>();
      case 'K':
        return integer<uint8_t>();
      case 'M':
        return integer<uint16_t>();
      case 0x8a:
        return read<uint8_t>() == 8 ? integer<int64_t>() : Result<void>(fail("a long integer has not 8 bytes"));
      case 'G':
        return read<uint64_t>() ? plain() : Result<void>(fail("a float is cut off"));
      case 'X':
        return text();
      case ']':
        return plain(PickleKind::kList);
      case '}':
        return plain(PickleKind::kDictionary);
      case ')':
        return plain(PickleKind::kTuple);
      case 0x85:
      case 0x86:
      case 0x87:
        return tuple(static_cast<unsigned char>(code) - 0x84u);
      case 'q':
        return put(read<uint8_t>());
      case 'r':
        return put(read<uint32_t>());
      case 'h':
        return get(read<uint8_t>());
      case 'j':
        return get(read<uint32_t>());
      case 'c':
        return global();
      case 0x81:  // the object is made by the call that follows
        if (!above_mark(2) || object(stack_.back()).kind != PickleKind::kTuple || !object(stack_.back()).parts.empty())
          return bad_operands();
        stack_.pop_back();
        return {};
      case 'b':
      case 'R':
        return call();
      case 'Q':
        return storage();
      case 'a':
      case 's':
        return add(code == 'a' ? PickleKind::kList : PickleKind::kDictionary, code == 'a' ? 1 : 2);
      default:
        return step_from_mark(code);
    }
  }

  Result<void> step_from_mark(char code) {
    if (std::string_view("tldeu").find(code) == std::string_view::npos)
      return fail(
          fmt::format("the instruction {:#04x} is none that torch.jit.save writes", static_cast<unsigned char>(code)));
    if (marks_.empty()) return bad_operands();
    if (code == 't') return tuple(stack_.size() - marks_.back(), /*marked=*/true);
    if (code == 'l' || code == 'd') {
      const PickleKind kind = code == 'l' ? PickleKind::kList : PickleKind::kDictionary;
      std::vector<PickleId> parts = *pop_to_mark();
      push({kind});
      return append(kind, std::move(parts));
    }
    return append(code == 'e' ? PickleKind::kList : PickleKind::kDictionary, *pop_to_mark());
  }

  Result<void> text() {
    const auto length = read<uint32_t>();
    if (!length || !has(*length)) return fail("a text is cut off");
    push({PickleKind::kText, 0, bytes_.substr(at_, *length)});
    at_ += *length;
    return {};
  }

  Result<void> tuple(size_t count, bool marked = false) {
    if (!above_mark(count)) return bad_operands();
    std::vector<PickleId> parts = pop(count);
    if (marked) marks_.pop_back();
    push({PickleKind::kTuple, 0, {}, std::move(parts)});
    return {};
  }

  template <class Number>
  Result<void> put(std::optional<Number> place) {
    if (!place || stack_.empty() || *place > memo_.size()) return fail("the memo is not written in order");
    if (*place == memo_.size()) memo_.push_back(0);
    memo_[*place] = stack_.back();
    return {};
  }
  template <class Number>
  Result<void> get(std::optional<Number> place) {
    if (!place || *place >= memo_.size()) return fail("reads a place of the memo that was not written");
    stack_.push_back(memo_[*place]);
    return {};
  }

  // Adds to the container below the last `count` objects.
  Result<void> add(PickleKind kind, size_t count) {
    if (!above_mark(count + 1)) return bad_operands();
    return append(kind, pop(count));
  }
  Result<void> append(PickleKind kind, std::vector<PickleId> parts) {
    if (stack_.empty() || object(stack_.back()).kind != kind) return bad_operands();
    if (kind == PickleKind::kDictionary) {
      if (parts.size() % 2 != 0) return bad_operands();
      for (size_t i = 0; i < parts.size(); i += 2) {
        const PickleKind key = object(parts[i]).kind;
        if (key == PickleKind::kList || key == PickleKind::kDictionary || key == PickleKind::kTuple)
          return bad_operands();
      }
    }
    std::vector<PickleId>& all = object(stack_.back()).parts;
    all.insert(all.end(), parts.begin(), parts.end());
    return {};
  }

  Result<void> global() {
    const size_t begin = at_;
    const auto module = line(), name = line();
    constexpr size_t kLongest = 4096;
    if (!module || !name || at_ - begin > kLongest) return fail("a name has no end");
    const std::string_view both = bytes_.substr(begin, at_ - 1 - begin);
    const auto is_valid = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
    if (!std::all_of(module->begin(), module->end(), is_valid) || !std::all_of(name->begin(), name->end(), is_valid))
      return fail("a name has characters that names do not have");
    if (*module == "torch") {
      if (const auto bytes = storage_element_bytes(*name))
        return push({PickleKind::kStorageType, *bytes}), Result<void>();
      if (name->starts_with("per_")) return plain();  // how numbers are quantized
    }
    const std::string called = fmt::format("{} {}", *module, *name);
    const auto is_it = [&](std::string_view known) { return known == called; };
    const bool is_known = std::any_of(std::begin(kTensorFunctions), std::end(kTensorFunctions), is_it) ||
                          std::any_of(std::begin(kOtherFunctions), std::end(kOtherFunctions), is_it);
    if (module->starts_with("__torch__.torch.classes"))
      return fail(fmt::format("contains an object of the C++ class '{}.{}', which is not supported", *module, *name));
    if (!is_known && *module != "__torch__" && !module->starts_with("__torch__."))
      return fail(fmt::format("refers to '{}.{}', which is no class of the archive", *module, *name));
    push({PickleKind::kFunction, 0, both});
    return {};
  }

  // --- calls

  Result<void> call() {
    if (!above_mark(2)) return bad_operands();
    const std::vector<PickleId> taken = pop(2);
    const Pickled function = object(taken[0]);
    if (function.kind != PickleKind::kFunction) return bad_operands();
    const std::string_view module = function.text.substr(0, function.text.find('\n'));
    const std::string_view name = function.text.substr(module.size() + 1);
    if (module == "torch._utils") return tensor(object(taken[1]));
    if (name == "restore_type_tag") RANNC_TRY(check_type(object(taken[1])));
    push({PickleKind::kObject, 0, function.text, {taken[1]}});
    return {};
  }

  Result<void> check_type(const Pickled& arguments) {
    if (arguments.kind != PickleKind::kTuple || arguments.parts.size() != 2) return bad_operands();
    const Pickled &container = object(arguments.parts[0]), &type = object(arguments.parts[1]);
    if ((container.kind != PickleKind::kList && container.kind != PickleKind::kDictionary) ||
        type.kind != PickleKind::kText)
      return bad_operands();
    if (bracket_depth(type.text) > kDeepestRepeated)
      return fail(fmt::format("a type nests more than {} deep", kDeepestRepeated));
    return {};
  }

  // A storage: its type, the name of its record, a device, and the number of elements.
  Result<void> storage() {
    if (!above_mark(1)) return bad_operands();
    const Pickled arguments = object(pop(1)[0]);
    const auto is = [&](size_t i, PickleKind kind) { return object(arguments.parts[i]).kind == kind; };
    if (arguments.kind != PickleKind::kTuple || arguments.parts.size() != 5 || !is(0, PickleKind::kText) ||
        !is(1, PickleKind::kStorageType) || !is(2, PickleKind::kText) || !is(3, PickleKind::kText) ||
        !is(4, PickleKind::kInteger))
      return bad_operands();
    const int64_t width = object(arguments.parts[1]).number, elements = object(arguments.parts[4]).number;
    std::string record = record_.tensors + std::string(object(arguments.parts[2]).text);
    for (char& c : record) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (elements != 0) {
      const auto found = record_.directory.find(record);
      if (found == record_.directory.end())
        return fail(fmt::format("reads the record '{}', which is not there", record));
      const uint64_t bytes = found->second.bytes;
      if (elements < 0 || static_cast<uint64_t>(elements) > bytes / static_cast<uint64_t>(width)) {
        return fail(fmt::format("a tensor has {} elements of {} bytes, but its record '{}' has {} bytes", elements,
                                width, record, bytes));
      }
      tensor_bytes_ += bytes;
      if (tensor_bytes_ > limits_.most_tensor_bytes)
        return fail(fmt::format("with the record '{}', of {} bytes, it reads more than {} bytes of tensors", record,
                                bytes, limits_.most_tensor_bytes));
    }
    push({PickleKind::kStorage, elements});
    return {};
  }

  // A tensor: its storage, offset, sizes and strides; then what has no length.
  Result<void> tensor(const Pickled& arguments) {
    if (arguments.kind != PickleKind::kTuple || arguments.parts.size() < 6) return bad_operands();
    const Pickled &storage = object(arguments.parts[0]), &offset = object(arguments.parts[1]);
    const auto sizes = integers(object(arguments.parts[2])), strides = integers(object(arguments.parts[3]));
    if (storage.kind != PickleKind::kStorage || offset.kind != PickleKind::kInteger || !sizes || !strides ||
        sizes->size() != strides->size())
      return bad_operands();
    if (!is_within(storage.number, offset.number, *sizes, *strides)) {
      return fail(
          fmt::format("a tensor of sizes [{}] and strides [{}] from element {} on reaches beyond its storage of "
                      "{} elements",
                      fmt::join(*sizes, ", "), fmt::join(*strides, ", "), offset.number, storage.number));
    }
    std::vector<PickleId> rest(arguments.parts.begin() + 4, arguments.parts.end());
    push({PickleKind::kTensor, 0, {}, std::move(rest)});
    return {};
  }

  std::optional<std::vector<int64_t>> integers(const Pickled& tuple) {
    if (tuple.kind != PickleKind::kTuple) return std::nullopt;
    std::vector<int64_t> found;
    for (const PickleId part : tuple.parts) {
      if (object(part).kind != PickleKind::kInteger) return std::nullopt;
      found.push_back(object(part).number);
    }
    return found;
  }

  static bool is_within(int64_t elements, int64_t offset, const std::vector<int64_t>& sizes,
                        const std::vector<int64_t>& strides) {
    constexpr int64_t kMost = int64_t{1} << 48;  // products of two of them and their sums are numbers
    if (offset < 0 || offset > elements) return false;
    __int128 last = offset, count = 1;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] < 0 || sizes[i] > kMost || strides[i] < 0 || strides[i] > kMost) return false;
      last += static_cast<__int128>(sizes[i] - 1) * strides[i];
      count *= sizes[i];
      if (count > kMost) return false;
    }
    return count == 0 || last < elements;
  }

  std::string_view bytes_;
  const PickleRecord& record_;
  PickleLimits limits_;
  size_t at_ = 0, begin_ = 0;
  std::vector<Pickled> objects_;
  std::vector<PickleId> stack_, memo_;
  std::vector<size_t> marks_;
  uint64_t tensor_bytes_ = 0;
};

}  // namespace

Result<PickledTable> run_pickle(std::string_view bytes, const PickleRecord& record, const PickleLimits& limits) {
  return PickleMachine(bytes, record, limits).run();
}

}  // namespace rannc::frontend::torchscript
