/// Reads the fields of a check folder's card. An error about a malformed field names the file and the field.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/base/diagnostic.h"

namespace rannc::tools {

/// A value of a card with its path, such as `loss[0].weight`. Null counts as absent.
class CardField {
 public:
  using Json = nlohmann::ordered_json;  // keeps the order of the file
  CardField(std::shared_ptr<const Json> root, const Json& value, std::string file, std::string at)
      : root_(std::move(root)), value_(&value), file_(std::move(file)), at_(std::move(at)) {}

  /// Returns a member of this object, or nothing if it is absent. It is an error if this is not an object.
  Result<std::optional<CardField>> find(const std::string& name) const;
  /// Returns a required member of this object.
  Result<CardField> at(const std::string& name) const;
  /// Returns all members of this object, in the order of the file.
  Result<std::vector<std::pair<std::string, CardField>>> members() const;
  /// Returns all elements of this list.
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

/// Reads a card. It is an error if the file cannot be opened, is not JSON (with line and column) or is not an object.
Result<CardField> read_card_file(const std::string& path);

}  // namespace rannc::tools
