#include "tools/check/card.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/base/replacement.h"

namespace rannc::tools {

Diagnostic CardField::fault(const std::string& message) const { return error({file_, 0, 0, at_}, message); }

Diagnostic CardField::expected(const char* what) const {
  return fault(fmt::format("expected {}, found {}", what, value_->type_name()));
}

Result<std::optional<CardField>> CardField::find(const std::string& name) const {
  if (!value_->is_object()) return expected("an object");
  const auto found = value_->find(name);
  if (found == value_->end() || found->is_null()) return std::optional<CardField>();
  return std::optional(child(*found, at_.empty() ? name : at_ + "." + name));
}

Result<CardField> CardField::at(const std::string& name) const {
  RANNC_ASSIGN(const auto found, find(name));
  if (!found) return fault(fmt::format("'{}' is missing", name));
  return *found;
}

Result<std::vector<std::pair<std::string, CardField>>> CardField::members() const {
  if (!value_->is_object()) return expected("an object");
  std::vector<std::pair<std::string, CardField>> all;
  for (const auto& [name, value] : value_->items()) {
    all.emplace_back(name, child(value, at_.empty() ? name : at_ + "." + name));
  }
  return all;
}

Result<std::vector<CardField>> CardField::elements() const {
  if (!value_->is_array()) return expected("a list");
  std::vector<CardField> all;
  for (size_t i = 0; i < value_->size(); ++i) all.push_back(child((*value_)[i], fmt::format("{}[{}]", at_, i)));
  return all;
}

Result<std::string> CardField::text() const {
  if (!value_->is_string()) return expected("a string");
  return value_->get<std::string>();
}

Result<std::vector<std::string>> CardField::texts() const {
  RANNC_ASSIGN(const std::vector<CardField> all, elements());
  std::vector<std::string> found;
  for (const CardField& each : all) {
    RANNC_ASSIGN(std::string text, each.text());
    found.push_back(std::move(text));
  }
  return found;
}

Result<double> CardField::number() const {
  if (!value_->is_number()) return expected("a number");
  return value_->get<double>();
}

Result<int64_t> CardField::integer() const {
  if (value_->is_number_unsigned() && value_->get<uint64_t>() > INT64_MAX) return expected("an integer below 2^63");
  if (value_->is_number_integer()) return value_->get<int64_t>();
  const double number = value_->is_number() ? value_->get<double>() : NAN;
  constexpr double kExact = 9007199254740992;  // 2^53
  if (std::floor(number) == number && std::abs(number) <= kExact) return static_cast<int64_t>(number);
  return expected("an integer");
}

Result<CardField> read_card_file(const std::string& path) {
  RANNC_ASSIGN(const std::string text, read_file(path));
  try {
    const auto root = std::make_shared<const CardField::Json>(CardField::Json::parse(text));
    if (!root->is_object()) {
      return error({path, 0, 0, {}}, fmt::format("expected an object, found {}", root->type_name()));
    }
    return CardField(root, *root, path, "");
  } catch (const CardField::Json::parse_error& failure) {
    const auto end = text.begin() + static_cast<ptrdiff_t>(std::min(failure.byte, text.size()));
    const auto lines = static_cast<uint32_t>(std::count(text.begin(), end, '\n'));
    const auto begin = std::find(std::make_reverse_iterator(end), text.rend(), '\n').base();
    return error({path, lines + 1, static_cast<uint32_t>(std::max<ptrdiff_t>(end - begin, 1)), {}},
                 "is not valid JSON from here on");
  } catch (const CardField::Json::exception&) {
    return error({path, 0, 0, {}}, "contains a number that is out of range");
  }
}

}  // namespace rannc::tools
