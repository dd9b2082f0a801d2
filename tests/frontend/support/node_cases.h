/// ONNX's conformance cases: a model of one operator, operands and results.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ir/graph/type.h"

namespace rannc::test {

struct NamedTensor {
  std::string name;
  ir::ValueType type;
  ir::TensorData data;
};

/// What the model's file declares of an output: no shape where it is not made of numbers.
struct DeclaredOutput {
  std::string name;
  std::string type;  ///< `f32[2,3]`, or `f32` alone; `?` for what is no tensor of ours
};

struct NodeCase {
  std::filesystem::path folder;
  /// The model with inputs that decide its structure (`node_roles.h`) as initializers, which is how exporters write
  /// them.
  std::string model;
  /// What the case is of: its node's operator; of a model `…_expanded`, the operator that it writes out by others.
  std::string op;
  std::vector<std::string> operators;
  std::vector<DeclaredOutput> declared;
  std::vector<std::string> bound;  ///< what became initializers: `Reshape.shape`
  std::string outside;             ///< why the case is none of ours, `element type FLOAT8E5M2`; empty: it is
};

/// Folders of all cases in `folder`, by name; empty where it is absent.
std::vector<std::filesystem::path> node_case_folders(const std::filesystem::path& folder);
NodeCase read_node_case(const std::filesystem::path& folder);
/// The first data set's inputs or outputs (`input`, `output`) with the model's names; those of other types than ours
/// are left out.
std::vector<NamedTensor> read_case_data(const NodeCase& found, const std::string& kind);

/// The declared form of a type.
std::string declared_form(const ir::ValueType& type);

}  // namespace rannc::test
