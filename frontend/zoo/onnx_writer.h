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

/// Where weights go.
enum class Weights {
  kStored,  ///< in the file; beside it (`<name>.weights`) where they exceed 1 GiB together
  kAbsent,  ///< declared as external data in a file that is never written: for planning models that fit nowhere
};

struct WriterOptions {
  int64_t opset = 20;
  Weights weights = Weights::kStored;
  uint64_t seed = 0;
};

/// Every node and every constant gets a unique name under the scope in force (`layer.3.attention.MatMul_1`), every
/// output the node's name; the names of weights must be unique as they are given. Weights are normal numbers of a
/// generator keyed by (seed, name): the same model has the same bytes everywhere.
class OnnxWriter {
 public:
  OnnxWriter(std::string model_name, WriterOptions options);
  ~OnnxWriter();
  OnnxWriter(const OnnxWriter&) = delete;
  OnnxWriter& operator=(const OnnxWriter&) = delete;

  /// Adds `name/` in front of the names that follow, until the returned object dies.
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
  /// A trained float initializer; its name is prefixed by the scope (`layer.3.attention.weight`).
  std::string weight(std::string_view name, const std::vector<int64_t>& dims, Init init);
  /// A stored float constant, named `/layer.3.attention.scale` as exporters name what stands in code: a single number
  /// with a parameter's name would be taken for one.
  std::string floats(std::string_view name, const std::vector<int64_t>& dims, const std::vector<float>& values);
  /// An integer list, as shape operands want it.
  std::string integers(std::string_view name, const std::vector<int64_t>& values);
  /// A stored truth value.
  std::string boolean(std::string_view name, bool value);
  /// One output; empty operand names are absent operands.
  std::string node(std::string_view type, const std::vector<std::string>& inputs,
                   const std::vector<NamedAttribute>& attributes = {});
  std::vector<std::string> node_outputs(std::string_view type, const std::vector<std::string>& inputs, size_t outputs,
                                        const std::vector<NamedAttribute>& attributes = {});
  void float_output(const std::string& value, const std::string& name, const std::vector<InputDim>& dims);

  /// Elements of all weights so far.
  uint64_t parameters() const { return parameters_; }
  /// Writes to a temporary sibling and renames; nothing is left behind on failure.
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
