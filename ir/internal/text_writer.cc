#include "ir/internal/text_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>

namespace rannc::ir {

namespace {
constexpr size_t kCommentedElements = 8;  // data of more elements is not repeated in decimal

bool is_bare(char c) { return c == '/' || (c != ':' && is_word_char(c)); }

void append_dims(std::string& to, const Shape& dims) {
  to += '[';
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i != 0) to += ',';
    to += dims[i].str();
  }
  to += ']';
}

void append_attribute(std::string& to, const Attribute& attribute, uint32_t& body) {
  if (std::holds_alternative<Body>(attribute)) {
    fmt::format_to(std::back_inserter(to), "@b{}", body++);
  } else if (const auto* flag = std::get_if<bool>(&attribute)) {
    to += *flag ? "true" : "false";
  } else if (const auto* dim = std::get_if<Dim>(&attribute)) {
    const std::string text = dim->str();
    to += text.starts_with("true") || text.starts_with("false") ? "(" + text + ")" : text;
  } else if (const auto* number = std::get_if<double>(&attribute)) {
    to += hexadecimal(*number);
  } else if (const auto* text = std::get_if<std::string>(&attribute)) {
    to += quote(*text);
  } else if (const auto* dtype = std::get_if<DType>(&attribute)) {
    to += '!';
    to += str(*dtype);
  } else if (const auto* dims = std::get_if<Shape>(&attribute)) {
    append_dims(to, *dims);
  } else {
    append_numbers(to, std::get<std::vector<double>>(attribute));
  }
}

void remark(std::string& comment, std::string_view name, double value) {
  fmt::format_to(std::back_inserter(comment), "{}{} = {}", comment.empty() ? "" : ", ", name, value);
}

template <class T>
void append_decimals(std::string& comment, std::span<const std::byte> bytes) {
  for (size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + i, sizeof(T));
    fmt::format_to(std::back_inserter(comment), "{}{}", comment.empty() ? "" : ", ", value);
  }
}

void append_decimals(std::string& comment, DType dtype, std::span<const std::byte> bytes) {
  if (bytes.size() > kCommentedElements * byte_size(dtype)) return;
  switch (dtype) {
    case DType::kF32:
      return append_decimals<float>(comment, bytes);
    case DType::kF64:
      return append_decimals<double>(comment, bytes);
    case DType::kI32:
      return append_decimals<int32_t>(comment, bytes);
    case DType::kI64:
      return append_decimals<int64_t>(comment, bytes);
    default:
      return;
  }
}
}  // namespace

bool is_word_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' ||
         c == '$' || c == '-' || c == ':';
}

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      fmt::format_to(std::back_inserter(quoted), "\\x{:02x}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string_view bare_name_prefix(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && is_bare(text[end]) && text.substr(end, 2) != "//") ++end;
  return text.substr(0, end);
}

void append_numbers(std::string& to, const std::vector<double>& numbers) {
  to += numbers.empty() ? "[0x" : "[";
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i != 0) to += ',';
    to += hexadecimal(numbers[i]);
  }
  to += ']';
}

void append_word(std::string& to, std::string_view word) {
  const bool bare = !word.empty() && std::all_of(word.begin(), word.end(), is_word_char);
  to += bare ? std::string(word) : quote(word);
}

void append_name(std::string& to, char sigil, std::string_view name) {
  to += sigil;
  if (!name.empty() && bare_name_prefix(name).size() == name.size()) {
    to += name;
  } else {
    to += quote(name);
  }
}

std::string hexadecimal(double value) {
  char digits[64];
  const auto [end, status] = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::hex);
  const std::string_view text(digits, static_cast<size_t>(end - digits));
  if (text.starts_with('-')) return "-0x" + std::string(text.substr(1));
  return "0x" + std::string(text);
}

void append_type(std::string& to, const ValueType& type) {
  to += str(type.dtype);
  if (type.shape) {
    append_dims(to, *type.shape);
  } else {
    to += "[*]";
  }
  if (type.batch.mix != Mix::kNone) to.append(" ").append(str(type.batch.mix));
  if (type.batch.has_batch()) {
    fmt::format_to(std::back_inserter(to), " samples {}", type.batch.axis);
    if (!(type.batch.outer == Dim(1))) to += " outer [" + type.batch.outer.str() + "]";
    if (!(type.batch.inner == Dim(1))) to += " inner [" + type.batch.inner.str() + "]";
  }
  if (type.rows) to += " rows";
  if (type.contents) {
    to += " contents ";
    append_dims(to, *type.contents);
  }
}

void append_attributes(std::string& to, const Attributes& attributes, std::string& comment, uint32_t first_body) {
  if (attributes.empty()) return;
  const char* before = " {";
  for (const auto& [name, value] : attributes) {
    to += before;
    before = ", ";
    append_word(to, name);
    to += " = ";
    append_attribute(to, value, first_body);
    if (const auto* number = std::get_if<double>(&value)) remark(comment, name, *number);
  }
  to += '}';
}

void append_data(std::string& to, const Graph::Value& value, std::string& comment) {
  const TensorData& data = value.data;
  if (!data.present() || data.is_shared()) return;
  if (data.in_file()) {
    fmt::format_to(std::back_inserter(to), " = file {} offset {} bytes {}", quote(data.path()), data.offset(),
                   data.size());
    return;
  }
  constexpr char kDigits[] = "0123456789abcdef";
  to += " = hex \"";
  for (const std::byte byte : data.bytes()) {
    to += kDigits[static_cast<unsigned>(byte) >> 4];
    to += kDigits[static_cast<unsigned>(byte) & 15];
  }
  to += '"';
  append_decimals(comment, value.type.dtype, data.bytes());
}

void append_location(std::string& to, const Location& location) {
  if (!location.file.empty() || location.line != 0 || location.column != 0) {
    to += " at " + quote(location.file);
    if (location.line != 0 || location.column != 0) {
      fmt::format_to(std::back_inserter(to), ":{}:{}", location.line, location.column);
    }
  }
  if (!location.node.empty()) to += " node " + quote(location.node);
}

void append_indices(std::string& to, std::string_view sigil, std::span<const uint32_t> indices) {
  to += '[';
  for (size_t i = 0; i < indices.size();) {
    size_t last = i;
    while (last + 1 < indices.size() && indices[last + 1] == indices[last] + 1) ++last;
    if (i != 0) to += ',';
    fmt::format_to(std::back_inserter(to), "{}{}", sigil, indices[i]);
    if (last != i) fmt::format_to(std::back_inserter(to), "-{}{}", sigil, indices[last]);
    i = last + 1;
  }
  to += ']';
}

void end_line(std::string& to, std::string& comment) {
  if (!comment.empty()) to += "  // " + comment;
  comment.clear();
  to += '\n';
}

}  // namespace rannc::ir
