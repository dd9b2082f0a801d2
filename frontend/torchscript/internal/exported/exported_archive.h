/// What an archive of `torch.export.save` holds: the program as JSON, and tensors.
#pragma once

#include <caffe2/serialize/inline_container.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "frontend/torchscript/internal/archive/archive_file.h"

namespace rannc::frontend::torchscript {

using Json = nlohmann::json;

class ExportedArchive {
 public:
  /// Errors: the archive is broken, of an earlier layout, of the other byte order, or holds no program or several.
  static Result<ExportedArchive> open(const ArchiveFile& file);

  /// The program, as its schema has it (`ExportedProgram`).
  const Json& program() const { return program_; }

  /// What the archive says of a tensor that it stores.
  struct Entry {
    std::string name;    ///< as `state_dict` or the program's constants have it
    std::string record;  ///< with the numbers of its storage
    int64_t offset = 0;
    std::vector<int64_t> sizes, strides;
    at::ScalarType dtype = at::kFloat;
    bool requires_grad = false;
    /// Equal ones are one tensor.
    auto place() const { return std::tuple(record, offset, sizes, strides, dtype); }
  };
  /// Parameters and buffers that persist. Errors: there is none of that name, or it is no plain tensor.
  Result<Entry> weight(const std::string& name) const { return entry(weights_, "weights", name); }
  /// Buffers that do not persist, and tensors of the program's code.
  Result<Entry> constant(const std::string& name) const { return entry(constants_, "constants", name); }
  /// The tensor, in memory that was read for it; undefined where the archive holds no numbers. Throws a `c10::Error`
  /// where the record does not hold what the entry says.
  Result<at::Tensor> tensor(const Entry& entry) const;

 private:
  using Reader = caffe2::serialize::PyTorchStreamReader;

  ExportedArchive(const ArchiveFile& file, std::shared_ptr<Reader> reader) : file_(&file), reader_(std::move(reader)) {}
  Result<Entry> entry(const Json& config, const std::string& folder, const std::string& name) const;
  Result<Json> json(const std::string& record) const;
  /// The bytes of a record, as long as it says no more than `factor` times what the file could hold.
  Result<std::pair<at::DataPtr, size_t>> read(const std::string& record, uint64_t factor, const Location& where) const;

  const ArchiveFile* file_;
  std::shared_ptr<Reader> reader_;
  Json program_, weights_, constants_;
};

/// A document; a discarded one where the text is none, or is nested deeper than any program is.
Json parse_json(std::string_view text);
/// The integer or the text that the schema says is there. Throw a `std::exception` where something else is.
int64_t integer_of(const Json& json);
const std::string& text_of(const Json& json);
/// The alternative that a union has: its name and what it holds.
std::pair<const std::string&, const Json&> alternative_of(const Json& json);
/// The element type of ATen by the schema's own numbers; nothing where there is none.
std::optional<at::ScalarType> scalar_type_of(int64_t number);

}  // namespace rannc::frontend::torchscript
