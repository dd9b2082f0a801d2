#include "runtime/internal/json_fields.h"

#include <algorithm>

#include "ir/base/mapped_file.h"
#include "ir/base/repeated_keys.h"

namespace rannc::runtime {

namespace {

using Json = nlohmann::json;

const Json& empty_object() {
  static const Json kNone = Json::object();
  return kNone;
}

bool is_texts(const Json& list) {
  return list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& each) { return each.is_string(); });
}

}  // namespace

Result<Json> read_json_file(const std::string& path) {
  constexpr uint64_t kMostBytes = 64 << 20;
  RANNC_ASSIGN(const MappedFile file, MappedFile::open(path, kMostBytes));
  return parse_json_object(file.bytes(), path);
}

Result<Json> parse_json_object(std::string_view text, const std::string& path) {
  constexpr int kMostDepth = 16;
  RepeatedKeys keys;
  bool deep = false;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    keys.see(event, parsed);
    deep = deep || depth > kMostDepth;
    return depth <= kMostDepth;
  };
  Json object = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (!keys.first().empty()) return error({.file = path}, fmt::format("has field '{}' twice", keys.first().back()));
  if (deep) return error({.file = path}, fmt::format("is nested deeper than {} levels", kMostDepth));
  if (object.is_discarded() && !keys.last().empty())
    return error({.file = path},
                 fmt::format("is not JSON, or has a number out of range, at or behind field '{}'", keys.last().back()));
  if (!object.is_object()) return error({.file = path}, "is not a JSON object");
  return object;
}

JsonFields::JsonFields(const Json& object, std::string path, std::string& fault)
    : object_(object.is_object() ? object : empty_object()), path_(std::move(path)), fault_(fault) {
  if (!object.is_object()) fail_at(path_, object, "an object");
}

void JsonFields::read(const char* key, uint64_t& into, const WholeRange& range) {
  const Json* const found = find(key);
  if (found == nullptr) return;
  if (!found->is_number_unsigned() || !range.contains(found->get<uint64_t>())) return fail(key, *found, range.str());
  into = found->get<uint64_t>();
}

void JsonFields::read(const char* key, double& into, const NumberRange& range) {
  const Json* const found = find(key);
  if (found == nullptr) return;
  if (!found->is_number() || !range.contains(found->get<double>())) return fail(key, *found, range.str());
  into = found->get<double>();
}

void JsonFields::read(const char* key, std::string& into) {
  const Json* const found = find(key);
  if (found == nullptr) return;
  if (!found->is_string()) return fail(key, *found, "a string");
  into = found->get<std::string>();
}

void JsonFields::read(const char* key, std::vector<std::string>& into) {
  const Json* const found = find(key);
  if (found == nullptr) return;
  if (!is_texts(*found)) return fail(key, *found, "a list of strings");
  into = found->get<std::vector<std::string>>();
}

JsonFields JsonFields::object(const char* key) {
  const Json* const found = find(key);
  return {found == nullptr ? empty_object() : *found, place(key), fault_};
}

std::vector<JsonFields> JsonFields::objects(const char* key) {
  const Json* const found = find(key);
  std::vector<JsonFields> all;
  if (found == nullptr) return all;
  if (!found->is_array()) {
    fail(key, *found, "a list of objects");
    return all;
  }
  for (size_t i = 0; i < found->size(); ++i)
    all.emplace_back((*found)[i], fmt::format("{}[{}]", place(key), i), fault_);
  return all;
}

const Json* JsonFields::find(const char* key) {
  if (const auto found = object_.find(key); found != object_.end()) return &*found;
  if (fault_.empty()) fault_ = fmt::format("has no field '{}'", place(key));
  return nullptr;
}

std::string JsonFields::place(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void JsonFields::fail_at(const std::string& place, const Json& found, std::string_view expected) {
  constexpr size_t kShown = 40;
  if (!fault_.empty()) return;
  const std::string text = found.dump(-1, ' ', false, Json::error_handler_t::replace);
  fault_ = fmt::format("field '{}' is {}, expected {}", place, text.substr(0, kShown), expected);
}

}  // namespace rannc::runtime
