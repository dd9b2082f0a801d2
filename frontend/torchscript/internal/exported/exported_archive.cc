#include "frontend/torchscript/internal/exported/exported_archive.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

// GCC 12 sees an uninitialized variable in nlohmann's iterators.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace rannc::frontend::torchscript {

namespace {

constexpr int64_t kMajorVersion = 8;  // supported version of the schema

std::string program_record(caffe2::serialize::PyTorchStreamReader& reader, size_t& programs) {
  std::string found;
  programs = 0;
  for (const std::string& record : reader.getAllRecords()) {
    if (!record.starts_with("models/") || !record.ends_with(".json")) continue;
    found = record;
    ++programs;
  }
  return found;
}

std::string model_of(const std::string& record) {
  constexpr std::string_view kFolder = "models/", kEnding = ".json";
  return record.substr(kFolder.size(), record.size() - kFolder.size() - kEnding.size());
}

std::vector<int64_t> integers_of(const Json& list) {
  std::vector<int64_t> found;
  for (const Json& each : list) found.push_back(integer_of(each.at("as_int")));
  return found;
}

}  // namespace

Json parse_json(std::string_view text) {
  // Documents are copied and destroyed level by level.
  constexpr size_t kDeepest = 1000;
  size_t depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepest) return Json(Json::value_t::discarded);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return Json::parse(text, nullptr, false);
}

int64_t integer_of(const Json& json) {
  if (json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{INT64_MAX})
    throw std::out_of_range(json.dump() + " is no 64-bit integer");
  return json.is_number_unsigned() ? json.get<int64_t>() : json.get_ref<const int64_t&>();
}

const std::string& text_of(const Json& json) { return json.get_ref<const std::string&>(); }

std::pair<const std::string&, const Json&> alternative_of(const Json& json) {
  const auto& object = json.get_ref<const Json::object_t&>();
  for (const auto& [name, value] : object) {
    if (!value.is_null()) return {name, value};
  }
  return {json.at("as_none").get_ref<const std::string&>(), json};  // which throws
}

std::optional<at::ScalarType> scalar_type_of(int64_t number) {
  constexpr std::array kTypes = {at::kByte,          at::kChar,  at::kShort,   at::kInt,         at::kLong,
                                 at::kHalf,          at::kFloat, at::kDouble,  at::kComplexHalf, at::kComplexFloat,
                                 at::kComplexDouble, at::kBool,  at::kBFloat16};
  constexpr int64_t kUInt16 = 28;
  if (number == kUInt16) return at::kUInt16;
  if (number < 1 || number > static_cast<int64_t>(kTypes.size())) return std::nullopt;
  return kTypes[static_cast<size_t>(number - 1)];
}

Result<std::pair<at::DataPtr, size_t>> ExportedArchive::read(const std::string& record, const Location& where) const {
  if (!reader_->hasRecord(record)) return error(where, fmt::format("the archive lacks the record {}", record));
  auto [bytes, got] = reader_->getRecord(record);
  return std::pair(std::move(bytes), got);
}

Result<Json> ExportedArchive::json(const std::string& record) const {
  const Location where{file_->path(), 0, 0, record};
  RANNC_ASSIGN(const auto text, read(record, where));
  if (text.second > most_parsed(file_->bytes())) {
    return error(where, fmt::format("has {} bytes of JSON; the limit for a file of {} bytes is {}", text.second,
                                    file_->bytes(), most_parsed(file_->bytes())));
  }
  Json made = parse_json({static_cast<const char*>(text.first.get()), text.second});
  if (!made.is_object()) return error(where, "is no JSON object, or one that is nested too deep");
  return made;
}

