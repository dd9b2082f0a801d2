/// The card of a check folder as located fields: whatever is malformed is an error that names the file and the field.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/base/diagnostic.h"

namespace rannc::tools {

/// A value of a card and its path there, as `loss[0].weight`. Null counts as absent.
class CardField {
 public:
  using Json = nlohmann::ordered_json;  // names are in the order in which the file has them
  CardField(std::shared_ptr<const Json> root, const Json& value, std::string file, std::string at)
      : root_(std::move(root)), value_(&value), file_(std::move(file)), at_(std::move(at)) {}

  /// Of an object. Nothing where it has no such member; an error where this is no object.
  Result<std::optional<CardField>> find(const std::string& name) const;
  /// The same of a member that must be there.
  Result<CardField> at(const std::string& name) const;
  /// All members of an object, in the order of the file.
  Result<std::vector<std::pair<std::string, CardField>>> members() const;
  /// All elements of a list.
  Result<std::vector<CardField>> elements() const;

  Result<std::string> text() const;
  Result<std::vector<std::string>> texts() const;
  Result<double> number() const;
  Result<int64_t> integer() const;

  bool is_text() const { return value_->is_string(); }
  bool is_list() const { return value_->is_array(); }
  bool is_object() const { return value_->is_object(); }

  /// An error at this field.
  Diagnostic fault(const std::string& message) const;

 private:
  CardField child(const Json& value, std::string at) const { return {root_, value, file_, std::move(at)}; }
  Diagnostic expected(const char* what) const;

  std::shared_ptr<const Json> root_;
  const Json* value_;
  std::string file_, at_;
};

/// Reads a card. Errors: the file cannot be opened, is no JSON (with line and column), or is no object.
Result<CardField> read_card_file(const std::string& path);

}  // namespace rannc::tools
