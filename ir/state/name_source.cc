#include "ir/state/name_source.h"

#include <algorithm>
#include <array>

namespace rannc::ir {

namespace {

constexpr std::string_view kDigits = "0123456789", kFolded = "onnx::";

/// Operators by which torch.onnx.export with dynamo=True names what it computes; `val`: by a translation.
constexpr std::array<std::string_view, 24> kMakers = {
    "val",   "abs",     "add",      "cat",  "div",        "embedding", "exp",       "expand",
    "mul",   "neg",     "permute",  "pow",  "reciprocal", "rsqrt",     "select",    "sigmoid",
    "slice", "softmax", "softplus", "sqrt", "sub",        "tanh",      "transpose", "unsqueeze"};

}  // namespace

std::string_view traced_op(std::string_view name) {
  const size_t mark = name.find_last_not_of(kDigits);
  const bool counted = mark != std::string_view::npos && mark > 0 && mark + 1 < name.size() && name[mark] == '_';
  return counted ? name.substr(0, mark) : name;
}

NameSource source_of_name(std::string_view name) {
  if (name.starts_with(kFolded)) return NameSource::kFolded;
  if (name.find_first_not_of(kDigits) == std::string_view::npos) return NameSource::kNumber;
  if (name.find('/') != std::string_view::npos) return NameSource::kNode;
  const std::string_view op = traced_op(name);
  const bool counted = op.size() < name.size() && std::find(kMakers.begin(), kMakers.end(), op) != kMakers.end();
  return counted || name.find(':') != std::string_view::npos ? NameSource::kTraced : NameSource::kProgram;
}

std::string_view reader_of_folded(std::string_view name) {
  name.remove_prefix(std::min(name.size(), kFolded.size()));
  return name.substr(0, name.rfind('_'));
}

std::string module_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return std::string(dot == std::string_view::npos ? "" : path.substr(0, dot));
}

std::string last_word(std::string_view path) { return std::string(path.substr(path.rfind('.') + 1)); }

}  // namespace rannc::ir
