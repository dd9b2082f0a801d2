/// Reads the fields of JSON files that may be damaged or made by a stranger.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/base/number_range.h"

namespace rannc::runtime {

/// Parses one JSON object without repeated keys, nested at most 16 deep. Errors name the file.
Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& path);
/// Reads such an object from a regular file of at most 64 MiB.
Result<nlohmann::json> read_json_file(const std::string& path);

/// The fields of an object. The first fault is kept, such as `field 'files.plan.rir.bytes' is -1, expected a whole
/// number from 0 to 9`; later fields then keep their defaults. The object and `fault` outlive this.
class JsonFields {
 public:
  using Json = nlohmann::json;

  /// `path`: of the object in the file, empty for the whole.
  JsonFields(const Json& object, std::string path, std::string& fault);

  void read(const char* key, uint64_t& into, const WholeRange& range = {});
  void read(const char* key, double& into, const NumberRange& range = {});
  void read(const char* key, std::string& into);
  void read(const char* key, std::vector<std::string>& into);
  /// Reads a field that may be absent.
  template <typename T, typename... Range>
  void read_if_present(const char* key, T& into, const Range&... range) {
    if (object_.contains(key)) read(key, into, range...);
  }
  /// The fields of a nested object.
  JsonFields object(const char* key);
  /// The fields of each object of a list.
  std::vector<JsonFields> objects(const char* key);

  bool contains(const char* key) const { return object_.contains(key); }
  /// Null, and a fault, if there is none.
  const Json* find(const char* key);
  void fail(const char* key, const Json& found, std::string_view expected) { fail_at(place(key), found, expected); }
  /// The path of a field, or of an element of a list.
  std::string place(std::string_view key) const;

 private:
  void fail_at(const std::string& place, const Json& found, std::string_view expected);

  const Json& object_;
  std::string path_;
  std::string& fault_;
};

}  // namespace rannc::runtime
