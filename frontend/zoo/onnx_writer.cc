#include "frontend/zoo/onnx_writer.h"

#include <onnx/onnx_pb.h>
#include <xxhash.h>

#include <cstring>
#include <fstream>
#include <map>

#include "frontend/zoo/normal_numbers.h"
#include "ir/base/replacement.h"

namespace rannc::frontend::zoo {

namespace {

constexpr uint64_t kInlineLimit = uint64_t{1} << 30;  // below the limit of 2 GiB of protobuf messages

void set_dims(ONNX_NAMESPACE::TypeProto_Tensor* type, const std::vector<InputDim>& dims) {
  auto* shape = type->mutable_shape();
  for (const InputDim& dim : dims) {
    auto* out = shape->add_dim();
    if (const auto* number = std::get_if<int64_t>(&dim)) {
      out->set_dim_value(*number);
    } else {
      out->set_dim_param(std::get<std::string>(dim));
    }
  }
}

uint64_t element_count(const std::vector<int64_t>& dims) {
  uint64_t count = 1;
  for (const int64_t dim : dims) count *= static_cast<uint64_t>(dim);
  return count;
}

std::vector<float> initial_values(const Init& init, uint64_t key, uint64_t count) {
  std::vector<float> values(count, init.scale);
  if (init.kind == Init::Kind::kNormal) {
    for (uint64_t i = 0; i < count; ++i) values[i] = static_cast<float>(normal_number(key, i) * init.scale);
  }
  return values;
}

void set_external(ONNX_NAMESPACE::TensorProto& tensor, const std::string& file, uint64_t offset, uint64_t bytes) {
  tensor.set_data_location(ONNX_NAMESPACE::TensorProto::EXTERNAL);
  const auto entry = [&tensor](const char* key, const std::string& value) {
    auto* pair = tensor.add_external_data();
    pair->set_key(key);
    pair->set_value(value);
  };
  entry("location", file);
  entry("offset", std::to_string(offset));
  entry("length", std::to_string(bytes));
}

Diagnostic cannot_write(const std::filesystem::path& path) {
  return error({path.string(), 0, 0, {}}, std::string("cannot be written: ") + std::strerror(errno));
}

}  // namespace

struct OnnxWriter::Model {
  struct Pending {  // a weight whose numbers are generated when the file is written
    int initializer;
    Init init;
    uint64_t count;
  };
  ONNX_NAMESPACE::ModelProto proto;
  std::vector<Pending> pending;
  std::map<std::string, int> name_counts;
};

OnnxWriter::OnnxWriter(std::string model_name, WriterOptions options)
    : model_(std::make_unique<Model>()), options_(options) {
  model_->proto.set_ir_version(10);
  model_->proto.set_producer_name("rannc-zoo");
  auto* opset = model_->proto.add_opset_import();
  opset->set_domain("");
  opset->set_version(options.opset);
  model_->proto.mutable_graph()->set_name(std::move(model_name));
}

OnnxWriter::~OnnxWriter() = default;

OnnxWriter::Scope OnnxWriter::scope(std::string_view name) {
  const size_t length = prefix_.size();
  prefix_ += std::string(name) + ".";
  return Scope(*this, length);
}

namespace {
std::string add_input(ONNX_NAMESPACE::GraphProto& graph, const std::string& name, int type,
                      const std::vector<InputDim>& dims) {
  auto* input = graph.add_input();
  input->set_name(name);
  auto* tensor = input->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  set_dims(tensor, dims);
  return name;
}
}  // namespace

std::string OnnxWriter::float_input(const std::string& name, const std::vector<InputDim>& dims) {
  return add_input(*model_->proto.mutable_graph(), name, ONNX_NAMESPACE::TensorProto::FLOAT, dims);
}

std::string OnnxWriter::integer_input(const std::string& name, const std::vector<InputDim>& dims) {
  return add_input(*model_->proto.mutable_graph(), name, ONNX_NAMESPACE::TensorProto::INT64, dims);
}

std::string OnnxWriter::weight(std::string_view name, const std::vector<int64_t>& dims, Init init) {
  auto* graph = model_->proto.mutable_graph();
  model_->pending.push_back({graph->initializer_size(), init, element_count(dims)});
  auto* tensor = graph->add_initializer();
  tensor->set_name(scoped(name));
  tensor->set_data_type(ONNX_NAMESPACE::TensorProto::FLOAT);
  for (const int64_t dim : dims) tensor->add_dims(dim);
  parameters_ += element_count(dims);
  return tensor->name();
}

std::string OnnxWriter::unique(std::string name) {
  if (const int count = model_->name_counts[name]++; count > 0) name += "_" + std::to_string(count);
  return name;
}

std::string OnnxWriter::floats(std::string_view name, const std::vector<int64_t>& dims,
                               const std::vector<float>& values) {
  auto* tensor = model_->proto.mutable_graph()->add_initializer();
  tensor->set_name(unique("/" + scoped(name)));
  tensor->set_data_type(ONNX_NAMESPACE::TensorProto::FLOAT);
  for (const int64_t dim : dims) tensor->add_dims(dim);
  tensor->set_raw_data(values.data(), values.size() * sizeof(float));
  return tensor->name();
}

std::string OnnxWriter::integers(std::string_view name, const std::vector<int64_t>& values) {
  auto* tensor = model_->proto.mutable_graph()->add_initializer();
  tensor->set_name(unique(scoped(name)));
  tensor->set_data_type(ONNX_NAMESPACE::TensorProto::INT64);
  tensor->add_dims(static_cast<int64_t>(values.size()));
  tensor->set_raw_data(values.data(), values.size() * sizeof(int64_t));
  return tensor->name();
}

std::string OnnxWriter::boolean(std::string_view name, bool value) {
  auto* tensor = model_->proto.mutable_graph()->add_initializer();
  tensor->set_name(unique(scoped(name)));
  tensor->set_data_type(ONNX_NAMESPACE::TensorProto::BOOL);
  tensor->set_raw_data(std::string(1, value ? '\1' : '\0'));
  return tensor->name();
}

std::string OnnxWriter::node(std::string_view type, const std::vector<std::string>& inputs,
                             const std::vector<NamedAttribute>& attributes) {
  return node_outputs(type, inputs, 1, attributes)[0];
}

std::vector<std::string> OnnxWriter::node_outputs(std::string_view type, const std::vector<std::string>& inputs,
                                                  size_t outputs, const std::vector<NamedAttribute>& attributes) {
  auto* node = model_->proto.mutable_graph()->add_node();
  const std::string name = unique(scoped(type));
  node->set_name(name);
  node->set_op_type(std::string(type));
  for (const std::string& input : inputs) node->add_input(input);
  std::vector<std::string> names;
  for (size_t i = 0; i < outputs; ++i) {
    names.push_back(name + "_output_" + std::to_string(i));
    node->add_output(names.back());
  }
  for (const NamedAttribute& attribute : attributes) {
    auto* out = node->add_attribute();
    out->set_name(attribute.name);
    if (const auto* integer = std::get_if<int64_t>(&attribute.value)) {
      out->set_type(ONNX_NAMESPACE::AttributeProto::INT);
      out->set_i(*integer);
    } else if (const auto* number = std::get_if<float>(&attribute.value)) {
      out->set_type(ONNX_NAMESPACE::AttributeProto::FLOAT);
      out->set_f(*number);
    } else if (const auto* text = std::get_if<std::string>(&attribute.value)) {
      out->set_type(ONNX_NAMESPACE::AttributeProto::STRING);
      out->set_s(*text);
    } else if (const auto* one = std::get_if<OneNumber>(&attribute.value)) {
      out->set_type(ONNX_NAMESPACE::AttributeProto::TENSOR);
      out->mutable_t()->set_data_type(ONNX_NAMESPACE::TensorProto::FLOAT);
      out->mutable_t()->add_dims(1);
      out->mutable_t()->add_float_data(one->value);
    } else {
      out->set_type(ONNX_NAMESPACE::AttributeProto::INTS);
      for (const int64_t item : std::get<std::vector<int64_t>>(attribute.value)) out->add_ints(item);
    }
  }
  return names;
}

void OnnxWriter::float_output(const std::string& value, const std::string& name, const std::vector<InputDim>& dims) {
  auto* graph = model_->proto.mutable_graph();
  auto* identity = graph->add_node();
  identity->set_op_type("Identity");
  identity->set_name(name);
  identity->add_input(value);
  identity->add_output(name);
  auto* output = graph->add_output();
  output->set_name(name);
  auto* tensor = output->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(ONNX_NAMESPACE::TensorProto::FLOAT);
  set_dims(tensor, dims);
}

Result<void> OnnxWriter::save(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  Replacement model(path.string());
  const fs::path weights = path.string() + ".weights";
  Replacement stored(weights.string());
  const bool beside = options_.weights == Weights::kAbsent || parameters_ * sizeof(float) > kInlineLimit;
  std::ofstream data;
  if (beside && options_.weights == Weights::kStored) {
    data.open(stored.temporary(), std::ios::binary | std::ios::trunc);
    if (!data) return cannot_write(weights);
  }
  uint64_t offset = 0;
  for (const Model::Pending& weight : model_->pending) {
    auto& tensor = *model_->proto.mutable_graph()->mutable_initializer(weight.initializer);
    const uint64_t bytes = weight.count * sizeof(float);
    if (beside) {
      tensor.clear_external_data();
      set_external(tensor, weights.filename().string(), offset, bytes);
      offset += bytes;
    }
    if (options_.weights == Weights::kAbsent) continue;
    const uint64_t key = XXH64(tensor.name().data(), tensor.name().size(), options_.seed);
    const std::vector<float> values = initial_values(weight.init, key, weight.count);
    if (beside) {
      data.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(bytes));
    } else {
      tensor.set_raw_data(values.data(), bytes);
    }
  }
  if (data.is_open()) {
    data.close();
    if (!data) return cannot_write(weights);
  }
  {
    std::ofstream file(model.temporary(), std::ios::binary | std::ios::trunc);
    if (!file || !model_->proto.SerializeToOstream(&file) || !file.flush()) return cannot_write(path);
  }
  if (beside && options_.weights == Weights::kStored) RANNC_TRY(stored.commit());
  return model.commit();
}

}  // namespace rannc::frontend::zoo
