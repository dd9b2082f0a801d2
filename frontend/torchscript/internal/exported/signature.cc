#include "frontend/torchscript/internal/exported/signature.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace rannc::frontend::torchscript {

Result<InputSpec> parse_input(std::string_view text) {
  const auto wrong = [&](std::string_view what) {
    return error(fmt::format("--input {}: {}; expected as in x=f32[batch,3,64,64]", text, what));
  };
  const size_t equals = text.find('='), opens = text.find('[');
  if (equals == std::string_view::npos || equals == 0) return wrong("there is no name");
  if (opens == std::string_view::npos || opens < equals || !text.ends_with(']')) return wrong("there are no sizes");
  InputSpec made{std::string(text.substr(0, equals)), {}};
  const std::string_view dtype = text.substr(equals + 1, opens - equals - 1);
  const auto known = ir::parse_dtype(dtype);
  if (!known) return wrong(fmt::format("'{}' is no element type", dtype));
  made.type.dtype = *known;
  made.type.shape.emplace();
  std::string_view sizes = text.substr(opens + 1, text.size() - opens - 2);
  while (!sizes.empty()) {
    const size_t comma = std::min(sizes.find(','), sizes.size());
    const auto size = ir::Dim::parse(std::string(sizes.substr(0, comma)));
    if (!size.ok()) return wrong(fmt::format("'{}' is no size", sizes.substr(0, comma)));
    if (size->is_constant() && size->constant() < 0) return wrong(fmt::format("the size {} is negative", size->str()));
    made.type.shape->push_back(*size);
    sizes.remove_prefix(std::min(comma + 1, sizes.size()));
  }
  return made;
}

Result<std::vector<InputSpec>> in_order(std::vector<InputSpec> given, const std::vector<std::string>& arguments) {
  const auto place = [&](const InputSpec& spec) {
    return std::find(arguments.begin(), arguments.end(), spec.name) - arguments.begin();
  };
  const bool named = std::all_of(given.begin(), given.end(), [&](const InputSpec& spec) {
    return place(spec) < static_cast<std::ptrdiff_t>(arguments.size());
  });
  if (named) {
    std::stable_sort(given.begin(), given.end(),
                     [&](const InputSpec& a, const InputSpec& b) { return place(a) < place(b); });
    for (size_t i = 1; i < given.size(); ++i) {
      if (given[i].name == given[i - 1].name) return error(fmt::format("--input names '{}' twice", given[i].name));
    }
  }
  return given;
}

Result<void> call_inputs(std::vector<InputSpec>& inputs, std::vector<InputSpec> given) {
  if (given.empty()) return {};
  std::vector<std::string> names;
  for (const InputSpec& input : inputs) names.push_back(input.name);
  if (given.size() != inputs.size()) {
    return error(fmt::format("--input is given {} times; the file has inputs {}: specify all of them or none",
                             given.size(), fmt::join(names, ", ")));
  }
  RANNC_ASSIGN(given, in_order(std::move(given), names));
  std::map<std::string, std::string> symbols;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::Shape &own = *inputs[i].type.shape, &said = *given[i].type.shape;
    const auto wrong = [&] {
      return error(
          fmt::format("--input {}: the file has {}{}", given[i].name, ir::str(inputs[i].type.dtype), ir::str(own)));
    };
    if (given[i].type.dtype != inputs[i].type.dtype || said.size() != own.size()) return wrong();
    for (size_t axis = 0; axis < own.size(); ++axis) {
      if (own[axis] == said[axis]) continue;
      if (!own[axis].is_symbol() || !said[axis].is_symbol()) return wrong();
      const auto [known, fresh] = symbols.emplace(own[axis].symbol_name(), said[axis].symbol_name());
      if (!fresh && known->second != said[axis].symbol_name()) return wrong();
    }
    inputs[i].name = given[i].name;
  }
  // Substitute all at once, because a new name may be that of another symbol.
  for (const auto& [own, said] : symbols) {
    for (InputSpec& input : inputs) {
      for (ir::Dim& size : *input.type.shape) size = size.substitute(own, ir::Dim::symbol("_." + said));
    }
  }
  for (const auto& [own, said] : symbols) {
    for (InputSpec& input : inputs) {
      for (ir::Dim& size : *input.type.shape) size = size.substitute("_." + said, ir::Dim::symbol(said));
    }
  }
  return {};
}

}  // namespace rannc::frontend::torchscript
