/// Builds ONNX models node by node, for the model zoo.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/base/diagnostic.h"

namespace rannc::frontend::zoo {

/// A dimension of a graph input: a number or the name of a symbol.
using InputDim = std::variant<int64_t, std::string>;

/// An attribute that is a float tensor of one element.
struct OneNumber {
  float value = 0;
};

using NodeAttribute = std::variant<int64_t, float, std::string, std::vector<int64_t>, OneNumber>;
struct NamedAttribute {
  std::string name;
  NodeAttribute value;
};

/// Initial values of a weight.
struct Init {
  enum class Kind { kNormal, kConstant } kind = Kind::kNormal;
  float scale = 0.02F;  ///< standard deviation, or the constant
};
inline Init normal(float deviation) { return {Init::Kind::kNormal, deviation}; }
inline Init constant(float value) { return {Init::Kind::kConstant, value}; }

/// Storage of weights.
enum class Weights {
  kStored,  ///< in the file, or in `<name>.weights` beside it if they exceed 1 GiB in total
  kAbsent,  ///< declared as external data in a file that is never written, to plan models that fit nowhere
};

struct WriterOptions {
  int64_t opset = 20;
  Weights weights = Weights::kStored;
  uint64_t seed = 0;
};

/// Builder of one ONNX model. Every node and constant gets a unique name in the current scope
/// (`layer.3.attention.MatMul_1`), and an output has its node's name. The caller must choose unique names for weights.
/// Weights are normal numbers of a generator keyed by (seed, name), so the same model has the same bytes everywhere.
class OnnxWriter {
 public:
  OnnxWriter(std::string model_name, WriterOptions options);
  ~OnnxWriter();
  OnnxWriter(const OnnxWriter&) = delete;
  OnnxWriter& operator=(const OnnxWriter&) = delete;

  /// Prefixes all following names with its name until it is destroyed.
  class Scope {
   public:
    Scope(OnnxWriter& writer, size_t length) : writer_(writer), length_(length) {}
    ~Scope() { writer_.prefix_.resize(length_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    OnnxWriter& writer_;
    size_t length_;
  };
  Scope scope(std::string_view name);

  std::string float_input(const std::string& name, const std::vector<InputDim>& dims);
  std::string integer_input(const std::string& name, const std::vector<InputDim>& dims);
  /// Adds a trained float initializer, named with the scope as prefix (`layer.3.attention.weight`).
  std::string weight(std::string_view name, const std::vector<int64_t>& dims, Init init);
  /// Adds a stored float constant, named `/layer.3.attention.scale` as exporters name constants in code. With the name
  /// of a parameter it would be imported as one.
  std::string floats(std::string_view name, const std::vector<int64_t>& dims, const std::vector<float>& values);
  /// Adds an integer list, as shape operands require it.
  std::string integers(std::string_view name, const std::vector<int64_t>& values);
  /// Adds a stored boolean.
  std::string boolean(std::string_view name, bool value);
  /// Adds a node with one output and returns its name. Empty operand names are absent operands.
  std::string node(std::string_view type, const std::vector<std::string>& inputs,
                   const std::vector<NamedAttribute>& attributes = {});
  std::vector<std::string> node_outputs(std::string_view type, const std::vector<std::string>& inputs, size_t outputs,
                                        const std::vector<NamedAttribute>& attributes = {});
  void float_output(const std::string& value, const std::string& name, const std::vector<InputDim>& dims);

  /// Number of elements of all weights so far.
  uint64_t parameters() const { return parameters_; }
  /// Writes the model to a temporary sibling and renames it. Leaves nothing behind on failure.
  Result<void> save(const std::filesystem::path& path);

 private:
  struct Model;
  std::string scoped(std::string_view name) const { return prefix_ + std::string(name); }
  std::string unique(std::string name);
  std::unique_ptr<Model> model_;
  WriterOptions options_;
  std::string prefix_;
  uint64_t parameters_ = 0;
};

}  // namespace rannc::frontend::zoo
