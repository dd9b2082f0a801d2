#include "codegen/internal/define.h"

#include <torch/csrc/jit/frontend/resolver.h>

#include <memory>

namespace rannc::codegen {

namespace {

using torch::jit::BuiltinModule;
using torch::jit::GraphFunction;
using torch::jit::SourceRange;
using torch::jit::SugaredValue;

/// `torch.ops`, whose members are namespaces.
struct Namespaces final : SugaredValue {
  std::string kind() const override { return "namespaces of operators"; }
  std::shared_ptr<SugaredValue> attr(const SourceRange&, GraphFunction&, const std::string& field) override {
    return std::make_shared<BuiltinModule>(field);
  }
};

/// `torch`, whose members are ATen operators, except `ops`.
struct Torch final : SugaredValue {
  std::string kind() const override { return "torch"; }
  std::shared_ptr<SugaredValue> attr(const SourceRange& place, GraphFunction& function,
                                     const std::string& field) override {
    if (field == "ops") return std::make_shared<Namespaces>();
    return BuiltinModule("aten").attr(place, function, field);
  }
};

struct Names final : torch::jit::Resolver {
  std::shared_ptr<SugaredValue> resolveValue(const std::string& name, GraphFunction&, const SourceRange&) override {
    if (name == "annotate") return torch::jit::SpecialFormValue::create(c10::prim::annotate);
    return name == "torch" ? std::make_shared<Torch>() : nullptr;
  }
};

}  // namespace

void define(torch::jit::Module& module, const std::string& source) { module.define(source, std::make_shared<Names>()); }

}  // namespace rannc::codegen
