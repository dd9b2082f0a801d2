#include "frontend/onnx/internal/model/traced_call.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace rannc::frontend {

namespace {

bool is_name_char(char c) { return c == '_' || c == '.' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// Splits a list at commas outside brackets, up to its closing bracket.
std::vector<std::string_view> list_items(std::string_view text) {
  std::vector<std::string_view> items;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '(' || c == '[' || c == '{') ++depth;
    const bool closes = c == ')' || c == ']' || c == '}';
    if ((c == ',' || closes) && depth == 0) {
      const std::string_view item = trimmed(text.substr(begin, i - begin));
      if (!item.empty()) items.push_back(item);
      begin = i + 1;
      if (closes) return items;
    }
    if (closes) --depth;
  }
  return items;
}

/// `%embedding : [num_users=1] = `.
std::string_view made_by(std::string_view text) {
  const size_t end = text.find(' ');
  return text.starts_with('%') && end != std::string_view::npos ? text.substr(1, end - 1) : std::string_view();
}

}  // namespace

bool TracedCall::is(std::string_view op) const {
  return target.starts_with(op) && (target.size() == op.size() || target[op.size()] == '.');
}

std::vector<std::string_view> TracedCall::values() const {
  std::vector<std::string_view> names;
  for (const std::string_view argument : arguments) {
    for (size_t at = argument.find('%'); at != std::string_view::npos; at = argument.find('%', at + 1)) {
      size_t end = at + 1;
      while (end < argument.size() && is_name_char(argument[end])) ++end;
      names.push_back(argument.substr(at + 1, end - at - 1));
    }
  }
  return names;
}

std::optional<double> TracedCall::number(size_t argument) const {
  if (argument >= arguments.size()) return std::nullopt;
  const std::string_view text = arguments[argument];
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<TracedCall> traced_call(const ONNX_NAMESPACE::NodeProto& node) {
  constexpr std::string_view kTarget = "call_function[target=torch.ops.", kArguments = "](args = (";
  for (const auto& entry : node.metadata_props()) {
    if (entry.key() != "pkg.torch.onnx.fx_node") continue;
    const std::string_view text = entry.value();
    const size_t target = text.find(kTarget);
    if (target == std::string_view::npos) return std::nullopt;
    const size_t name = target + kTarget.size(), arguments = text.find(kArguments, name);
    if (arguments == std::string_view::npos) return std::nullopt;
    return TracedCall{text, made_by(text), text.substr(name, arguments - name),
                      list_items(text.substr(arguments + kArguments.size()))};
  }
  return std::nullopt;
}

}  // namespace rannc::frontend