Result<ExportedArchive> ExportedArchive::open(const ArchiveFile& file) {
  const Location where{file.path()};
  auto reader = std::make_shared<Reader>(file.reader());
  size_t programs = 0;
  const std::string record = program_record(*reader, programs);
  if (programs != 1) {
    const bool is_earlier = reader->hasRecord("serialized_exported_program.json");
    return error(where, is_earlier      ? std::string("was written by a PyTorch older than 2.8, whose layout is not "
                                                           "supported: load and save it with a newer one")
                        : programs == 0 ? std::string("holds no exported program")
                                        : fmt::format("holds {} exported programs; expected one", programs));
  }
  if (reader->hasRecord("byteorder")) {
    const auto [bytes, size] = reader->getRecord("byteorder");
    if (std::string_view(static_cast<const char*>(bytes.get()), size) != "little")
      return error(where, "was written on a machine with the other byte order");
  }
  ExportedArchive made(file, std::move(reader));
  RANNC_ASSIGN(made.program_, made.json(record));
  const auto version = made.program_.find("schema_version");
  const bool is_known =
      version != made.program_.end() && version->is_object() && version->value("major", Json()) == Json(kMajorVersion);
  if (!is_known) {
    return error(where, fmt::format("has version {} of the schema of exported programs; expected {}",
                                    version == made.program_.end() ? "none" : version->dump(), kMajorVersion));
  }
  const std::string model = model_of(record);
  for (const auto& [config, folder] :
       {std::pair(&made.weights_, "weights"), std::pair(&made.constants_, "constants")}) {
    RANNC_ASSIGN(Json whole, made.json(fmt::format("data/{}/{}_{}_config.json", folder, model, folder)));
    *config = whole.value("config", Json::object());
  }
  return made;
}

Result<ExportedArchive::Entry> ExportedArchive::entry(const Json& config, const std::string& folder,
                                                      const std::string& name) const {
  const Location where{file_->path(), 0, 0, name};
  const auto found = config.find(name);
  if (found == config.end()) return error(where, fmt::format("the archive has no such tensor among its {}", folder));
  if (found->at("use_pickle").get<bool>())
    return error(where, "is a pickled tensor of a custom class, which is not supported");
  const Json& meta = found->at("tensor_meta");
  const auto dtype = scalar_type_of(integer_of(meta.at("dtype")));
  if (!dtype)
    return error(where, fmt::format("has elements of type {}, which is not supported", meta.at("dtype").dump()));
  return Entry{name,
               fmt::format("data/{}/{}", folder, text_of(found->at("path_name"))),
               integer_of(meta.at("storage_offset").at("as_int")),
               integers_of(meta.at("sizes")),
               integers_of(meta.at("strides")),
               *dtype,
               meta.at("requires_grad").get<bool>()};
}

const ir::TensorData* ExportedArchive::given(const Entry& entry) const {
  const auto found = file_->tensors().find(entry.name);
  return found == file_->tensors().end() ? nullptr : &found->second;
}

bool ExportedArchive::is_absent(const Entry& entry) const {
  if (given(entry) != nullptr) return false;
  const bool is_empty = std::find(entry.sizes.begin(), entry.sizes.end(), 0) != entry.sizes.end();
  return !is_empty && reader_->hasRecord(entry.record) && reader_->getRecordSize(entry.record) == 0;
}

Result<at::Tensor> ExportedArchive::tensor_of(const Entry& entry, const ir::TensorData& data) const {
  uint64_t needed = c10::elementSize(entry.dtype);
  for (const int64_t size : entry.sizes) needed *= static_cast<uint64_t>(std::max<int64_t>(size, 0));
  if (needed != data.size()) {
    return error({file_->path(), 0, 0, entry.name},
                 fmt::format("has {} bytes; its type in the program has {}", data.size(), needed));
  }
  void* const memory = const_cast<std::byte*>(data.bytes().data());  // nobody writes
  return at::from_blob(
      memory, entry.sizes, [data](void*) {}, at::dtype(entry.dtype));
}

Result<at::Tensor> ExportedArchive::tensor(const Entry& entry) const {
  if (is_absent(entry)) return at::Tensor();
  if (const ir::TensorData* const data = given(entry)) return tensor_of(entry, *data);
  RANNC_ASSIGN(auto numbers, read(entry.record, {file_->path(), 0, 0, entry.name}));
  const size_t size = numbers.second;
  const size_t needed = at::detail::computeStorageNbytes(entry.sizes, entry.strides, c10::elementSize(entry.dtype),
                                                         static_cast<size_t>(std::max<int64_t>(entry.offset, 0)));
  if (needed > size)
    return error({file_->path(), 0, 0, entry.name},
                 fmt::format("needs {} bytes; the record {} has {}", needed, entry.record, size));
  const at::Storage storage(at::Storage::use_byte_size_t(), size, std::move(numbers.first));
  return at::empty({0}, at::dtype(entry.dtype)).set_(storage, entry.offset, entry.sizes, entry.strides);
}

}  // namespace rannc::frontend::torchscript
