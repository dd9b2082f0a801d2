/// What every test of a zoo model asks: its size, and whether the frontend takes it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "frontend/zoo/onnx_writer.h"
#include "ir/graph/graph.h"

namespace rannc::test {

using Build = std::function<Result<void>(frontend::zoo::OnnxWriter&)>;

/// The number of trained elements of a model that is built and not written.
uint64_t parameters_of(const Build& build);
/// Writes the model, with weights or declared only, has ONNX check it (with weights), reads it back and verifies the
/// graph. Adds a failure and returns nothing where a step fails.
std::optional<ir::Graph> written_and_read(const Build& build, frontend::zoo::Weights weights);
/// Expects both ways to be read as the same interface, `batch` to be the first dimension of every input and output,
/// and weights to have data exactly where they are stored.
void expect_readable(const Build& build);
/// Expects a refusal that names `part`.
void expect_refused(const Build& build, const std::string& part);

/// A build from a config and its function.
template <class Config>
Build model(const Config& config, Result<void> (*build)(frontend::zoo::OnnxWriter&, const Config&)) {
  return [config, build](frontend::zoo::OnnxWriter& writer) { return build(writer, config); };
}

}  // namespace rannc::test
