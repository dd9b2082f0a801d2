#include "runtime/data/internal/mapped_batch.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "runtime/bundle/safetensors.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

at::Tensor mapped_tensor(const std::shared_ptr<const MappedFile>& file, const TensorSpec& spec, uint64_t offset) {
  const auto options = at::TensorOptions().dtype(scalar_type(spec.dtype));
  if (spec.bytes() == 0) return at::empty(spec.shape, options);
  void* const data = const_cast<char*>(file->bytes().data() + offset);  // only read
  if (offset % ir::byte_size(spec.dtype) == 0)
    return at::from_blob(
        data, spec.shape, [file](void*) {}, options);
  const at::Tensor bytes = at::from_blob(data, {static_cast<int64_t>(spec.bytes())}, at::kByte);
  return bytes.clone().view(scalar_type(spec.dtype)).reshape(spec.shape);
}

Result<MappedBatch> map_batch(const std::string& path) {
  RANNC_ASSIGN(const SafetensorsFile header, SafetensorsFile::open(path));
  RANNC_ASSIGN(MappedFile opened, MappedFile::open(path));
  const auto file = std::make_shared<const MappedFile>(std::move(opened));
  MappedBatch batch{.files = {file}};
  for (const SafetensorsFile::Entry& entry : header.entries()) {
    if (entry.offset + entry.spec.bytes() > file->bytes().size())
      return error({path, 0, 0, entry.name}, "the file was truncated while it was opened");
    const bool is_input = entry.name.starts_with("x/");
    batch.tensors.emplace(is_input ? entry.name.substr(2) : entry.name,
                          to_value(mapped_tensor(file, entry.spec, entry.offset)));
  }
  return batch;
}

}  // namespace rannc::runtime
