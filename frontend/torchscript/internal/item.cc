#include "frontend/torchscript/internal/item.h"

#include <fmt/format.h>

namespace rannc::frontend::torchscript {

namespace {

Item sequence_of(bool is_tuple, std::vector<Item> elements) {
  return std::make_shared<Sequence>(Sequence{is_tuple, std::move(elements)});
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
  std::string operator()(const Undecided& undecided) const { return undecided.what; }
};

}  // namespace

Item list_of(std::vector<Item> elements) { return sequence_of(false, std::move(elements)); }
Item tuple_of(std::vector<Item> elements) { return sequence_of(true, std::move(elements)); }

std::string describe(const Item& item) { return std::visit(Describe{}, item.kind); }

}  // namespace rannc::frontend::torchscript
