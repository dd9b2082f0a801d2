#include "frontend/torchscript/internal/item.h"

#include <fmt/format.h>

namespace rannc::frontend::torchscript {

namespace {

Item sequence_of(bool is_tuple, std::vector<Item> elements) {
  return std::make_shared<Sequence>(Sequence{is_tuple, std::move(elements), false});
}

struct Describe {
  std::string operator()(const None&) const { return "None"; }
  std::string operator()(const TensorRef&) const { return "a tensor"; }
  std::string operator()(const ir::Dim& size) const { return fmt::format("the integer {}", size.str()); }
  std::string operator()(double number) const { return fmt::format("the number {}", number); }
  std::string operator()(bool truth) const { return truth ? "True" : "False"; }
  std::string operator()(const std::string& text) const { return fmt::format("the text '{}'", text); }
  std::string operator()(const std::shared_ptr<Sequence>& sequence) const {
    return fmt::format("a {} of {}", sequence->is_tuple ? "tuple" : "list", sequence->elements.size());
  }
  std::string operator()(const std::shared_ptr<Dictionary>& dictionary) const {
    return fmt::format("a dictionary of {}", dictionary->entries.size());
  }
  std::string operator()(const Object& object) const {
    return object.path.empty() ? "the model itself" : fmt::format("the object {}", object.path);
  }
  std::string operator()(const Device&) const { return "a device"; }
  std::string operator()(const Complex&) const { return "a complex tensor"; }
  std::string operator()(const Undecided& undecided) const { return undecided.what; }
  std::string operator()(const Ratio& ratio) const {
    return fmt::format("the number ({}) / ({})", ratio.above.str(), ratio.below.str());
  }
};

}  // namespace

const TensorRef* tensor_of(const Item& item) {
  const auto* const complex = item.get<Complex>();
  return complex ? &complex->parts : item.get<TensorRef>();
}

std::optional<Item> plain_item(const at::IValue& value) {
  if (value.isNone()) return Item();
  if (value.isBool()) return Item(value.toBool());
  if (value.isInt()) return Item(ir::Dim(value.toInt()));
  if (value.isDouble()) return Item(value.toDouble());
  if (value.isString()) return Item(value.toStringRef());
  if (value.isDevice()) return Item(Device{});
  if (!value.isList()) return std::nullopt;
  std::vector<Item> elements;
  for (const at::IValue& each : value.toListRef()) {
    auto element = plain_item(each);
    if (!element) return std::nullopt;
    elements.push_back(*std::move(element));
  }
  return list_of(std::move(elements));
}

Item of_data(TensorRef tensor, std::string what) { return Undecided{std::move(what), std::move(tensor)}; }

bool is_same_plain(const Item& a, const Item& b) {
  return std::visit(
      []<class A, class B>(const A& one, const B& other) {
        if constexpr (!std::is_same_v<A, B>) {
          return false;
        } else if constexpr (std::is_same_v<A, None> || std::is_same_v<A, Device>) {
          return true;
        } else if constexpr (std::is_same_v<A, Object>) {
          return one.handle == other.handle;
        } else if constexpr (std::is_same_v<A, Undecided> || std::is_same_v<A, Complex>) {
          return false;
        } else {
          return one == other;
        }
      },
      a.kind, b.kind);
}

Item list_of(std::vector<Item> elements) { return sequence_of(false, std::move(elements)); }
Item tuple_of(std::vector<Item> elements) { return sequence_of(true, std::move(elements)); }

std::string describe(const Item& item) { return std::visit(Describe{}, item.kind); }

}  // namespace rannc::frontend::torchscript
