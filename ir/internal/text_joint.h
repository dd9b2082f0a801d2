/// Statements of a joint graph, which texts of joint graphs and of plans share.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/gradient/joint.h"
#include "ir/internal/text_graph.h"

namespace rannc::ir {

/// Appends all statements of a joint graph, without the version line.
void append_joint(std::string& to, const Joint& joint);

/// Builds a joint graph statement by statement.
class JointReader {
 public:
  explicit JointReader(const std::string& file) : file_(file), graph_(file) {}
  /// Reads a statement. Returns false and leaves the cursor unmoved if the keyword is another.
  Result<bool> read(TextCursor& line);
  /// Verifies everything that does not need the differentiated graph.
  Result<Joint> finish() &&;

 private:
  using Statement = Result<void> (JointReader::*)(TextCursor&);
  static const std::pair<std::string_view, Statement> kStatements[5];

  Result<ValueId> value(TextCursor& line);
  Result<TaskId> task(TextCursor& line);
  Result<Joint::BorderGradient> border(TextCursor& line);
  Result<void> origin(TextCursor& line);
  Result<void> seed(TextCursor& line);
  Result<void> output_gradient(TextCursor& line);
  Result<void> input_gradient(TextCursor& line);
  Result<void> part(TextCursor& line);

  const std::string& file_;
  GraphReader graph_;
  Joint joint_;  // origins of gradient tasks alone until the end
  uint32_t first_ = 0;
  std::vector<std::pair<uint64_t, ValueId>> seeds_;
};

}  // namespace rannc::ir
