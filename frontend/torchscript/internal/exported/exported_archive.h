/// Reads an archive of `torch.export.save`: the program as JSON, with tensors.
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
  /// Errors: the archive is damaged, has an earlier layout or the other byte order, or has no or several programs.
  static Result<ExportedArchive> open(const ArchiveFile& file);

  /// The program, in the schema's form (`ExportedProgram`).
  const Json& program() const { return program_; }

  /// The archive's description of a stored tensor.
  struct Entry {
    std::string name;    ///< as in `state_dict` or the program's constants
    std::string record;  ///< record with the data of its storage
    int64_t offset = 0;
    std::vector<int64_t> sizes, strides;
    at::ScalarType dtype = at::kFloat;
    bool requires_grad = false;
    /// Tensors with equal places are one tensor.
    auto place() const { return std::tuple(record, offset, sizes, strides, dtype); }
  };
  /// Finds a parameter or persistent buffer. Errors: there is none of that name, or it is no plain tensor.
  Result<Entry> weight(const std::string& name) const { return entry(weights_, "weights", name); }
  /// Finds a non-persistent buffer or a tensor in the program's code.
  Result<Entry> constant(const std::string& name) const { return entry(constants_, "constants", name); }
  /// The numbers that a tensor has beside the archive (`ModelSource::tensors`); null: none.
  const ir::TensorData* given(const Entry& entry) const;
  /// Whether there is no data for a tensor, as for one of the meta device.
  bool is_absent(const Entry& entry) const;
  /// Reads a tensor into memory. It is undefined if the archive has no data for it. Throws a `c10::Error` if the record
  /// does not match the entry.
  Result<at::Tensor> tensor(const Entry& entry) const;

 private:
  using Reader = caffe2::serialize::PyTorchStreamReader;

  ExportedArchive(const ArchiveFile& file, std::shared_ptr<Reader> reader) : file_(&file), reader_(std::move(reader)) {}
  Result<Entry> entry(const Json& config, const std::string& folder, const std::string& name) const;
  Result<at::Tensor> tensor_of(const Entry& entry, const ir::TensorData& data) const;
  Result<Json> json(const std::string& record) const;
  /// The bytes of a record. An error if there is none.
  Result<std::pair<at::DataPtr, size_t>> read(const std::string& record, const Location& where) const;

  const ArchiveFile* file_;
  std::shared_ptr<Reader> reader_;
  Json program_, weights_, constants_;
};

/// Parses a document. Returns a discarded one if the text is invalid or nested deeper than any program.
Json parse_json(std::string_view text);
/// Return the integer or text that the schema requires. Throw a `std::exception` for anything else.
int64_t integer_of(const Json& json);
const std::string& text_of(const Json& json);
/// Returns the active alternative of a union: its name and content.
std::pair<const std::string&, const Json&> alternative_of(const Json& json);
/// Returns ATen's element type for a number of the schema. Nothing if the number is unknown.
std::optional<at::ScalarType> scalar_type_of(int64_t number);

}  // namespace rannc::frontend::torchscript
